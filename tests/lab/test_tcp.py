"""A job beside TCP, on one link."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import build
from metrics import Accounting
from process import Failure, run

from .laboratory import Case, Lab
from .tcp import Bed, Shared, Sharing

# The part of what both got that is starving.
_STARVED = 0.1
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def test_tcp(lab: Lab, case: Case, sharing: Sharing) -> None:
    """Each control beside each kind of TCP flow. Without a control Cubic starves."""
    known = _AVAILABLE.read_text().split()
    for flow in sharing.flows:
        if flow not in known:
            raise Failure(f"this kernel has no TCP of kind {flow}: load tcp_{flow}, or say --flow cubic")
    with ExitStack() as cleanup:
        bed = Bed(lab, sharing, cleanup)
        done = [
            _middle([bed.share(control, flow) for _ in range(sharing.runs)])
            for flow in sharing.flows
            for control in sharing.controls
        ]
        accounting = Accounting.of(bed.appliance.settled(lab.stop))
    case.figures = {f"{one.control}_{one.flow}": one.to_json() for one in done}
    case.figures |= {"marked": bed.marked, "queue_full": bed.queue_full}
    case.demand(accounting.holds, f"the appliance's accounts do not add up: {accounting}")
    for one in done:
        _judge(one, case)
    if sharing.picture:
        panels = lab.files / "shares.json"
        panels.write_text(json.dumps([one.panel() for one in done]))
        picture = str(sharing.picture.resolve())
        run(str(build.lab(lab.binary)), "plot", "shares", "--out", picture, str(panels))


def _middle(runs: list[Shared]) -> Shared:
    """The run whose job got neither most nor least. All of them must have summed right."""
    middle = sorted(runs, key=lambda run: run.settled()[0])[len(runs) // 2]
    middle.verified = all(run.verified for run in runs)
    return middle


def _judge(one: Shared, case: Case) -> None:
    """Checks the conditions. The other figures are printed only: docs/congestion.md says why."""
    what = f"{one.control} beside {one.flow}"
    case.demand(one.verified, f"{what}: not every worker has verified every sum")
    job, flow = one.settled()
    if (one.control, one.flow) == ("fixed", "cubic"):
        case.demand(flow < _STARVED * (job + flow), f"{what}: the flow does not starve, it has {flow:.2f}")
    elif (one.control, one.flow) == ("delay", "cubic"):
        case.demand(one.within, f"{what}: not within 20 % of half: {job:.2f} and {flow:.2f}")
