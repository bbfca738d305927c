"""Namespaces and files under a script's own name, so that no other script takes them for its leftovers."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from netns import NAMESPACES, Network
from process import run

_FILES = Path(tempfile.gettempdir())


def rename(network: Network, prefix: str) -> None:
    """Gives a network that does not exist yet names that begin with the prefix and this process."""
    owner = f"{prefix}-{os.getpid()}"
    network.appliance = f"{owner}-app"
    network.workers = [f"{owner}-w{rank}" for rank in range(len(network.workers))]
    network.racks = [f"{owner}-r{rack}" for rack in range(len(network.racks))]


def directory(prefix: str) -> Path:
    """Where this process keeps its files."""
    return _FILES / f"{prefix}-{os.getpid()}"


def remove_leftovers(prefix: str, script: str) -> None:
    """Removes what runs of a script left that were killed outright; their processes ended with them."""
    for path in [*NAMESPACES.glob(f"{prefix}-*"), *_FILES.glob(f"{prefix}-*")]:
        command = Path(f"/proc/{path.name.split('-')[1]}/cmdline")
        if command.exists() and script.encode() in command.read_bytes():
            continue
        if path.parent == NAMESPACES:
            run("ip", "netns", "del", path.name)
        else:
            shutil.rmtree(path, ignore_errors=True)
