"""The rules of the house find what breaks them."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import house


def _dependencies(manifest: dict[str, Any], *allowed: str) -> list[str]:
    """What is said of one room with this manifest, whose row names these."""
    with (
        mock.patch.object(house, "_manifests", return_value={"sim": manifest}),
        mock.patch.object(house, "_allowed", return_value={"sim": set(allowed)}),
    ):
        return list(house.dependencies())


class Dependencies(unittest.TestCase):
    """Manifests beside the table."""

    def test_both_ways_and_every_target(self) -> None:
        """What is used and not in the table, and what is in the table and not used."""
        wire = {"pascaline-wire": {"workspace": True}, "serde": {"workspace": True}}
        for manifest in (
            {"dependencies": wire},
            {"build-dependencies": wire},
            {"target": {"cfg(loom)": {"dependencies": wire}}},
        ):
            assert _dependencies(manifest, "wire") == []
            assert len(_dependencies(manifest)) == 1, manifest
            assert len(_dependencies(manifest, "wire", "queue")) == 1, manifest
        assert len(_dependencies({"dev-dependencies": wire}, "wire")) == 1

    def test_the_test_kit_ships_with_nobody(self) -> None:
        """Whatever the table says."""
        assert len(_dependencies({"dependencies": {"pascaline-testkit": {}}}, "testkit")) == 1


if __name__ == "__main__":
    unittest.main()
