"""The bed of the attacks: one for all of them, and workers of the job that a case is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from process import Stop

from .. import command
from . import bed as beds
from . import measure
from .measure import Form, Found
from .scene import Attack, Case, Scene
from .victims import Victims

_EXIT_SECONDS = 6.0


def case_of(item: pytest.Item) -> Case:
    assert isinstance(item, pytest.Function)
    case = item.callspec.params["case"]
    assert isinstance(case, Case)
    return case


def _is_here(item: pytest.Item) -> bool:
    return item.path.is_relative_to(Path(__file__).parent)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Job by job, since each has workers of its own; under plain pytest without what is long."""
    here, others = command.divided(items, Path(__file__).parent)
    if not command.of(config):
        here = [item for item in here if not case_of(item).long]
    items[:] = others + sorted(here, key=lambda item: case_of(item).job)


class Battlefield:
    """The bed with the appliance, the server, and the workers of one job."""

    def __init__(self, binary: Path, form: Form, seed: int, stop: Stop, cleanup: ExitStack) -> None:
        """Starts everything but the workers; `cleanup` ends it."""
        self.form = form
        files, bed = command.files(cleanup), beds.Bed()
        cleanup.callback(bed.close)
        self.appliance = cleanup.enter_context(beds.appliance(binary, bed, files))
        self.appliance.wait_ready(stop)
        self.scene = Scene(bed, self.appliance, binary, files, stop, seed=seed)
        server = [str(binary), "ps", "-c", str(files / "appliance.toml")]
        cleanup.callback(self.scene.child("ps", server, bed.server).stop, _EXIT_SECONDS)
        self.victims = Victims(binary, bed, files, beds.OPEN)
        cleanup.callback(self._stop)
        self._stuck = False

    def _stop(self) -> None:
        self.victims.stop()

    def prepare(self, job: int) -> None:
        """Starts workers of a job, and waits until the appliance serves them."""
        scene = self.scene
        scene.stop.check()
        if self._stuck:
            self.victims.stop()
            self.appliance.kill_and_restart(scene.stop)
            scene.bed.forget()
            self._stuck = False
        self.appliance.check_running()
        if self.victims.job != job:
            self.victims.stop()
            self.victims = Victims(scene.binary, scene.bed, scene.files, job)
        if not self.victims.at_work:
            self.victims.start()
        scene.job = job

    def attack(self, case: Case, *, last_of_job: bool, last: bool) -> Found:
        """Runs a case. The last set of workers has to end well, too, and in the end the appliance."""
        found = measure.measure(case, self.scene, self.victims, self.form)
        self._stuck = found.stuck
        if last_of_job and not found.stuck:
            before = len(self.victims.problems)
            self.victims.finish(self.scene.stop)
            found.problems += self.victims.problems[before:]
        if last and (code := self.appliance.stop()) != 0:
            found.problems.append(f"the appliance ended with exit code {code}")
        found.held = not found.problems
        return found


@pytest.fixture(scope="package")
def battlefield(request: pytest.FixtureRequest, binary: Path) -> Iterator[Battlefield]:
    run = command.of(request.config)
    form = measure.FULL if run and not run.options.quick else measure.QUICK
    with ExitStack() as cleanup:
        stop = command.stop(request.config, cleanup)
        yield Battlefield(binary, form, run.options.seed if run else 1, stop, cleanup)


@pytest.fixture
def attack(request: pytest.FixtureRequest, battlefield: Battlefield) -> Attack:
    items = request.session.items
    later = [case_of(item).job for item in items[items.index(request.node) + 1 :] if _is_here(item)]
    battlefield.prepare(case_of(request.node).job)

    def run(case: Case) -> None:
        found = battlefield.attack(case, last_of_job=case.job not in later, last=not later)
        command.note(request.node, found)
        assert found.held, "\n".join(found.problems)

    return run
