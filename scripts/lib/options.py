"""The command line of scripts/demo: one table of options, each with the kinds of runs that it applies to."""

# ruff: noqa: RUF009

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Flag, auto
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from netns import MOST_PORTS, RACK
from quantities import between, loads, percent, reading, size

_ROOT = Path(__file__).resolve().parents[2]
# Workers, of all jobs.
MOST = 64
# Updates that a worker of --mode olaf may have unanswered.
OUTSTANDING = 64
# Ethernet's payload holds IPv4, UDP and Pascaline's header (20 + 8 + 22 bytes) besides the tensor, and an
# IPv6 header is 20 bytes longer. SwitchML's headers and exponents take 38.
_HEADERS, _IPV6_MORE, _SWITCHML_HEADERS = 50, 20, 38
# By which a seal makes a packet longer, and what is sealed.
_SEAL = 28
_SEALED = ("mac", "encrypt")

EXAMPLES = """\
examples:
  scripts/demo                                       ten allreduces of 16 MiB by four workers
  scripts/demo --json | tail -n1 | python3 -m json.tool
  scripts/demo --workers 8 --bytes 4MiB --dtype i32
  scripts/demo --workers 64 --bytes 256KiB           four racks, with a DPDK port each
  scripts/demo --loss 1 --duplicate 1 --reorder 1    the same over a bad network
  scripts/demo --mtu 9000                            jumbo frames
  scripts/demo --policy dsa --jobs 2 --loss 1 --pool-slots 64
                                                     two jobs that contend for a small pool
  scripts/demo --restart-appliance                   the appliance is killed and started anew half way
  scripts/demo --halt                                the job is suspended and healed by hand
  scripts/demo --reload                              jobs and limits change meanwhile; no packet is lost
  scripts/demo --order rank                          the same bits whatever the order of arrival
  scripts/demo --lcores 2 --udp-ports 2              two lcores; each PSN has the UDP port of its lcore
  scripts/demo --policy dsa --neighbour --json       beside a job that never completes a PSN
  scripts/demo --mode olaf                           asynchronous updates: Olaf's queue beside FIFO
  scripts/demo --mode olaf --topology two-level      updates queue in each rack's appliance, then in the root
  scripts/demo --mode iswitch --staleness 3          asynchronous training without a server: H of N
  scripts/demo --collective broadcast --root 2       rank 2's tensor to all; and the other collectives
  scripts/demo --wire bf16                           f32 that travels in half the bytes
  scripts/demo --wire mxint8                         in a quarter: OCP Microscaling blocks
  scripts/demo --security masked --json              the appliance cannot read what it adds
  scripts/demo --security mac --json                 no other host can forge a packet, or change one
  scripts/demo --security encrypt --json             nor read what is in one
  scripts/demo --ip6 --json                          over IPv6
  scripts/demo --routed                              every worker is behind a router
  scripts/demo --multicast --json                    results go to a group of IP multicast
  scripts/demo --client c --json                     four programs in C, through libpascaline
  scripts/demo --client c-streams --json             the same, and small sums overtake large ones
  scripts/demo --client mpi --json                   four ranks of an unmodified program of MPI
  scripts/demo --protocol switchml --bytes 1MiB      SwitchML's own UDP protocol instead of ours
  scripts/demo --topology two-level --json           an appliance for each of two racks, a root above
  scripts/demo --topology two-level --security mac   they prove to each other who they are, too
  scripts/demo --inline --json                       a bump in the wire: transit traffic, and how fast
  scripts/demo --keep                                leave the namespaces; later: scripts/demo --cleanup

needs root (it asks sudo otherwise) for network namespaces and raw ports. Ends only what it started and
removes what it made, also when interrupted. It is no benchmark: its build is made for a short wait.

exit code: 0 if everything was as it has to be, 1 if not, 2 if the demo cannot run like this
"""


class Kind(Flag):
    """The kinds of runs. The first one whose condition in `_KINDS` holds is the one that was asked for."""

    CLIENTS = auto()
    HOPS = auto()
    OLAF = auto()
    ISWITCH = auto()
    SWITCHML = auto()
    INLINE = auto()
    TWO_LEVEL = auto()
    NEIGHBOUR = auto()
    PLAIN = auto()


