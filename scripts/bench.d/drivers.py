"""One worker and its appliance, over each of the worker's drivers; and dpdk-testpmd in the place of both."""

import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import programs
import shaped
from appliance_shaped import DEVICE, JOB, UDP_PORT, running
from configuration import Tables, cores
from context import Context
from netns import shown
from process import Child, Failure

# The tensor of a worker, and of bare sockets beside it.
BYTES = 64 << 20
_PEER = Path(__file__).with_name("peers") / "udp_gso.py"
_PORT = 5201
# Bursts of 32 that testpmd keeps in flight: half a ring of 1,024.
_BURSTS = 16
_STATISTICS = re.compile(r"Rx-pps:\s+(\d+)")


def kernel(context: Context, network: shaped.Shaped) -> dict[str, Any]:
    """Over the kernel's UDP."""
    return _worker(context, network, DEVICE, [])


def af_xdp(context: Context, network: shaped.Shaped) -> dict[str, Any]:
    """Both ends on AF_XDP sockets."""
    return _worker(context, network, DEVICE, ["--port", _AF_XDP])


def memif(context: Context, network: shaped.Shaped) -> dict[str, Any]:
    """Both ends on shared memory."""
    server, client = _memif(context.files / "memif.sock")
    return _worker(context, network, server, ["--port", client])


_AF_XDP = "net_af_xdp0,iface=eth0"


def _memif(socket: Path) -> tuple[str, str]:
    more = f"socket={socket},socket-abstract=no,bsize=2048,rsize=10"
    return f"net_memif0,role=server,{more}", f"net_memif0,role=client,{more}"


def _worker(context: Context, network: shaped.Shaped, device: str, port: list[str]) -> dict[str, Any]:
    """One worker and its appliance; on a DPDK port, if one is given."""
    main, _ = cores()
    more = ["--driver", "dpdk", *port, "--address", shaped.address(0), "--core", str(main)] if port else []
    return worker(context, network, device, shaped.PAYLOAD, more)


def worker(
    context: Context,
    network: shaped.Shaped,
    device: str,
    payload: int,
    more: Sequence[str] = (),
    sealed: Tables | None = None,
) -> dict[str, Any]:
    """With a payload of 0, the one on which it and the appliance agree."""
    words = (
        f"worker allreduce --json --appliance {shaped.APPLIANCE}:{UDP_PORT} --job {JOB} --rank 0 --ranks 1"
    )
    words += f" --bytes {BYTES} --iterations {context.pick(8, 3)}"
    words += f" --payload {payload}" if payload else ""
    commands = {"worker": ([context.binary, *words.split(), *more], network.workers[0])}
    with running(context, network, ranks=1, device=device, sealed=sealed):
        (child,) = programs.run(commands, context.files, context.stop, 120)
    report = child.said()
    if report["verified"] != len(report["seconds"]):
        raise Failure("the worker's sums are wrong")
    return report


def costs(report: dict[str, Any]) -> dict[str, float]:
    """Payload in both directions at once, and its processor time."""
    bits, seconds = 8 * report["bytes"], report["seconds"]
    return {
        "gbps": bits / statistics.median(seconds) / 1e9,
        "ms_per_gbit": 1e3 * report["cpu_seconds"] / (2 * bits * len(seconds) / 1e9),
    }


def bare(context: Context, network: shaped.Shaped, datagram: int, seconds: int) -> list[dict[str, Any]]:
    """What a sender and a receiver say that use bare sockets: the least that UDP costs in this kernel.

    They move as much as the worker's tensor, from memory and to memory.
    """
    to = (shaped.address(1), _PORT, BYTES)
    commands = {
        "receiver": ([sys.executable, _PEER, "receive", *to], network.workers[1]),
        "sender": ([sys.executable, _PEER, "send", *to, datagram, seconds], network.workers[0]),
    }
    receiver, sender = programs.run(commands, context.files, context.stop, 60, apart=0.5)
    return [sender.said(), receiver.said()]


