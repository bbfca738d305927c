"""Reloads while the workers are at it, and proof that no packet was lost by them.

The appliance's file is changed and SIGHUP sent again and again: a job is added, limits of the running jobs
change, the file is broken, what cannot change is changed, the added job goes. Each change is waited for. In
the end every frame is counted three times: by the kernel where it is sent, by the kernel where it could have
dropped it, and by whoever receives it.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import metrics as m
from appliance import JOB, Appliance
from netns import Network
from process import Failure, Stop

LEAST = 5
"""So many reloads are each kind once."""
_BETWEEN_SECONDS = 0.1
_IN_FORCE_SECONDS = 10.0
_SETTLE_SECONDS = 5.0
# What a job that comes, goes or changes might do to the packets of others: none of it has another cause in a
# demo.
_SUSPECT = (
    "unknown_job",
    "not_member",
    "wrong_epoch",
    "rank_spoofed",
    "halted",
    "server_full",
    "control_full",
    "unknown_psn",
)
_ADDED = """
[[jobs]]
id = 100
name = "added"
fan_in = 2
window = 64
"""


@dataclass(frozen=True)
class _Frames:
    """Frames since the interfaces were made, over all workers."""

    sent: int
    received: int
    dropped: int


@dataclass(frozen=True)
class Lost:
    """Where frames could get lost, and how many did. All but the kernel's are zero, or something is wrong."""

    to_appliance: int
    from_appliance: int
    refused: int
    not_sent: int
    unaccounted: int
    dropped_by_kernel: int

    @property
    def total(self) -> int:
        """Lost, and not by the kernel."""
        return self.to_appliance + self.from_appliance + self.refused + self.not_sent + abs(self.unaccounted)


class Reloads:
    """Changes the configuration of an appliance that runs."""

    def __init__(self, appliance: Appliance, network: Network, stop: Stop) -> None:
        self._appliance = appliance
        self._network = network
        self._stop = stop
        self._original = appliance.configuration()
        self._number = 0
        self._next = time.monotonic()
        self._before = (_frames(network), appliance.scrape())
        self.lost: Lost | None = None

    def step(self) -> None:
        """The next reload, if it is time for it."""
        if time.monotonic() < self._next:
            return
        text, refused, jobs = self._variant(self._number % LEAST)
        before = self._appliance.admin("/api/v1/status")["reloads"]
        self._appliance.reload(text)
        key = "refused" if refused else "done"
        wanted = {**before, key: before[key] + 1}
        if not self._stop.wait_for(
            lambda: self._appliance.admin("/api/v1/status")["reloads"] == wanted, _IN_FORCE_SECONDS
        ):
            raise Failure(f"reload {self._number} did not come to {wanted}", self._appliance.tail())
        there = any(job["id"] == 100 for job in self._appliance.admin("/api/v1/jobs")["jobs"])
        if there != jobs:
            raise Failure(
                f"after reload {self._number} job 100 is {'' if there else 'not '}there",
                self._appliance.tail(),
            )
        self._number += 1
        self._next = time.monotonic() + _BETWEEN_SECONDS

    def count(self) -> None:
        """Counts frames, once no more of them are under way."""
        end = time.monotonic() + _SETTLE_SECONDS
        while True:
            self.lost = self._lost()
            if self.lost.total == 0 or time.monotonic() > end:
                return
            self._stop.sleep(0.2)

    def to_json(self) -> dict[str, Any]:
        """What came of it."""
        found = self._appliance.admin("/api/v1/status")["reloads"]
        assert self.lost is not None
        return {
            "reloads": found["done"],
            "reloads_refused": found["refused"],
            "lost": self.lost.total,
            "frames": asdict(self.lost),
            "aggregated_share": self._appliance.admin(f"/api/v1/jobs/{JOB}/explain")["share"],
        }

    def _variant(self, kind: int) -> tuple[str, bool, bool]:
        """A configuration, whether it is to be refused, and whether job 100 is to be there after it."""
        limits = self._original.replace("[[jobs]]\n", '[[jobs]]\ndead_after = "50s"\n')
        variants = [
            (self._original + _ADDED, False, True),
            (limits + _ADDED, False, True),
            (limits.replace("fan_in", "fan_out"), True, True),
            (
                limits.replace('drain = "1s"', 'drain = "2s"').replace(
                    'age_limit = "500ms"', 'age_limit = "400ms"'
                ),
                False,
                False,
            ),
            (self._original, False, False),
        ]
        return variants[kind]

    def _lost(self) -> Lost:
        before, at_first = self._before
        now, metrics = _frames(self._network), self._appliance.scrape()

        def grown(name: str) -> int:
            return metrics.total(name) - at_first.total(name)

        drops = metrics.by_label(m.DROPPED, "reason")
        accounting = m.Accounting.of(metrics)
        return Lost(
            to_appliance=now.sent - before.sent - grown(m.RECEIVED),
            from_appliance=grown(m.SENT) - (now.received - before.received),
            refused=sum(drops.get(reason, 0) for reason in _SUSPECT),
            not_sent=metrics.total(m.TX_DROPPED) + metrics.total(m.NO_BUFFER),
            unaccounted=accounting.received
            - accounting.forwarded
            - accounting.absorbed
            - accounting.answered
            - accounting.dropped,
            dropped_by_kernel=now.dropped - before.dropped,
        )


def _frames(network: Network) -> _Frames:
    """A veth counts a frame as sent when its other end has it, and what that could not take as dropped."""
    ends = [network.link(name, interface) for name, interface in network.ends()]
    workers = ends[: network.ports]
    return _Frames(
        sent=sum(end["tx"]["packets"] for end in workers),
        received=sum(end["rx"]["packets"] for end in workers),
        dropped=sum(end[way]["dropped"] for end in ends for way in ("rx", "tx")),
    )
