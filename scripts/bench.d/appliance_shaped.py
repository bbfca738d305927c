"""The appliance behind the switch of `shaped`: one port, one job, a window of its own."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path

import programs
import shaped
from appliance import fetch, tables
from metrics import Accounting, Metrics
from process import Child, Failure, Stop

UDP_PORT = 16420
JOB = 1
_AF_XDP = 44
_TELEMETRY = ("127.0.0.1", 9464)
_READY_SECONDS = 30.0
_EXIT_SECONDS = 8.0


def has_af_xdp() -> bool:
    """Whether this kernel has sockets of that family."""
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW).close()
    except PermissionError:
        return True  # asked by somebody who is not root
    except OSError:
        return False
    return True


# AF_XDP takes frames off the kernel's way before its IP stack has looked at them.
DEVICE = "net_af_xdp0,iface=pas0" if has_af_xdp() else "net_af_packet0,iface=pas0,framecnt=4096"


class Appliance:
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
        self._binary = binary
        self._network = network
        self._files = files
        self._stop = stop
        self._text = configuration(
            network,
            ranks or len(network.workers),
            window,
            slots or 2 * window,
            memory_mb,
            device,
            group,
            dataplane,
        )
        self.config = files / "appliance.toml"
        self._child: Child | None = None

    def __enter__(self) -> Appliance:
        self.config.write_text(self._text)
        command = [str(self._binary), "run", "-c", str(self.config)]
        self._child = programs.start("appliance", command, self._files, self._network.appliance)
        try:
            if not self._stop.wait_for(self._healthy, _READY_SECONDS):
                raise Failure("the appliance is not ready", self._child.tail())
        except BaseException:
            self._child.stop(_EXIT_SECONDS)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._child:
            self._child.stop(_EXIT_SECONDS)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._child.pid if self._child else 0

    def metrics(self) -> Metrics:
        """What it counts, now."""
        return Metrics(self._get("/metrics")[1])

    def books(self) -> Accounting:
        """Where its packets went."""
        return Accounting.of(self.metrics())

    def _healthy(self) -> bool:
        if self._child and self._child.exit_code() is not None:
            raise Failure(f"the appliance ended with exit code {self._child.exit_code()}", self._child.tail())
        try:
            return self._get("/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _get(self, path: str) -> tuple[int, str]:
        return fetch(self._network.appliance, _TELEMETRY, path)


def configuration(
    network: shaped.Shaped,
    ranks: int,
    window: int,
    slots: int,
    memory_mb: int,
    device: str = DEVICE,
    group: str = "",
    dataplane: str = "",
) -> str:
    """Its TOML. A region of the job's own takes twice the window. `dataplane`: further keys of that table."""
    members = ", ".join(f'"{shaped.address(rank)}"' for rank in range(ranks))
    multicast = f'multicast = "{group}"\n' if group else ""
    keys = f'longest_nap = "50us"\nmemory_mb = {memory_mb}\n{dataplane}'
    whole = tables(network.appliance, shaped.APPLIANCE, keys)
    return f"""\
{whole}
[[ports]]
name = "p0"
device = "{device}"
mtu = {network.mtu}

[pool]
slots = {slots}

[[jobs]]
id = {JOB}
name = "bench"
fan_in = {ranks}
window = {window}
members = [{members}]
{multicast}
[telemetry]
listen = "{_TELEMETRY[0]}:{_TELEMETRY[1]}"
"""
