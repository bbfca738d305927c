"""What would throw away the minutes of a bench."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import complete
import main
from context import Context
from figure import Beside, Figure, Goal, Section
from process import Failure
from sections import allreduce, ends, inline


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


def _whole(changed: dict[str, float] | None = None, without: str = "") -> dict[str, Any]:
    """A report that has all it must have: only what is told is otherwise."""
    said: dict[str, Any] = {"failures": [], "sections": []}
    for name, figures in complete.FIGURES.items():
        section = Section(name, name)
        for figure in figures:
            value = (changed or {}).get(name, 1.0)
            if figure != without:
                section.add(Figure(figure, value, "", Beside("limit", 1.0), goal=Goal(at_most=1.0)))
        if name == "ends":
            section.raw["last line"] = dict.fromkeys(complete.keys(af_xdp=False), 1.0)
        said["sections"].append(section.to_json())
    return said


class Complete(unittest.TestCase):
    """What a quick report must have."""

    def test_nothing_is_wrong_with_a_whole_report(self) -> None:
        """Times may be above their goal."""
        assert list(complete.wrong(_whole({"host": 2.0}), af_xdp=False)) == []

    def test_each_figure_is_missed(self) -> None:
        """By its name, wherever others stand."""
        for name, figures in complete.FIGURES.items():
            for figure in figures:
                found = list(complete.wrong(_whole(without=figure), af_xdp=False))
                assert found == [f"{name}: {figure}: not there"], found

    def test_what_cannot_be_is_found(self) -> None:
        """Memory beyond the promise, sums faster than links, a failure, and a key of the last line."""
        for changed in ({"memory": 1.01}, {"allreduce": 1.6}, {"host": 0.0}, {"olaf": float("nan")}):
            assert list(complete.wrong(_whole(changed), af_xdp=False)), changed
        assert list(complete.wrong({**_whole(), "failures": ["x"]}, af_xdp=False)) == ["not measured: x"]
        assert list(complete.wrong(_whole(), af_xdp=True))
        for key in ("udp_gbps", "memif_vs_testpmd"):
            said = _whole()
            said["sections"][-1]["raw"]["last line"][key] = None
            found = list(complete.wrong(said, af_xdp=False))
            assert found == [f"ends, last line: {key} is None"], found

    def test_the_last_line_has_the_same_keys_as_ever(self) -> None:
        """Programs read it."""
        assert complete.keys(af_xdp=True) == [
            key for key in ends.KEYS if not key.startswith("unshaped") and not key.endswith("call_us")
        ]


class Turns(unittest.TestCase):
    """What counts of several turns."""

    def test_the_median_of_the_turns_ratios_counts(self) -> None:
        """The machine is slow from the middle of a turn on; one in which the peer failed is no pair."""
        times: allreduce.Times = {
            allreduce.OURS: {allreduce.MIB: [1.0, 1.0, 10.0, 7.0]},
            allreduce.GLOO: {allreduce.MIB: [2.0, 20.0, 20.0, None]},
        }
        section = Section("allreduce", "")
        allreduce._judge(section, 4, 100, allreduce.MIB, times)
        assert section.figures[-1].ratio == 2.0, section.figures[-1]


if __name__ == "__main__":
    unittest.main()
