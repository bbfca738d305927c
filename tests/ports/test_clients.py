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


@pytest.mark.parametrize(("key", "why"), [("timeout=500ms", ""), ("partial=1", "leave partial out")])
def test_mpi_falls_back(key: str, why: str, shell: Shell, tmp_path: Path) -> None:
    """Without an appliance, or with a key that MPI cannot obey, a program runs on, and one line says why."""
    built = shell("scripts/clients", seconds=900).out.strip().splitlines()[-1]
    program = tmp_path / "mpi_allreduce"
    shell("mpicc", "-O1", "clients/examples/mpi/allreduce.c", "-o", program)
    mpi = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4", "--mca", "btl", "self,vader")
    preloaded = f"LD_PRELOAD={built}/lib/libpascaline-mpi.so"
    url = f"PASCALINE_URL=pascaline://127.0.0.1:9?{key}"
    more = ("--mca", "mpi_yield_when_idle", "1", "-x", preloaded, "-x", url)
    said = shell(*mpi, *more, program, "1000", seconds=60).text
    told = [line for line in said.splitlines() if line.startswith("pascaline-mpi: ")]
    assert said.count("sums are right") == 4
    assert len(told) == 1
    assert why in told[0]
