"""scripts/examples: builds all examples, and runs those that sum against an appliance.

Four ranks of the synchronous example in Rust; two ranks of the client in plain Python among two of
`pascaline worker`; two ranks of one process over DPDK ports, over IPv4 and IPv6. All check every sum. The
appliance and each rank have a network namespace of their own, but for the last two. Exit code 0 only if all
ranks say that all sums are right. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import build
import examples_dpdk
import netns
from appliance import UDP_PORT, Appliance, Settings
from netns import APPLIANCE_ADDRESS, Network
from process import Child, Failure, Interrupted, Stop

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
    netns.remove_leftovers()
    network = Network(_RANKS, 1500, middle=False)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        # Registered before it exists: whatever happens from here on, it is removed.
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(network.destroy)
        files.mkdir(mode=0o700)
        network.create()
        appliance = Appliance(binary, network, Settings("af_packet", 1024, _WINDOW, name="examples"), files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        address = f"{APPLIANCE_ADDRESS}:{UDP_PORT}"
        rust = [[str(example), address, str(rank), str(_RANKS)] for rank in range(_RANKS)]
        said = [_judge(child) for child in _ended(rust, "example", network, files, cleanup, stop)]
        mixed = [_python(rank) if rank % 2 else _worker(binary, rank) for rank in range(_RANKS)]
        return said + [_judge_mixed(child) for child in _ended(mixed, "mixed", network, files, cleanup, stop)]


def _ended(
    commands: list[list[str]], name: str, network: Network, files: Path, cleanup: ExitStack, stop: Stop
) -> list[Child]:
    """Runs a command in each worker's namespace until all have ended."""
    ranks = []
    for rank, (command, namespace) in enumerate(zip(commands, network.workers, strict=True)):
        ranks.append(Child(f"{name}{rank}", command, files, namespace))
        cleanup.callback(ranks[-1].kill)
    if not stop.wait_for(lambda: all(child.exit_code() is not None for child in ranks), _RUN_SECONDS):
        raise Failure(f"the ranks are not done after {_RUN_SECONDS:.0f} s", ranks[0].tail())
    return ranks


def _python(rank: int) -> list[str]:
    options = {"--appliance": APPLIANCE_ADDRESS, "--job": 1, "--rank": rank, "--ranks": _RANKS}
    options |= {"--elements": _ELEMENTS, "--iterations": _ITERATIONS}
    return [sys.executable, "-B", str(_PYTHON), *(str(word) for pair in options.items() for word in pair)]


def _worker(binary: Path, rank: int) -> list[str]:
    options = {
        "--appliance": APPLIANCE_ADDRESS,
        "--job": 1,
        "--rank": rank,
        "--ranks": _RANKS,
        "--dtype": "i32",
    }
    options |= {"--elements": _ELEMENTS, "--iterations": _ITERATIONS}
    words = [str(word) for pair in options.items() for word in pair]
    return [str(binary), "worker", "allreduce", *words, "--json"]


def _judge_mixed(child: Child) -> str:
    """Both programs say how many sums they found right."""
    lines = child.out.read_text().splitlines()
    found = json.loads(lines[-1]) if child.exit_code() == 0 and lines else {}
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
