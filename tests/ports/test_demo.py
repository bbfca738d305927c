"""scripts/demo: every worker verifies every sum."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runner.shell import Shell

pytestmark = [pytest.mark.ports]
Demo = Callable[..., dict[str, Any]]


@pytest.fixture
def demo(shell: Shell, request: pytest.FixtureRequest) -> Demo:
    """Runs the demo and returns its JSON. In the larger size with the program that has all features."""
    everything = request.node.get_closest_marker("all") is not None

    def run(*options: object, seconds: float = 300) -> dict[str, Any]:
        binary = ("--binary", request.getfixturevalue("pascaline")) if everything else ()
        words = [word for o in options for word in (o.split() if isinstance(o, str) else [str(o)])]
        return shell.json("scripts/demo", "--json", *binary, *words, seconds=seconds)

    return run


def good(said: dict[str, Any], *, workers: int = 4, allreduces: int = 10) -> dict[str, Any]:
    """What holds of every demo of synchronous jobs."""
    assert said["ok"]
    assert said["workers"] == workers
    assert said["allreduces"] == allreduces
    assert said["verified"] == said["allreduces"]
    assert said["mismatches"] == 0
    assert said["checksums_equal"]
    assert said["identity_holds"]
    assert said["appliance_exit"] == 0
    assert said["goodput_gbps_per_worker"] > 0
    return said


def test_f32(demo: Demo) -> None:
    """What a newcomer runs, built as a newcomer builds it."""
    said = good(demo("--bytes 2MiB --allreduces 3", seconds=1200), allreduces=3)
    assert said["impairment"]["by"] == "none"


def test_i32_in_full_packets(demo: Demo) -> None:
    """Integers are exact bit by bit."""
    said = good(demo("--bytes 2MiB --allreduces 3 --dtype i32 --payload 1448"), allreduces=3)
    assert said["dtype"] == "i32"


def test_bad_network(demo: Demo) -> None:
    """The counts are of what really happened to frames: a network that did no harm would fail here."""
    said = good(demo("--bytes 2MiB --allreduces 4 --loss 1 --duplicate 1 --reorder 1 --seed 1"), allreduces=4)
    assert said["impairment"]["lost"] > 0
    assert said["impairment"]["duplicated"] > 0
    # netem does not say how many frames were overtaken (null).
    assert said["impairment"]["reordered"] != 0
    assert said["retransmissions"] > 0


def test_restart(demo: Demo) -> None:
    """The appliance is killed half way; the workers go on where they were."""
    said = good(demo("--bytes 1MiB --allreduces 6 --restart-appliance"), allreduces=6)
    assert said["restarts"] == 1
    assert said["resumed"] > 0


def test_two_levels(demo: Demo) -> None:
    """A root above two leaves: each of its links carries one stream, however many workers are below."""
    said = good(demo("--topology two-level --bytes 1MiB --allreduces 4"), allreduces=4)
    assert said["leaves"] == 2
    assert 1 <= said["root_link_streams"] < 1.25


def test_gives_up_in_time(shell: Shell) -> None:
    shell("scripts/demo", "--json", "--allreduces", 100000, "--timeout", 3, seconds=60, code=1)


# What differs from a plain demo, and how many workers and allreduces there are.
_PLAIN = {
    "jumbo": ("--mtu 9000 --payload 8192 --bytes 4MiB --allreduces 3", 4, 3),
    "behind-routers": ("--routed --bytes 256KiB --allreduces 3", 4, 3),
    # More workers than DPDK knows ports: those of a rack share one.
    "racks": ("--workers 64 --bytes 64KiB --allreduces 2", 64, 2),
    # PSNs are spread over UDP ports.
    "two-lcores": ("--bytes 1MiB --allreduces 3 --lcores 2 --udp-ports 2", 4, 3),
    **{
        collective: (f"--collective {collective} --root 2 --bytes 256KiB --allreduces 3", 4, 3)
        for collective in ("reduce", "broadcast", "reduce_scatter", "allgather")
    },
    # Fewer bits on the wire.
    **{wire: (f"--wire {wire} --bytes 1MiB --allreduces 3", 4, 3) for wire in ("bf16", "mxint8", "mxfp8")},
}


@pytest.mark.all
@pytest.mark.parametrize("name", _PLAIN)
def test_plain(name: str, demo: Demo) -> None:
    """Each rank has the right bytes in the right place."""
    options, workers, allreduces = _PLAIN[name]
    good(demo(options), workers=workers, allreduces=allreduces)


@pytest.mark.all
def test_two_levels_over_ipv6(demo: Demo) -> None:
    """The same as above, over IPv6."""
    said = good(demo("--topology two-level --ip6 --bytes 256KiB --allreduces 2"), allreduces=2)
    assert 1 <= said["root_link_streams"] < 1.25


@pytest.mark.all
def test_ipv6(demo: Demo) -> None:
    assert good(demo("--ip6 --bytes 1MiB --allreduces 3"), allreduces=3)["ip6"]


@pytest.mark.all
@pytest.mark.parametrize(("more", "allreduces"), [("--ip6 --jobs 2", 20), ("", 10)], ids=["ipv6", "ipv4"])
def test_multicast(more: str, allreduces: int, demo: Demo) -> None:
    """Results leave once for all members of a group."""
    said = good(demo(f"--multicast {more} --bytes 256KiB"), allreduces=allreduces)
    assert said["packets_per_result"] < 1.5


@pytest.mark.all
def test_barrier(demo: Demo) -> None:
    """No data at all."""
    said = demo("--collective barrier")
    assert said["ok"]
    assert said["verified"] == 10


@pytest.mark.all
@pytest.mark.parametrize(("each", "more"), [(4, ""), (24, "--restart-appliance --pool-slots 16")])
def test_preemption(each: int, more: str, demo: Demo) -> None:
    """Two jobs contend for a pool that holds neither's window: the parameter server completes partials.

    After a restart, most allreduces are still to come: that is when the counts begin again.
    """
    slots = "" if more else "--pool-slots 64"
    options = "--policy dsa --jobs 2 --loss 1 --bytes 256KiB"
    said = good(demo(f"{options} {slots} --allreduces {each} {more}"), allreduces=2 * each)
    assert said["jobs"] == 2
    assert said["preemptions"] > 0
    assert said["ps_completions"] > 0


@pytest.mark.all
def test_neighbour(demo: Demo) -> None:
    """A job that never completes a PSN costs others what packets cost that are refused at the parse.

    The bound is wide: a machine that is busy elsewhere must not decide.
    """
    said = demo("--policy dsa --neighbour --neighbour-rounds 2 --bytes 2MiB --allreduces 6")
    assert said["ok"]
    assert said["mismatches"] == 0
    assert said["verified"] == said["allreduces"] == 36
    assert said["ratio"] > 0
    assert said["over_control"] < 1.5


@pytest.mark.all
def test_neighbour_with_two_lcores(demo: Demo) -> None:
    """The same with two lcores: unproductive packets are dropped before the pool."""
    said = demo("--policy dsa --neighbour --lcores 2 --neighbour-rounds 1 --bytes 2MiB --allreduces 6")
    assert said["ok"]
    assert said["mismatches"] == 0
    assert said["verified"] == said["allreduces"] == 18
    assert said["over_control"] < 2
    assert "packet_share" in said["drops"]


@pytest.mark.all
def test_halt(demo: Demo) -> None:
    """The job is suspended; every worker and `explain` name what heals it, and it does."""
    said = good(demo("--bytes 256KiB --allreduces 20 --halt"), allreduces=20)
    assert said["told_of_halt"] == 4
    assert said["explained"]


@pytest.mark.all
def test_reload(demo: Demo) -> None:
    """Jobs and limits change while the allreduces run: the appliance receives every frame that was sent."""
    said = good(demo("--reload --bytes 4MiB --allreduces 16"), allreduces=16)
    assert said["reloads"] >= 4
    assert said["reloads_refused"] >= 1
    assert said["lost"] == 0
    assert said["aggregated_share"] == 1


@pytest.mark.all
def test_rank_order(demo: Demo) -> None:
    """Different arrivals, the same bits."""
    sums = []
    for _ in range(2):
        said = good(demo("--bytes 1MiB --allreduces 3 --order rank"), allreduces=3)
        assert said["order"] == "rank"
        sums.append(said["checksum"])
    assert sums[0]
    assert sums[0] == sums[1]


@pytest.mark.all
@pytest.mark.parametrize(("dtype", "payload"), [("i32", 256), ("f32", 1024)])
def test_switchml(dtype: str, payload: int, demo: Demo) -> None:
    said = demo(f"--protocol switchml --bytes 512KiB --allreduces 4 --dtype {dtype} --payload {payload}")
    assert said["ok"]
    assert said["verified"] == 4
    assert said["mismatches"] == 0
    assert said["results"] == said["packets"]


@pytest.mark.all
def test_olaf(demo: Demo, tmp_path: Path) -> None:
    """Asynchronous updates before a line that takes a twelfth of them: Olaf's queue beside FIFO."""
    picture = tmp_path / "aom.svg"
    said = demo("--mode olaf --timeout 60 --loads 12 --seconds 4 --picture", picture)
    olaf, fifo = said["olaf"], said["fifo"]
    assert said["ok"]
    assert olaf["lost_pct"] < fifo["lost_pct"] / 5
    assert olaf["aom_ms"] < 0.6 * fifo["aom_ms"]
    assert olaf["aggregated"] > olaf["received"]


