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


class SansIo(unittest.TestCase):
    """State machines beside their drivers."""

    def test_who_may_look_at_the_clock(self) -> None:
        """Drivers, tests and comments."""
        for name, text, places in (
            ("ps/src/job.rs", "let now = Instant::now();", 1),
            ("pipelines/src/membership/join.rs", "thread::sleep(PAUSE);", 1),
            ("ps/src/job.rs", "// Instant", 0),
            ("ps/src/job/tests.rs", "let now = Instant::now();", 0),
            ("clients/worker/src/udp/socket.rs", "UdpSocket::bind(at)", 0),
        ):
            with mock.patch.object(house, "_texts", return_value=[(name, text)]):
                assert len(list(house.sans_io())) == places, name


if __name__ == "__main__":
    unittest.main()
