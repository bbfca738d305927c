"""TRex profile: Olaf's asynchronous updates of N workers × J clusters (jobs), with reward and time."""

from __future__ import annotations

import argparse

import pascaline_tunables as tunables
from pascaline_streams import Stream
from pascaline_trex import Profile


class Updates(Profile):
    """Each worker sends an update per sending interval, generated at that time."""

    def options(self) -> argparse.ArgumentParser:
        """The tunables. The field engine reaches the time behind the payload only if that is short."""
        parser = argparse.ArgumentParser(prog="stl_updates.py", description=__doc__)
        for add in (tunables.add_common, tunables.add_sending, tunables.add_epochs, tunables.add_updates):
            add(parser)
        parser.set_defaults(payload=256)
        return parser

    def streams(self, options: argparse.Namespace) -> list[Stream]:
        """What is sent."""
        return tunables.asynchronous(options, tunables.load(options))


def register() -> Updates:
    """What TRex calls."""
    return Updates()
