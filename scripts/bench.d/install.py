"""Installs what Pascaline is measured against: Debian's iperf3 and Open MPI, and PyTorch, which has Gloo.

PyTorch comes from wherever pip is set up to look. Its ordinary wheel brings CUDA along, 5 GB on disk; where
pip is pointed at an index with `+cpu` wheels (PIP_INDEX_URL or PIP_EXTRA_INDEX_URL), it takes one of those, a
tenth of that.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from process import Failure, Stop, run, run_long

_HERE = Path(__file__).resolve().parent
_SECONDS = 1800.0
# numpy: torch warns on each start without it.
_WHEELS = ("torch", "numpy")


def everything(peers: Path, stop: Stop) -> None:
    """Installs all peers that are not there yet."""
    iperf3(stop)
    openmpi(peers, stop)
    gloo(peers, stop)


def iperf3(stop: Stop) -> str:
    """The program."""
    return _debian("iperf3", ("iperf3",), stop)


def openmpi(peers: Path, stop: Stop) -> Path:
    """The rank's program, compiled; `mpirun` is then there as well."""
    _debian("mpirun", ("openmpi-bin",), stop)
    compiler = _debian("mpicc", ("libopenmpi-dev",), stop)
    if not _has_header(compiler):
        # The compiler comes with mpirun, what it compiles against does not.
        _apt(stop, "libopenmpi-dev")
    source, program = _HERE / "peers/mpi_allreduce.c", peers / "mpi_allreduce"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        peers.mkdir(parents=True, exist_ok=True)
        run(compiler, "-O2", "-o", str(program), str(source), timeout=60)
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


def gloo(peers: Path, stop: Stop) -> Path:
    """The Python that can import torch."""
    python = peers / "venv/bin/python"
    if _has_torch(python):
        return python
    peers.mkdir(parents=True, exist_ok=True)
    takes = "minutes, and gigabytes unless pip finds a +cpu wheel"
    print(f"bench: installing PyTorch into {peers / 'venv'}: {takes}", file=sys.stderr)
    try:
        _run(stop, sys.executable, "-m", "venv", str(peers / "venv"))
    except Failure:
        # Debian keeps venv's pip in a package of its own.
        _apt(stop, "python3-venv")
        _run(stop, sys.executable, "-m", "venv", str(peers / "venv"))
    _run(stop, str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", *_WHEELS)
    if not _has_torch(python):
        raise Failure(f"PyTorch is installed in {peers / 'venv'} and has no Gloo")
    return python


def _has_header(compiler: str) -> bool:
    check = ("-E", "-include", "mpi.h", "-x", "c", os.devnull, "-o", os.devnull)
    return run(compiler, *check, check=False, timeout=60).returncode == 0


def _has_torch(python: Path) -> bool:
    check = "import torch.distributed as d, sys; sys.exit(not d.is_gloo_available())"
    return python.exists() and run(str(python), "-c", check, check=False, timeout=120).returncode == 0


def _debian(program: str, packages: tuple[str, ...], stop: Stop) -> str:
    found = shutil.which(program)
    if not found:
        _apt(stop, *packages)
        found = shutil.which(program)
    if not found:
        raise Failure(f"{' '.join(packages)} is installed and there is no {program}")
    return found


def _apt(stop: Stop, *packages: str) -> None:
    print(f"bench: installing {' '.join(packages)}", file=sys.stderr)
    install = ("apt-get", "install", "-q", "-y", "--no-install-recommends", *packages)
    try:
        _run(stop, *install)
    except Failure:
        _run(stop, "apt-get", "update", "-q")
        _run(stop, *install)


def _run(stop: Stop, *command: str) -> None:
    """Runs something that takes minutes; a signal ends it too."""
    if not shutil.which(command[0]):
        raise Failure(f"there is no {command[0]}: install by hand what `scripts/bench --help` names")
    # Its chatter is kept for the case of a failure.
    whole = ["env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", 'exec "$@" 2>&1', "-", *command]
    run_long(whole, stop, f"failed: {' '.join(command)}")
