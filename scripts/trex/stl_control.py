"""TRex profile: every rank asks to join its jobs, or leaves them, one packet each.

A Join counts with the cookie of its answer, which a profile cannot read: `scripts/trex/run … join` joins.
"""

from __future__ import annotations

import argparse

import pascaline_tunables as tunables
from pascaline_streams import Stream
from pascaline_trex import Profile


class ControlRequests(Profile):
    """The same --session repeats a request; a larger one is a rank that has started anew."""

    def options(self) -> argparse.ArgumentParser:
        """The tunables."""
        parser = argparse.ArgumentParser(prog="stl_control.py", description=__doc__)
        tunables.add_common(parser)
        tunables.add_epochs(parser)
        parser.add_argument("--action", choices=("join", "leave"), default="join")
        parser.add_argument("--session", type=int, metavar="NS", help="of the ranks (default: the time now)")
        return parser

    def streams(self, options: argparse.Namespace) -> list[Stream]:
        """What is sent."""
        return tunables.control(options, tunables.load(options))


def register() -> ControlRequests:
    """What TRex calls."""
    return ControlRequests()
