"""What a 4 KiB allreduce costs through libpascaline above one in Rust, and through MPI above one in C.

Prints a JSON object: c_call_us and mpi_call_us, medians of turns in microseconds. Two ranks in namespaces, on
one appliance. The programs are clients/capi/examples/call_cost.rs and clients/mpi/bench/call_cost.c. With an interpreter that
has the package `pascaline`, python_call_us and python_16mib_pct, too, by clients/python/bench/call_cost.py: what a
call of 4 KiB from Python costs above one in C, and what one of 16 MiB does, in per cent.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
import clients
import netns
from appliance import JOB, UDP_PORT, Appliance, Settings
from netns import APPLIANCE_ADDRESS
from process import Child, Failure, Stop, run

_RANKS = 2
_SECONDS = 60.0
_URL = f"pascaline://{APPLIANCE_ADDRESS}:{UDP_PORT}"


@dataclass(frozen=True)
class Built:
    """What is measured, beside the appliance."""

    # The directory of scripts/clients, and the program in Rust.
    libraries: Path
    example: Path


def built(binary: Path) -> Built:
    """Builds it, as optimised as `binary` is. Needs Rust, and no root."""
    optimised = binary.parent.name != "debug"
    return Built(clients.libraries(mpi=True, optimised=optimised), _example(optimised=optimised))


def measure(binary: Path, parts: Built, stop: Stop, python: Path | None = None) -> dict[str, Any]:
    """Measures. Needs root."""
    libraries, example = parts.libraries, parts.example
    network = clients.Managed(_RANKS, 1500)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(network.destroy)
        files.mkdir(mode=0o700)
        network.create()
        settings = Settings("af_packet", 4096, 512, more=clients.ADMISSION)
        appliance = Appliance(binary, network, settings, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        first = clients.DERIVED[0]
        place = f"{APPLIANCE_ADDRESS}:{UDP_PORT}"
        found = _run("c", [str(example), place, str(first)], network.workers[0], files, cleanup, stop)
        if python:
            words = [str(libraries / "lib/libpascaline.so"), place, str(first)]
            command = [str(python), "-B", str(build.ROOT / "clients/python/bench/call_cost.py"), *words]
            found |= _run("python", command, network.workers[0], files, cleanup, stop)
        program = files / "call_cost"
        includes = (f"-I{libraries / 'include'}", f"-L{libraries / 'lib'}")
        source = str(build.ROOT / "clients/mpi/bench/call_cost.c")
        run("mpicc", "-O2", source, *includes, "-lpascaline", "-o", str(program), timeout=60)
        variables = {
            "LD_LIBRARY_PATH": str(libraries / "lib"),
            "LD_PRELOAD": str(libraries / "lib/libpascaline-mpi.so"),
            "PASCALINE_URL": f"{_URL}?job={JOB}",
        }
        command = clients.mpirun(network, files, variables, [str(program), _URL, str(first + 2)])
        return found | _run("mpi", command, network.workers[0], files, cleanup, stop)


def _example(*, optimised: bool) -> Path:
    command = [build.cargo(), "build", "--locked", "-p", "pascaline-capi", "--example", "call_cost"]
    command += ["--release"] if optimised else []
    command.append("--message-format=json-render-diagnostics")
    done = subprocess.run(command, cwd=build.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("target", {}).get("name") == "call_cost":
            return Path(message["executable"])
    raise Failure("cargo built no example named call_cost")


def _run(
    name: str, command: list[str], namespace: str, files: Path, cleanup: ExitStack, stop: Stop
) -> dict[str, Any]:
    child = Child(name, command, files, namespace)
    cleanup.callback(child.kill)
    if not stop.wait_for(lambda: child.exit_code() is not None, _SECONDS) or child.exit_code():
        raise Failure(f"{name} did not come to a good end", child.tail())
    found: dict[str, Any] = json.loads(child.out.read_text().splitlines()[-1])
    return found


def main(arguments: list[str]) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="call_cost.py", description=__doc__)
    parser.add_argument("--binary", type=Path, required=True, help="a built pascaline")
    parser.add_argument("--python", type=Path, help="an interpreter that has the package pascaline")
    options = parser.parse_args(arguments)
    try:
        stop, binary = Stop(2 * _SECONDS + 600), options.binary.resolve()
        print(json.dumps(measure(binary, built(binary), stop, options.python)))
    except Failure as failure:
        print(f"call_cost: {failure.whole}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
