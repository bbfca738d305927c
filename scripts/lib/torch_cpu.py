"""PyTorch for machines without a GPU: `torch_cpu.py ENVIRONMENT` makes or completes a virtual environment.

PyTorch's wheel from PyPI is built for CUDA, and does not load without CUDA's libraries: 5 GB that a machine
without a GPU has no use for. Here it is installed without them. In their place come small libraries with
the names and functions that PyTorch's own ones ask for; each function says that there is no device. A wheel
that needs none of them (`+cpu`, from an index that pip is pointed at) gets none. On a machine with an
NVIDIA GPU, CUDA is installed too, for the tests that need it.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TORCH = "torch==2.15.0"
NUMPY = "numpy==2.4.6"
# What `import torch` needs beside it, and what builds the package `pascaline`.
PURE = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools>=77.0.3")
BUILD = ("maturin==1.16.0", "pytest==9.2.0")
DRAW = ("matplotlib==3.11.2",)
# Environments of reinforcement learning, and the logs of trainings.
LEARN = ("gymnasium==1.4.0", "box2d==2.3.10", "pygame-ce==2.5.8", "tensorboard==2.21.0")
# Needed by PyTorch's own tests.
TESTS = ("expecttest==0.3.0",)
# The first one has all functions: how the dynamic linker looks for them, it does not matter which has one.
_NO_DEVICE = 100  # cudaErrorNoDevice
# The device of NVIDIA's driver.
_DRIVER = Path("/dev/nvidiactl")
_CUDA = "with CUDA"
_SYSTEM = ("GLIBC", "GCC_", "CXXABI", "GOMP_", "GOACC_", "OMP_", "LIBC")
_PYTHON = ("Py", "_Py")


def install(environment: Path, more: tuple[str, ...] = ()) -> Path:
    """Returns the environment's Python, which can import torch. Quick where everything is there."""
    python = environment / "bin/python"
    stamp = environment / "stamp"
    there = stamp.read_text() if stamp.is_file() else ""
    cuda = _DRIVER.exists()
    wanted = " ".join((TORCH, NUMPY, *PURE, *BUILD, *DRAW, *LEARN, *TESTS, *more, *[_CUDA] * cuda))
    if there == wanted:
        return python
    how = "with" if cuda else "without"
    print(f"installing PyTorch {how} CUDA below {environment}", file=sys.stderr, flush=True)
    # Otherwise leftovers of the other kind of installation would be found first.
    clear = ["--clear"] if there and (_CUDA in there) != cuda else []
    _run(sys.executable, "-m", "venv", *clear, str(environment))
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, *[] if cuda else ["--no-deps"], "--no-cache-dir", TORCH)
    _run(*pip, NUMPY, *PURE, *BUILD, *DRAW, *LEARN, *TESTS, *more)
    if not cuda:
        place = _run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
        stand_in(Path(place) / "torch/lib")
    _run(str(python), "-c", "import torch.distributed as d, sys; sys.exit(not d.is_gloo_available())")
    stamp.write_text(wanted)
    return python


def stand_in(libraries: Path) -> list[str]:
    """Puts the missing libraries beside PyTorch's own. Returns their names."""
    own = sorted(libraries.glob("*.so*"))
    names = {path.name for path in own}
    missing = sorted({name for path in own for name in _needed(path)} - names - _of_the_system())
    if not missing:
        return []
    owners = {version: name for path in own for version, name in _versions(path) if name in missing}
    defined = {symbol.partition("@")[0] for path in own for symbol in _symbols(path, "--defined-only")}
    functions: dict[str, dict[str, set[str]]] = {name: {} for name in missing}
    for symbol in {symbol for path in own for symbol in _symbols(path, "--undefined-only")}:
        name, _, version = symbol.partition("@")
        if name not in defined:
            functions[owners.get(version, missing[0])].setdefault(version, set()).add(name)
    for name in missing:
        _library(libraries / name, functions[name])
    return missing


def _library(path: Path, functions: dict[str, set[str]]) -> None:
    """Compiles one; the functions have their versions, and those without one are in none."""
    script = path.with_suffix(".versions")
    nodes = [(version, names) for version, names in sorted(functions.items()) if version]
    lines = [
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};"
        for version, names in nodes
    ]
    script.write_text("\n".join(lines))
    source = "".join(_function(name) for names in functions.values() for name in sorted(names))
    command = ["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", f"-Wl,-soname,{path.name}", "-o", str(path)]
    command += [f"-Wl,--version-script={script}"] if nodes else []
    subprocess.run(command, input=source, text=True, check=True)
    script.unlink()


def _function(name: str) -> str:
    """One that says that there is no device; what registers code at the start of a program has done so."""
    if name in ("cudaGetDeviceCount", "cuDeviceGetCount"):
        return f"int {name}(int *count) {{ *count = 0; return {_NO_DEVICE}; }}\n"
    if name.startswith("cudaGetError"):
        return f'const char *{name}(void) {{ return "there is no CUDA here"; }}\n'
    code = _NO_DEVICE if name.startswith(("cuda", "cu")) else 0
    return f"long {name}(void) {{ return {code}; }}\n"


def _needed(path: Path) -> set[str]:
    lines = _run("readelf", "-d", str(path)).splitlines()
    return {line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line}


def _versions(path: Path) -> Iterator[tuple[str, str]]:
    """Each version that it asks for, with the library that has to have it."""
    library = ""
    for line in _run("readelf", "-V", "-W", str(path)).splitlines():
        if found := re.search(r"File: (\S+)", line):
            library = found[1]
        elif found := re.search(r"Name: (\S+)  Flags", line):
            yield found[1], library


def _symbols(path: Path, which: str) -> set[str]:
    """Functions, with `@` and their version if they have one, but for those of the system or Python."""
    found = set()
    for line in _run("nm", "-D", which, str(path)).splitlines():
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.partition("@")
        if kind in "wv" or version.lstrip("@").startswith(_SYSTEM) or name.startswith(_PYTHON):
            continue
        found.add(symbol.replace("@@", "@"))
    return found


def _of_the_system() -> set[str]:
    return {line.split()[0] for line in _run("ldconfig", "-p").splitlines()[1:] if "=>" in line}


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"torch_cpu: {' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: torch_cpu.py ENVIRONMENT [PACKAGE...]: PyTorch in a virtual environment, without CUDA")
        sys.exit(0 if len(sys.argv) > 1 else 2)
    print(install(Path(sys.argv[1]), tuple(sys.argv[2:])))
