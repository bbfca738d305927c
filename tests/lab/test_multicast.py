"""Results to a multicast group, in a rack whose switch copies it, filters it, or begins to filter it."""

from __future__ import annotations

from appliance import JOB

from ..bed.network import Host
from .fabric import BRIDGE, Site
from .laboratory import Case, Done, Lab, given

_GROUP = "239.77.0.1"
# Beyond one packet for all: before a worker has heard the group, and when packets are sent again.
_MOST_PACKETS = 1.3


@given(workers=12)
def test_multicast(lab: Lab, case: Case) -> None:
    """One stream of results leaves the appliance for a rack; without multicast one for each worker."""
    site, switch = lab.fabric.leaves[0], lab.fabric.leaf_switches[0]
    lab.clear(site)
    lab.appliance(site, lab.settings(fan_in=len(site.members), job_keys=f'multicast = "{_GROUP}"'))
    ranks = len(site.members)
    whole = _run(lab, site, case, "heard")
    _filter(switch, ranks, filtered=True)
    filtered = _run(lab, site, case, "filtered")
    _filter(switch, ranks, filtered=False)
    _run(lab, site, case, "filtered_half_way", half_way=True)
    case.demand(ranks > 1, "one worker in the rack shows nothing: --workers")
    case.demand(whole <= _MOST_PACKETS, "more than one packet of a result has left the appliance")
    case.demand(filtered >= ranks, "workers that hear nothing have not got packets of their own")
    _filter(switch, ranks, filtered=False)
    lab.accounts_hold(case)
    lab.clear(site)


def _run(lab: Lab, site: Site, case: Case, name: str, *, half_way: bool = False) -> float:
    """Allreduces of the rack's workers, and how many packets each result has left the appliance in."""
    switch, ranks = lab.fabric.leaf_switches[0], len(site.members)
    before, sent = _counted(lab, site), switch.counted("app")["rx_bytes"]

    def begin() -> None:
        _filter(switch, ranks, filtered=True)

    done: Done = lab.allreduce([site], job=JOB, half_way=begin if half_way else None)
    results, packets, spared = (
        after - earlier for after, earlier in zip(_counted(lab, site), before, strict=True)
    )
    each = packets / max(results, 1)
    case.figures[name] = {
        "verified": done.verified,
        "packets_per_result": round(each, 3),
        "spared": int(spared),
        "streams": round((switch.counted("app")["rx_bytes"] - sent) / lab.stream, 3),
        "median_seconds": round(done.median, 4),
        "longest_seconds": round(max(done.seconds), 4),
    }
    case.demand(done.verified, f"{name}: not every worker has verified every sum")
    return each


def _counted(lab: Lab, site: Site) -> list[float]:
    metrics = lab.appliances[site.name].settled(lab.stop)
    names = ("results", "results_sent_packets", "results_spared_packets")
    return [metrics.total(f"pascaline_{name}_total") for name in names]


def _filter(switch: Host, ranks: int, *, filtered: bool) -> None:
    """Whether the rack's bridge keeps all groups from its workers, as a switch without snooping."""
    switch.set(BRIDGE, kind="bridge", br_mcast_snooping=int(not filtered))
    for number in range(ranks):
        switch.ip.brport("set", index=switch.index(f"w{number}"), mcast_flood=int(not filtered))
