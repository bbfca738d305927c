"""scripts/demo --topology two-level: an appliance for each rack, and a root above them.

Each rack is a network of its own: namespaces of its workers and of its appliance, the leaf, which has one
more link, to the root's namespace:

    worker i: eth0 ── pas{i} :leaf r: up ── pas{r} :root

A run is good if every worker has verified every sum over *all* workers, all accounts add up, and each link of
the root has carried one stream: as many packets each way as one worker sends, however many are below.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import configuration
import metrics as m
import report
from configuration import Settings, Tables, device
from metrics import Accounting
from netns import Network, shown
from options import Options
from process import Stop, run, say
from stage import Stage
from verdict import Verdict
from workers import Load

_WINDOW = 512
_RING = 4096
# Between the leaves and the root: of IPv4 and of IPv6.
_ABOVE = {False: "10.79.0.", True: "fd79::"}
_ROOT = {False: "254", True: "fe"}
# Beyond what each worker sends: a busy machine is late now and then, and packets are sent again.
_MOST_STREAMS = 1.25


@dataclass
class Outcome(Verdict):
    whole: report.Outcome
    links: list[dict[str, Any]]
    accounts: dict[str, Accounting]
    exits: dict[str, int]
    again: int

    def __post_init__(self) -> None:
        options = self.whole.options
        self.packets = options.allreduces * -(-options.bytes // options.full_payload)
        ways = [link[way] for link in self.links for way in ("up_packets", "down_packets")]
        self.streams = max(ways) / self.packets
        self.problems += self.whole.problems
        for name, accounting in self.accounts.items():
            self.require((accounting.holds, f"the accounts of {name} do not add up: {accounting}"))
        self.problems += [f"{name}'s exit code is {code}" for name, code in self.exits.items() if code]
        most = f"a link of the root has carried {self.streams:.2f} streams"
        self.require(
            (min(ways) >= self.packets, "a link of the root has carried less than one stream"),
            (self.streams <= _MOST_STREAMS or self.whole.restarts, most),
        )

    def text(self) -> str:
        head = ("leaf", "workers", "packets up", "MB up", "packets down", "MB down")
        rows = [
            [f"{value / 1e6:.1f}" if name.endswith("bytes") else value for name, value in link.items()]
            for link in self.links
        ]
        streams = (
            f"the root's links carried {self.streams:.3f} times the {self.packets} packets of one worker; "
            f"sums sent up again: {self.again}"
        )
        return "\n\n".join([self.whole.text(), report.table(head, rows), streams])

    def told(self) -> dict[str, Any]:
        return {
            **self.whole.told(),
            "topology": "two-level",
            "leaves": len(self.links),
            "root_link_streams": round(self.streams, 4),
            "sums_sent_up_again": self.again,
            "links": self.links,
            "identity_holds": all(accounting.holds for accounting in self.accounts.values()),
        }


class Rack(Network):
    """A leaf with its workers, and a link from it to the root, whose ports from `first` on lead to leaves."""

    def __init__(self, number: int, workers: int, root: Network, first: int = 0) -> None:
        super().__init__(workers, root.mtu, ip6=root.ip6)
        prefix = f"{self.prefix}-l{number}"
        self.number, self.appliance, self._root, self._port = number, prefix, root, f"pas{first + number}"
        self.workers = [f"{prefix}w{rank}" for rank in range(workers)]
        # The leaf's address on the link to the root.
        self.above = f"{_ABOVE[root.ip6]}{number + 1}"

    def create(self) -> None:
        super().create()
        # The leaf's ports are numbered: the one that leads up is the one behind those of the workers.
        self._root.pair(self.appliance, f"pas{len(self.workers)}", self._root.appliance, self._port)

    def shown(self) -> dict[str, Any]:
        return shown(self._root.appliance, self._port)

    def carried(self, before: dict[str, Any]) -> dict[str, Any]:
        """The traffic of the link to the root since its end was shown."""
        now, link = self.shown()["stats64"], {"leaf": self.number, "workers": len(self.workers)}
        for way, end in (("up", "rx"), ("down", "tx")):
            counted = {what: now[end][what] - before["stats64"][end][what] for what in ("packets", "bytes")}
            link |= {f"{way}_{what}": count for what, count in counted.items()}
        return link


def root_address(*, ip6: bool) -> str:
    """The root's address for leaves."""
    return _ABOVE[ip6] + _ROOT[ip6]


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    # Without workers of its own: its ports lead to the leaves.
    root = Network(0, options.mtu, ip6=options.ip6)
    shares = [len(range(leaf, options.workers, options.leaves)) for leaf in range(options.leaves)]
    racks = [Rack(leaf, share, root) for leaf, share in enumerate(shares)]
    say(f"{options.workers} workers below {options.leaves} leaves, and a root above them")
    with Stage(binary, stop, root, *racks, keep=options.keep) as stage:
        keys = _keys(options, binary, stage, racks)
        top = stage.appliance(root, _root(options, root, racks, stage.files, keys), "the root", ready=False)
        leaves = []
        for rack in racks:
            files = stage.place(f"leaf{rack.number}")
            tables = _leaf(options, rack, files, keys)
            leaves.append(stage.appliance(rack, tables, f"leaf {rack.number}", files, ready=False))
        for appliance in (top, *leaves):
            appliance.wait_ready(stop)
        pings = stage.ping()
        before = [rack.shown() for rack in racks]
        workers, begin, restarts = stage.workers(root), 0, 0
        for rack in racks:
            load = Load.of(options, rack, first=begin, workers=options.workers)
            workers.add(replace(load, key=str(keys.racks[rack.number])) if keys else load, rack)
            begin += len(rack.workers)
        wanted = options.allreduces * options.workers

        def check() -> None:
            nonlocal restarts
            stage.check()
            if options.restart_appliance and not restarts and workers.done() >= wanted // 2:
                say("the first leaf is killed and started again")
                leaves[0].kill_and_restart(stop)
                restarts += 1

        stage.watch(workers, wanted, check)
        results = workers.results()
        settled = {name: one.settled(stop) for name, one in stage.appliances.items()}
        links = [rack.carried(counted) for rack, counted in zip(racks, before, strict=True)]
        exits = {name: one.stop() for name, one in stage.appliances.items()}
        above = settled["the root"]
        whole = report.Outcome(
            options, results, above, {"by": "none"}, pings, exits["the root"], restarts=restarts
        )
        accounts = {name: Accounting.of(found) for name, found in settled.items()}
        again = sum(found.total(m.SENT_UP_AGAIN) for found in settled.values() if found is not above)
        return stage.judged(Outcome(whole, links, accounts, exits, again))


