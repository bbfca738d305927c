"""The command line of scripts/demo."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from netns import MOST_PORTS, RACK
from option_checks import MOST, check
from quantities import between, loads, percent, size

_ROOT = Path(__file__).resolve().parents[2]
COLLECTIVES = ("allreduce", "reduce", "broadcast", "barrier", "reduce_scatter", "allgather")
# Updates that a worker of --mode olaf may have unanswered.
OUTSTANDING = 64
# `default` says nothing in the configuration.
POLICIES = ("default", "dsa", "atp", "switchml", "iswitch", "panama", "always", "coin")

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
  scripts/demo --lcores 2 --udp-ports 2              two lcores; each PSN has the UDP port of its own
  scripts/demo --policy dsa --neighbour --json       beside a job that never completes anything
  scripts/demo --mode olaf                           asynchronous updates: Olaf's queue beside FIFO
  scripts/demo --mode olaf --topology two-level      updates queue in each rack's appliance, then in the root
  scripts/demo --mode iswitch --staleness 3          asynchronous training without a server: H of N
  scripts/demo --collective broadcast --root 2       rank 2's tensor to all; and the other collectives
  scripts/demo --wire bf16                           f32 that travels in half the bytes
  scripts/demo --wire mxint8                         in a quarter: OCP Microscaling blocks
  scripts/demo --ip6 --json                          over IPv6
  scripts/demo --routed                              every worker is behind a router
  scripts/demo --multicast --json                    results go to a group of IP multicast
  scripts/demo --client c --json                     four programs in C, through libpascaline
  scripts/demo --client c-streams --json             the same, and small sums overtake large ones
  scripts/demo --client mpi --json                   four ranks of an unmodified program of MPI
  scripts/demo --protocol switchml --bytes 1MiB      SwitchML's own UDP protocol instead of ours
  scripts/demo --topology two-level --json           an appliance for each of two racks, a root above
  scripts/demo --inline --json                       a bump in the wire: what passes, and how fast
  scripts/demo --keep                                leave the namespaces; later: scripts/demo --cleanup

needs root (it asks sudo otherwise) for network namespaces and raw ports. Ends only what it started and
removes what it made, also when interrupted.
"""


@dataclass(frozen=True)
class Options:
    """What to demonstrate, checked."""

    mode: str
    protocol: str
    topology: str
    inline: bool
    leaves: int
    seconds: int
    loads: list[float]
    picture: Path
    staleness: int
    workers: int
    allreduces: int
    bytes: int
    dtype: str
    collective: str
    root: int
    wire: str | None
    ip6: bool
    routed: bool
    multicast: bool
    payload: int
    mtu: int
    in_flight: int
    loss: float
    duplicate: float
    reorder: float
    impairment: str
    seed: int
    pool_slots: int
    policy: str
    jobs: int
    order: str
    restart_appliance: bool
    halt: bool
    reload: bool
    driver: str
    neighbour: bool
    neighbour_rate: int
    neighbour_sends: str
    neighbour_rounds: int
    udp_ports: int
    lcores: int
    timeout: float
    client: str
    binary: Path | None
    libraries: Path | None
    keep: bool
    cleanup: bool
    json: bool


