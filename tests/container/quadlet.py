"""What a quadlet asks of podman, read for those that have none: the options of `podman run`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

_SWITCHES = {
    "ReadOnly": "--read-only",
    "NoNewPrivileges": "--security-opt=no-new-privileges",
    "Notify": "--sdnotify=container",
}
_LISTS = {"DropCapability": "--cap-drop", "AddCapability": "--cap-add"}
_VALUES = {"Tmpfs": "--tmpfs", "Volume": "--volume"}


def read(unit: Path) -> dict[str, dict[str, list[str]]]:
    """Sections, keys, and what they are given: a key may be given again, and each value counts."""
    sections: dict[str, dict[str, list[str]]] = {}
    keys: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            keys = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            keys.setdefault(key, []).append(value)
    return sections


def options(unit: Path, *without: str) -> Iterator[str]:
    """The options of `podman run`, but those of some keys."""
    container = read(unit)["Container"]
    user = ":".join(container[key][0] for key in ("User", "Group"))
    yield f"--user={user}"
    for key, values in container.items():
        if key in without:
            continue
        if key in _SWITCHES and values == ["true"]:
            yield _SWITCHES[key]
        for value in values:
            if key in _LISTS:
                yield from (f"{_LISTS[key]}={name}" for name in value.split())
            elif key in _VALUES:
                yield f"{_VALUES[key]}={value}"
            elif key == "PodmanArgs":
                yield from shlex.split(value)