@pytest.mark.all
def test_olaf_over_two_hops(demo: Demo) -> None:
    """Nothing may be missing at a hop, or between them."""
    said = demo("--mode olaf --topology two-level --timeout 60 --loads 12 --seconds 4")
    olaf = said["olaf"]
    assert said["ok"]
    assert olaf["lost_between"] == 0
    assert olaf["lost_pct"] < said["fifo"]["lost_pct"] / 3
    assert olaf["hops"][-1]["combined"] > 0


@pytest.mark.all
@pytest.mark.parametrize(
    ("client", "wire", "needed"),
    [("c", "", 7450), ("c-streams", "", 7450), ("mpi", "", 7450), ("mpi", "mxint8", 1920)],
    ids=["c", "c-streams", "mpi", "mpi-mxint8"],
)
def test_client(client: str, wire: str, needed: int, demo: Demo) -> None:
    """Programs in C, half of them under sanitizers, and an unmodified one of MPI; the appliance sums."""
    said = demo(f"--client {client} --bytes 1MiB {'--wire ' + wire if wire else ''}", seconds=600)
    assert said["ok"]
    assert said["client"] == client
    assert said["workers"] == 4
    assert said["verified"] == 10
    assert said["mismatches"] == 0
    assert said["results"] >= said["results_needed"] == needed
    assert said["identity_holds"]
    if client == "c-streams":
        assert said["overtook"] > 0
    if client == "mpi":
        assert said["calls_by_appliance"] > 40


@pytest.mark.all
def test_in_line(demo: Demo) -> None:
    """Between workers and a server, what is not for the appliance passes as it is; speed is not judged."""
    said = good(demo("--inline --workers 2 --bytes 2MiB --allreduces 12"), workers=2, allreduces=12)
    assert said["untouched"] == said["untouched_wanted"]
    assert said["untouched"] >= 11
    assert said["tcp_with_offloads"]
    assert said["link_state_passed"]
    assert said["iperf3_ratio"] > 0
