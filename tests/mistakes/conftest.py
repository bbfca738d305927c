"""One network for all mistakes, and a bed in it for each."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from process import Failure, Stop

from .. import command
from ..bed.network import Star
from .bed import OUTSIDE, Bed, Outcome

PREFIX = "pasmistakes"


def name_of(item: pytest.Item) -> str:
    assert isinstance(item, pytest.Function)
    if hasattr(item, "callspec"):
        return str(item.callspec.id)
    return item.originalname.removeprefix("test_").replace("_", "-")


def what_of(item: pytest.Item) -> str:
    assert isinstance(item, pytest.Function)
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return str(params.get("what", (item.function.__doc__ or "").strip()))


def _mark(item: pytest.Item) -> pytest.Mark:
    # Marks of parameters follow those of the function.
    return list(item.iter_markers("within"))[-1]


def limit_of(item: pytest.Item) -> float:
    return float(_mark(item).args[0])


def is_quick(item: pytest.Item) -> bool:
    return bool(_mark(item).kwargs["quick"])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "within(seconds, quick): a mistake must be named in this time")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out long waits under plain pytest."""
    here, others = command.divided(items, Path(__file__).parent)
    if not command.of(config):
        here = [item for item in here if is_quick(item)]
    items[:] = others + here


@dataclass
class Place:
    binary: Path
    network: Star
    files: Path
    stop: Stop


@pytest.fixture(scope="package")
def place(request: pytest.FixtureRequest, binary: Path) -> Iterator[Place]:
    with ExitStack() as cleanup:
        stop, files = command.stop(request.config, cleanup), command.files(cleanup)
        network = Star(OUTSIDE + 1, PREFIX)
        cleanup.callback(network.close)
        yield Place(binary, network, files, stop)


@pytest.fixture
def what(request: pytest.FixtureRequest) -> str:
    """The mistake that a test makes; its parameters may say it instead."""
    return what_of(request.node)


@pytest.fixture
def bed(request: pytest.FixtureRequest, place: Place, what: str) -> Bed:
    """Where a test makes its mistake; it is closed, and its problems fail it, at the end of the test."""
    place.stop.check()
    outcome = Outcome(name_of(request.node), what, limit_of(request.node))
    files = place.files / outcome.name
    files.mkdir()
    return Bed(place.binary, place.network, files, place.stop, outcome)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Closes the bed while the test can still fail by the problems that it has noted."""
    bed = pyfuncitem.funcargs.get("bed")
    began = time.monotonic()
    try:
        return (yield)
    except (Failure, AssertionError) as failure:
        if isinstance(bed, Bed):
            bed.problem(failure.whole if isinstance(failure, Failure) else str(failure))
        raise
    finally:
        if isinstance(bed, Bed):
            bed.close()
            command.note(pyfuncitem, (bed.outcome, time.monotonic() - began))
            assert bed.outcome.named, "\n".join(bed.outcome.problems)
