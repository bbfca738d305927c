"""Namespaces and files under a script's own name, so that no other script takes them for its leftovers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import netns
from netns import Network


def rename(network: Network, prefix: str) -> None:
    """Gives a network that does not exist yet names that begin with the prefix and this process."""
    owner = f"{prefix}-{os.getpid()}"
    network.appliance = f"{owner}-app"
    network.workers = [f"{owner}-w{rank}" for rank in range(len(network.workers))]
    network.racks = [f"{owner}-r{rack}" for rack in range(len(network.racks))]


def directory(prefix: str) -> Path:
    """Where this process keeps its files."""
    return Path(tempfile.gettempdir()) / f"{prefix}-{os.getpid()}"


def remove_leftovers(prefix: str, script: str) -> None:
    """Removes what runs of a script left that were killed outright; their processes ended with them."""
    netns.remove_leftovers(prefix, [script])
