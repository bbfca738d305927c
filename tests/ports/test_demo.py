"""scripts/demo: every worker verifies every sum."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runner.shell import Shell, holds

pytestmark = [pytest.mark.ports]
Demo = Callable[..., dict[str, Any]]


@pytest.fixture
def demo(shell: Shell, request: pytest.FixtureRequest) -> Demo:
    """Runs the demo and returns its JSON. In the larger size with the program that has all features."""
    everything = request.node.get_closest_marker("all") is not None

    def run(words: str, wants: str, *, seconds: float = 300) -> dict[str, Any]:
        binary = ("--binary", request.getfixturevalue("pascaline")) if everything else ()
        said = shell.json("scripts/demo", "--json", *binary, *words.split(), seconds=seconds)
        holds(said, wants)
        return said

    return run


# What holds of every demo of synchronous jobs.
_GOOD = """
    ok; workers == {workers}; allreduces == {allreduces}; verified == allreduces; mismatches == 0;
    checksums_equal; identity_holds; appliance_exit == 0; goodput_gbps_per_worker > 0;
    """


def good(words: str) -> str:
    """The same, with the numbers that are asked for."""
    asked = {"workers": 4, "allreduces": 10, "jobs": 1}
    asked |= {name: int(number) for name, number in re.findall(r"--(\w+) (\d+)", words) if name in asked}
    return _GOOD.format(workers=asked["workers"], allreduces=asked["allreduces"] * asked["jobs"])


# Options, and what holds beside that.
_FEW = {
    "f32": ("--bytes 2MiB --allreduces 3", "impairment['by'] == 'none'"),
    "i32-in-full-packets": ("--bytes 2MiB --allreduces 3 --dtype i32 --payload 1448", "dtype == 'i32'"),
    "masked": ("--security masked --bytes 1MiB --allreduces 3", "security == 'masked'; cost['without'] > 0"),
    "sealed": ("--security mac --bytes 1MiB --allreduces 3", "security == 'mac'; cost['without'] > 0"),
    "restart": ("--bytes 1MiB --allreduces 6 --restart-appliance", "restarts == 1; resumed > 0"),
    "two-levels": (
        "--topology two-level --bytes 1MiB --allreduces 4",
        "leaves == 2; 1 <= root_link_streams < 1.25",
    ),
}
_BAD = "--loss 1 --duplicate 1 --reorder 1"
_CONTEND = "--policy dsa --jobs 2 --loss 1 --bytes 256KiB"
_CONTENDED = "jobs == 2; preemptions > 0; ps_completions > 0"
_MANY = {
    # By the laboratory's program, whose build takes minutes. netem does not say how many frames were
    # overtaken (None).
    "bad-network": (
        "--bytes 2MiB --allreduces 4 --loss 1 --duplicate 1 --reorder 1 --seed 1",
        "impairment['lost'] > 0; impairment['duplicated'] > 0; impairment['reordered'] != 0;"
        "retransmissions > 0",
    ),
    "jumbo": ("--mtu 9000 --payload 8192 --bytes 4MiB --allreduces 3", ""),
    "behind-routers": ("--routed --bytes 256KiB --allreduces 3", ""),
    # More workers than DPDK knows ports: those of a rack share one.
    "racks": ("--workers 64 --bytes 64KiB --allreduces 2", ""),
    # PSNs are spread over UDP ports.
    "two-lcores": ("--bytes 1MiB --allreduces 3 --lcores 2 --udp-ports 2", ""),
    **{
        collective: (f"--collective {collective} --root 2 --bytes 256KiB --allreduces 3", "")
        for collective in ("reduce", "broadcast", "reduce_scatter", "allgather")
    },
    # Fewer bits on the wire.
    **{wire: (f"--wire {wire} --bytes 1MiB --allreduces 3", "") for wire in ("bf16", "mxint8", "mxfp8")},
    "masked-restart": (
        "--security masked --bytes 1MiB --allreduces 6 --restart-appliance",
        "security == 'masked'; restarts == 1; resumed > 0",
    ),
    "masked-parts": (
        "--security masked --collective reduce_scatter --dtype i32 --bytes 256KiB --allreduces 3",
        "security == 'masked'",
    ),
    # Every packet proves its sender, or is encrypted as well.
    **{
        f"{security}-{name}": (f"--security {security} {words}", f"security == '{security}'; {wants}")
        for security in ("mac", "encrypt")
        for name, words, wants in (
            (
                "bad-network",
                f"{_BAD} --bytes 1MiB --allreduces 4",
                "retransmissions > 0; not drops.get('forged')",
            ),
            ("restart", "--bytes 1MiB --allreduces 20 --restart-appliance", "restarts == 1; resumed > 0"),
            ("halt", "--bytes 256KiB --allreduces 20 --halt", "told_of_halt == 4; explained"),
        )
    },
    "mac-jobs": ("--security mac --jobs 2 --bytes 256KiB --allreduces 3", "jobs == 2"),
    "mac-reload": (
        "--security mac --reload --bytes 4MiB --allreduces 24",
        "reloads >= 4; rekeyed >= 1; lost == 0",
    ),
    "mac-rank-order": ("--security mac --order rank --ip6 --bytes 256KiB --allreduces 3", "ip6"),
    "encrypt-bf16": ("--security encrypt --wire bf16 --bytes 1MiB --allreduces 3", ""),
    # More jobs than regions fit: they share the pool, without a server.
    "encrypt-shared": ("--security encrypt --jobs 5 --bytes 256KiB --allreduces 3", "jobs == 5"),
    "encrypt-two-lcores": (
        "--security encrypt --lcores 2 --udp-ports 2 --bytes 1MiB --allreduces 3",
        "security == 'encrypt'",
    ),
    # Each rack has a key, and the appliances another one.
    "mac-two-levels": (
        "--topology two-level --security mac --bytes 1MiB --allreduces 20 --restart-appliance",
        "security == 'mac'; resumed > 0; identity_holds",
    ),
    "encrypt-multicast": (
        "--security encrypt --multicast --bytes 256KiB",
        "security == 'encrypt'; packets_per_result < 1.5",
    ),
    # What finds no slot goes to a server, which has to put partials together.
    "mac-preemption": (f"--security mac {_CONTEND} --pool-slots 64 --allreduces 4", _CONTENDED),
    "two-levels-over-ipv6": (
        "--topology two-level --ip6 --bytes 256KiB --allreduces 2",
        "1 <= root_link_streams < 1.25",
    ),
    "ipv6": ("--ip6 --bytes 1MiB --allreduces 3", "ip6"),
    # Results leave once for all members of a group.
    "multicast-ipv6": ("--multicast --ip6 --jobs 2 --bytes 256KiB", "packets_per_result < 1.5"),
    "multicast-ipv4": ("--multicast --bytes 256KiB", "packets_per_result < 1.5"),
    # Two jobs contend for a pool that holds neither's window: the parameter server completes partials. After
    # a restart, most allreduces are still to come: that is when the counts begin again.
    "preemption": (f"{_CONTEND} --pool-slots 64 --allreduces 4", _CONTENDED),
    "preemption-restart": (
        f"{_CONTEND} --allreduces 24 --restart-appliance --pool-slots 16",
        _CONTENDED,
    ),
    # Every worker and `explain` name what heals a suspended job, and it does.
    "halt": ("--bytes 256KiB --allreduces 20 --halt", "told_of_halt == 4; explained"),
    # Jobs and limits change meanwhile: the appliance receives every frame that was sent.
    "reload": (
        "--reload --bytes 4MiB --allreduces 16",
        "reloads >= 4; reloads_refused >= 1; lost == 0; aggregated_share == 1",
    ),
    # Frames for other hosts pass unchanged; speed is not judged.
    "in-line": (
        "--inline --workers 2 --bytes 2MiB --allreduces 12",
        "untouched == untouched_wanted; untouched >= 11; tcp_with_offloads; link_state_passed;"
        "iperf3_ratio > 0",
    ),
}
_CLIENT = "ok; workers == 4; verified == 10; mismatches == 0; results >= results_needed; identity_holds;"
_OLAF = "--mode olaf --timeout 60 --loads 12 --seconds 4"
# Those of which something else holds.
_OTHERS = {
    "barrier": ("--collective barrier", "ok; verified == 10"),
    # A job that never completes a PSN costs others what packets cost that are refused at the parse. The bound
    # is wide: a machine that is busy elsewhere must not decide.
    "neighbour": (
        "--policy dsa --neighbour --neighbour-rounds 2 --bytes 2MiB --allreduces 6",
        "ok; mismatches == 0; verified == allreduces == 36; ratio > 0; over_control < 1.5",
    ),
    # Here, unproductive packets are dropped before the pool.
    "neighbour-with-two-lcores": (
        "--policy dsa --neighbour --lcores 2 --neighbour-rounds 1 --bytes 2MiB --allreduces 6",
        "ok; mismatches == 0; verified == allreduces == 18; over_control < 2; 'packet_share' in drops",
    ),
    **{
        f"switchml-{dtype}": (
            f"--protocol switchml --bytes 512KiB --allreduces 4 --dtype {dtype} --payload {payload}",
            "ok; verified == 4; mismatches == 0; results == packets",
        )
        for dtype, payload in (("i32", 256), ("f32", 1024))
    },
    # Asynchronous updates before a line that takes a twelfth of them: Olaf's queue beside FIFO.
    "olaf": (
        f"{_OLAF} --picture {{files}}/aom.svg",
        "ok; olaf['lost_pct'] < fifo['lost_pct'] / 5; olaf['aom_ms'] < 0.6 * fifo['aom_ms'];"
        "olaf['aggregated'] > olaf['received']",
    ),
    # Nothing may be missing at a hop, or between them.
    "olaf-over-two-hops": (
        f"{_OLAF} --topology two-level",
        "ok; olaf['lost_between'] == 0; olaf['lost_pct'] < fifo['lost_pct'] / 3;"
        "olaf['hops'][-1]['combined'] > 0",
    ),
    "sealed-olaf-over-two-hops": (
        f"{_OLAF.replace('12', '3')} --topology two-level --security encrypt",
        "ok; olaf['lost_between'] == 0; olaf['hops'][-1]['combined'] > 0",
    ),
    # Programs in C, half of them under sanitizers, and an unmodified one of MPI; the appliance sums.
    "c": ("--client c --bytes 1MiB", f"{_CLIENT} client == 'c'; results_needed == 7450"),
    "c-streams": (
        "--client c-streams --bytes 1MiB",
        f"{_CLIENT} client == 'c-streams'; results_needed == 7450; overtook > 0",
    ),
    **{
        f"mpi{wire.replace('--wire ', '-')}": (
            f"--client mpi --bytes 1MiB {wire}",
            f"{_CLIENT} client == 'mpi'; results_needed == {needed}; calls_by_appliance > 40",
        )
        for wire, needed in (("", 7450), ("--wire mxint8", 1920))
    },
    **{
        f"{client}-{security}": (
            f"--client {client} --security {security} --bytes 1MiB",
            f"{_CLIENT} client == '{client}'",
        )
        for client, security in (("c", "masked"), ("c-streams", "mac"), ("mpi", "encrypt"))
    },
}


@pytest.mark.parametrize("name", _FEW)
def test_demo(name: str, demo: Demo) -> None:
    """The first one is what a newcomer runs, built as a newcomer builds it."""
    words, wants = _FEW[name]
    demo(words, good(words) + wants, seconds=1200)


@pytest.mark.all
@pytest.mark.parametrize("name", _MANY)
def test_more(name: str, demo: Demo) -> None:
    """Each rank has the right bytes in the right place."""
    words, wants = _MANY[name]
    demo(words, good(words) + wants)


@pytest.mark.all
@pytest.mark.parametrize("name", _OTHERS)
def test_other(name: str, demo: Demo, tmp_path: Path) -> None:
    """Jobs that are none of the synchronous ones of `pascaline worker`."""
    words, wants = _OTHERS[name]
    demo(words.format(files=tmp_path), wants, seconds=600)


def test_gives_up_in_time(shell: Shell) -> None:
    shell("scripts/demo", "--json", "--allreduces", 100000, "--timeout", 3, seconds=60, code=1)


@pytest.mark.all
def test_rank_order(demo: Demo) -> None:
    """Different arrivals, the same bits."""
    words = "--bytes 1MiB --allreduces 3 --order rank"
    first, second = (demo(words, f"{good(words)} order == 'rank'; checksum") for _ in range(2))
    assert first["checksum"] == second["checksum"]
