"""Reloads while the workers sum, and proof that no packet was lost by them.

The appliance's file is changed and SIGHUP sent again and again: a job is added, limits of the running jobs
change, the file is broken, what cannot change is changed (by the admin API, which names it), the added job
goes; where packets are sealed, jobs get other keys. Each change is waited for, and what is in force after it
is compared. In the end every frame is counted three times: by the kernel where it is sent, by the kernel
where it could have dropped it, and by the program that receives it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import metrics as m
from appliance import Appliance
from configuration import JOB
from netns import Network
from process import Failure, Stop
from rekey import Keys

LEAST = 5
"""Reloads until each kind was done once."""
_BETWEEN_SECONDS = 0.1
_IN_FORCE_SECONDS = 10.0
_SETTLE_SECONDS = 5.0
# Drops that adding, removing or changing a job might cause for others; in a demo none has another cause.
_SUSPECT = (
    "unknown_job", "not_member", "wrong_epoch", "rank_spoofed", "halted", "server_full", "control_full",
    "unknown_psn", "unsealed", "forged", "replayed",
)  # fmt: skip
_ADDED_JOB = 100
_ADDED = f"""
[[jobs]]
id = {_ADDED_JOB}
name = "added"
fan_in = 2
window = 64
kind = "shared"
shared = {{ server = false }}
"""


@dataclass(frozen=True)
class _InForce:
    """The keys that change here, and those that cannot, by the admin API."""

    dead_after: float | None
    added: bool
    drain: str
    age_limit: str

    @classmethod
    def of(cls, config: dict[str, Any]) -> _InForce:
        """From `/api/v1/config`."""
        jobs, settings = {job["id"]: job for job in config["jobs"]}, config["settings"]
        drain, age_limit = settings["dataplane.drain"], settings["pool.age_limit"]
        return cls(jobs[JOB]["dead_after_seconds"], _ADDED_JOB in jobs, drain, age_limit)


@dataclass(frozen=True)
class _Variant:
    """A configuration and its expected effect."""

    text: str
    after: _InForce
    refused: bool = False
    # Keys that a reload cannot change.
    kept: tuple[str, ...] = ()


def changed(text: str, *changes: tuple[str, str]) -> str:
    """Replaces a part of the text, which must exist."""
    for old, new in changes:
        if old not in text:
            raise Failure(f"the configuration has no {old!r} to change")
        text = text.replace(old, new)
    return text


def _frames(network: Network) -> dict[str, int]:
    """Frames since the interfaces were made, over all workers.

    A veth counts a frame as sent when its other end has it; what that could not take, as dropped.
    """
    ends = [network.link(name, interface) for name, interface in network.ends()]
    workers = ends[: network.ports]
    return {
        "sent": sum(end["tx"]["packets"] for end in workers),
        "received": sum(end["rx"]["packets"] for end in workers),
        "dropped": sum(end[way]["dropped"] for end in ends for way in ("rx", "tx")),
    }


class Reloads:
    def __init__(self, appliance: Appliance, network: Network, stop: Stop, keys: Keys | None = None) -> None:
        """With the keys of a job whose packets are sealed, these change, too."""
        self._keys = keys
        self._appliance = appliance
        self._network = network
        self._stop = stop
        self._variants = _variants(appliance.configuration(), _InForce.of(appliance.admin("/api/v1/config")))
        self._number = 0
        self._next = time.monotonic()
        self._before = (_frames(network), appliance.scrape())
        self.lost: dict[str, int] = {}

    def step(self) -> None:
        """The next reload, if it is time for it."""
        if time.monotonic() < self._next:
            return
        if self._keys:
            self._keys.change(self._appliance)
        variant = self._variants[self._number % LEAST]
        before = self._counted()
        report = self._appliance.reload(variant.text, by_api=bool(variant.kept))
        key = "refused" if variant.refused else "done"
        wanted = {**before, key: before[key] + 1}
        if not self._stop.wait_for(lambda: self._counted() == wanted, _IN_FORCE_SECONDS):
            raise Failure(f"reload {self._number} did not come to {wanted}")
        kept = tuple(key["key"] for key in report["kept"]) if report else ()
        found = _InForce.of(self._appliance.admin("/api/v1/config"))
        if (found, kept) != (variant.after, variant.kept):
            wish = f"wanted: {variant.after}, kept {variant.kept}"
            raise Failure(f"after reload {self._number}: {found}, kept {kept}; {wish}")
        self._number += 1
        self._next = time.monotonic() + _BETWEEN_SECONDS

    def _counted(self) -> dict[str, int]:
        counts: dict[str, int] = self._appliance.admin("/api/v1/status")["reloads"]
        return counts

    def count(self) -> None:
        """Counts frames, once none is in flight."""
        end = time.monotonic() + _SETTLE_SECONDS
        while True:
            self.lost = self._lost()
            if self._total() == 0 or time.monotonic() > end:
                return
            self._stop.sleep(0.2)

    def to_json(self) -> dict[str, Any]:
        found = self._counted()
        return {
            "reloads": found["done"],
            "reloads_refused": found["refused"],
            **({"rekeyed": self._keys.changed} if self._keys else {}),
            "lost": self._total(),
            "frames": self.lost,
            "aggregated_share": self._appliance.admin(f"/api/v1/jobs/{JOB}/explain")["share"],
        }

    def _total(self) -> int:
        """Lost, and not by the kernel."""
        return sum(
            abs(lost) if where == "unaccounted" else lost
            for where, lost in self.lost.items()
            if where != "dropped_by_kernel"
        )

    def _lost(self) -> dict[str, int]:
        """Where frames could get lost, and how many did: all but the kernel's are 0, or that is wrong."""
        before, at_first = self._before
        now, metrics = _frames(self._network), self._appliance.scrape()

        def grown(name: str) -> int:
            return metrics.total(name) - at_first.total(name)

        drops = metrics.by_label(m.DROPPED, "reason")
        return {
            "to_appliance": now["sent"] - before["sent"] - grown(m.RECEIVED),
            "from_appliance": grown(m.SENT) - (now["received"] - before["received"]),
            "refused": sum(drops.get(reason, 0) for reason in _SUSPECT),
            "not_sent": metrics.total(m.TX_DROPPED) + metrics.total(m.NO_BUFFER),
            "unaccounted": m.Accounting.of(metrics).missing,
            "dropped_by_kernel": now["dropped"] - before["dropped"],
        }


def _variants(original: str, at_first: _InForce) -> tuple[_Variant, ...]:
    """One of each kind, in their order."""
    limits = changed(original, ("[[jobs]]\n", '[[jobs]]\ndead_after = "50s"\n'))
    patient = replace(at_first, dead_after=50.0)
    more = changed(limits, ('drain = "1s"', 'drain = "2s"'), ('age_limit = "500ms"', 'age_limit = "400ms"'))
    both = replace(patient, added=True)
    return (
        _Variant(original + _ADDED, replace(at_first, added=True)),
        _Variant(limits + _ADDED, both),
        _Variant(changed(limits, ("fan_in", "fan_out")), both, refused=True),
        _Variant(more, replace(patient, drain="2s"), kept=("pool.age_limit",)),
        _Variant(original, at_first),
    )
