"""Programs that are no part of Pascaline: examples, Python, MPI."""

from pathlib import Path

import pytest

from tests.runner.cases import Cases
from tests.runner.shell import Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]


def test_examples(shell: Shell, pascaline: Path) -> None:
    """All build; the synchronous one sums, and Python's client, written from protocol.md alone."""
    shell("scripts/examples", "--binary", pascaline, seconds=900)


def test_python(shell: Shell, cases: Cases, pascaline: Path) -> None:
    """The wheel, installed beside PyTorch, at real appliances."""
    # PyTorch may have to be installed first.
    done = shell("scripts/python", "--binary", pascaline, seconds=1500, code=None)
    cases.add_last_line(done.out)
    assert done.code == 0


class _Mpi:
    """A program of MPI's on this machine, some of whose ranks have the library."""

    def __init__(self, shell: Shell, files: Path) -> None:
        built = shell("scripts/clients", seconds=900).out.strip().splitlines()[-1]
        self._shell, self._program = shell, files / "mpi_allreduce"
        self._preloaded = ("-x", f"LD_PRELOAD={built}/lib/libpascaline-mpi.so")
        shell("mpicc", "-O1", "clients/examples/mpi/allreduce.c", "-o", self._program)

    def __call__(self, url: str, *ranks: tuple[int, bool], code: int = 0) -> tuple[str, list[str]]:
        """`ranks`: this many each, with or without. Returns the output, and the library's part of it."""
        mpi = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader"]
        mpi += ["--mca", "mpi_yield_when_idle", "1", "-x", f"PASCALINE_URL={url}"]
        parts: list[object] = []
        for count, has in ranks:
            parts += [":"] * bool(parts) + ["-np", count, *self._preloaded * has, self._program, 1000]
        said = self._shell(*mpi, *parts, seconds=90, code=code).text
        return said, [line for line in said.splitlines() if line.startswith("pascaline-mpi: ")]


@pytest.fixture
def mpi(shell: Shell, tmp_path: Path) -> _Mpi:
    return _Mpi(shell, tmp_path)


@pytest.mark.parametrize(("key", "why"), [("timeout=500ms", ""), ("partial=1", "leave partial out")])
def test_mpi_falls_back(key: str, why: str, mpi: _Mpi) -> None:
    """Without an appliance, or with a key that MPI cannot obey, a program runs on, and one line says why."""
    said, told = mpi(f"pascaline://127.0.0.1:9?{key}", (4, True))
    assert said.count("sums are right") == 4
    assert len(told) == 1
    assert why in told[0]


@pytest.mark.parametrize("lacking", [0, 2])
def test_mpi_names_a_rank_without_the_library(lacking: int, mpi: _Mpi) -> None:
    """Its first collective operation would meet one of the others that it does not know."""
    ranks = [(count, has) for count, has in ((lacking, True), (1, False), (2 - lacking, True)) if count]
    said, told = mpi("pascaline://127.0.0.1:9?timeout=500ms", *ranks, code=1)
    assert "sums are right" not in said
    assert f"rank {lacking} has not loaded libpascaline-mpi.so" in told[0]
