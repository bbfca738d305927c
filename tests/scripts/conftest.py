"""Lets the tests of scripts find their modules: no namespace is made here."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
for folder in ("lib", "bench.d"):
    if str(_SCRIPTS / folder) not in sys.path:
        sys.path.append(str(_SCRIPTS / folder))


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Restores the handlers after a test: a whole run has to end by SIGTERM."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