@dataclass(frozen=True)
class _Keys:
    """The key of the root and the leaves, and that of each rack, which its leaf has, too."""

    root: Path
    racks: list[Path]


def _keys(options: Options, binary: Path, stage: Stage, racks: list[Rack]) -> _Keys | None:
    if options.security == "none":
        return None

    def new(name: str) -> Path:
        file = stage.files / name
        run(str(binary), "job", "key", "--new", str(file))
        return file

    return _Keys(new("root.key"), [new(f"rack{rack.number}.key") for rack in racks])


def _settings(options: Options, fan_in: int = 0, key: Path | None = None) -> Settings:
    key_file = str(key) if key else ""
    window = max(_WINDOW, options.in_flight)
    return Settings.of(options, window, ring=_RING, fan_in=fan_in, key_file=key_file)


def _leaf(options: Options, rack: Rack, files: Path, keys: _Keys | None) -> Tables:
    """The usual configuration, with one more port and a parent."""
    key = keys.racks[rack.number] if keys else None
    tables = configuration.whole(rack, _settings(options, key=key), files / "admin.sock")
    up = device(options.driver, len(rack.workers), options.mtu, _RING)
    tables["ports"].append(configuration.port("up", up, options.mtu))
    tables["appliance"]["addresses"] = [rack.appliance_address, rack.above]
    # The root's MAC is resolved: by ARP, or by neighbour discovery.
    tables["jobs"][0]["parent"] = {
        "address": root_address(ip6=options.ip6),
        "rank": rack.number,
        "ranks": options.leaves,
        "port": "up",
        "from": rack.above,
        **({"security": options.security, "key_file": str(keys.root)} if keys else {}),
    }
    return tables


def _root(options: Options, root: Network, racks: list[Rack], files: Path, keys: _Keys | None) -> Tables:
    """The root's ranks are the leaves, each behind a port."""
    key = keys.root if keys else None
    tables = configuration.whole(root, _settings(options, len(racks), key), files / "admin.sock")
    tables["ports"] = [
        configuration.port(
            f"p{rack.number}", device(options.driver, rack.number, options.mtu, _RING), options.mtu
        )
        for rack in racks
    ]
    tables["appliance"]["addresses"] = [root_address(ip6=options.ip6)]
    tables["jobs"][0]["members"] = [rack.above for rack in racks]
    return tables
