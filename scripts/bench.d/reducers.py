"""Three ways to sum over the ranks of a `Shaped` network: Pascaline, Gloo, Open MPI.

Each takes the sizes to sum with the number of times, and returns for each size the time that the slowest rank
takes, a median over the times. Everywhere a barrier comes before each sum, and every sum is checked.
"""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import openmpi as mpi
import programs
import shaped
from appliance_shaped import DEVICE, JOB, UDP_PORT, running
from context import Context
from process import Child, Failure

_HERE = Path(__file__).resolve().parent
_MEETING = itertools.count(29500)
_SECONDS = 240.0
# Ten times the packets in flight on an empty path; more only wait in queues, and with eight workers overflow
# those of the kernel.
IN_FLIGHT = 64
# Open MPI's numbers for its algorithms.
RING = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4")


def pascaline(
    context: Context,
    network: shaped.Shaped,
    sizes: Mapping[int, int],
    *,
    device: str = DEVICE,
    more: Mapping[str, Any] | None = None,
    group: str = "",
) -> tuple[dict[int, float], dict[str, Any]]:
    """Also what the workers and the appliance counted. `group`: results by multicast."""
    times: dict[int, float] = {}
    counted: dict[str, Any] = {}
    with running(context, network, device=device, group=group) as appliance:
        for size, iterations in sizes.items():
            reports = _workers(context, network, size, iterations, more or {})
            times[size] = programs.slowest([report["seconds"] for report in reports])
            counted[str(size)] = {
                "packets": sum(report["packets_sent"] for report in reports),
                "retransmissions": sum(report["retransmissions"] for report in reports),
            }
        counted["shapers_dropped"] = sum(
            network.shaper(rank)["dropped"] for rank in range(len(network.workers))
        )
        metrics = appliance.scrape()
        counted["port_missed"] = metrics.total("pascaline_port_missed_packets_total")
        if group and not metrics.total("pascaline_results_spared_packets_total"):
            raise Failure("no result went to the multicast group")
    return times, counted


def _workers(
    context: Context, network: shaped.Shaped, size: int, iterations: int, more: Mapping[str, Any]
) -> list[dict[str, Any]]:
    words = f"worker allreduce --json --appliance {shaped.APPLIANCE}:{UDP_PORT} --job {JOB}"
    words += f" --ranks {len(network.workers)} --bytes {size} --iterations {iterations}"
    terms = {"--payload": shaped.PAYLOAD, "--in-flight": IN_FLIGHT, **more}
    words += "".join(f" {name} {value}" for name, value in terms.items())
    command = [context.binary, *words.split(), "--rank"]
    children = _in_each(context, network, "worker", lambda rank: [*command, rank])
    reports = [child.said() for child in children]
    if any(report["verified"] != iterations for report in reports):
        raise Failure(f"Pascaline: sums of {size} bytes are wrong")
    return reports


def gloo(
    context: Context, network: shaped.Shaped, python: Path, sizes: Mapping[int, int]
) -> dict[int, float]:
    # A port of its own each time: the last one's connections may still be closing.
    meeting = f"{shaped.address(0)}:{next(_MEETING)}"
    program, more = [python, _HERE / "peers/gloo_rank.py"], [meeting, "eth0", *_items(sizes)]
    ranks = len(network.workers)
    children = _in_each(context, network, "gloo", lambda rank: [*program, rank, ranks, *more])
    reports = [report for child in children for report in programs.objects(child)]
    return _slowest("Gloo", reports, ranks, sizes)


def _in_each(
    context: Context, network: shaped.Shaped, name: str, command: Callable[[int], list[object]]
) -> list[Child]:
    ranks = enumerate(network.workers)
    commands = {f"{name}{rank}": (command(rank), namespace) for rank, namespace in ranks}
    return programs.run(commands, context.files, context.stop, _SECONDS)


def openmpi(
    context: Context,
    network: shaped.Shaped,
    program: Path,
    sizes: Mapping[int, int],
    algorithm: tuple[str, ...] = (),
) -> dict[int, float]:
    """With the algorithm that it chooses itself, or a forced one."""
    hosts = {shaped.address(rank): name for rank, name in enumerate(network.workers)}
    command = mpi.command(hosts, "eth0", context.files / "openmpi")
    command += [*algorithm, *programs.FIRST, str(program), *_items(sizes)]
    commands = {"mpirun": (command, network.workers[0])}
    (child,) = programs.run(commands, context.files, context.stop, _SECONDS)
    return _slowest("Open MPI", programs.objects(child), len(hosts), sizes)


def _items(sizes: Mapping[int, int]) -> list[str]:
    return [f"{size}:{iterations}" for size, iterations in sizes.items()]


def _slowest(
    name: str, reports: list[dict[str, Any]], ranks: int, sizes: Mapping[int, int]
) -> dict[int, float]:
    times = {}
    for size in sizes:
        found = [report for report in reports if report["bytes"] == size]
        if len(found) != ranks or not all(report["right"] for report in found):
            raise Failure(f"{name}: of {ranks} ranks, {len(found)} summed {size} bytes, or a sum is wrong")
        times[size] = programs.slowest([report["seconds"] for report in found])
    return times
