"""How scripts/test counts and judges: skips and failures must show."""

import os
from pathlib import Path
from unittest import mock

import pytest

from tests.runner import __main__ as runner
from tests.runner import another
from tests.runner.cases import Cases
from tests.runner.outcomes import Outcomes, title
from tests.runner.part import Part
from tests.runner.shell import NICE, Shell

pytest_plugins = ["pytester"]
_JUNIT = """<testsuites><testsuite name="wire">
<testcase name="good" classname="wire::it"/>
<testcase name="bad" classname="wire::it"><failure message="no"/></testcase>
<testcase name="not here" classname="wire::it"><skipped message="no root"/></testcase>
</testsuite></testsuites>"""


def test_junit(tmp_path: Path) -> None:
    """Each case once, with names of those that did not pass."""
    report = tmp_path / "junit.xml"
    report.write_text(_JUNIT)
    cases = Cases()
    cases.add_junit(report)
    assert cases == Cases(1, ["wire::it bad"], ["wire::it not here: no root"])


def test_cargo_without_nextest() -> None:
    cases = Cases()
    cases.add_libtest(
        "test a ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 0 ignored\n"
        "test result: ok. 2 passed; 0 failed; 1 ignored\n"
    )
    assert cases == Cases(5, ["a"], [])


def test_last_line() -> None:
    cases = Cases()
    cases.add_last_line("✗ parse: wrong\n- skipped: Miri is missing\n2 passed, 1 failed, 1 skipped\n")
    assert cases == Cases(2, ["parse: wrong"], ["Miri is missing"])
    cases.add_last_line("nothing of the kind")
    assert cases.total == 4


def test_what_root_has_run_again_is_not_skipped(tmp_path: Path) -> None:
    """A line without a reason only takes off what was counted twice."""
    skipped = tmp_path / "skipped"
    skipped.write_text("dpdk|a_port|\ndpdk|a_socket|no AF_XDP\n")
    cases = Cases(passed=5)
    cases.subtract_skipped(skipped)
    assert cases == Cases(3, [], ["dpdk a_socket: no AF_XDP"])


def test_titles() -> None:
    assert title("ports/test_demo.py::test_sums[f32]") == "ports/demo: sums[f32]"
    assert title("hostile/test_noise.py::test_noise[bad-layers]") == "hostile/noise: noise[bad-layers]"


def _shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "log", {"PATH": "/usr/bin:/bin"})


def test_a_program_that_fails_fails_its_test(tmp_path: Path) -> None:
    """The exit code is in the message, the output in the log."""
    with pytest.raises(pytest.fail.Exception, match="exit code 3, not 0"):
        _shell(tmp_path)("sh", "-c", "echo something; exit 3")
    assert "something" in (tmp_path / "log").read_text()


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="not done after"):
        _shell(tmp_path)("sh", "-c", "sleep 60 & sleep 60", seconds=0.2)


def test_a_program_that_cannot_run_here_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"^too noisy$"):
        _shell(tmp_path)("sh", "-c", "echo begin; echo too noisy; exit 77")


_COUNTED = """
import pytest
from tests.runner.cases import CASES, Cases

@pytest.fixture
def cases(request):
    found = Cases()
    request.node.user_properties.append((CASES, found))
    return found

def test_many(cases):
    cases.passed = 3
    cases.skipped.append("a case: no root")

def test_none(cases):
    pass

def test_early_end(cases):
    cases.passed = 2
    assert False, "ended early"

def test_bad():
    assert 1 == 2

@pytest.fixture
def broken():
    raise ValueError("no bed")

def test_no_bed(broken):
    pass

def test_skipped():
    pytest.skip("not here")
"""


def test_outcomes(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """Cases within a test count one by one; one without any, or that ended early, has failed."""
    pytester.makepyfile(test_counted=_COUNTED)
    outcomes = Outcomes(tmp_path, [], everything=True, part=Part.ALL)
    pytester.inline_run("-p", "no:terminal", plugins=[outcomes])
    counts = {o.title.split()[-1]: (o.passed, len(o.failures), len(o.skipped)) for o in outcomes.found}
    assert counts == {
        "many": (3, 0, 1),
        "none": (0, 1, 0),
        "early_end": (2, 1, 0),
        "bad": (0, 1, 0),
        "no_bed": (0, 1, 0),
        "skipped": (0, 0, 1),
    }


def test_an_interrupted_run_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many passed before."""

    def stopped(outcomes: Outcomes, *_: str) -> int:
        outcomes.items = [mock.Mock(nodeid="tests/a/test_b.py::test_c")]
        return pytest.ExitCode.INTERRUPTED

    monkeypatch.setenv("PASCALINE_PROGRAMS", "")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(runner, "_pytest", stopped)
    monkeypatch.setattr(runner, "_report", lambda *_, **__: 0)
    assert runner.main(["a/b"]) == 1


@pytest.mark.parametrize(
    ("file", "beside"), [("lab/test_tcp", True), ("ports/test_clients", True), ("ports/test_demo", False)]
)
def test_each_step_is_in_one_process(file: str, beside: bool) -> None:
    item = mock.Mock(path=Path(f"tests/{file}.py"))
    assert (Part.BESIDE.has(item), Part.ALONE.has(item)) == (beside, not beside)


def test_steps_beside_others_begin_and_end_with_compilers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = mock.Mock(poll=mock.Mock(return_value=None))
    started = mock.Mock(return_value=child)
    monkeypatch.setattr("subprocess.Popen", started)
    monkeypatch.delenv(NICE, raising=False)
    beside = another.Beside(tmp_path, ["--all"])
    for step in ("static/lints: shell", "rust/cargo: units"):
        beside.before(step)
    assert not started.called
    beside.before("rust/cargo: lints")
    beside.before("rust/cargo: loom")
    assert (started.call_count, NICE in os.environ, child.wait.called) == (1, True, False)
    beside.before("programs/lab: papers")
    assert (NICE in os.environ, child.wait.called) == (False, True)
    child.poll.return_value = 1
    (tmp_path / "beside.log").write_text("")
    assert beside.outcomes()[0]["failures"] == ["ended without a report"]
