"""What would make a reload that changes nothing look like one that does."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import reload
from appliance import JOB
from process import Failure

_TEXT = 'drain = "1s"\nage_limit = "500ms"\n[[jobs]]\nfan_in = 4\n'


def _config(dead_after: float | None = None, *more: int) -> dict[str, Any]:
    jobs = [{"id": job, "dead_after_seconds": dead_after} for job in (JOB, *more)]
    return {"jobs": jobs, "settings": {"dataplane.drain": "1s", "pool.age_limit": "500ms"}}


def _fails(act: Callable[[], object]) -> bool:
    try:
        act()
    except Failure:
        return True
    return False


class Changes(unittest.TestCase):
    """Without an appliance."""

    def test_a_change_that_finds_no_place_is_told(self) -> None:
        """Otherwise a text that is formatted anew would never be changed again."""
        at_first = reload._InForce.of(_config())
        texts = [variant.text for variant in reload._variants(_TEXT, at_first)]
        assert len(set(texts)) == reload.LEAST
        for line in _TEXT.splitlines(keepends=True):
            assert _fails(partial(reload._variants, _TEXT.replace(line, ""), at_first)), line

    def test_what_is_not_in_force_is_told(self) -> None:
        """The appliance counts the second reload, and does not do what it says."""
        for second, good in ((_config(50.0, 100), True), (_config(None, 100), False), (_config(50.0), False)):
            counts = iter(range(10))
            configs = iter((_config(), _config(None, 100), second))

            def admin(path: str, counts: Any = counts, configs: Any = configs) -> dict[str, Any]:
                whole = path == "/api/v1/config"
                return next(configs) if whole else {"reloads": {"done": next(counts) // 2 + 1, "refused": 0}}

            appliance = mock.Mock(admin=admin, reload=mock.Mock(return_value=None))
            appliance.configuration.return_value = _TEXT
            stop = mock.Mock(wait_for=lambda done, _: done() or done())
            network = mock.Mock(ends=list, ports=0)
            reloads = reload.Reloads(appliance, network, stop)
            reloads.step()
            reloads._next = 0.0
            assert _fails(reloads.step) != good, second


if __name__ == "__main__":
    unittest.main()
