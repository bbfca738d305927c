"""Where the appliance is, and what groups may use: from the environment, or from `configure`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any
from urllib.parse import parse_qsl

from .._numbers import MOST
from .._worker import THREADS_GONE
from ..errors import ConfigurationError

_SCHEME = "pascaline://"
_EXAMPLE = "pascaline://10.77.0.254:16420?job=1"
_NUMBERS = ("payload", "in_flight", "spread", "udp_ports", "dscp")
_SECONDS = ("timeout", "join_timeout", "linger")


@dataclass(frozen=True)
class Settings:
    """The settings of process groups.

    appliance: address and port. job: that of the whole world, one of the appliance's [[jobs]]; 0: the first
    of `jobs`. jobs: first and last number for further groups, of the appliance's [admission]. fallback: when
    the appliance fails, continue over Gloo with one warning, instead of an exception. worker: further options
    of each Worker. streams: with 2, each group has a second job, with the next number, in which hooks.mean
    and its like have the first layers' gradients overtake.
    """

    appliance: str
    job: int = 1
    jobs: tuple[int, int] | None = None
    fallback: bool = False
    worker: dict[str, Any] = field(default_factory=dict)
    streams: int = 1

    def common(self) -> dict[str, Any]:
        """What must be the same at all ranks, by the names that users give it. Addresses may differ."""
        return {
            "the version of pascaline": version("pascaline"),
            "job": self.job,
            "PASCALINE_JOBS": self.jobs and "{}-{}".format(*self.jobs),
            "PASCALINE_FALLBACK": "gloo" if self.fallback else "not set",
            "streams": self.streams,
            "the number of trees": 1 + self.appliance.count(";"),
            "payload": self.worker.get("payload") or "not set",
            "security": self.worker.get("security") or "none",
        }


_configured: list[Settings] = []


def configure(url: str, *, jobs: str | None = None, fallback: bool | None = None) -> Settings:
    """Says in the program what else the environment says; before `init_process_group`.

    url: as PASCALINE_URL. jobs: as PASCALINE_JOBS. fallback: as PASCALINE_FALLBACK=gloo.
    """
    _configured[:] = [parse(url, jobs or "", "gloo" if fallback else "")]
    return _configured[0]


def current() -> Settings:
    """The configured settings, or those of the environment."""
    if _configured:
        return _configured[0]
    url = os.environ.get("PASCALINE_URL")
    if not url:
        raise ConfigurationError(
            f"where is the appliance? Set PASCALINE_URL={_EXAMPLE} for every rank, or call"
            " pascaline.torch.configure(url) before init_process_group"
        )
    return parse(url, os.environ.get("PASCALINE_JOBS", ""), os.environ.get("PASCALINE_FALLBACK", ""))


def parse(url: str, jobs: str, fallback: str) -> Settings:
    """From the texts of the environment."""
    # By hand: to urllib, there is one host at most that is an IPv6 address in brackets.
    place, _, query = url.removeprefix(_SCHEME).partition("?")
    place = place.removesuffix("/")
    if not url.startswith(_SCHEME) or not place or "/" in place:
        raise ConfigurationError(f"PASCALINE_URL={url}: it is like {_EXAMPLE}")
    if fallback not in ("", "gloo"):
        raise ConfigurationError(f"PASCALINE_FALLBACK={fallback}: it is gloo, or not set")
    settings = Settings(place, jobs=_range(jobs), fallback=bool(fallback))
    named_job = False
    for key, value in parse_qsl(query, keep_blank_values=True):
        try:
            if key == "job":
                settings, named_job = replace(settings, job=_number(key, value, 1)), True
            elif key in _NUMBERS:
                settings.worker[key] = _number(key, value)
            elif key in _SECONDS:
                settings.worker[key] = _time(value)
            elif key == "streams":
                settings = replace(settings, streams=_streams(int(value), fallback=bool(fallback)))
            elif key == "threads":
                raise ConfigurationError(f"PASCALINE_URL={url}: {THREADS_GONE}")
            elif key in ("bind", "security", "key"):
                settings.worker[key] = value
            else:
                known = ", ".join(("job", "streams", *_NUMBERS, *_SECONDS, "bind", "security", "key"))
                raise ConfigurationError(f"PASCALINE_URL={url}: {key} is no key; keys are {known}")
        except ValueError as error:
            if isinstance(error, ConfigurationError):
                raise
            raise ConfigurationError(f"PASCALINE_URL={url}: {key}={value}: {error}") from error
    if fallback and settings.worker.get("security", "none") != "none":
        security = settings.worker["security"]
        raise ConfigurationError(
            f"security={security} is for what goes through the appliance: without PASCALINE_FALLBACK"
        )
    if settings.jobs and not named_job:
        settings = replace(settings, job=0)
    return settings


def _number(key: str, value: str, least: int = 0) -> int:
    if not value.isdecimal() or not least <= int(value) <= MOST[key]:
        raise ValueError(f"a whole number from {least} to {MOST[key]}")
    return int(value)


def _streams(count: int, *, fallback: bool) -> int:
    if count not in (1, 2):
        raise ValueError("there are one or two")
    if count > 1 and fallback:
        # Operations of two streams have no common order, in which ranks could go on from one another.
        raise ValueError("a group that falls back to Gloo has one stream")
    return count


def _time(value: str) -> float:
    return float(value[:-2]) / 1000 if value.endswith("ms") else float(value.removesuffix("s"))


def _range(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    first, _, last = text.partition("-")
    try:
        found = int(first), int(last or first)
    except ValueError:
        found = (1, 0)
    if not 0 < found[0] <= found[1] < 65536:
        raise ConfigurationError(f"PASCALINE_JOBS={text}: it is like 1000-1063")
    return found