_KINDS: dict[Kind, tuple[str, Callable[[Options], bool]]] = {
    Kind.CLIENTS: ("--client c, c-streams and mpi", lambda o: o.client != "rust"),
    Kind.HOPS: ("--mode olaf --topology two-level", lambda o: o.mode == "olaf" and o.topology != "one"),
    Kind.OLAF: ("--mode olaf", lambda o: o.mode == "olaf"),
    Kind.ISWITCH: ("--mode iswitch", lambda o: o.mode == "iswitch"),
    Kind.SWITCHML: ("--protocol switchml", lambda o: o.protocol == "switchml"),
    Kind.INLINE: ("--inline", lambda o: o.inline),
    Kind.TWO_LEVEL: ("--topology two-level", lambda o: o.topology == "two-level"),
    Kind.NEIGHBOUR: ("--neighbour", lambda o: o.neighbour),
    Kind.PLAIN: ("plain allreduces", lambda _: True),
}
_ALL = reduce(or_, Kind)
_WORKERS = Kind.PLAIN | Kind.NEIGHBOUR | Kind.TWO_LEVEL | Kind.INLINE | Kind.SWITCHML
_SUMS = _WORKERS | Kind.CLIENTS
_UPDATES = Kind.OLAF | Kind.HOPS
_POLICIES = Kind.PLAIN | Kind.NEIGHBOUR | Kind.CLIENTS
_COLLECTIVES = ("allreduce", "reduce", "broadcast", "barrier", "reduce_scatter", "allgather")


def _option(kinds: Kind, default: Any, read: Any, about: str, shown: str = "") -> Any:
    """A field of `Options`: the kinds that it applies to, and the arguments of `reading`."""
    return field(default=default, metadata={"kinds": kinds, "read": read, "about": about, "shown": shown})


