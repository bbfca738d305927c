"""The appliance behind the switch of `shaped`: one port, one job, a window of its own."""

from __future__ import annotations

import socket
import tomllib
from pathlib import Path

import appliance
import programs
import shaped
from configuration import JOB, UDP_PORT, Tables, base, port, telemetry
from metrics import Accounting, Metrics
from process import Child, Stop

__all__ = ["DEVICE", "JOB", "UDP_PORT", "Appliance", "has_af_xdp", "whole"]

_AF_XDP = 44


def has_af_xdp() -> bool:
    """Whether this kernel has sockets of that family."""
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW).close()
    except PermissionError:
        return True  # asked by a user who is not root
    except OSError:
        return False
    return True


# AF_XDP takes frames off the kernel's way before its IP stack has looked at them.
DEVICE = "net_af_xdp0,iface=pas0" if has_af_xdp() else "net_af_packet0,iface=pas0,framecnt=4096"


class Appliance(appliance.Appliance):
    """A context manager: it is ready inside, and gone afterwards."""

    def __init__(
        self,
        binary: Path,
        network: shaped.Shaped,
        files: Path,
        stop: Stop,
        *,
        window: int = 1024,
        slots: int = 0,
        memory_mb: int = 512,
        ranks: int = 0,
        device: str = DEVICE,
        group: str = "",
        dataplane: str = "",
    ) -> None:
        """Slots for the window, and a rank for each worker of the network, unless told otherwise.

        `group`: the multicast group that results go to. `dataplane`: further keys of that table.
        """
        self._until = stop
        ranks, slots = ranks or len(network.workers), slots or 2 * window
        tables = whole(network, ranks, window, slots, memory_mb, device, group, dataplane)
        super().__init__(binary, network, tables, files)

    def _start(self) -> Child:
        return programs.start("appliance", self._command, self._files, self._network.appliance)

    def __enter__(self) -> Appliance:
        try:
            self.wait_ready(self._until)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def metrics(self) -> Metrics:
        return self.scrape()

    def books(self) -> Accounting:
        """Where its packets went."""
        return Accounting.of(self.scrape())


def whole(
    network: shaped.Shaped,
    ranks: int,
    window: int = 512,
    slots: int = 4096,
    memory_mb: int = 512,
    device: str = DEVICE,
    group: str = "",
    dataplane: str = "",
) -> Tables:
    """Its tables; `dataplane` are further keys of that one. A region of the job takes twice the window."""
    keys = {"longest_nap": "50us", "memory_mb": memory_mb, **tomllib.loads(dataplane)}
    job = {
        "id": JOB,
        "name": "bench",
        "fan_in": ranks,
        "window": window,
        "members": [shaped.address(rank) for rank in range(ranks)],
        **({"multicast": group} if group else {}),
    }
    return {
        **base(network.appliance, shaped.APPLIANCE, **keys),
        "ports": [port("p0", device, network.mtu)],
        "pool": {"slots": slots},
        "jobs": [job],
        "telemetry": telemetry(),
    }
