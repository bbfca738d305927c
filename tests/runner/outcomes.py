"""A plugin of pytest: prints progress, and keeps the outcome of each test."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.runner.cases import CASES, Cases
from tests.runner.part import Part
from tests.runner.shell import tail

# The order in which folders run: the quick ones first.
_FOLDERS = ("static", "scripts", "rust", "programs", "ports")
_SHOWN_LINES = 40
_SHOWN_COLUMNS = 300


@dataclass
class Outcome:
    title: str
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0
    log: str = ""


def title(nodeid: str) -> str:
    """A test's name for people: `ports/test_demo.py::test_sums[f32]` is `ports/demo: sums[f32]`."""
    path, _, name = nodeid.removeprefix("tests/").partition("::")
    path = re.sub(r"(^|/)test_", r"\1", path).removesuffix(".py")
    return f"{path}: {re.sub('(^|::)test_', chr(92) + '1', name)}"


class Outcomes:
    def __init__(
        self,
        logs: Path,
        words: list[str],
        *,
        everything: bool,
        part: Part,
        before: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`words`: tests whose titles contain one; `before` is called before each, with its title."""
        self.logs = logs
        self.found: list[Outcome] = []
        self.items: list[pytest.Item] = []
        self.broken: list[str] = []
        self._words = words
        self._everything = everything or bool(words)
        self._part, self._before = part, before
        self._current: Outcome | None = None
        self._since = 0.0

    # ---- choosing ----

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves the chosen tests, quick folders first."""
        items[:] = [item for item in items if self._wants(item)]
        items.sort(key=_folder)
        self.items = list(items)

    def _wants(self, item: pytest.Item) -> bool:
        if not self._part.has(item):
            return False
        if not self._everything and item.get_closest_marker("all"):
            return False
        return not self._words or any(word in title(item.nodeid) for word in self._words)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be read is a failure."""
        if report.failed:
            self.broken.append(f"{report.nodeid}: {report.longreprtext.splitlines()[-1]}")
            print(report.longreprtext, flush=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leaves out tests of an hour, unless they are named."""
        if item.get_closest_marker("nightly") and not self._words and not os.environ.get("NIGHTLY"):
            pytest.skip("takes an hour: NIGHTLY=1 scripts/test --all")

    # ---- printing ----

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._current = Outcome(title(nodeid))
        self._before(self._current.title)
        (self.logs / f"{slug(nodeid)}.log").unlink(missing_ok=True)
        self._since = time.monotonic()
        print(f"> {self._current.title} ... ", end="", flush=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts a phase of the current test."""
        outcome = self._current
        assert outcome
        if report.when == "call" or report.outcome != "passed":
            _count(outcome, report)
        if report.failed:
            self._tell(outcome, report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        outcome = self._current
        assert outcome
        assert outcome.title == title(nodeid)
        outcome.seconds = time.monotonic() - self._since
        if not outcome.failures:
            skipped = f"skipped, {outcome.skipped[0]}" if outcome.skipped and not outcome.passed else ""
            print(skipped or f"ok, {outcome.seconds:.0f} s", flush=True)
        self.found.append(outcome)
        self._current = None

    def _tell(self, outcome: Outcome, report: pytest.TestReport) -> None:
        log = self.logs / f"{slug(report.nodeid)}.log"
        with log.open("a") as file:
            for heading, text in (("", report.longreprtext), *report.sections):
                file.write(f"{heading}\n{text}\n")
        outcome.log = str(log)
        print(f"FAILED after {time.monotonic() - self._since:.0f} s; the end of {log}:", flush=True)
        print(tail(log, _SHOWN_LINES), flush=True)

    # ---- to and from another process ----

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(outcome) for outcome in self.found]

    def add(self, found: list[dict[str, Any]]) -> None:
        self.found += [Outcome(**outcome) for outcome in found]


def slug(nodeid: str) -> str:
    return re.sub(r"[^\w.-]+", "-", title(nodeid)).strip("-")


def _folder(item: pytest.Item) -> int:
    folder = title(item.nodeid).partition("/")[0]
    return _FOLDERS.index(folder) if folder in _FOLDERS else len(_FOLDERS)


def _count(outcome: Outcome, report: pytest.TestReport) -> None:
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        outcome.skipped.append(reason.removeprefix("Skipped: "))
        return
    cases = next((value for name, value in report.user_properties if name == CASES), None)
    within = report.when == "call" and isinstance(cases, Cases)
    if within:
        assert isinstance(cases, Cases)
        outcome.passed += cases.passed
        outcome.failures += cases.failures
        outcome.skipped += cases.skipped
        # One that failed without a failed case did not get as far; one without any case proves nothing.
        if (report.failed and not cases.failures) or not cases.total:
            outcome.failures.append(_first_line(report) or "it had no case")
    elif report.failed:
        outcome.passed = 0
        outcome.failures.append(_first_line(report))
    else:
        outcome.passed += 1


def _first_line(report: pytest.TestReport) -> str:
    """The failure in a line: the message of the assertion or of the exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message) if crash else report.longreprtext
    text = text.removeprefix("Failed: ")
    return text.strip().splitlines()[0][:_SHOWN_COLUMNS] if text.strip() else ""
