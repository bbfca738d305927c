"""Errors by which a reload without effect would seem to have one. Without an appliance."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import reload
from configuration import JOB, Settings, configuration
from netns import Network
from process import Failure

_TEXT = 'drain = "1s"\nage_limit = "500ms"\n[[jobs]]\nfan_in = 4\n'


def _config(dead_after: float | None = None, *more: int) -> dict[str, Any]:
    jobs = [{"id": job, "dead_after_seconds": dead_after} for job in (JOB, *more)]
    return {"jobs": jobs, "settings": {"dataplane.drain": "1s", "pool.age_limit": "500ms"}}


@pytest.mark.parametrize("line", _TEXT.splitlines(keepends=True))
def test_a_change_that_finds_no_place_is_told(line: str) -> None:
    """Otherwise a text that is formatted anew would never be changed again."""
    at_first = reload._InForce.of(_config())
    texts = [variant.text for variant in reload._variants(_TEXT, at_first)]
    assert len(set(texts)) == reload.LEAST
    with pytest.raises(Failure):
        reload._variants(_TEXT.replace(line, ""), at_first)


def test_the_demos_configuration_has_a_place_for_each_change() -> None:
    """As it is written today."""
    text = configuration(Network(2, 1500), Settings("af_packet", 64, 64), Path("admin.sock"))
    assert len({variant.text for variant in reload._variants(text, reload._InForce.of(_config()))}) == 5


@pytest.mark.parametrize(
    ("second", "good"),
    [(_config(50.0, 100), True), (_config(None, 100), False), (_config(50.0), False)],
)
def test_what_is_not_in_force_is_told(second: dict[str, Any], good: bool) -> None:
    """The appliance counts the second reload, but does not apply it."""
    counts = iter(range(10))
    configs = iter((_config(), _config(None, 100), second))

    def admin(path: str) -> dict[str, Any]:
        if path == "/api/v1/config":
            return next(configs)
        return {"reloads": {"done": next(counts) // 2 + 1, "refused": 0}}

    appliance = mock.Mock(admin=admin, reload=mock.Mock(return_value=None))
    appliance.configuration.return_value = _TEXT
    stop = mock.Mock(wait_for=lambda done, _: done() or done())
    reloads = reload.Reloads(appliance, mock.Mock(ends=list, ports=0), stop)
    reloads.step()
    reloads._next = 0.0
    if good:
        reloads.step()
    else:
        with pytest.raises(Failure):
            reloads.step()
