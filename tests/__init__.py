"""Tests of the whole, by pytest."""

from . import bed as bed  # It makes scripts/lib importable.