@dataclass(frozen=True)
class Options:
    """The checked options of a demonstration. The names are those of the command line."""

    mode: str = _option(
        _UPDATES | Kind.ISWITCH, "sync", ("sync", "olaf", "iswitch"),
        "allreduce; or asynchronous: updates to a server, or training without one",
    )  # fmt: skip
    protocol: str = _option(
        Kind.SWITCHML, "pascaline", ("pascaline", "switchml"),
        "of the workers: SwitchML's clients register at a controller; --payload is 256 or 1024 then, "
        "--in-flight their window",
    )  # fmt: skip
    topology: str = _option(
        Kind.TWO_LEVEL | Kind.HOPS, "one", ("one", "two-level"),
        "one appliance; or one for each rack, and a root above them",
    )  # fmt: skip
    inline: bool = _option(Kind.INLINE, False, bool, "the appliance is between the workers and a server")
    client: str = _option(
        Kind.CLIENTS, "rust", ("rust", "c", "c-streams", "mpi"),
        "what sums: workers, programs in C, such that have a small urgent sum overtake a large one, or "
        "programs of MPI with libpascaline-mpi preloaded",
    )  # fmt: skip
    workers: int = _option(
        _SUMS | Kind.ISWITCH, 4, between(1, MOST),
        f"ranks; times --jobs at most {MOST}, since each is a process. Up to {MOST_PORTS} have a DPDK port "
        f"each; more share ports, {RACK} behind a bridge, as in racks", "N",
    )  # fmt: skip
    allreduces: int = _option(_SUMS, 10, between(1, 10**6), "how many each does", "N")
    bytes: int = _option(_SUMS, 16 << 20, size, "tensor per allreduce", "SIZE")
    dtype: str = _option(_WORKERS, "f32", ("f32", "i32", "u32"), "element type")
    collective: str = _option(Kind.PLAIN, "allreduce", _COLLECTIVES, "what the ranks do")
    root: int = _option(Kind.PLAIN, 0, between(0, MOST), "of reduce and broadcast", "RANK")
    wire: str | None = _option(
        Kind.PLAIN | Kind.CLIENTS, None, ("f16", "bf16", "mxfp8", "mxint8"),
        "what f32 elements travel as, if not as f32",
    )  # fmt: skip
    security: str = _option(
        Kind.PLAIN | Kind.TWO_LEVEL | Kind.CLIENTS | _UPDATES, "none", ("none", "masked", *_SEALED),
        "what protects tensors: masks hide them from the appliance; seals keep hosts on the path from "
        "forging packets (mac), and from reading them (encrypt); plain allreduces --json have the cost",
    )  # fmt: skip
    payload: int = _option(
        _SUMS, 0, between(4, 9000), "tensor bytes per packet; by default as the workers agree", "BYTES"
    )
    jobs: int = _option(Kind.PLAIN, 1, between(1, 8), "jobs that share the appliance", "N")
    in_flight: int = _option(_SUMS, 128, between(1, 4096), "packets per worker", "N")
    policy: str = _option(
        _POLICIES, "default",
        ("default", "dsa", "atp", "switchml", "iswitch", "panama", "always", "coin"),
        "how jobs use the pool: a paper's system, or DSA's strawmen always and coin (docs/policies.md)",
    )  # fmt: skip
    order: str = _option(
        Kind.PLAIN | Kind.NEIGHBOUR | Kind.TWO_LEVEL, "arrival", ("arrival", "rank"),
        "in which contributions are added",
    )  # fmt: skip
    leaves: int = _option(
        Kind.TWO_LEVEL, 2, between(1, 8),
        "racks of --topology two-level, over which the workers are dealt", "N",
    )  # fmt: skip
    restart_appliance: bool = _option(
        Kind.PLAIN | Kind.TWO_LEVEL, False, bool, "kill the appliance half way and start it again"
    )
    halt: bool = _option(
        Kind.PLAIN, False, bool,
        "suspend the job (`pascaline job halt`), heal it (`pascaline job reset`), and begin again",
    )  # fmt: skip
    reload: bool = _option(
        Kind.PLAIN, False, bool, "change the configuration again and again meanwhile; the key, too, if sealed"
    )
    ip6: bool = _option(Kind.PLAIN | Kind.TWO_LEVEL, False, bool, "IPv6 in place of IPv4")
    routed: bool = _option(Kind.PLAIN, False, bool, "a router between each worker and the appliance")
    multicast: bool = _option(
        Kind.PLAIN, False, bool, "results go to a group, in racks of workers behind bridges"
    )
    mtu: int = _option(_ALL, 1500, between(128, 9216), "of every link", "BYTES")
    loss: float = _option(Kind.PLAIN, 0.0, percent, "lost", "PCT")
    duplicate: float = _option(Kind.PLAIN, 0.0, percent, "sent twice", "PCT")
    reorder: float = _option(Kind.PLAIN, 0.0, percent, "overtaken by later ones", "PCT")
    impairment: str = _option(
        Kind.PLAIN, "auto", ("auto", "netem", "userspace"),
        "what does it: the kernel's netem or `pascaline-lab impair`; auto: netem where the kernel has it",
    )  # fmt: skip
    neighbour: bool = _option(
        Kind.NEIGHBOUR, False, bool, "with a neighbour; --json has ratio, control, over_control"
    )
    neighbour_rate: int = _option(Kind.NEIGHBOUR, 100_000, between(1, 10**7), "packets in a second", "N")
    neighbour_sends: str = _option(
        Kind.NEIGHBOUR, "gradients", ("gradients", "past"),
        "gradients of all PSNs of its window, or the same past the pool to the parameter server",
    )  # fmt: skip
    neighbour_rounds: int = _option(Kind.NEIGHBOUR, 3, between(1, 100), "rounds", "N")
    seconds: int = _option(_UPDATES, 6, between(2, 600), "each run is measured", "S")
    loads: tuple[float, ...] = _option(_UPDATES, (1.5, 3.0, 12.0), loads, "times the line's rate", "X,Y")
    picture: Path = _option(Kind.OLAF, _ROOT / "target/olaf-aom.svg", Path, "of the ages", "FILE")
    staleness: int = _option(
        Kind.ISWITCH, 3, between(0, 100), "by how many iterations a gradient may be too old", "S"
    )
    seed: int = _option(
        _WORKERS | _UPDATES | Kind.ISWITCH, 1, between(0, 2**32), "of tensors and of the bad network", "N"
    )
    pool_slots: int = _option(_SUMS | Kind.ISWITCH, 4096, between(1, 1 << 24), "of the appliance", "N")
    driver: str = _option(
        _ALL, "", ("af_packet", "af_xdp", "kernel"),
        "of the appliance's ports: DPDK's over packet sockets or AF_XDP, or packet sockets that "
        "understand segmentation (af_packet; kernel with --inline)",
    )  # fmt: skip
    udp_ports: int = _option(
        _POLICIES, 1, (1, 2, 4), "ports of the appliance, over which PSNs are spread", "N"
    )
    lcores: int = _option(
        _POLICIES | Kind.SWITCHML, 1, between(1, 2), "that the packets are spread over", "N"
    )
    timeout: float = _option(_ALL, 300.0, between(1, 86400), "seconds after which it gives up", "S")
    binary: Path | None = _option(_ALL, None, Path, "use this pascaline instead of building it", "FILE")
    libraries: Path | None = _option(
        Kind.CLIENTS, None, Path, "where scripts/clients has put its libraries", "DIR"
    )
    keep: bool = _option(_ALL, False, bool, "leave namespaces and files for inspection")
    cleanup: bool = _option(_ALL, False, bool, "only remove what --keep or a killed run left")
    json: bool = _option(_ALL, False, bool, "last line of output: one JSON object; all else on stderr")

    @property
    def kind(self) -> Kind:
        return next(kind for kind, (_, asked) in _KINDS.items() if asked(self))

    def named(self, *names: str) -> dict[str, Any]:
        """Some of them, as a report repeats them."""
        return {name: getattr(self, name) for name in names}

    def shared(self, kind: Any) -> dict[str, Any]:
        """Those that a dataclass also has."""
        return self.named(*{one.name for one in fields(kind)} & {one.name for one in fields(self)})

    @property
    def room(self) -> int:
        """Tensor bytes that a packet has room for."""
        return self.mtu - _HEADERS - _IPV6_MORE * self.ip6 - _SEAL * self.sealed

    @property
    def full_payload(self) -> int:
        """Those of a full packet: without --payload workers agree on whole cache lines."""
        return self.payload or self.room // 64 * 64

    @property
    def sealed(self) -> bool:
        """Whether every packet proves its sender."""
        return self.security in _SEALED

    @property
    def bad_network(self) -> bool:
        return bool(self.loss or self.duplicate or self.reorder)


