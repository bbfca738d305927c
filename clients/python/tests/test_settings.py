"""What the environment says."""

from __future__ import annotations

import pytest

from pascaline import errors
from pascaline.torch import Settings
from pascaline.torch._settings import parse


@pytest.mark.parametrize(
    ("url", "jobs", "says"),
    [
        ("http://x", "", "it is like pascaline://"),
        ("pascaline://?job=1", "", "it is like pascaline://"),
        ("pascaline://x/y?job=1", "", "it is like pascaline://"),
        ("pascaline://x?work=1", "", "work is no key"),
        ("pascaline://x?job=one", "", "job=one"),
        ("pascaline://x?job=0", "", "job=0: a whole number from 1 to 65535"),
        ("pascaline://x?job=70000", "", "job=70000"),
        ("pascaline://x?dscp=300", "", "dscp=300: a whole number from 0 to 63"),
        ("pascaline://x", "5-1", "1000-1063"),
        ("pascaline://x;x?threads=1", "", "threads is gone"),
        ("pascaline://x?streams=3", "", "there are one or two"),
    ],
)
def test_settings_that_are_wrong_are_told(url: str, jobs: str, says: str) -> None:
    """With the variable, and what it is like."""
    with pytest.raises(errors.ConfigurationError, match=says):
        parse(url, jobs, "")


def test_settings_that_are_right() -> None:
    """Every key is obeyed."""
    url = "pascaline://h:9?job=3&timeout=500ms&payload=512&dscp=46&bind=127.0.0.1"
    found = parse(url, "1000-1003", "gloo")
    keys = {"timeout": 0.5, "payload": 512, "dscp": 46, "bind": "127.0.0.1"}
    assert found == Settings("h:9", 3, (1000, 1003), True, keys)
    assert parse("pascaline://h/", "1000", "") == Settings("h", 0, (1000, 1000))
    several = "[fd00::1]:9,[fd00::2];[fd00::3]"
    assert parse(f"pascaline://{several}?job=3", "", "") == Settings(several, 3)
    assert parse("pascaline://h?streams=2", "", "").streams == 2
    assert parse("pascaline://h?security=masked&key=k", "", "").worker == {"security": "masked", "key": "k"}
    for security in ("masked", "mac", "encrypt"):
        with pytest.raises(errors.ConfigurationError, match="without PASCALINE_FALLBACK"):
            parse(f"pascaline://h?security={security}&key=k", "", "gloo")
    with pytest.raises(errors.ConfigurationError, match="has one stream"):
        parse("pascaline://h?streams=2", "", "gloo")
