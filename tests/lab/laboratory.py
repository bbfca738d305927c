"""A lab that runs: its network, its appliances, and workers that allreduce over it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from appliance import JOB, UDP_PORT, Settings
from metrics import DROPPED, Accounting
from process import Failure, Stop
from workers import Load, Workers

from ..bed.appliance import Appliance
from .fabric import Fabric, Site


def given(**options: int | str) -> pytest.MarkDecorator:
    """How large a case is where no command says it: `allreduces`, `workers`; which program it `needs`."""
    return pytest.mark.lab(**options)


PAYLOAD = 1024
# Before the payload: Ethernet, IPv4, UDP, Pascaline.
_HEADERS = 14 + 20 + 8 + 22
_WINDOW = 512
_RING = 4096
# An appliance's `spare_packets`, unless its file says otherwise.
_DEFAULT_SPARE = 1024
_DEADLINE = 20.0
_AFTER_FAILURE = 2.0
# For how long something that is killed may hold an allreduce up: by half of the deadline another one has
# taken its place. How long it takes is among the figures.
MOST_SECONDS_AWAY = _DEADLINE / 2


@dataclass
class Case:
    """The outcome of a case: figures, and problems."""

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.problems

    def sums_hold(self, *runs: Done) -> None:
        """Notes it if a worker has not verified a sum."""
        self.demand(all(done.verified for done in runs), "not every worker has verified every sum")

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.good, **self.figures, "problems": self.problems}

    def demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.problems.append(otherwise)


@dataclass(frozen=True)
class Done:
    verified: bool
    # Of each allreduce, when its last rank had the sum.
    seconds: list[float]
    # Bytes on each link meanwhile.
    links: dict[str, int]
    resumed: int

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Lab:
    fabric: Fabric
    binary: Path
    files: Path
    stop: Stop
    cleanup: ExitStack
    bytes: int
    allreduces: int
    # Where the controller's picture goes.
    picture: Path | None = None
    appliances: dict[str, Appliance] = field(default_factory=dict)
    # Its routes have been changed: another case needs another one.
    is_spent: bool = False
    _groups: int = 0

    def told(self) -> list[str]:
        """What each appliance says about its job, and what it has dropped."""
        return [f"{name}: {self._told(appliance)}" for name, appliance in self.appliances.items()]

    def _told(self, appliance: Appliance) -> str:
        try:
            said = appliance.admin(f"/api/v1/jobs/{JOB}/explain")["summary"]
        except Failure as failure:
            return failure.whole
        drops = appliance.scrape().by_label(DROPPED, "reason")
        return f"{said} Dropped: { {reason: count for reason, count in drops.items() if count} }"

    def needs(self, spines: int, leaves: int = 0) -> None:
        """Fails a case in a network that is too small for it."""
        shape = self.fabric.shape
        if shape.spines < spines or shape.leaves < leaves:
            raise Failure(f"takes {spines} spines and {leaves or 2} leaves: --spines, --leaves")

    def afresh(self, *sites: Site, more: str = "") -> None:
        """New appliances without jobs of their own."""
        self.clear(*sites)
        for site in sites:
            self.appliance(site, self.settings(fan_in=0, jobs=0, more=more))

    def appliance(self, site: Site, settings: Settings) -> Appliance:
        """The one at a site, started unless it runs already."""
        if site.name not in self.appliances:
            # A case that failed may have left the files of one that it killed.
            self.clear(site)
            at = self.files / site.name
            at.mkdir()
            started = Appliance(self.binary, site, settings, at)
            self.cleanup.callback(started.stop)
            self.appliances[site.name] = started
            started.wait_ready(self.stop)
        return self.appliances[site.name]

    def clear(self, *sites: Site) -> None:
        """Ends their appliances: the next case begins with others."""
        for site in sites:
            if site.name in self.appliances:
                self.appliances.pop(site.name).kill()
            if (at := self.files / site.name).exists():
                aside = sum(1 for _ in self.files.glob(f"{site.name}-before*"))
                at.rename(self.files / f"{site.name}-before{aside}")

    def settings(self, *, fan_in: int, jobs: int = 1, job_keys: str = "", more: str = "") -> Settings:
        return Settings(
            "af_packet",
            8192,
            _WINDOW,
            jobs=jobs,
            fan_in=fan_in,
            job_keys=job_keys,
            more=more,
            ring=_RING,
            name="lab",
            spare_packets=self._spare_packets if jobs == 0 else 0,
        )

    @property
    def _spare_packets(self) -> int:
        """For the trees that a controller may give a rack; 0 if the default will do."""
        ranks = max(len(leaf.workers) for leaf in self.fabric.leaves)
        spare = len(self.fabric.spines) * _WINDOW * (ranks - 1)
        return spare if spare > _DEFAULT_SPARE else 0

    def allreduce(
        self,
        sites: list[Site],
        *,
        job: int,
        half_way: Callable[[], None] | None = None,
        controller: str = "",
        backups: Sequence[Site] = (),
        trees: Sequence[Site] = (),
    ) -> Done:
        """Has the workers of some sites sum together, each at its site's appliance.

        `half_way` is called once half of all allreduces are done. The appliances of `backups` stand in for
        that of the site; those of `trees` have further trees of the job.
        """
        places: dict[str, Any] = {"controller": controller, "backups": backups, "trees": trees}
        everybody = sum(len(site.workers) for site in sites)
        # On a busy machine a few are over before the first look.
        for allreduces in (self.allreduces, 4 * self.allreduces, 16 * self.allreduces):
            before = self.fabric.carried()
            groups = self.start(sites, job=job, allreduces=allreduces, **places)
            if self._watch(groups, half_way, allreduces * everybody // 2):
                break
        else:
            raise Failure("the workers ended before half of their allreduces were seen: give more of them")
        results = [worker for group in groups for worker in group.results()]
        after = self.fabric.carried()
        links = {link: after[link] - before[link] for link in after}
        return self._judged(results, links, allreduces)

    def start(
        self,
        sites: list[Site],
        *,
        job: int,
        allreduces: int = 0,
        controller: str = "",
        backups: Sequence[Site] = (),
        trees: Sequence[Site] = (),
    ) -> list[Workers]:
        """Starts the workers of some sites, each at its site's appliance."""
        groups, first = [], 0
        everybody = sum(len(site.workers) for site in sites)
        for at in sites:
            files = self.files / f"workers{self._groups}"
            files.mkdir()
            self._groups += 1
            group = Workers(self.binary, at, files)  # type: ignore[arg-type]
            self.cleanup.callback(group.stop)
            lists = [[at, *backups], *([tree] for tree in trees)]
            load = self._load(lists, first, everybody, job, controller)
            group.start(replace(load, allreduces=allreduces or self.allreduces))
            first += len(at.workers)
            groups.append(group)
        return groups

    def _load(self, trees: list[list[Site]], first: int, everybody: int, job: int, controller: str) -> Load:
        return Load(
            allreduces=self.allreduces,
            bytes=self.bytes,
            dtype="f32",
            payload=PAYLOAD,
            in_flight=0,
            seed=1,
            deadline=_DEADLINE,
            appliance=";".join(
                ",".join(f"{site.appliance_address}:{UDP_PORT}" for site in tree) for tree in trees
            ),
            first=first,
            workers=everybody,
            job=job,
            controller=controller,
        )

    def _watch(self, groups: list[Workers], half_way: Callable[[], None] | None, half: int) -> bool:
        """Until all have ended; false if that was before half of what they do was seen."""
        failing = 0.0
        while not all(group.ended() for group in groups):
            if half_way and sum(group.done() for group in groups) >= half:
                half_way()
                half_way = None
            for appliance in self.appliances.values():
                appliance.check_running()
            if any(group.failed() for group in groups):
                failing += 0.05
                if failing > _AFTER_FAILURE:
                    break
            self.stop.sleep()
        return not half_way or any(group.failed() for group in groups)

    def _judged(self, results: list[dict[str, Any]], links: dict[str, int], allreduces: int) -> Done:
        exact = all(worker["verified"] == allreduces and not worker["mismatches"] for worker in results)
        same = all(worker["checksums"] == results[0]["checksums"] for worker in results)
        seconds = [max(times) for times in zip(*(worker["seconds"] for worker in results), strict=True)]
        return Done(exact and same, seconds, links, sum(worker["resumed"] for worker in results))

    @property
    def stream(self) -> int:
        """Bytes that one worker sends, each packet once."""
        return self.allreduces * self.stream_of_one

    @property
    def stream_of_one(self) -> int:
        """The same of one allreduce."""
        return self.bytes + -(-self.bytes // PAYLOAD) * _HEADERS

    @property
    def least_seconds(self) -> float:
        """Of an allreduce whose stream crosses a shaped link once."""
        return self.stream_of_one * 8 / (self.fabric.shape.mbit * 1e6)

    def accounts_hold(self, case: Case) -> None:
        """Notes appliances whose accounts do not add up."""
        for name, appliance in self.appliances.items():
            accounting = Accounting.of(appliance.settled(self.stop))
            case.demand(accounting.holds, f"the accounts of {name} do not add up: {accounting}")
