"""Checks and tests by cargo."""
