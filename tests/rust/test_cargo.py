"""Lints, the tests of all crates, documentation, models of threads, sanitizers, licences, fuzzers."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.runner.__main__ import may_be_root
from tests.runner.cases import Cases
from tests.runner.shell import ROOT, Shell

_NEXTEST = "cargo nextest run --workspace --locked --no-fail-fast --failure-output final"
# From an empty target directory, on a busy machine with two cores.
_BUILD_AND_RUN = 2700
_ROOT = re.compile(r"^([^|]+)\|([^|]+)\|.*\broot\b")


def test_units(shell: Shell, cases: Cases, target: Path) -> None:
    """Unit and property tests of the workspace. A test that cannot run here says why, and is skipped."""
    skipped = target / "test-logs/skipped"
    skipped.write_text("")
    noted = {"PASCALINE_SKIPPED": str(skipped)}
    _nextest(shell, cases, target, noted)
    if os.geteuid() != 0 and may_be_root():
        _again_by_root(shell, cases, target, skipped)
    cases.subtract_skipped(skipped)
    assert not cases.failures


def test_lints(shell: Shell) -> None:
    """No lint of clippy's fires: clocks, sockets and lengths among them."""
    words = "cargo clippy --workspace --all-targets --locked -- -D warnings"
    shell(*words.split(), seconds=_BUILD_AND_RUN)


def test_examples_in_documentation(shell: Shell, cases: Cases) -> None:
    _libtest(shell, cases, "--doc --workspace --no-fail-fast")


@pytest.mark.all
def test_documentation(shell: Shell) -> None:
    command = ("cargo", "doc", "--workspace", "--no-deps", "--locked")
    shell(*command, seconds=900, environment={"RUSTDOCFLAGS": "-D warnings"})


@pytest.mark.all
def test_loom(shell: Shell, cases: Cases, target: Path) -> None:
    """Hand-off between lcores, in every order that can be."""
    _models(shell, cases, target, "loom")


@pytest.mark.all
def test_shuttle(shell: Shell, cases: Cases, target: Path) -> None:
    """Whole sessions of two lcores, in many orders."""
    _models(shell, cases, target, "shuttle")


@pytest.mark.all
def test_sabotages(shell: Shell, cases: Cases) -> None:
    """Each fault that tests can put into the pool breaks an invariant, or a job's share."""
    _libtest(shell, cases, "-p pascaline-aggregator --features sabotage --tests -- sabotages found_out")


@pytest.mark.all
def test_address_sanitizer(shell: Shell, cases: Cases) -> None:
    """No test reads or writes outside its memory."""
    done = shell("scripts/asan", seconds=_BUILD_AND_RUN, code=None)
    cases.add_last_line(done.out)
    assert done.code == 0


@pytest.mark.all
def test_licences(shell: Shell) -> None:
    """Dependencies and their sources are those that deny.toml allows."""
    shell("cargo", "deny", "check", "licenses", "bans", "sources", seconds=300)


@pytest.mark.all
def test_fuzzers(shell: Shell) -> None:
    """No parser panics, for five seconds each."""
    shell("lab/fuzz/run", "5", seconds=900)


@pytest.mark.all
@pytest.mark.parametrize("how", [(), ("--demonstrate",)], ids=["as-in-the-table", "slowed-down"])
def test_instructions(how: tuple[str, ...], shell: Shell) -> None:
    """No piece of the packet path takes over 5 % more than its table has; one that does is found."""
    shell("scripts/instructions", *how, seconds=900)


def _libtest(shell: Shell, cases: Cases, words: str, environment: dict[str, str] | None = None) -> None:
    done = shell(*f"cargo test --locked {words}".split(), seconds=1200, code=None, environment=environment)
    cases.add_libtest(done.text)
    assert done.code == 0


def _models(shell: Shell, cases: Cases, target: Path, scheduler: str) -> None:
    # It replaces the atomics at compile time: its build must not overwrite the ordinary one.
    environment = {
        "RUSTFLAGS": f"--cfg {scheduler} -C debug-assertions",
        "CARGO_TARGET_DIR": str(target / "loom"),
        "CARGO_PROFILE_RELEASE_LTO": "off",
    }
    words = f"-p pascaline-aggregator --release --features sabotage --test {scheduler}"
    _libtest(shell, cases, words, environment)


def _nextest(shell: Shell, cases: Cases, target: Path, environment: dict[str, str], *more: str) -> None:
    """Runs nextest and adds its cases, which it writes in JUnit's form."""
    config = target / "test-logs/nextest.toml"
    config.write_text('[profile.default.junit]\npath = "junit.xml"\n')
    junit = target / "nextest/default/junit.xml"
    junit.unlink(missing_ok=True)
    command = (*_NEXTEST.split(), "--tool-config-file", f"pascaline:{config}", *more)
    done = shell(*command, seconds=_BUILD_AND_RUN, code=None, environment=environment)
    if junit.exists():
        cases.add_junit(junit)
    assert done.code == 0 or cases.failures, f"nextest ended with exit code {done.code}: {done.err[-2000:]}"


def _again_by_root(shell: Shell, cases: Cases, target: Path, skipped: Path) -> None:
    """Repeats, by sudo, the tests that were skipped without root."""
    lines = skipped.read_text().splitlines()
    again = [found for line in lines if (found := _ROOT.match(line))]
    if not again:
        return
    # Without a reason: counted twice.
    counted = [f"{found[1]}|{found[2]}|" for found in again]
    left = [line for line in lines if not _ROOT.match(line)]
    skipped.write_text("".join(f"{line}\n" for line in counted + left))
    tests = " | ".join(sorted({f"(binary_id(={found[1]}) & test(={found[2]}))" for found in again}))
    host = subprocess.run(("rustc", "-vV"), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    name = re.search(r"^host: (\S+)", host, re.MULTILINE)
    assert name
    runner = f"CARGO_TARGET_{name[1].upper().replace('-', '_')}_RUNNER"
    environment = {runner: "sudo -n -E", "PASCALINE_SKIPPED": str(skipped)}
    _nextest(shell, cases, target, environment, "-E", tests)
