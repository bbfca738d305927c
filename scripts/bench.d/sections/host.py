"""The worker's drivers: what a core moves, against other programs' UDP over the same veth pair."""

from collections.abc import Callable
from typing import Any

import drivers
import install
import programs
import shaped
from appliance_shaped import has_af_xdp
from context import Context
from figure import Beside, Section

TITLE = "Host: the worker's drivers, against iperf3 and bare sockets on the same veth pairs"

_PORT = 5201
# Fills the same frames as the worker's packets: Pascaline's header is part of the others' data.
_DATAGRAM = shaped.PAYLOAD + 22
# The kernel driver's bars: payload, processor time.
_KERNEL = ("worker, kernel UDP, each way", "worker, kernel UDP")


def measure(context: Context, section: Section) -> None:
    """A job of one rank, whose every packet comes back at once; and others with frames as long."""
    section.notes.append(
        "One worker and its appliance over unshaped veth pairs and a bridge, 1,500-byte frames; a job of one "
        "rank, so that each packet is answered at once and no other is waited for. CPU time is that of the "
        "worker's thread during the allreduces, system calls and what of the kernel's network runs inside "
        "them included, per Gbit of payload that is sent or received. The others send one way, as fast as "
        "they can: their CPU time is that of sender and receiver, per Gbit that either moves."
    )
    kernel = _driver(context, section, "kernel", drivers.kernel)
    others = {"bare sockets with GSO and GRO, one way": _bare(context, section)}
    if not context.options.no_peers:
        others["iperf3, one way"] = _iperf3(context, section)
    for name, found in others.items():
        if found:
            _compare(section, "kernel UDP", kernel, _KERNEL, found, (name, name))
            section.figure(f"{name}: received of what was sent", found["received_pct"], "%")
    section.notes.append(
        "The DPDK driver polls: its CPU time is mostly that of waiting for the appliance, which has the "
        "other core."
        " Over memif neither end enters the kernel."
    )
    if not has_af_xdp():
        section.notes.append(
            "This kernel has no AF_XDP: without that driver, and the appliance has a packet socket."
        )
    ports = {"DPDK, net_af_xdp": drivers.af_xdp} if has_af_xdp() else {}
    for name, run in (ports | {"DPDK, net_memif": drivers.memif}).items():
        found = _driver(context, section, name, run)
        labels = (f"worker, {name}", f"worker, {name}")
        _compare(section, name, found, labels, kernel, _KERNEL)


def _compare(
    section: Section, name: str,
    found: dict[str, float], labels: tuple[str, str], other: dict[str, float], beside: tuple[str, str],
) -> None:  # fmt: skip
    """Payload and processor time of a driver, beside those of another; each has its label."""
    gbps, cost = Beside(beside[0], other["gbps"]), Beside(beside[1], other["ms_per_gbit"])
    section.figure(
        f"{name}: payload, each way at the same time", found["gbps"], "Gbit/s", gbps, group="payload",
        label=labels[0],
    )  # fmt: skip
    section.figure(
        f"{name}: CPU time", found["ms_per_gbit"], "ms per Gbit moved", cost, inverse=True,
        group="CPU time", label=labels[1],
    )  # fmt: skip


def _driver(
    context: Context, section: Section, name: str, run: Callable[[Context, shaped.Shaped], dict[str, Any]]
) -> dict[str, float]:
    with shaped.Shaped(2, 0) as network:
        section.raw[f"worker, {name}"] = report = run(context, network)
    return drivers.costs(report)


def _bare(context: Context, section: Section) -> dict[str, float]:
    """The least that UDP costs in this kernel."""
    with shaped.Shaped(2, 0) as network:
        sent, received = drivers.bare(context, network, _DATAGRAM, context.pick(5, 2))
    section.raw["bare sockets"] = {"sent": sent, "received": received}
    return {
        "gbps": 8 * received["bytes"] / received["seconds"] / 1e9,
        "ms_per_gbit": drivers.bare_ms_per_gbit(sent, received),
        "received_pct": 100 * received["bytes"] / sent["bytes"],
    }


def _iperf3(context: Context, section: Section) -> dict[str, float]:
    """None where iperf3 cannot be installed."""
    with context.attempt(section, "iperf3"):
        program = install.iperf3()
        gso = "--gso" in programs.version(program, "--help", whole=True)
        without = ", which has no --gso (3.18 and later have): a system call for each datagram."
        section.notes.append(programs.version(program, "--version") + (", with --gso." if gso else without))
        with shaped.Shaped(2, 0) as network:
            report = _run_iperf3(context, network, program, gso=gso)
        section.raw["iperf3"] = report
        end = report["end"]
        sent, received, cpu = end["sum_sent"], end["sum_received"], end["cpu_utilization_percent"]
        busy = (cpu["host_total"] + cpu["remote_total"]) / 100 * sent["seconds"]
        return {
            "gbps": received["bits_per_second"] / 1e9,
            "ms_per_gbit": 1e3 * busy / (8 * (sent["bytes"] + received["bytes"]) / 1e9),
            "received_pct": 100 * received["bytes"] / sent["bytes"],
        }
    return {}


def _run_iperf3(context: Context, network: shaped.Shaped, program: str, *, gso: bool) -> dict[str, Any]:
    listen = f"--server --one-off --port {_PORT} --json"
    words = f"--client {shaped.address(1)} --port {_PORT} --udp --bitrate 0 --length {_DATAGRAM} --json"
    words += f" --time {context.pick(5, 2)}{' --gso' if gso else ''}"
    commands = {
        "iperf3-server": ([program, *listen.split()], network.workers[1]),
        "iperf3-client": ([program, *words.split()], network.workers[0]),
    }
    _, client = programs.run(commands, context.files, context.stop, 60, apart=0.5)
    return programs.whole_object(client)
