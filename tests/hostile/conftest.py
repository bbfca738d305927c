"""The bed of the attacks: one for all of them, and workers of the job that a case is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from process import Stop, run

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


def security_of(item: pytest.Item) -> str:
    """What the workers' packets are sealed with: as asked for, or in a case that makes sense only so."""
    run = command.of(item.config)
    if run:
        return str(run.options.security)
    return "mac" if case_of(item).only_sealed else "none"


def _is_here(item: pytest.Item) -> bool:
    return item.path.is_relative_to(Path(__file__).parent)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Job by job, since each has workers of its own; under plain pytest without what is long."""
    here, others = command.divided(items, Path(__file__).parent)
    if not command.of(config):
        here = [item for item in here if not case_of(item).long]
    items[:] = others + sorted(here, key=lambda item: (security_of(item), case_of(item).job))


class Battlefield:
    """The bed with the appliance, the server, and the workers of one job."""

    def __init__(
        self, binary: Path, form: Form, security: str, seed: int, stop: Stop, cleanup: ExitStack
    ) -> None:
        """Starts everything but the workers; `cleanup` ends it."""
        self.form = form
        files, bed = command.files(cleanup), beds.Bed()
        cleanup.callback(bed.close)
        key = files / "job.key" if security != "none" else None
        self._options: dict[str, object] = {}
        seals: dict[str, str] = {}
        if key:
            run(str(binary), "job", "key", "--new", str(key))
            seals = {"security": security, "key_file": str(key)}
            self._options = {"security": security, "key": key}
        self.appliance = cleanup.enter_context(beds.appliance(binary, bed, files, seals))
        self.appliance.wait_ready(stop)
        self.scene = Scene(bed, self.appliance, binary, files, stop, seed=seed, security=security, key=key)
        server = [str(binary), "ps", "-c", str(files / "appliance.toml")]
        cleanup.callback(self.scene.child("ps", server, bed.server).stop, _EXIT_SECONDS)
        self.victims = Victims(binary, bed, files, beds.OPEN, **self._options)
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
            self.victims = Victims(scene.binary, scene.bed, scene.files, job, **self._options)
        if not self.victims.at_work:
            self.victims.start()
        scene.job, scene.work = job, self.victims.step

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


class Battlefields:
    """One after the other: for each way to seal packets an appliance of its own."""

    def __init__(self, config: pytest.Config, binary: Path, cleanup: ExitStack) -> None:
        run = command.of(config)
        self._form = measure.FULL if run and not run.options.quick else measure.QUICK
        self._seed = run.options.seed if run else 1
        self._binary, self._stop = binary, command.stop(config, cleanup)
        self._present = cleanup.enter_context(ExitStack())
        self._sealed_with = ""
        self._battlefield: Battlefield | None = None

    def of(self, security: str) -> Battlefield:
        """The one with packets that are sealed like this; a former one is closed."""
        if not self._battlefield or self._sealed_with != security:
            self._battlefield = None
            self._present.close()
            self._battlefield = Battlefield(
                self._binary, self._form, security, self._seed, self._stop, self._present
            )
            self._sealed_with = security
        return self._battlefield


@pytest.fixture(scope="package")
def battlefields(request: pytest.FixtureRequest, binary: Path) -> Iterator[Battlefields]:
    with ExitStack() as cleanup:
        yield Battlefields(request.config, binary, cleanup)


@pytest.fixture
def attack(request: pytest.FixtureRequest, battlefields: Battlefields) -> Attack:
    items, security = request.session.items, security_of(request.node)
    later = [item for item in items[items.index(request.node) + 1 :] if _is_here(item)]
    jobs = [case_of(item).job for item in later if security_of(item) == security]
    battlefield = battlefields.of(security)
    battlefield.prepare(case_of(request.node).job)

    def run(case: Case) -> None:
        found = battlefield.attack(case, last_of_job=case.job not in jobs, last=not jobs)
        command.note(request.node, found)
        assert found.held, "\n".join(found.problems)

    return run