def parse(arguments: list[str]) -> Options:
    """Reads the command line; a mistake ends the script with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Workers in network namespaces allreduce tensors through a DPDK appliance on veth ports.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_load(parser)
    _add_appliance(parser)
    _add_topology(parser)
    _add_bad_network(parser)
    _add_neighbour(parser)
    _add_olaf(parser)
    _add_more(parser)
    given = parser.parse_args(arguments)
    # In line, what passes shall pass as it is.
    given.driver = given.driver or ("kernel" if given.inline else "af_packet")
    options = Options(**vars(given))
    check(parser, options)
    return options


def _add_load(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--mode",
        choices=("sync", "olaf", "iswitch"),
        default="sync",
        help="allreduce; or asynchronous: updates to a server, or training without one (default sync)",
    )
    add(
        "--protocol",
        choices=("pascaline", "switchml"),
        default="pascaline",
        help="of the workers: SwitchML's clients register at a controller; "
        "--payload is 256 or 1024 then, --in-flight their window (default pascaline)",
    )
    add(
        "--workers",
        type=between(1, MOST),
        default=4,
        metavar="N",
        help=f"ranks (default 4; times --jobs at most {MOST}: each is a process that waits for a processor). "
        f"Up to {MOST_PORTS} have a DPDK port each; more share ports, {RACK} behind a bridge, as in racks",
    )
    add(
        "--allreduces",
        type=between(1, 10**6),
        default=10,
        metavar="N",
        help="how many each does (default 10)",
    )
    add("--bytes", type=size, default=16 << 20, metavar="SIZE", help="tensor per allreduce (default 16MiB)")
    add("--dtype", choices=("f32", "i32"), default="f32", help="element type (default f32)")
    add("--collective", choices=COLLECTIVES, default="allreduce", help="what the ranks do (allreduce)")
    add("--root", type=between(0, MOST), default=0, metavar="RANK", help="of reduce and broadcast (0)")
    add("--wire", choices=("f16", "bf16", "mxfp8", "mxint8"), help="what f32 elements travel as (f32)")
    add(
        "--payload",
        type=between(4, 9000),
        default=0,
        metavar="BYTES",
        help="tensor bytes per packet (as the workers agree: what --mtu takes)",
    )
    add(
        "--jobs",
        type=between(1, 8),
        default=1,
        metavar="N",
        help="jobs that share the appliance (default 1)",
    )
    add(
        "--in-flight",
        type=between(1, 4096),
        default=128,
        metavar="N",
        help="packets per worker (default 128)",
    )


def _add_appliance(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--policy",
        choices=POLICIES,
        default="default",
        help="how jobs use the pool: a paper's system, or DSA's strawmen always and coin (docs/policies.md)",
    )
    add(
        "--order",
        choices=("arrival", "rank"),
        default="arrival",
        help="in which contributions are added (arrival)",
    )
    add("--restart-appliance", action="store_true", help="kill the appliance half way and start it again")
    add(
        "--halt",
        action="store_true",
        help="suspend the job (`pascaline job halt`), heal it (`pascaline job reset`), and begin again",
    )
    add(
        "--reload",
        action="store_true",
        help="change the configuration again and again while the workers are at it",
    )
    add("--ip6", action="store_true", help="IPv6 in place of IPv4")
    add("--routed", action="store_true", help="a router between each worker and the appliance")
    add("--multicast", action="store_true", help="results go to a group, in racks of workers behind bridges")
    add("--mtu", type=between(128, 9216), default=1500, metavar="BYTES", help="of every link (default 1500)")


def _add_topology(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--topology",
        choices=("one", "two-level"),
        default="one",
        help="one appliance; or one for each rack, and a root above them (default one)",
    )
    add("--inline", action="store_true", help="the appliance is between the workers and a server")
    add(
        "--leaves",
        type=between(1, 8),
        default=2,
        metavar="N",
        help="racks of --topology two-level, over which the workers are dealt (default 2)",
    )


def _add_bad_network(parser: argparse.ArgumentParser) -> None:
    bad = parser.add_argument_group("bad network, each in percent of all frames, in both directions")
    bad.add_argument("--loss", type=percent, default=0.0, metavar="PCT", help="lost")
    bad.add_argument("--duplicate", type=percent, default=0.0, metavar="PCT", help="sent twice")
    bad.add_argument("--reorder", type=percent, default=0.0, metavar="PCT", help="overtaken by later ones")
    bad.add_argument(
        "--impairment",
        choices=("auto", "netem", "userspace"),
        default="auto",
        help="who does it: the kernel's netem or `pascaline-lab impair` (default auto: netem if there)",
    )


def _add_neighbour(parser: argparse.ArgumentParser) -> None:
    neighbour = parser.add_argument_group(
        "a neighbour: another job of the same policy, which never completes a PSN",
        "The allreduces are done in rounds: beside nobody, beside packets that the appliance refuses at the\n"
        "parse, and beside the neighbour. `ratio` is the median beside the neighbour over that beside\n"
        "nobody, `control` that beside refused packets over the same: what they cost anyway.",
    )
    add = neighbour.add_argument
    add("--neighbour", action="store_true", help="with a neighbour; --json has ratio, control, over_control")
    add(
        "--neighbour-rate",
        type=between(1, 10**7),
        default=100_000,
        metavar="N",
        help="packets in a second (100000)",
    )
    add(
        "--neighbour-sends",
        choices=("gradients", "past"),
        default="gradients",
        help="gradients of all PSNs of its window, or the same past the pool to the parameter server",
    )
    add("--neighbour-rounds", type=between(1, 100), default=3, metavar="N", help="rounds (3)")


def _add_olaf(parser: argparse.ArgumentParser) -> None:
    olaf = parser.add_argument_group(
        "--mode olaf: 9 clusters of 3 workers, whose updates queue before a narrow line",
        f"Every worker runs with --outstanding {OUTSTANDING}: it may have as many updates "
        "unanswered, so that updates queue.\nA worker's own default is 1. "
        "With --topology two-level: 6 clusters of 4\nbelow 2 leaves, and losses at each hop.",
    )
    olaf.add_argument(
        "--seconds", type=between(2, 600), default=6, metavar="S", help="each run is measured (6)"
    )
    olaf.add_argument(
        "--loads",
        type=loads,
        default=[1.5, 3.0, 12.0],
        metavar="X,Y",
        help="times the line's rate (1.5,3,12)",
    )
    olaf.add_argument(
        "--picture",
        type=Path,
        default=_ROOT / "target/olaf-aom.svg",
        metavar="FILE",
        help="of the ages (target/olaf-aom.svg)",
    )
    iswitch = parser.add_argument_group(
        "--mode iswitch: asynchronous training without a server",
        "An iteration takes the gradients of all --workers but one; the last one is slow.",
    )
    iswitch.add_argument(
        "--staleness",
        type=between(0, 100),
        default=3,
        metavar="S",
        help="by how many iterations a gradient may be too old (3)",
    )


def _add_more(parser: argparse.ArgumentParser) -> None:
    more = parser.add_argument_group("more")
    more.add_argument(
        "--seed", type=between(0, 2**32), default=1, metavar="N", help="of tensors and bad luck (1)"
    )
    more.add_argument(
        "--pool-slots", type=between(1, 1 << 24), default=4096, metavar="N", help="(default 4096)"
    )
    more.add_argument(
        "--driver",
        choices=("af_packet", "af_xdp", "kernel"),
        help="of the appliance's ports: DPDK's over packet sockets or AF_XDP, or packet sockets that "
        "understand segmentation (af_packet; kernel with --inline)",
    )
    more.add_argument(
        "--udp-ports",
        type=int,
        choices=(1, 2, 4),
        default=1,
        metavar="N",
        help="ports of the appliance, over which PSNs are spread (default 1; more: 2, 4)",
    )
    more.add_argument(
        "--lcores", type=between(1, 2), default=1, metavar="N", help="that the packets are spread over (1)"
    )
    more.add_argument(
        "--timeout", type=between(1, 86400), default=300, metavar="S", help="give up after (300)"
    )
    more.add_argument(
        "--client",
        choices=("rust", "c", "c-streams", "mpi"),
        default="rust",
        help="who sums: workers, programs in C, such that have a small urgent sum overtake a large one, or"
        " programs of MPI with libpascaline-mpi preloaded (rust)",
    )
    more.add_argument("--binary", type=Path, metavar="FILE", help="use this pascaline instead of building it")
    more.add_argument(
        "--libraries", type=Path, metavar="DIR", help="where scripts/clients has put its libraries"
    )
    more.add_argument("--keep", action="store_true", help="leave namespaces and files for inspection")
    more.add_argument("--cleanup", action="store_true", help="only remove what --keep or a killed run left")
    more.add_argument(
        "--json", action="store_true", help="last line of output: one JSON object; all else on stderr"
    )
