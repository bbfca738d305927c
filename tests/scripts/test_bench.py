"""Failures that would waste the minutes of a bench. Nothing is measured here."""

import argparse
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import complete
import main
from context import Context
from figure import Beside, Goal, Section
from process import Failure
from sections import allreduce, ends, inline, security


def test_a_demo_that_hangs_fails_its_section_only() -> None:
    """The demo gives up before it is killed."""
    context = Context(Path("/pascaline"), Path(), Path(), mock.Mock(), argparse.Namespace(quick=True))
    hangs = subprocess.TimeoutExpired("demo", 200.0)
    with (
        mock.patch("subprocess.run", side_effect=hangs) as run,
        pytest.raises(Failure, match=r"^scripts/demo --inline was not done after 200 s$"),
    ):
        inline._demonstrate(context)
    words = run.call_args.args[0]
    assert float(words[words.index("--timeout") + 1]) < run.call_args.kwargs["timeout"]


def test_a_report_that_cannot_be_written_is_told_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        main._parse(["--out", str(tmp_path / "file")])
    assert ended.value.code == 2
    assert "File exists" in capsys.readouterr().err


def _whole(changed: dict[str, float] | None = None, without: str = "") -> dict[str, Any]:
    """A complete report, with these changes."""
    said: dict[str, Any] = {"failures": [], "sections": []}
    for name, figures in complete.FIGURES.items():
        section = Section(name, name)
        for figure in figures:
            value = (changed or {}).get(name, 1.0)
            if figure != without:
                section.figure(figure, value, "", Beside("limit", 1.0), goal=Goal(at_most=1.0))
        if name == "ends":
            section.raw["last line"] = dict.fromkeys(complete.keys(af_xdp=False), 1.0)
        said["sections"].append(section.to_json())
    return said


def test_nothing_is_wrong_with_a_whole_report() -> None:
    """Times may be above their goal."""
    assert list(complete.wrong(_whole({"host": 2.0}), af_xdp=False)) == []


@pytest.mark.parametrize(
    ("name", "figure"), [(name, figure) for name, all_ in complete.FIGURES.items() for figure in all_]
)
def test_each_figure_is_missed(name: str, figure: str) -> None:
    """By its name, wherever others stand."""
    assert list(complete.wrong(_whole(without=figure), af_xdp=False)) == [f"{name}: {figure}: not there"]


@pytest.mark.parametrize(
    "changed", [{"memory": 1.01}, {"allreduce": 1.6}, {"host": 0.0}, {"olaf": float("nan")}]
)
def test_what_cannot_be_is_found(changed: dict[str, float]) -> None:
    """Memory beyond the promise, sums faster than links, nothing, and what is no number."""
    assert list(complete.wrong(_whole(changed), af_xdp=False))


def test_a_failure_and_what_is_missing_on_this_machine_are_found() -> None:
    assert list(complete.wrong({**_whole(), "failures": ["x"]}, af_xdp=False)) == ["not measured: x"]
    assert list(complete.wrong(_whole(), af_xdp=True))


@pytest.mark.parametrize("key", ["udp_gbps", "memif_vs_testpmd"])
def test_a_key_of_the_last_line_is_missed(key: str) -> None:
    said = _whole()
    said["sections"][-1]["raw"]["last line"][key] = None
    assert list(complete.wrong(said, af_xdp=False)) == [f"ends, last line: {key} is None"]


def test_the_last_line_has_the_same_keys_as_ever() -> None:
    assert complete.keys(af_xdp=True) == [
        key for key in ends.KEYS if not key.startswith("unshaped") and not key.endswith("call_us")
    ]


def test_the_median_of_the_turns_ratios_counts() -> None:
    """The machine is slow from the middle of a turn on; one in which the peer failed is no pair."""
    times: allreduce.Times = {
        allreduce.OURS: {allreduce.MIB: [1.0, 1.0, 10.0, 7.0]},
        allreduce.GLOO: {allreduce.MIB: [2.0, 20.0, 20.0, None]},
    }
    section = Section("allreduce", "")
    allreduce._judge(section, 4, 100, allreduce.MIB, times)
    assert section.figures[-1].ratio == 2.0, section.figures[-1]


def test_security_has_its_goals_and_last_line() -> None:
    """Times of pools are judged beside the plain one of the same run, ciphers beside the one that seals."""
    found = {
        "mac_pool": 1.5, "encrypt_pool": 2.6, "tag_ns_1k": 50.0, "masked_ns_per_element": 2.0,
        "seal_and_open_over_tags": 1.2, "pool_ns": {"plain": 40.0, "mac": 60.0, "encrypt": 104.0},
        "ciphers": [
            {"cipher": "AEGIS-128X4", "bytes": 256, "tag_ns": 20.0, "encrypt_ns": 25.0},
            {"cipher": "AES-128-GCM", "bytes": 256, "tag_ns": 80.0, "encrypt_ns": 100.0},
        ],
    }  # fmt: skip
    context, section, goodput = mock.MagicMock(), Section("security", ""), {"mac": 0.99}
    context.ask_lab.return_value = found
    with mock.patch.object(security, "_goodput", return_value=goodput):
        security.measure(context, section)
    assert section.raw["last line"] == {key: found[key] for key in security.KEYS} | {"goodput": goodput}
    figures = {figure.name: figure for figure in section.figures}
    pool = "pool, 1 KiB, fan-in 8, cache: "
    assert [figures[pool + kind].met for kind in ("mac", "encrypt")] == [True, False]
    assert figures["sealing and opening 1 KiB, mac"].met
    assert figures["256 B, encrypt: AES-128-GCM"].ratio == 4.0
    assert figures["256 B, tag: AEGIS-128X4"].beside is None
