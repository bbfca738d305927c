"""What would throw away the minutes of a bench."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import main
from context import Context
from process import Failure
from sections import inline


class Minutes(unittest.TestCase):
    """Nothing is measured here."""

    def test_a_demo_that_hangs_fails_its_section_only(self) -> None:
        """The demo gives up before it is killed."""
        context = Context(Path("/pascaline"), Path(), Path(), mock.Mock(), quick=True)
        hangs = subprocess.TimeoutExpired("demo", 200.0)
        with mock.patch("subprocess.run", side_effect=hangs) as run:
            failed = ""
            try:
                inline._demonstrate(context)
            except Failure as failure:
                failed = str(failure)
        assert failed == "scripts/demo --inline was not done after 200 s"
        words = run.call_args.args[0]
        assert float(words[words.index("--timeout") + 1]) < run.call_args.kwargs["timeout"]

    def test_a_report_that_cannot_be_written_is_told_first(self) -> None:
        """The directory may be a file."""
        with (
            tempfile.NamedTemporaryFile() as file,
            mock.patch("argparse.ArgumentParser._print_message") as told,
        ):
            code: object = None
            try:
                main._parse(["--out", file.name])
            except SystemExit as ended:
                code = ended.code
            assert code == 2
            assert "File exists" in told.call_args.args[0]


if __name__ == "__main__":
    unittest.main()
