"""In line: TCP through the appliance against dpdk-testpmd, and echoes beside an allreduce against idle."""

import json
import subprocess
import sys
from typing import Any

import build
from context import Context
from figure import Beside, Goal, Section
from process import Failure

TITLE = "In line: transit traffic, against a forwarder that looks into nothing and against idle"

_DEMO = build.ROOT / "scripts/lib/demo.py"
# The demo has a time limit of its own, and cleans up; it is killed only if it does not.
_SECONDS = 170
_CLEANUP_SECONDS = 30
_CARRIED = Goal(at_least=0.9)
_WAITS = Goal(at_most=2.0)


def measure(context: Context, section: Section) -> None:
    section.notes.append(
        "scripts/demo --inline: two workers, a server, and between them the appliance on two net_kernel "
        "ports, or dpdk-testpmd (io, net_af_packet) on the same interfaces. A neighbour of the workers pings "
        "the server; it and the appliance have a processor first, as on machines of their own. Echoes' times "
        "are from leaving the neighbour's interface to coming back to it. Beside allreduces that fill the "
        "workers' links (200 Mbit/s each), and beside such that fill the processors."
    )
    said = _demonstrate(context)
    section.raw["demo"] = said
    gbps, p99, reference = said["iperf3_gbps"], said["ping_p99_ms"], said["reference"]
    forwarder = Beside(reference, gbps[reference])
    section.figure(
        "iperf3 through the appliance, idle", gbps["inline"], "Gbit/s", forwarder,
        goal=_CARRIED, group="iperf3", label="in line",
    )  # fmt: skip
    if p99["idle"] is None or p99["allreduce"] is None:
        section.failures.append("too few echoes came back to tell a p99")
        return
    idle = Beside("idle", p99["idle"])
    for key, what, goal in (("allreduce", "their links", _WAITS), ("unshaped", "the processors", None)):
        if p99[key] is not None:
            name = f"p99 of ping beside allreduces that fill {what}"
            label = f"full {what.split()[-1]}"
            section.figure(name, p99[key], "ms", idle, goal=goal, group="ping", label=label)


def _demonstrate(context: Context) -> dict[str, Any]:
    words = ["--inline", "--json", "--workers", "2", "--bytes", "4MiB", "--binary", str(context.binary)]
    words += ["--allreduces", str(context.pick(60, 20)), "--timeout", str(_SECONDS)]
    try:
        done = subprocess.run(
            [sys.executable, "-B", str(_DEMO), *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS + _CLEANUP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Failure(f"scripts/demo --inline was not done after {late.timeout:.0f} s") from late
    if done.returncode:
        raise Failure("scripts/demo --inline has failed", done.stderr[-2000:])
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said
