"""TRex profile: packets that must be refused, a stream for each way to be wrong."""

from __future__ import annotations

import argparse

import pascaline_tunables as tunables
from pascaline_streams import Stream
from pascaline_trex import Profile


class Malformed(Profile):
    """--psns packets of each case. With --refused the ranks must have joined."""

    def options(self) -> argparse.ArgumentParser:
        """The tunables."""
        parser = argparse.ArgumentParser(prog="stl_malformed.py", description=__doc__)
        for add in (tunables.add_common, tunables.add_sending, tunables.add_epochs, tunables.add_malformed):
            add(parser)
        return parser

    def streams(self, options: argparse.Namespace) -> list[Stream]:
        """What is sent."""
        return tunables.malformed(options, tunables.load(options))


def register() -> Malformed:
    """What TRex calls."""
    return Malformed()