# The first option of each group of the help, with the group's title and text.
_GROUPS: dict[str, tuple[str, str | None]] = {
    "loss": ("bad network, each in percent of all frames, in both directions", None),
    "neighbour": (
        "a neighbour: another job of the same policy, which never completes a PSN",
        "The allreduces are done in rounds: alone, beside packets that the appliance refuses at the\n"
        "parse, and beside the neighbour. `ratio` is the median beside the neighbour over that alone,\n"
        "`control` that beside refused packets over the same: what such packets cost anyway.",
    ),
    "seconds": (
        "--mode olaf: 9 clusters of 3 workers, whose updates queue before a narrow line",
        f"Every worker runs with --outstanding {OUTSTANDING}: it may have as many updates "
        "unanswered, so that updates queue.\nA worker's own default is 1. "
        "With --topology two-level: 6 clusters of 4\nbelow 2 leaves, and losses at each hop.",
    ),
    "staleness": (
        "--mode iswitch: asynchronous training without a server",
        "An iteration takes the gradients of all --workers but one; the last one is slow.",
    ),
    "seed": ("more", None),
}

_FEW = f"with {MOST_PORTS} workers at most"
# Conditions on values, by kind, with the error message of each.
_LIMITS: dict[Kind, dict[str, Callable[[Options], bool]]] = {
    Kind.SWITCHML: {
        f"--protocol switchml: --payload 256 or 1024, and at most {MOST_PORTS} --workers": lambda o: (
            o.payload in (0, 256, 1024) and o.workers <= MOST_PORTS
        ),
        (
            f"--protocol switchml: its packets take an --mtu of {1024 + _SWITCHML_HEADERS}, and of "
            f"{256 + _SWITCHML_HEADERS} with --payload 256"
        ): lambda o: o.mtu >= (o.payload or 1024) + _SWITCHML_HEADERS,
        "--protocol switchml: --dtype f32 or i32": lambda o: o.dtype != "u32",
    },
    Kind.TWO_LEVEL: {
        f"--topology two-level: a worker for each leaf at least, and at most {MOST_PORTS}": lambda o: (
            o.leaves <= o.workers <= MOST_PORTS
        ),
        "--topology two-level: --security mac or encrypt; masks are for ranks of one appliance": lambda o: (
            o.security != "masked"
        ),
    },
    Kind.INLINE: {
        f"--inline: all workers are in one rack, at most {RACK}": lambda o: o.workers <= RACK,
    },
    Kind.ISWITCH: {
        "--mode iswitch takes two --workers or more: one of them is slow": lambda o: o.workers >= 2,
    },
    _UPDATES: {
        "--mode olaf: an update is one packet, which takes an --mtu of 1076": lambda o: o.mtu >= 1076,
        "--mode olaf: with --security it takes an --mtu of 1104": lambda o: not o.sealed or o.mtu >= 1104,
        "--mode olaf: --security mac or encrypt; masks are for sums": lambda o: o.security != "masked",
    },
    _ALL: {
        "--payload is a multiple of 8, the size of the largest element": lambda o: o.payload % 8 == 0,
        "--bytes is a multiple of 4, an element's size, and not 0": lambda o: (
            o.bytes > 0 and o.bytes % 4 == 0
        ),
        "--payload {o.payload} does not fit --mtu {o.mtu}, which has room for {o.room} bytes": lambda o: (
            o.payload <= o.room // 8 * 8
        ),
        f"--workers times --jobs is at most {MOST}": lambda o: o.workers * o.jobs <= MOST,
        "--root {o.root}: the first rank is 0, and there are {o.workers}": lambda o: o.root < o.workers,
        "--ip6 takes an --mtu of 1280 bytes at least": lambda o: not o.ip6 or o.mtu >= 1280,
        "--binary {o.binary}: no such file": lambda o: not o.binary or o.binary.is_file(),
        "--reload counts every frame: not with a bad network or --restart-appliance": lambda o: (
            not (o.reload and (o.bad_network or o.restart_appliance))
        ),
        "--halt takes one job and two --allreduces or more, and goes without --reload": lambda o: (
            not (o.halt and (o.jobs > 1 or o.allreduces < 2 or o.reload))
        ),
        f"--ip6, --routed and --collective: {_FEW}": lambda o: (
            o.workers <= MOST_PORTS or not (o.ip6 or o.routed or o.collective != "allreduce")
        ),
        f"--wire: f32, {_FEW}": lambda o: not o.wire or (o.dtype == "f32" and o.workers <= MOST_PORTS),
        "--security masked: without --wire, --order rank, and --client mpi, which takes maxima": lambda o: (
            o.security != "masked" or not (o.wire or o.order == "rank" or o.client == "mpi")
        ),
        "--multicast: without --routed": lambda o: not (o.multicast and o.routed),
        "--routed: the bad network has the routers' places": lambda o: not (o.routed and o.bad_network),
    },
    Kind.CLIENTS: {
        # Their sums have up to eleven binary digits, and are compared exactly.
        "--wire: f16 with --client c, any with rust and mpi, none with c-streams": lambda o: (
            not o.wire or o.client == "mpi" or (o.client, o.wire) == ("c", "f16")
        ),
    },
}


