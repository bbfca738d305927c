"""Fixtures of all tests: a shell, the programs, the cases of a test."""

import os
import shutil
from pathlib import Path

import pytest

from process import Interrupted
from tests import command
from tests.runner.__main__ import may_be_root
from tests.runner.cases import CASES, Cases
from tests.runner.outcomes import slug
from tests.runner.programs import Programs
from tests.runner.shell import ROOT, Shell, environment_of

_TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def pytest_exception_interact(node: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """A signal that a bed has noticed ends the run; a command does so itself."""
    if call.excinfo and isinstance(call.excinfo.value, Interrupted) and not command.of(node.config):
        pytest.exit(str(call.excinfo.value))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what needs root where there is none."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root, or sudo without a password")
    if item.get_closest_marker("ports") and not may_be_root():
        pytest.skip("needs root, or sudo without a password")


@pytest.fixture(scope="session")
def target() -> Path:
    return _TARGET


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of programs: the user's, Rust in PATH, and the tools of this environment."""
    return environment_of(_TARGET)


@pytest.fixture
def shell(request: pytest.FixtureRequest, environment: dict[str, str]) -> Shell:
    """Runs programs; their output is in the test's log."""
    logs = _TARGET / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    return Shell(logs / f"{slug(request.node.nodeid)}.log", environment)


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Cases:
    """For a test whose cases are counted one by one."""
    found = Cases()
    request.node.user_properties.append((CASES, found))
    return found


@pytest.fixture(scope="session")
def programs(environment: dict[str, str]) -> Programs:
    return Programs(_TARGET, environment)


@pytest.fixture(scope="session")
def debug_programs(environment: dict[str, str]) -> Path:
    """The directory of the programs as they are built for the tests of Rust."""
    return Programs(_TARGET, environment, "dev").directory


@pytest.fixture(scope="session")
def pascaline(programs: Programs) -> Path:
    return programs.get("pascaline")


@pytest.fixture(scope="session")
def binary(request: pytest.FixtureRequest) -> Path:
    run = command.of(request.config)
    found: Path = run.binary if run else request.getfixturevalue("pascaline")
    return found


@pytest.fixture(scope="session")
def fleet(programs: Programs) -> Path:
    return programs.get("pascaline-fleet")


@pytest.fixture(scope="session")
def lab(programs: Programs) -> Path:
    return programs.get("pascaline-lab")


def require(program: str, package: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed: apt-get install {package}")
