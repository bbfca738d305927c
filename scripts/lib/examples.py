"""scripts/examples: builds all examples, and runs those that sum against an appliance.

Four ranks of the synchronous example in Rust; two ranks of the client in plain Python among two of
`pascaline worker`; two ranks of one process over DPDK ports, over IPv4 and IPv6; one over a port with jumbo
frames, without seals and with each kind. All check every sum. The appliance and each rank have a network
namespace of their own, but for those of one process. Exit code 0 only if all ranks say that all sums are
right. Needs root.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import build
import output
from configuration import UDP_PORT, Settings, device
from netns import APPLIANCE_ADDRESS, Network
from process import Child, Failure, Interrupted, Stop, run
from stage import Stage

_RANKS = 4
# Ranks of one process over DPDK ports, and of one with jumbo frames.
_PORTS, _JUMBO, _SUMS = 2, 9000, 4
_BUILD_SECONDS = 1800.0
_RUN_SECONDS = 60.0
_WINDOW = 512
_WANTED = "all sums are right"
_PYTHON = build.ROOT / "clients/examples/python/allreduce.py"
_ELEMENTS, _ITERATIONS = 16384, 3


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/examples", description=__doc__)
    parser.add_argument("--binary", type=Path, help="a built pascaline, instead of building it")
    parser.add_argument("--examples", type=Path, help="where built examples are, instead of building them")
    options = parser.parse_args(arguments)
    stop = Stop(_BUILD_SECONDS)
    try:
        # First: it installs the tools that the examples are built with.
        binary = build.ready(stop, options.binary)
        examples = options.examples.resolve() if options.examples else _build(stop)
        build.become_root(Path(__file__).resolve(), ["--examples", str(examples)], binary)
        for line in _run(binary, examples / "allreduce", Stop(_RUN_SECONDS)):
            print(line)
        for ip6 in (False, True):
            print(*_dpdk(binary, examples / "allreduce_dpdk", Stop(_RUN_SECONDS), ip6=ip6), sep="\n")
        for security in ("none", "mac", "encrypt"):
            print(_jumbo(binary, Stop(_RUN_SECONDS), security))
    except Interrupted as interrupted:
        return interrupted.exit_code
    except Failure as failure:
        print(f"examples: {failure.whole}", file=sys.stderr)
        return 1
    return 0


def _build(stop: Stop) -> Path:
    packages = ["-p", "pascaline-worker", "-p", "pascaline-worker-dpdk"]
    command = [build.cargo(), "build", "--locked", "--examples", *packages]
    return build.cargo_made("allreduce", command, stop, "the examples do not build").parent


def _run(binary: Path, example: Path, stop: Stop) -> list[str]:
    """Runs the ranks until they end; returns the last line of each."""
    network = Network(_RANKS, 1500)
    with Stage(binary, stop, network) as stage:
        stage.appliance(network, Settings("af_packet", 1024, _WINDOW, name="examples"))
        rust = [[example, f"{APPLIANCE_ADDRESS}:{UDP_PORT}", rank, _RANKS] for rank in range(_RANKS)]
        said = [_judge(child) for child in _ended(rust, "example", network, stage)]
        mixed = [_mixed(binary, rank) for rank in range(_RANKS)]
        return said + [_judge_mixed(child) for child in _ended(mixed, "mixed", network, stage)]


def _ended(commands: Sequence[list[object]], name: str, network: Network, stage: Stage) -> list[Child]:
    """Runs a command in each worker's namespace until all have ended."""
    each = enumerate(zip(commands, network.workers, strict=True))
    ranks = [stage.child(f"{name}{rank}", words, where, seconds=0.0) for rank, (words, where) in each]
    stage.wait(ranks, _RUN_SECONDS, "the ranks")
    return ranks


