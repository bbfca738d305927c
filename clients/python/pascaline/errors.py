"""Exceptions. Every text says what is wrong, where, and what to do; `ranks` lists the ranks concerned.

docs/errors.md lists the errors of a worker.
"""

from __future__ import annotations

from collections.abc import Sequence


class PascalineError(RuntimeError):
    """A request to Pascaline has failed.

    `ranks` has the ranks that are missing, dead or gone, as far as the appliance has named them.
    """

    def __init__(self, text: str, ranks: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.ranks = tuple(ranks)


class ConfigurationError(PascalineError, ValueError):
    """A worker's settings cannot be used."""


class ArgumentError(PascalineError, ValueError):
    """An operation cannot be carried out on such an array, with such a root or such parts."""


class UnreachableError(PascalineError, ConnectionError):
    """The appliance does not answer, or hosts on the way refuse the packets."""


class RefusedError(PascalineError):
    """The appliance refuses this rank."""


class IncompleteError(PascalineError, TimeoutError):
    """Not all ranks have joined in time: `ranks` are those that have not."""


class MismatchError(PascalineError, ValueError):
    """The ranks disagree: on their number, the payload, the type of elements, or on the operation."""


class IntegrityError(PascalineError):
    """What arrived of a masked operation is not the sum of what the ranks sent."""


class DeadlineError(PascalineError, TimeoutError):
    """An operation was not complete in time: `ranks` are those that others wait for."""


class RanksLostError(PascalineError, ConnectionError):
    """Ranks have died, or have left before the operation: `ranks`."""


class GenerationError(PascalineError):
    """A rank has restarted. The next operation is the first one of all ranks."""


class TooLongError(PascalineError):
    """Packets of this payload do not fit into the path."""


class FutileError(PascalineError, TimeoutError):
    """No update of an asynchronous worker was applied for a while: the text says why."""


class ClosedError(PascalineError):
    """The worker has left, or has failed in a way that ends its membership."""


class SystemFault(PascalineError, OSError):
    """The operating system returned an error."""


class ApplianceError(PascalineError):
    """An appliance did not start, or its admin API did not answer."""
