"""The common part of scripts/hostile, scripts/mistakes and scripts/lab: their cases are tests of pytest.

A `Run` is a plugin of pytest that chooses the cases, keeps the outcome of each, and prints it at once.
Under plain pytest there is none, and cases run in their short form.
"""

import argparse
import json
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import build
from process import Failure, Interrupted, Stop, Unable
from process import say as say

from .bed import ROOT

_BUILD_SECONDS = 3600.0
# Under plain pytest, whose own limits apply.
_PLAIN_SECONDS = 3600.0
# Of an item and its reports: the outcome of the case.
FOUND = "found"


class Parser(argparse.ArgumentParser):
    """The options that all of these commands have."""

    def __init__(self, name: str, about: str | None, examples: str, seconds: float | None) -> None:
        """Of the script of this name; it ends after this time."""
        shape = argparse.RawDescriptionHelpFormatter
        super().__init__(
            prog=f"scripts/{name}",
            description=about,
            epilog=examples,
            formatter_class=shape,
            allow_abbrev=False,
        )
        self.add_argument(
            "--binary", type=Path, metavar="FILE", help="a built pascaline, instead of building it"
        )
        self.add_argument(
            "--json", action="store_true", help="last line of output: one JSON object; all else on stderr"
        )
        if seconds:
            self.add_argument(
                "--timeout", type=float, default=seconds, metavar="S", help=f"give up after ({seconds:.0f})"
            )


class Run:
    """The cases of a folder, as a script asks for them."""

    def __init__(
        self,
        name: str,
        options: argparse.Namespace,
        chosen: Callable[[pytest.Item], bool],
        tell: Callable[[Any], None] = lambda _: None,
    ) -> None:
        """`chosen` says of a test whether it is to run; `tell` prints an outcome."""
        self.name, self.options, self._chosen, self._tell = name, options, chosen, tell
        self.binary = Path()
        self.found: list[Any] = []
        self.items: list[pytest.Item] = []
        self.error = ""

    def collect(self) -> list[pytest.Item]:
        self._pytest("--collect-only")
        return self.items

    def __call__(self, arguments: Sequence[str], *programs: str, offline: bool = False) -> int | None:
        """Builds, becomes root, runs. Returns the exit code if that is already certain.

        `programs` are needed beside `pascaline`; `offline`: the cases need neither a program nor root.
        """
        try:
            if not offline:
                wanted = build.Wanted(programs=programs, tests=True)
                self.binary = build.ready(Stop(_BUILD_SECONDS), self.options.binary, wanted)
                build.become_root(f"tests.{self.name}", list(arguments), self.binary)
            self._pytest()
        except Interrupted as interrupted:
            say(f"{self.name}: {interrupted}; everything is cleaned up")
            return interrupted.exit_code
        except Failure as failure:
            say(f"{self.name}: {failure.whole}")
            self.error = str(failure)
            if isinstance(failure, Unable):
                if self.options.json:
                    print(json.dumps(self.failed()), flush=True)
                return failure.exit_code
        return None

    def failed(self) -> dict[str, Any]:
        """The JSON object's rest, where something other than a case has failed."""
        return {"ok": False, "error": self.error} if self.error else {}

    def _pytest(self, *more: str) -> None:
        # The terminal's report is for people who run pytest; its options may be in the configuration.
        quiet = ("-p", "no:terminal", "-p", "no:cacheprovider", "-o", "addopts=", "--capture=no")
        self._interrupted: Interrupted | None = None
        pytest.main([*quiet, "--rootdir", str(ROOT), *more, str(ROOT / "tests" / self.name)], plugins=[self])
        if self._interrupted:
            raise self._interrupted

    # ---- hooks of pytest ----

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = items[:] = [item for item in items if self._chosen(item)]

    def pytest_exception_interact(
        self, call: pytest.CallInfo[None], report: pytest.TestReport | pytest.CollectReport
    ) -> None:
        """A signal, or the end of the time, ends all; so does a bed that cannot be made."""
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, Interrupted):
            self._interrupted = error
            pytest.exit(str(error))
        if getattr(report, "when", None) != "call":
            self.error = str(error)
            say(f"{self.name}: {error.whole if isinstance(error, Failure) else report.longreprtext}")
            pytest.exit(self.error)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps the outcome of a case."""
        if report.when == "call":
            for found in (value for key, value in report.user_properties if key == FOUND):
                self.found.append(found)
                self._tell(found)


def of(config: pytest.Config) -> Run | None:
    return next((plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, Run)), None)


def note(item: pytest.Item, found: object) -> None:
    """Keeps the outcome of a case with its test."""
    item.user_properties.append((FOUND, found))


def divided(items: list[pytest.Item], folder: Path) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests of a folder, which need root and are long, and the others."""
    here = [item for item in items if item.path.is_relative_to(folder)]
    for item in here:
        item.add_marker("all")
        item.add_marker("root")
    return here, [item for item in items if item not in here]


def stop(config: pytest.Config, cleanup: ExitStack) -> Stop:
    """Ends the cases: a signal, or the end of a command's time."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        cleanup.callback(signal.signal, number, signal.getsignal(number))
    run = of(config)
    return Stop(run.options.timeout, "--timeout") if run else Stop(_PLAIN_SECONDS)


def files(cleanup: ExitStack) -> Path:
    found = Path(tempfile.mkdtemp(prefix="pastest-"))
    cleanup.callback(shutil.rmtree, found, ignore_errors=True)
    return found
