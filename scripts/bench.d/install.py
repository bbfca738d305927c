"""Builds the peers of Pascaline: programs of Open MPI and OmniReduce, and PyTorch with its Gloo.

Debian's packages are installed by scripts/setup. PyTorch is that of scripts/train, from the
index that pip is configured with.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from build import ROOT
from process import Failure, Stop, run, run_long

_HERE = Path(__file__).resolve().parent


def everything(peers: Path, stop: Stop) -> None:
    """Installs all missing peers."""
    iperf3()
    openmpi(peers)
    gloo(stop)


def iperf3() -> str:
    return _debian("iperf3")


def openmpi(peers: Path) -> Path:
    """The rank's program, compiled; `mpirun` is then there as well."""
    _debian("mpirun")
    source, program = _HERE / "peers/mpi_allreduce.c", peers / "mpi_allreduce"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        peers.mkdir(parents=True, exist_ok=True)
        run(_debian("mpicc"), "-O2", "-o", str(program), str(source), timeout=60)
    return program


def omnireduce(checkout: Path, peers: Path, stop: Stop) -> Path:
    """OmniReduce's aggregator `ps`, the variant that is safe against losses.

    A compiler cannot vectorise its loops as they stand, since each write might change the number of elements,
    and inline assembly swaps bytes: the copy is changed.
    """
    daiet = checkout / "omnireduce-DPDK/daiet"
    source = daiet / "ps/src/ps.cpp"
    try:
        text = source.read_text()
    except OSError as error:
        wants = "--omnireduce wants a checkout of sands-lab/omnireduce"
        raise Failure(f"{source}: {error.strerror}; {wants}") from error
    unknown = f"{source} is not the aggregator that is known here"
    for function in (r"void ps_msg_setup\([^{]*\{", r"bool ps_aggregate_message\([^{]*\{"):
        text, found = re.subn(function, r"\g<0> const uint32_t elements = num_updates;", text)
        if found != 1:
            raise Failure(f"{unknown}: its functions have other names")
    text, loops = re.subn(r"i < num_updates; i\+\+, entry\+\+", "i < elements; i++, entry++", text)
    text, swaps = re.subn(
        r"rte_(?:be_to_cpu|cpu_to_be)_32\((entry->upd|base_ptr\[i\])\)", r"__builtin_bswap32(\1)", text
    )
    if not loops or not swaps:
        raise Failure(f"{unknown}: its loops are others")
    build = peers / "omnireduce"
    (build / "boost").mkdir(parents=True, exist_ok=True)
    (build / "boost/thread.hpp").write_text("#include <mutex>\nnamespace boost { using std::mutex; }\n")
    (build / "ps.cpp").write_text(text)
    flags = ["-O3", "-std=c++17", "-w", *run("pkg-config", "--cflags", "libdpdk").stdout.split()]
    flags += ["-march=native", "-DNOSCALING", "-DALGO2", "-DTIMERS"]
    flags += [f"-I{build}", f"-I{source.parent}", f"-I{daiet / 'src'}"]
    # Written for a DPDK from before the addresses of a frame got other names.
    renamed = ["-Ds_addr=src_addr", "-Dd_addr=dst_addr"]
    program, made = build / "omnireduce", str(build / "ps.o")
    _run(stop, "g++", *flags, *renamed, "-c", str(build / "ps.cpp"), "-o", made)
    libraries = [*run("pkg-config", "--libs", "libdpdk").stdout.split(), "-lrte_net_ring"]
    _run(stop, "g++", *flags, str(_HERE / "peers/omnireduce.cpp"), made, *libraries, "-o", str(program))
    return program


def gloo(stop: Stop) -> Path:
    place = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "tools/torch"
    owner = (place if place.exists() else ROOT).stat()
    # Under sudo this is root; the files must belong to the user.
    command = ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"]
    command += [sys.executable, "-B", str(ROOT / "scripts/lib/torch_cpu.py"), str(place)]
    return Path(run_long(command, stop, "PyTorch cannot be installed").splitlines()[-1])


def _debian(program: str) -> str:
    found = shutil.which(program)
    if not found:
        raise Failure(f"there is no {program}: scripts/setup --peers installs it")
    return found


def _run(stop: Stop, *command: str) -> None:
    run_long([_debian(command[0]), *command[1:]], stop, f"failed: {' '.join(command)}")
