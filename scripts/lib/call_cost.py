"""The cost of a 4 KiB allreduce through libpascaline above one in Rust, and through MPI above one in C.

Prints a JSON object: c_call_us and mpi_call_us, medians of turns in microseconds. Two ranks in namespaces, on
one appliance. The programs are call_cost.rs of clients/capi/examples and call_cost.c of clients/mpi/bench.
With an interpreter that has the package `pascaline`, python_call_us and python_16mib_pct, too, by
call_cost.py of clients/python/bench: what a call of 4 KiB from Python costs above one in C, and what one of
16 MiB does, in per cent.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
import clients
from configuration import JOB, UDP_PORT, Settings
from netns import APPLIANCE_ADDRESS
from process import Failure, Stop, run
from stage import Stage

_RANKS = 2
_SECONDS = 60.0
_URL = f"pascaline://{APPLIANCE_ADDRESS}:{UDP_PORT}"


@dataclass(frozen=True)
class Built:
    """The measured programs, without the appliance."""

    # The directory of scripts/clients, and the program in Rust.
    libraries: Path
    example: Path


def built(binary: Path, stop: Stop) -> Built:
    """Builds it, as optimised as `binary` is. Needs Rust, and no root."""
    optimised = binary.parent.name != "debug"
    libraries = clients.libraries(stop, mpi=True, optimised=optimised)
    return Built(libraries, _example(stop, optimised=optimised))


def measure(binary: Path, parts: Built, stop: Stop, python: Path | None = None) -> dict[str, Any]:
    libraries, first = parts.libraries, clients.DERIVED[0]
    place = f"{APPLIANCE_ADDRESS}:{UDP_PORT}"
    network = clients.Managed(_RANKS, 1500)
    with Stage(binary, stop, network) as stage:
        stage.appliance(network, Settings("af_packet", 4096, 512, more=clients.ADMISSION))

        def said(name: str, command: list[str]) -> dict[str, Any]:
            return stage.run(name, command, network.workers[0], _SECONDS).said()

        found = said("c", [str(parts.example), place, str(first)])
        if python:
            words = [str(libraries / "lib/libpascaline.so"), place, str(first)]
            script = str(build.ROOT / "clients/python/bench/call_cost.py")
            found |= said("python", [str(python), "-B", script, *words])
        program = stage.files / "call_cost"
        includes = (f"-I{libraries / 'include'}", f"-L{libraries / 'lib'}")
        source = str(build.ROOT / "clients/mpi/bench/call_cost.c")
        run("mpicc", "-O2", source, *includes, "-lpascaline", "-o", str(program), timeout=60)
        variables = {
            "LD_LIBRARY_PATH": str(libraries / "lib"),
            "LD_PRELOAD": str(libraries / "lib/libpascaline-mpi.so"),
            "PASCALINE_URL": f"{_URL}?job={JOB}",
        }
        command = clients.mpirun(network, stage.files, variables, [str(program), _URL, str(first + 2)])
        return found | said("mpi", command)


def _example(stop: Stop, *, optimised: bool) -> Path:
    command = [build.cargo(), "build", "--locked", "-p", "pascaline-capi", "--example", "call_cost"]
    command += ["--release"] if optimised else []
    return build.cargo_made("call_cost", command, stop, "the example call_cost does not build")


def main(binary: str, *python: str) -> int:
    """Measures and prints. `binary` is a built pascaline; the interpreter has the package pascaline."""
    try:
        program = Path(binary).resolve()
        parts = built(program, Stop(clients.BUILD_SECONDS))
        print(json.dumps(measure(program, parts, Stop(2 * _SECONDS + 600), *map(Path, python))))
    except Failure as failure:
        print(f"call_cost: {failure.whole}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if not 1 < len(sys.argv) < 4:
        sys.exit("usage: call_cost.py BINARY [PYTHON]")
    sys.exit(main(*sys.argv[1:]))
