"""The lab that the cases run in, and the outcome of each."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from process import Failure, Interrupted, Stop

from .. import command
from .fabric import Fabric, Shape
from .laboratory import Case, Lab
from .options import PLAN, shape, sharing
from .tcp import Sharing

# Without a command: small tensors, and of `tcp` only the judged runs.
_BYTES, _ALLREDUCES, _WORKERS = 256 << 10, 8, 6
_JUDGED = (Sharing(("fixed",), ("cubic",), 8), Sharing(("delay",), ("cubic",), 20, 3))


def name_of(item: pytest.Item) -> str:
    assert isinstance(item, pytest.Function)
    return item.originalname.removeprefix("test_")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "lab(allreduces, workers, needs): how large a case is, and what it needs"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here, others = command.divided(items, Path(__file__).parent)
    items[:] = others + here


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The flows on a link: those of the command, otherwise the judged ones."""
    if "sharing" in metafunc.fixturenames:
        run = command.of(metafunc.config)
        shared = [sharing(run.options)] if run else _JUDGED
        metafunc.parametrize("sharing", shared, ids=[one.controls[0] for one in shared])


class Labs:
    """One lab at a time, of the shape that a case needs."""

    def __init__(self, binary: Path, stop: Stop) -> None:
        self.binary, self.stop = binary, stop
        self._cleanup = ExitStack()
        self._lab: Lab | None = None

    def lab(self, of: Shape) -> Lab:
        """The present one, if it fits, or a new one."""
        self.stop.check()
        if not self._lab or self._lab.fabric.shape != of or self._lab.is_spent:
            self.close()
            files = command.files(self._cleanup)
            command.say(str(of))
            fabric = Fabric(of)
            self._cleanup.callback(fabric.close)
            self._lab = Lab(fabric, self.binary, files, self.stop, self._cleanup, _BYTES, _ALLREDUCES)
        return self._lab

    def close(self) -> None:
        self._lab = None
        self._cleanup.close()

    def stay(self) -> None:
        """Waits for Ctrl-C, the usual end of such a run."""
        lab = self._lab
        if not lab:
            return
        self.stop.lift_limit()
        names = " ".join(host.name for host in lab.fabric.hosts)
        command.say(f"\nEverything stays until Ctrl-C. Files: {lab.files}\nNamespaces: {names}")
        for name, appliance in lab.appliances.items():
            command.say(f"  pascaline explain 1 --admin unix:{appliance.socket}    # {name}")
        try:
            while True:
                self.stop.sleep(1.0)
        except Interrupted as interrupted:
            if interrupted.exit_code != 128 + signal.SIGINT:
                raise


@pytest.fixture(scope="package")
def labs(request: pytest.FixtureRequest, binary: Path) -> Iterator[Labs]:
    run = command.of(request.config)
    with ExitStack() as cleanup:
        found = Labs(binary, command.stop(request.config, cleanup))
        cleanup.callback(found.close)
        yield found
        if run and run.options.keep:
            found.stay()


@pytest.fixture
def lab(request: pytest.FixtureRequest, labs: Labs) -> Lab:
    """As large as the command says, or the case's marker."""
    run = command.of(request.config)
    if run:
        options = run.options
        found = labs.lab(shape(options))
        found.bytes, found.allreduces, found.picture = options.bytes, options.allreduces, options.picture
        return found
    mark = request.node.get_closest_marker("lab")
    given: dict[str, Any] = mark.kwargs if mark else {}
    if not shutil.which(needed := given.get("needs", "ip")):
        pytest.skip(f"{needed} is not installed: run scripts/setup")
    found = labs.lab(Shape(2, 3, given.get("workers", _WORKERS), 100))
    found.allreduces = given.get("allreduces", _ALLREDUCES)
    return found


@pytest.fixture
def instance(request: pytest.FixtureRequest) -> Path:
    run = command.of(request.config)
    return run.options.plan if run else PLAN


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    """The record of a test's outcome."""
    command.say(f"lab: {name_of(request.node)}")
    return Case(name_of(request.node))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Turns an exception into a problem of the case; the other cases continue."""
    case, lab = (pyfuncitem.funcargs.get(name) for name in ("case", "lab"))
    if not isinstance(case, Case) or not isinstance(lab, Lab):
        return (yield)
    try:
        yield
    except Failure as failure:
        case.problems.append(failure.whole)
    if not case.good:
        case.problems += lab.told()
    command.note(pyfuncitem, case)
    assert case.good, "\n".join(case.problems)
    return True