def parse(arguments: list[str]) -> Options:
    """Reads the command line; a mistake ends the script with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Workers in network namespaces allreduce tensors through a DPDK appliance on veth ports.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # Only what is named is in the namespace: the defaults are those of `Options`.
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    add = parser.add_argument
    for option in fields(Options):
        if option.name in _GROUPS:
            add = parser.add_argument_group(*_GROUPS[option.name]).add_argument
        kinds, *how = option.metadata.values()
        add(_flag(option.name), **reading(option.default, *how))
    named = vars(parser.parse_args(arguments))
    # In line, frames for other hosts pass unchanged.
    options = Options(**{"driver": "kernel" if named.get("inline") else "af_packet", **named})
    _refuse_unobeyed(parser, options, named)
    for kinds, limits in _LIMITS.items():
        for otherwise, holds in limits.items():
            if options.kind in kinds and not holds(options):
                parser.error(otherwise.format(o=options))
    return options


def _refuse_unobeyed(parser: argparse.ArgumentParser, options: Options, named: dict[str, Any]) -> None:
    """Refuses options that do not apply to the kind of run, rather than ignore them."""
    for option in fields(Options):
        kinds, read = option.metadata["kinds"], option.metadata["read"]
        if option.name not in named or options.kind in kinds:
            continue
        # The first of several choices is the behaviour of runs without the option.
        if not (isinstance(read, tuple) and named[option.name] == option.default):
            obey = ", ".join(_KINDS[kind][0] for kind in Kind if kind in kinds)
            parser.error(f"{_flag(option.name)} is not for {_KINDS[options.kind][0]}: it is for {obey}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
