"""TRex profile: gradients of N ranks × J jobs. The ranks must have joined (stl_control.py, --epochs)."""

from __future__ import annotations

import argparse

import pascaline_tunables as tunables
from pascaline_streams import Stream
from pascaline_trex import Profile


class Gradients(Profile):
    """Each rank sends one packet for each PSN."""

    def options(self) -> argparse.ArgumentParser:
        """The tunables."""
        parser = argparse.ArgumentParser(prog="stl_gradients.py", description=__doc__)
        for add in (tunables.add_common, tunables.add_sending, tunables.add_epochs, tunables.add_gradients):
            add(parser)
        return parser

    def streams(self, options: argparse.Namespace) -> list[Stream]:
        """What is sent."""
        return tunables.gradients(options, tunables.load(options))


def register() -> Gradients:
    """What TRex calls."""
    return Gradients()
