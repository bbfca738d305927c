"""The reports of scripts/hostile, scripts/mistakes and scripts/lab on a run that ends early."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import build
from process import Failure

from .. import command
from ..mistakes import __main__ as mistakes
from ..mistakes.bed import Outcome

_GOOD = Outcome("size", "One rank calls with more.", 2.0)


@pytest.fixture
def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    """The output of scripts/mistakes after invented outcomes and a failure, without a bed."""

    def run(*outcomes: Outcome) -> dict[str, Any]:
        def fail(self: command.Run, *more: str) -> None:
            if not more:
                self.found += [(outcome, 1.0) for outcome in outcomes]
                raise Failure("no more")

        monkeypatch.setattr(build, "ready", lambda *_, **__: Path("/pascaline"))
        monkeypatch.setattr(build, "become_root", lambda *_: None)
        monkeypatch.setattr(command.Run, "_pytest", fail)
        assert mistakes.main(["--json"]) == 1
        found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return found

    return run


def test_what_was_found_is_told(said: Callable[..., dict[str, Any]]) -> None:
    """With the reason why there is no more."""
    found = said(_GOOD)
    assert (found["ok"], found["error"]) == (False, "no more")
    assert [case["name"] for case in found["details"]] == ["size"]


def test_a_failure_at_the_start_is_told(said: Callable[..., dict[str, Any]]) -> None:
    """There is an object at least."""
    found = said()
    assert (found["ok"], found["error"], found["details"]) == (False, "no more", [])
