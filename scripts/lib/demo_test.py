"""What scripts/demo decides before and after a run: memory, the words of an error."""

from __future__ import annotations

import unittest

from appliance import last_error, with_room

_TEXT = "[dataplane]\nmemory_mb = 512\n\n[pool]\nslots = 4096\n"


class Memory(unittest.TestCase):
    """Of the appliance, by what `pascaline check` says of its file."""

    def test_a_configuration_that_needs_little_stays_as_it_is(self) -> None:
        """Also where check has said nothing of memory."""
        for said in ("16383 packet buffers of 2048 bytes, at least 41 of 512 MB\n", "cores overlap\n"):
            assert with_room(_TEXT, said) == _TEXT

    def test_a_configuration_that_needs_more_has_more(self) -> None:
        """Whether check has accepted it or not, and with room for more than packets."""
        accepted = with_room(_TEXT, "16383 packet buffers of 16384 bytes, at least 500 of 512 MB\n")
        assert "memory_mb = 564\n" in accepted
        refused = with_room(_TEXT, "for rings, slots and lcores, at least 1600 MB: slots may keep 9 packets")
        assert "memory_mb = 1800\n" in refused
        assert "memory_mb = 512\n" not in refused


class Errors(unittest.TestCase):
    """What the JSON says of an appliance that has ended by itself."""

    def test_the_last_words_are_told_with_their_remedy(self) -> None:
        """In one line, without the log before them."""
        log = "INFO ready\npascaline: a.toml:13:13: too little\n  remedy: raise memory_mb\n"
        assert last_error(log) == "pascaline: a.toml:13:13: too little; remedy: raise memory_mb"

    def test_without_last_words_the_last_line_is_told(self) -> None:
        """And that there is none."""
        assert last_error("INFO ready\nWARN going down\n\n") == "WARN going down"
        assert last_error("") == "it said nothing"


if __name__ == "__main__":
    unittest.main()
