"""The guest that cases run in, and the result of each."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from process import Failure, Skipped, Stop

from .. import command
from ..bed import ROOT
from . import image
from .bench import Bench
from .cards import Card
from .guest import PROGRAM
from .scene import Attempt, Case, Found

_PROGRAMS = {PROGRAM: "qemu-system-x86", "debootstrap": "debootstrap"}


def case_of(item: pytest.Item) -> Case:
    assert isinstance(item, pytest.Function)
    case = item.callspec.params["case"]
    assert isinstance(case, Case)
    return case


def lacks() -> str:
    """Why no guest can be made here; empty if one can."""
    missing = [package for program, package in _PROGRAMS.items() if not shutil.which(program)]
    return f"not installed: {' '.join(missing)} (scripts/setup --vm)" if missing else ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here, others = command.divided(items, Path(__file__).parent)
    items[:] = others + here


class Guests:
    """One guest at a time, with the cards of all cases of its kind."""

    def __init__(self, binary: Path, package: Path, cache: Path, stop: Stop, cases: list[Case]) -> None:
        self._binary, self._package, self._stop, self._cases = binary, package, stop, cases
        self._image = image.ready(package, cache, stop)
        self._cleanup = ExitStack()
        self._bench: Bench | None = None

    def bench(self, case: Case) -> Bench:
        self._stop.check()
        if not self._bench or self._bench.iommu != case.iommu:
            self.close()
            alike = [one for one in self._cases if one.iommu == case.iommu]
            # The guest numbers buses in turn: those before the last one wanted are there, too.
            last = max(list(Card).index(card) for one in alike for card in one.cards)
            cards = list(Card)[: last + 1]
            files = command.files(self._cleanup)
            kind = "an IOMMU" if case.iommu else "no IOMMU"
            command.say(f"vm: booting a guest with {kind} and {', '.join(map(str, cards))}")
            args = (self._image, self._package, self._binary, cards, files, self._stop)
            self._bench = Bench(*args, iommu=case.iommu)
            self._cleanup.callback(self._bench.close)
            command.say(f"vm: booted in {self._bench.boot_seconds:.0f} s")
        return self._bench

    def close(self) -> None:
        self._bench = None
        self._cleanup.close()


@pytest.fixture(scope="package")
def guests(request: pytest.FixtureRequest, binary: Path, target: Path) -> Iterator[Guests]:
    with ExitStack() as cleanup:
        stop = command.stop(request.config, cleanup)
        run = command.of(request.config)
        package = (run and run.options.package) or _package(binary.parent)
        here = Path(__file__).parent
        cases = [case_of(item) for item in request.session.items if item.path.is_relative_to(here)]
        found = Guests(binary, package, target / "vm", stop, cases)
        cleanup.callback(found.close)
        yield found


def _package(programs: Path) -> Path:
    """The Debian package of programs that are built."""
    words = (ROOT / "scripts/package", "--programs", programs)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure("scripts/package failed", done.stderr[-2000:])
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture
def attempt(request: pytest.FixtureRequest) -> Attempt:
    if reason := lacks():
        pytest.skip(reason)
    guests: Guests = request.getfixturevalue("guests")

    def run(case: Case) -> None:
        found = Found(case.group, case.name)
        bench = guests.bench(case)
        since = time.monotonic()
        try:
            found.figures = case.act(bench)
            found.ok = True
        except Skipped as skipped:
            found.skipped = str(skipped)
            pytest.skip(found.skipped)
        except Failure as failure:
            found.problem = str(failure)
            pytest.fail(failure.whole, pytrace=False)
        finally:
            found.seconds = time.monotonic() - since
            command.note(request.node, found)

    return run
