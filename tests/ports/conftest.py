"""A bed for tests that make their own, with a job that sends updates beside that of the workers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bed.appliance import UDP_PORT
from tests.bed.library import Library
from tests.bed.network import Star
from tests.bed.process import Processes
from tests.bed.summing import Bed
from tests.runner.shell import Shell

WORKERS = 4
_JOB, _RANKS = 60000, 2
SERVER_PAGES = "127.0.0.1:9465"
# The namespace of the last worker is the parameter server's as well.
_SERVER = WORKERS - 1


@pytest.fixture
def star() -> Iterator[Star]:
    """An appliance's namespace with a link to each of four workers."""
    with Star(WORKERS) as network:
        yield network


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Library:
    """The library for C, as scripts/clients builds it."""
    shell = Shell(tmp_path_factory.mktemp("clients") / "log", environment)
    return Library(Path(shell("scripts/clients", "--dev", "--no-mpi", seconds=900).out.splitlines()[-1]))


@pytest.fixture
def bed(pascaline: Path, library: Library, tmp_path: Path) -> Iterator[Bed]:
    """Appliances with ranks of libpascaline."""
    found = Bed(pascaline, library, tmp_path)
    with found.cleanup:
        yield found


def update_tables(star: Star) -> str:
    """Further tables of the appliance's configuration, for `updating`."""
    return f"""
[[jobs]]
id = {_JOB}
name = "asynchronous"
fan_in = {_RANKS}
kind = "updates"

[ps]
mode = "external"
address = "{star.address(_SERVER)}"
listen = "{SERVER_PAGES}"
"""


@contextmanager
def updating(pascaline: Path, star: Star, files: Path) -> Iterator[None]:
    """A parameter server, and two workers without end, none of which may end by itself."""
    with Processes(files) as processes:
        processes.start("ps", [pascaline, "ps", "-c", files / "appliance.toml"], star.workers[_SERVER])
        words = f"worker olaf --appliance {star.appliance_address}:{UDP_PORT} --job {_JOB} --ranks {_RANKS}"
        words += " --floats 250 --interval 20ms --updates 1000000 --rank"
        for rank in range(_RANKS):
            processes.start(f"olaf{rank}", [pascaline, *words.split(), str(rank)], star.workers[rank])
        yield
        for child in processes.all:
            assert child.exit_code() is None, f"{child.name} ended too early: {child.tail()}"
