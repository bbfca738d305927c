"""What is told of a run that ends before its last case."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import build
import cases
import mistakes
from mistakes_bed import Outcome
from process import Failure, Stop


class EndsEarly(unittest.TestCase):
    """No bed: what fails is made up."""

    def _mistakes(self, outcomes: list[Outcome]) -> dict[str, Any]:
        """What scripts/mistakes says after these, if it fails then."""

        def fail(_binary: Path, _cases: object, _stop: Stop, found: list[Outcome]) -> None:
            found.extend(outcomes)
            raise Failure("no more")

        output = io.StringIO()
        with (
            mock.patch.object(build, "ready", return_value=Path("/pascaline")),
            mock.patch.object(build, "become_root"),
            mock.patch.object(mistakes, "_run", fail),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            assert mistakes.main(["--json"]) == 1
        said: dict[str, Any] = json.loads(output.getvalue().splitlines()[-1])
        return said

    def test_what_was_found_is_told(self) -> None:
        """With the reason why there is no more."""
        said = self._mistakes([Outcome("size", "One rank calls with more.", 2.0)])
        assert (said["ok"], said["error"]) == (False, "no more")
        assert [case["name"] for case in said["details"]] == ["size"]

    def test_a_failure_at_the_start_is_told(self) -> None:
        """There is an object at least."""
        said = self._mistakes([])
        assert (said["ok"], said["error"], said["details"]) == (False, "no more", [])

    def test_good_cases_do_not_hide_it(self) -> None:
        """Whoever counts the cases sees that some are missing."""
        said = self._mistakes([Outcome("size", "One rank calls with more.", 2.0)])
        with tempfile.NamedTemporaryFile("w") as file, contextlib.redirect_stdout(io.StringIO()) as output:
            file.write(json.dumps(said))
            file.flush()
            assert cases.main(["mistakes", "named", file.name]) == 1
        assert output.getvalue().splitlines()[-1] == "1 passed, 1 failed, 0 skipped"

    def test_only_an_option_that_there_is_is_named(self) -> None:
        """A build has none."""
        for option, see in (("", ""), ("--seconds", " (see --seconds)")):
            text = ""
            try:
                Stop(-1.0, option).check()
            except Failure as failure:
                text = str(failure)
            assert text == f"not done after -1 s{see}"


if __name__ == "__main__":
    unittest.main()
