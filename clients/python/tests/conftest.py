"""What the tests share: an appliance, and ranks that work at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import pascaline
from pascaline.torch import Group, Settings

Groups = Callable[..., list[Any]]
RANKS = 3
JOBS = tuple(range(1, 81))
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
    """Calls a function as each rank, at the same time; returns the outcomes in the order of ranks."""
    with ThreadPoolExecutor(ranks) as pool:
        return [done.result() for done in [pool.submit(act, rank) for rank in range(ranks)]]


def on_this_machine(appliance: pascaline.Appliance, **more: Any) -> dict[str, str]:
    """The environment of ranks that are processes."""
    keys = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    keys |= {"PASCALINE_URL": f"pascaline://{appliance.address}?job=1&timeout=10", "PASCALINE_JOBS": "1000"}
    return os.environ | keys | {name: str(value) for name, value in more.items()}


@pytest.fixture
def key(tmp_path: Path) -> str:
    """The file of a job's key."""
    file = tmp_path / "job.key"
    file.write_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")
    file.chmod(0o600)
    return str(file)


def train_beside_gloo(appliance: pascaline.Appliance, hook: str, more: str = "") -> None:
    """Two ranks train with a hook of PyTorch's own, and compare their weights with those over Gloo.

    `more` are further keys of their URL.
    """
    environment = on_this_machine(appliance)
    environment["PASCALINE_URL"] += more
    command = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29873")
    done = subprocess.run(
        (sys.executable, *command, str(Path(__file__).resolve().parent / "hooks_program.py"), hook),
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("right") == 2
    assert appliance.explain(1)["bytes"]["aggregated"] > 0


@pytest.fixture
def ranks(appliance: pascaline.Appliance, job: int) -> Callable[[Callable[[Any], Any]], list[Any]]:
    """Calls a function with a worker of each rank; returns the outcomes in the order of ranks."""

    def run(act: Callable[[Any], Any]) -> list[Any]:
        def one(rank: int) -> Any:
            with pascaline.Worker(appliance.address, job, rank, RANKS, timeout=10) as worker:
                return act(worker)

        return together(one)

    return run


@pytest.fixture
def groups(appliance: pascaline.Appliance, job: int) -> Groups:
    """Calls a function with a group of each rank; returns the outcomes in the order of ranks."""

    def run(act: Callable[[Group], Any], ranks: int = RANKS, at: Any = appliance, **more: Any) -> list[Any]:
        store = dist.HashStore()
        keys = {"timeout": 10.0, "linger": 0.5} | more.pop("worker", {})
        settings = Settings(at.address, worker=keys, **more)
        number = job if at is appliance else 1

        def one(rank: int) -> Any:
            place = SimpleNamespace(
                store=store, group_rank=rank, group_size=ranks, timeout=timedelta(seconds=20)
            )
            group = Group(place, settings, number)
            try:
                return act(group)
            finally:
                group.shutdown()

        return together(one, ranks)

    return run


def options(kind: str = "Allreduce", op: Any = dist.ReduceOp.SUM, root: int = 0) -> Any:
    """Options of an operation, as torch.distributed makes them."""
    made = getattr(c10d, f"{kind}Options")()
    if hasattr(made, "reduceOp"):
        made.reduceOp = op
    if hasattr(made, "rootRank"):
        made.rootRank = root
    return made


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
