"""Guarantees of scripts/lib/process.py."""

import pytest

from process import Failure
from tests.bed.process import Deadline


def _stop(option: str) -> Deadline:
    stop = Deadline(-1.0)
    stop._option = option
    return stop


@pytest.mark.parametrize(("option", "see"), [("", ""), ("--seconds", " (see --seconds)")])
def test_only_an_option_that_there_is_is_named(option: str, see: str) -> None:
    """A build has none."""
    with pytest.raises(Failure, match="not done after") as failure:
        _stop(option).check()
    assert str(failure.value) == f"not done after -1 s{see}"
