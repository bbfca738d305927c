"""Fixtures of the checks of TRex's profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from process import Stop

from .. import command

# Takes a short result of a check.
Told = Callable[[str], None]


def name_of(item: pytest.Item) -> str:
    return f"{item.path.stem.removeprefix('test_')}: {item.name.removeprefix('test_').replace('_', ' ')}"


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Told:
    return lambda text: command.note(request.node, text)


@pytest.fixture
def stop(request: pytest.FixtureRequest) -> Iterator[Stop]:
    with ExitStack() as cleanup:
        yield command.stop(request.config, cleanup)
