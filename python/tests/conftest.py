"""What the tests share: an appliance, and ranks that work at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import pascaline

RANKS = 3
JOBS = tuple(range(1, 61))
_counts = {"passed": 0, "failed": 0, "skipped": 0}


@pytest.fixture(scope="session")
def appliance() -> Iterator[pascaline.Appliance]:
    """An appliance with a job for each test."""
    if os.geteuid() != 0:
        pytest.skip("an appliance needs root")
    with pascaline.Appliance(RANKS, JOBS, keys={"dead_after": "3s"}, admission="1000-1063") as started:
        yield started


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    """Jobs that no test has had."""
    return iter(JOBS)


@pytest.fixture
def job(numbers: Iterator[int]) -> int:
    """A job of the test's own."""
    return next(numbers)


def together(act: Callable[[int], Any], ranks: int = RANKS) -> list[Any]:
    """Does something as each rank, at the same time; what came of it in the order of ranks."""
    with ThreadPoolExecutor(ranks) as pool:
        return [done.result() for done in [pool.submit(act, rank) for rank in range(ranks)]]


@pytest.fixture
def ranks(appliance: pascaline.Appliance, job: int) -> Callable[[Callable[[Any], Any]], list[Any]]:
    """Does something with a worker of each rank; returns what came of it in the order of ranks."""

    def run(act: Callable[[Any], Any]) -> list[Any]:
        def one(rank: int) -> Any:
            with pascaline.Worker(appliance.address, job, rank, RANKS, timeout=10) as worker:
                return act(worker)

        return together(one)

    return run


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts as scripts/test does: a test is one case, and a skipped one has its reason."""
    if report.when == "call" or report.outcome != "passed":
        _counts[report.outcome] += 1
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        print(f"\n- skipped: {report.nodeid}: {report.longrepr[2]}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line, which scripts/test reads."""
    if not config.getoption("collectonly"):
        print("\n" + ", ".join(f"{count} {name}" for name, count in _counts.items()))