def _mixed(binary: Path, rank: int) -> list[object]:
    """Every other rank is the client in plain Python."""
    job = f"--appliance {APPLIANCE_ADDRESS} --job 1 --rank {rank} --ranks {_RANKS}".split()
    job += f"--elements {_ELEMENTS} --iterations {_ITERATIONS}".split()
    if rank % 2:
        return [sys.executable, "-B", _PYTHON, *job]
    return [binary, "worker", "allreduce", "--dtype", "i32", *job, "--json"]


def _judge_mixed(child: Child) -> str:
    """Judges by both programs' counts of correct sums."""
    found = child.said() if child.exit_code() == 0 else {}
    if found.get("verified") != _ITERATIONS:
        raise Failure(f"{child.name} of Python's client among workers failed", child.tail() or "no output")
    return (
        f"rank {found['rank']} among workers and Python's clients: {_ITERATIONS} of {_ITERATIONS} sums right"
    )


def _judge(child: Child) -> str:
    """The last line of a rank whose sums were correct."""
    lines = child.out.read_text().splitlines()
    if child.exit_code() != 0 or not lines or _WANTED not in lines[-1]:
        raise Failure(f"{child.name} of the example allreduce failed", child.tail())
    return lines[-1]


def _jumbo(binary: Path, stop: Stop, security: str) -> str:
    """`pascaline worker allreduce` over a DPDK port, with no payload given; returns the one used."""
    network = Network(1, _JUMBO)
    with Stage(binary, stop, network) as stage:
        settings, words = Settings("af_packet", 1024, 256, fan_in=1, name="jumbo"), ""
        if security != "none":
            key = stage.files / "job.key"
            run(str(binary), "job", "key", "--new", str(key))
            settings = replace(settings, security=security, key_file=str(key))
            words = f" --security {security} --key {key}"
        stage.appliance(network, settings)
        at = f"{network.appliance_address}:{UDP_PORT}"
        words = f"worker allreduce --appliance {at} --job 1 --rank 0 --ranks 1{words}"
        words += f" --bytes 1MiB --iterations {_SUMS} --address {network.address(0)} --mtu {_JUMBO}"
        words += f" --driver dpdk --port {device('af_packet', 0, _JUMBO).replace('pas0', 'eth0')} --json"
        child = stage.run("jumbo-dpdk", [binary, *words.split()], network.workers[0], _RUN_SECONDS)
        said = child.said()
        if said.get("verified") != _SUMS or said["payload"] <= _JUMBO - 200:
            what = "the sums over a DPDK port with jumbo frames are not right, or not in jumbo frames"
            raise Failure(what, child.tail())
        told = f"over a DPDK port, MTU {_JUMBO}, security {security}: {_SUMS} sums right"
        return f"{told}, {said['payload']} bytes to a packet"


def _dpdk(binary: Path, example: Path, stop: Stop, *, ip6: bool) -> list[str]:
    """Two ranks in one process, over DPDK ports."""
    network = Network(_PORTS, 1500, ip6=ip6)
    with Stage(binary, stop, network) as stage:
        stage.appliance(network, Settings("af_packet", 1024, 256, fan_in=_PORTS, name="examples"))
        at = f"[{network.appliance_address}]" if ip6 else network.appliance_address
        # An interface for each: the driver's ports of one process on one interface share what arrives.
        network.lend(1, 0, "eth1")
        ports = [(f"net_af_packet{rank},iface=eth{rank}", network.address(rank)) for rank in range(_PORTS)]
        command = [example, f"{at}:{UDP_PORT}", _PORTS, 0, *(word for port in ports for word in port)]
        child = stage.run("example-dpdk", command, network.workers[0], _RUN_SECONDS)
        said = [line for line in child.out.read_text().splitlines() if _WANTED in line]
        if len(said) != _PORTS:
            raise Failure("the example allreduce_dpdk failed", child.tail())
        return [f"over DPDK ports, {'IPv6' if ip6 else 'IPv4'}: {line}" for line in said]


if __name__ == "__main__":
    output.end("examples", lambda: main(sys.argv[1:]))
