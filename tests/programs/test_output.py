"""If standard output cannot be written to: one line if the disk is full, none if its reader is gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from tests.runner.shell import ROOT

_PLANS, _VERIFY = "clients/examples/plans", "clients/examples/verify"
# With --json, for people, and help, which is clap's own.
_COMMANDS = (
    ("pascaline", "--help"),
    ("pascaline", "--version"),
    ("pascaline", "check", "--elsewhere", "conf/appliance.toml"),
    ("pascaline", "worker", "allreduce", "--help"),
    ("pascaline", "doctor", "--json"),
    ("pascaline", "completions", "bash"),
    ("pascaline", "man"),
    ("pascaline-fleet", "--help"),
    ("pascaline-fleet", "plan", f"{_PLANS}/appliances.json"),
    ("pascaline-fleet", "plan", f"{_PLANS}/appliances.json", "--json"),
    ("pascaline-fleet", "controller", "--check", "-c", "conf/controller.toml"),
    ("pascaline-fleet", "man"),
    ("pascaline-lab", "--help"),
    ("pascaline-lab", "bench", "pool", "--help"),
    ("pascaline-lab", "fuzz-protocol", "--seed", "1", "--runs", "1", "--json"),
    ("pascaline-lab", "fuzz-protocol", "--seed", "1", "--runs", "1"),
)
_SCRIPTS = ("demo", "bench", "examples", "train", "instructions")


def _named(command: Sequence[str]) -> str:
    return "-".join(word.strip("-") for word in command if "/" not in word)


@pytest.fixture(params=_COMMANDS, ids=_named)
def program(request: pytest.FixtureRequest, debug_programs: Path) -> list[str | Path]:
    """A command that prints something."""
    name, *words = request.param
    return [debug_programs / name, *words]


@pytest.fixture(params=_SCRIPTS)
def script(request: pytest.FixtureRequest) -> list[str]:
    """The help of a script."""
    return [f"scripts/{request.param}", "--help"]


def _run(command: Sequence[str | Path], out: int | IO[Any]) -> tuple[int, str]:
    environment = os.environ | {"RUST_BACKTRACE": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stderr


def _where_it_is_full(command: Sequence[str | Path]) -> None:
    with Path("/dev/full").open("w") as full:
        code, said = _run(command, full)
    assert code == 1, said
    assert said.count("cannot write to standard output: ") == 1, said
    assert said.count("\n") == 2, said
    assert "remedy: " in said, said


def _where_the_reader_is_gone(command: Sequence[str | Path]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code, said = _run(command, writer)
    finally:
        os.close(writer)
    assert (code, said) == (141, "")


def test_a_full_output_is_one_error(program: list[str | Path]) -> None:
    """Exit code 1, and no backtrace."""
    _where_it_is_full(program)


def test_a_reader_that_is_gone_is_no_error(program: list[str | Path]) -> None:
    """The exit code of a program that SIGPIPE ends."""
    _where_the_reader_is_gone(program)


def test_a_full_output_of_a_script_is_one_error(script: list[str]) -> None:
    """As of a program."""
    _where_it_is_full(script)


def test_a_reader_of_a_script_that_is_gone_is_no_error(script: list[str]) -> None:
    """As of a program."""
    _where_the_reader_is_gone(script)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("pascaline", "check", "no-such-file.toml"), 2),
        (("pascaline", "--no-such-option"), 2),
        (("pascaline", "plan"), 2),
        (("pascaline", "explain", "1", "--admin", "unix:/no/such/socket"), 1),
        (("pascaline-fleet", "plan", "no-such-file.json"), 2),
        (("pascaline-lab", "fuzz-protocol", "--seed", "1", "--runs", "1"), 0),
    ],
    ids=lambda value: _named(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_said_on_standard_error_is_lost(
    command: tuple[str, ...], code: int, debug_programs: Path
) -> None:
    """The exit code is the same."""
    name, *words = command
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [debug_programs / name, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=full, check=False
        )
    assert done.returncode == code
