"""The appliance behind the switch of `shaped`: one port, one job, a window of its own."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import programs
import shaped
from appliance import Appliance
from configuration import JOB, UDP_PORT, Tables, base, port, telemetry
from context import Context

__all__ = ["DEVICE", "JOB", "UDP_PORT", "has_af_xdp", "running", "whole"]

_AF_XDP = 44


def has_af_xdp() -> bool:
    """Whether this kernel has sockets of that family."""
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW).close()
    except PermissionError:
        return True  # the user is not root
    except OSError:
        return False
    return True


# AF_XDP takes frames before the kernel's IP stack sees them.
DEVICE = "net_af_xdp0,iface=pas0" if has_af_xdp() else "net_af_packet0,iface=pas0,framecnt=4096"


@contextmanager
def running(context: Context, network: shaped.Shaped, **more: Any) -> Iterator[Appliance]:
    """An appliance that is ready inside, and removed afterwards; `more` as for `whole`."""
    tables = whole(network, **{"window": 1024, "slots": 2048, **more})
    with Appliance(context.binary, network, tables, context.files, before=programs.FIRST) as appliance:
        appliance.wait_ready(context.stop)
        yield appliance


def whole(
    network: shaped.Shaped,
    ranks: int = 0,
    *,
    window: int = 512,
    slots: int = 4096,
    device: str = DEVICE,
    group: str = "",
    sealed: Tables | None = None,
    **dataplane: Any,
) -> Tables:
    """Its tables, by default with a rank for each worker; a region of the job is twice the window.

    `group`: the multicast group that results go to. `sealed`: the job's keys if its packets are sealed.
    `dataplane`: further keys of that table.
    """
    members = [shaped.address(rank) for rank in range(ranks or len(network.workers))]
    job = {"id": JOB, "name": "bench", "fan_in": len(members), "window": window, "members": members}
    job |= sealed or {}
    return {
        **base(network.appliance, shaped.APPLIANCE, **{"longest_nap": "50us", **dataplane}),
        "ports": [port("p0", device, network.mtu)],
        "pool": {"slots": slots},
        "jobs": [job | ({"multicast": group} if group else {})],
        "telemetry": telemetry(),
    }
