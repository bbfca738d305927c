"""Appliances with ranks of libpascaline below them, and the networks that those are in."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from .appliance import JOB, UDP_PORT, Appliance, Settings
from .library import Library, Rank, leave
from .network import Host, Network, Star
from .process import Deadline, Process, Processes, command, wait_for

_PREFIX = "passum"
_SECONDS = 180.0
SETTINGS = Settings("af_packet", pool_slots=4096, window=512, order="rank")


class Middle(Star):
    """A star whose links are cut in two; what joins the halves is up to others.

    worker i: eth0 ── w{i} :middle: a{i} ── pas{i} :appliance
    """

    def _build(self) -> None:
        self.middle = self.host("mid")
        super()._build()

    def pair(self, left: Host, left_if: str, right: Host, right_if: str) -> None:
        number = right_if.removeprefix("pas")
        super().pair(left, left_if, self.middle, f"w{number}")
        super().pair(self.middle, f"a{number}", right, right_if)


class Site:
    """An appliance's place in a tree; attributes as of the demo's network."""

    def __init__(self, host: Host, address: str, mtu: int) -> None:
        self.appliance, self.appliance_address, self.mtu = host.name, address, mtu
        # Addresses of the ranks below, in the order of the ports; a leaf has one more, which leads up.
        self.members: list[str] = []
        self.up = 0

    @property
    def ports(self) -> int:
        return len(self.members) + self.up

    @property
    def workers(self) -> list[str]:
        return self.members

    def address(self, rank: int) -> str:
        return self.members[rank]


class Tree(Network):
    """Racks below a root, and workers straight at the root, behind the racks.

    worker i: eth0 ── pas{i} :leaf r: pas{N} ── pas{r} :root
    """

    def __init__(self, *racks: int, direct: int = 0) -> None:
        """How many workers each rack has, and how many the root has itself."""
        self.racks, self.direct = racks, direct
        self.at_workers: list[Host] = []
        # Of each worker: its appliance, and `rank/ranks` there.
        self.appliances: list[str] = []
        self.places: list[str] = []
        super().__init__(_PREFIX)

    def _build(self) -> None:
        root = self.host("root")
        self.root = Site(root, f"10.77.{len(self.racks)}.254", self.mtu)
        self.leaves = []
        for number, workers in enumerate(self.racks):
            at = self.host(f"leaf{number}")
            leaf = Site(at, f"10.77.{number}.254", self.mtu)
            for rank in range(workers):
                self._worker(at, leaf, f"{rank}/{workers}")
            leaf.up = 1
            self.pair(at, f"pas{workers}", root, f"pas{number}")
            self.leaves.append(leaf)
            self.root.members.append(leaf.appliance_address)
        ranks = len(self.racks) + self.direct
        for rank in range(len(self.racks), ranks):
            self._worker(root, self.root, f"{rank}/{ranks}")

    def _worker(self, at: Host, site: Site, place: str) -> None:
        worker = self.host(f"w{len(self.at_workers)}")
        self.pair(worker, "eth0", at, f"pas{len(site.members)}")
        address = f"{site.appliance_address.removesuffix('254')}{len(site.members) + 1}"
        worker.address("eth0", f"{address}/24")
        site.members.append(address)
        self.at_workers.append(worker)
        self.appliances.append(site.appliance_address)
        self.places.append(place)

    def settings(self, settings: Settings) -> dict[Site, Settings]:
        """Those of the root and of each leaf, which has the root as its parent."""
        ranks = len(self.root.members)
        each = {self.root: replace(settings, fan_in=ranks)}
        for number, leaf in enumerate(self.leaves):
            parent = (
                f'parent = {{ address = "{self.root.appliance_address}", rank = {number}, ranks = {ranks}, '
                f'port = "p{len(leaf.members)}" }}'
            )
            each[leaf] = replace(settings, fan_in=len(leaf.members), job_keys=parent)
        return each


class Bed:
    """One test's networks, appliances and ranks; everything ends with it."""

    def __init__(self, binary: Path, library: Library, files: Path) -> None:
        self._binary, self._library, self._files = binary, library, files
        self.stop = Deadline(_SECONDS)
        self.cleanup = ExitStack()
        self._processes = self.cleanup.enter_context(Processes(files))

    def star(self, workers: int) -> Star:
        return self.cleanup.enter_context(Star(workers, _PREFIX))

    def middle(self, workers: int) -> Middle:
        return self.cleanup.enter_context(Middle(workers, _PREFIX))

    def wire(self, lab: Path, network: Middle, number: int, **rates: object) -> Process:
        """Joins the halves of a link by `pascaline-lab impair`."""
        words = command(lab, "impair", left=f"w{number}", right=f"a{number}", **rates)
        wire = self._processes.start(f"wire{number}", words, network.middle.name)
        wait_for(lambda: "ready" in wire.log(), 10.0, "the wire is not ready")
        return wire

    def appliance(self, site: Any, settings: Settings | str = SETTINGS) -> Appliance:
        appliance = self._start(site, settings)
        appliance.wait_ready(self.stop)
        return appliance

    def tree(self, *racks: int, direct: int = 0) -> Tree:
        """A tree with all its appliances, which add in the order of ranks."""
        tree = self.cleanup.enter_context(Tree(*racks, direct=direct))
        started = [self._start(site, settings) for site, settings in tree.settings(SETTINGS).items()]
        for appliance in started:
            appliance.wait_ready(self.stop)
        return tree

    def _start(self, site: Any, settings: Settings | str) -> Appliance:
        files = self._files / str(site.appliance)
        files.mkdir()
        return self.cleanup.enter_context(Appliance(self._binary, site, settings, files))

    def ranks(self, network: Star | Tree, job: int = JOB, **keys: object) -> list[Rank]:
        """A rank at each worker, all of which have joined."""
        if isinstance(network, Tree):
            places = list(zip(network.appliances, network.places, strict=True))
        else:
            count = len(network.workers)
            places = [(network.appliance_address, f"{rank}/{count}") for rank in range(count)]
        more = "".join(f"&{key}={value}" for key, value in keys.items())
        urls = [
            f"pascaline://{address}:{UDP_PORT}?job={job}&rank={place.replace('/', '&ranks=')}{more}"
            for address, place in places
        ]
        ranks = self._library.join(network.at_workers, urls)
        self.cleanup.callback(self.leave, ranks)
        return ranks

    def leave(self, ranks: list[Rank]) -> None:
        """All leave, unless they have: at the end of the test at the latest."""
        leave(ranks)
        ranks.clear()
