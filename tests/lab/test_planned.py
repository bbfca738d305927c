"""From a plan to the lab: the planner plans, the controller pushes, and links carry what was planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from process import Failure, run

from .controller import JOB, Controller, fleet, in_force
from .laboratory import Case, Lab

_PLAN_SECONDS = 60.0
# How far the bytes on a link may be from the plan's.
_TOLERANCE = 0.05
_BESIDE = "'s appliance"


def test_planned(lab: Lab, case: Case, instance: Path) -> None:
    """One job of the instance, over the tree that the planner has found for it."""
    done = run(str(fleet(lab.binary)), "plan", str(instance), "--json", timeout=_PLAN_SECONDS)
    plan = json.loads(done.stdout)
    tasks = plan["tasks"]
    workers = sum(len(leaf.workers) for leaf in lab.fabric.leaves)
    if len(tasks) != 1 or sorted(tasks[0]["routes"]) != sorted(f"w{number}" for number in range(workers)):
        raise Failure(f"{instance}: the lab takes one task with all its workers, w0 to w{workers - 1}")
    file = lab.files / "plan.json"
    file.write_text(done.stdout)
    lab.clear(*lab.fabric.sites)
    lab.is_spent = True
    _route(lab, tasks[0]["routes"])
    lab.afresh(*lab.fabric.leaves, lab.fabric.spines[0], lab.fabric.spare)
    names = ", ".join(f'"w{number}"' for number in range(workers))
    job = f'[[jobs]]\nid = {JOB}\nname = "{tasks[0]["job"]}"\nranks = [{names}]\nplan = "plan.json"\n'
    control = Controller(lab.binary, lab.fabric, lab.files, job + "terms = { window = 512 }\n")
    with in_force(control, lab.stop):
        tree = control.status()["jobs"][0]["tree"]
        summed = lab.allreduce(lab.fabric.leaves, job=JOB, controller=control.where)
    links = _compared(lab, plan, tasks[0]["rate_gbps"], summed.links)
    worst = max(abs(link["ratio"] - 1) for link in links.values())
    case.figures = {
        "verified": summed.verified,
        "k": plan["k"],
        "proof": plan["proof"],
        "tree": {node["appliance"]: node["parent"] for node in tree},
        "links": links,
        "worst": round(worst, 4),
        "median_seconds": round(summed.median, 4),
    }
    case.sums_hold(summed)
    case.demand(plan["proof"] == "optimal", "the plan is not proven optimal")
    case.demand(worst <= _TOLERANCE, f"a link's load is {worst:.1%} away from the plan's")


def _compared(lab: Lab, plan: dict[str, Any], rate: float, carried: dict[str, int]) -> dict[str, Any]:
    """Each planned link between a leaf and a spine: streams as planned and as counted."""
    links = {}
    for link in plan["links"]:
        name = link["link"].replace(" → ", "-")
        if name in carried:
            flows = link["gbps"] / rate
            measured = carried[name] / lab.stream
            ratio = round(measured / flows, 4)
            links[name] = {"planned": round(flows, 3), "measured": round(measured, 4), "ratio": ratio}
    if not links:
        raise Failure("the plan uses no link between a leaf and a spine: nothing can be compared")
    return links


def _route(lab: Lab, routes: dict[str, list[str]]) -> None:
    """Has each leaf send to another leaf's appliance by the spine that the plan says."""
    fabric = lab.fabric
    via: dict[tuple[str, str], str] = {}
    for hops in routes.values():
        for at, spine, leaf, beside in zip(hops, hops[1:], hops[2:], hops[3:], strict=False):
            if beside != leaf + _BESIDE or not (at.startswith("leaf") and spine.startswith("spine")):
                continue
            if via.setdefault((at, leaf), spine) != spine:
                raise Failure(
                    f"the plan goes from {at} to {leaf} two ways, and the lab routes by destination"
                )
    for (at, leaf), spine in via.items():
        below, number = int(at.removeprefix("leaf")), int(spine.removeprefix("spine"))
        target = fabric.leaves[int(leaf.removeprefix("leaf"))].appliance_address
        gateway = fabric.spine_side(below, number)
        fabric.leaf_switches[below].ip.route("replace", dst=f"{target}/32", gateway=gateway)
