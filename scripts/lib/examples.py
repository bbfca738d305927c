"""scripts/examples: builds all examples, and runs those that sum against an appliance.

Four ranks of the synchronous example in Rust; two ranks of the client in plain Python among two of
`pascaline worker`; two ranks of one process over DPDK ports, over IPv4 and IPv6. All check every sum. The
appliance and each rank have a network namespace of their own, but for the last two. Exit code 0 only if all
ranks say that all sums are right. Needs root.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import build
import examples_dpdk
from configuration import UDP_PORT, Settings
from netns import APPLIANCE_ADDRESS, Network
from process import Child, Failure, Interrupted, Stop
from stage import Stage

_RANKS = 4
_BUILD_SECONDS = 1800.0
_RUN_SECONDS = 60.0
_WINDOW = 512
_WANTED = "all sums are right"
_PYTHON = build.ROOT / "clients/examples/python/allreduce.py"
_ELEMENTS, _ITERATIONS = 16384, 3


def main(arguments: list[str]) -> int:
    """Builds, runs and judges; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/examples", description=__doc__)
    parser.add_argument("--binary", type=Path, help="a built pascaline, instead of building it")
    parser.add_argument("--examples", type=Path, help="where built examples are, instead of building them")
    options = parser.parse_args(arguments)
    stop = Stop(_BUILD_SECONDS)
    try:
        # First of all: it installs what the examples are built with.
        binary = build.ready(stop, options.binary)
        examples = options.examples.resolve() if options.examples else _build()
        build.become_root(Path(__file__).resolve(), ["--examples", str(examples)], binary)
        for line in _run(binary, examples / "allreduce", Stop(_RUN_SECONDS)):
            print(line)
        for line in examples_dpdk.both_families(binary, examples / "allreduce_dpdk", Stop(_RUN_SECONDS)):
            print(line)
        print(examples_dpdk.jumbo(binary, Stop(_RUN_SECONDS)))
    except Interrupted as interrupted:
        return interrupted.exit_code
    except Failure as failure:
        print(f"examples: {failure.whole}", file=sys.stderr)
        return 1
    return 0


def _build() -> Path:
    """All examples; returns the directory that they are in."""
    packages = ["-p", "pascaline-worker", "-p", "pascaline-worker-dpdk"]
    command = [build.cargo(), "build", "--locked", "--examples", *packages]
    done = subprocess.run(
        [*command, "--message-format=json-render-diagnostics"],
        cwd=build.ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Failure("the examples do not build")
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("target", {}).get("name") == "allreduce":
            return Path(message["executable"]).parent
    raise Failure("cargo built no example named allreduce")


def _run(binary: Path, example: Path, stop: Stop) -> list[str]:
    """Runs the ranks until they end; returns what each said last."""
    network = Network(_RANKS, 1500, middle=False)
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
    """Both programs say how many sums they found right."""
    found = child.said() if child.exit_code() == 0 else {}
    if found.get("verified") != _ITERATIONS:
        raise Failure(f"{child.name} of Python's client among workers failed", child.tail() or "no output")
    return (
        f"rank {found['rank']} among workers and Python's clients: {_ITERATIONS} of {_ITERATIONS} sums right"
    )


def _judge(child: Child) -> str:
    """The last line of a rank that was right."""
    lines = child.out.read_text().splitlines()
    if child.exit_code() != 0 or not lines or _WANTED not in lines[-1]:
        raise Failure(f"{child.name} of the example allreduce failed", child.tail())
    return lines[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
