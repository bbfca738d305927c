"""A bed for tests that make their own."""

from collections.abc import Iterator

import pytest

from tests.bed.network import Star

WORKERS = 4


@pytest.fixture
def star() -> Iterator[Star]:
    """An appliance's namespace with a link to each of four workers."""
    with Star(WORKERS) as network:
        yield network