def bare_ms_per_gbit(sent: dict[str, Any], received: dict[str, Any]) -> float:
    """Their processor time of what either moves."""
    moved = 8 * (sent["bytes"] + received["bytes"]) / 1e9
    return float(1e3 * (sent["cpu_seconds"] + received["cpu_seconds"]) / moved)


def packets_per_second(report: dict[str, Any]) -> float:
    """What a worker sent and received each second, of full packets."""
    return float(report["bytes"] / shaped.PAYLOAD / statistics.median(report["seconds"]))


def testpmd(context: Context, network: shaped.Shaped, kind: str) -> float:
    """Frames as long as the worker's that come back each second to one testpmd from another.

    The one in the worker's place keeps half a ring of frames in flight; the one in the appliance's place
    exchanges the addresses of each. Each forwards on the core on which what it stands for works.
    """
    main, dataplane = cores()
    peer = f"--eth-peer=0,{shown(network.appliance, 'pas0')['address']}"
    far, near = _memif(context.files / "testpmd.sock") if kind == "memif" else (DEVICE, _AF_XDP)
    # A socket left behind by the run before: a server cannot bind to it.
    (context.files / "testpmd.sock").unlink(missing_ok=True)
    script = context.files / "testpmd.txt"
    script.write_text(f"set fwd mac\nset txpkts {_frame()}\nstart tx_first {_BURSTS}\n")
    first = _start(context, "far", network.appliance, far, dataplane, ["--forward-mode=macswap"])
    try:
        if not context.stop.wait_for(lambda: bool(_rates(first)), 20.0):
            raise Failure("dpdk-testpmd prints no statistics", first.tail())
        second = _start(context, "near", network.workers[0], near, main, [f"--cmdline-file={script}", peer])
        seconds = context.pick(6, 4)
        try:
            if not context.stop.wait_for(lambda: len(_rates(second)) >= seconds, 30.0):
                raise Failure("dpdk-testpmd prints no statistics", second.tail())
        finally:
            second.stop(5.0)
    finally:
        first.stop(5.0)
    # Not the first seconds, when the ports come up.
    rate = statistics.median(_rates(second)[2:seconds])
    if rate == 0:
        raise Failure("nothing came back to dpdk-testpmd", second.tail())
    return rate


def _start(context: Context, name: str, namespace: str, device: str, core: int, more: list[str]) -> Child:
    """A testpmd that forwards on this core and prints its rates each second."""
    main, dataplane = cores()
    other = main if core == dataplane else dataplane
    huge = [] if _has_hugepages() else ["--no-huge"]
    environment = ["-l", f"{main},{dataplane}", f"--main-lcore={other}", "--no-pci", "--no-shconf", *huge]
    environment += ["-m", "256", "--file-prefix", f"testpmd-{namespace}", "--vdev", device]
    # As large as a frame needs: one in each page would compete for a few sets of the cache.
    room = [] if "af_xdp" in device else [f"--mbuf-size={-(-(128 + _frame()) // 64) * 64}"]
    forwarding = ["--port-topology=loop", "--nb-cores=1", "--rxd=1024", "--txd=1024", "--burst=32"]
    forwarding += ["--total-num-mbufs=8192", "--stats-period=1", *room, *more]
    command = ["stdbuf", "-oL", "dpdk-testpmd", *environment, "--", *forwarding]
    return programs.start(f"testpmd-{name}", command, context.files, namespace)


def _frame() -> int:
    return shaped.PASCALINE_HEADERS + shaped.PAYLOAD


def _rates(child: Child) -> list[float]:
    return [float(rate) for rate in _STATISTICS.findall(child.out.read_text(errors="replace"))]


def _has_hugepages() -> bool:
    found = re.search(r"HugePages_Free:\s+(\d+)", Path("/proc/meminfo").read_text())
    return bool(found and int(found.group(1)) >= 256)
