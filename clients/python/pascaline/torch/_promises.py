"""Threads that fulfil promises, and so run the callbacks of futures.

A callback may block until a later operation has ended: each of PyTorch's hooks that sends twice does so. The
thread that ends operations therefore runs no callback, and a callback that blocks does not hold up those
behind it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable

# Seconds that a callback may run before the next one starts beside it.
_TURN = 0.02
# Seconds without work after which a thread ends.
_REST = 5.0
# Seconds that a group which ends waits for callbacks that do not block.
_DRAIN = 1.0


class _Place(threading.local):
    """The turn of this thread, if it is a keeper inside a callback."""

    turn: _Turn | None = None


class _Turn:
    """The right to run callbacks, which one thread has at a time."""

    def __init__(self, keepers: Keepers) -> None:
        self.keepers = keepers
        self.end = time.monotonic() + _TURN


_PLACE = _Place()


class Keepers:
    """Calls what is submitted, in order, one at a time unless a call blocks.

    A call blocks once it asks for an operation that has not ended (`step_aside`), or has taken longer than a
    turn. The next one then starts in another thread; there are as many threads as calls that block, and two.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: deque[Callable[[], None]] = deque()
        self._turn: _Turn | None = None
        self._resting = 0

    def submit(self, call: Callable[[], None]) -> None:
        """Queues a call."""
        with self._changed:
            self._calls.append(call)
            self._relieve()

    @staticmethod
    def step_aside() -> None:
        """To be called where a callback may block: the calls behind it no longer wait for it."""
        if turn := _PLACE.turn:
            turn.keepers._release(turn)

    def drain(self) -> None:
        """Waits a limited time for all calls but those that block."""
        own = _PLACE.turn
        with self._changed:
            self._changed.wait_for(lambda: not self._calls and self._turn in (None, own), _DRAIN)

    def _release(self, turn: _Turn) -> None:
        with self._changed:
            if self._turn is turn:
                self._turn = None
                self._relieve()

    def _relieve(self) -> None:
        """Provides a thread for the next turn. The lock is held."""
        self._changed.notify_all()
        if self._calls and not self._resting:
            # Counted already, so that no second one is started for the same call.
            self._resting += 1
            threading.Thread(target=self._work, name="pascaline-callbacks", daemon=True).start()

    def _work(self) -> None:
        while call := self._next():
            try:
                call()
            except Exception:
                sys.excepthook(*sys.exc_info())
            # Keeps no tensors while there is nothing to do.
            del call
            turn, _PLACE.turn = _PLACE.turn, None
            with self._changed:
                self._resting += 1
                if self._turn is turn:
                    self._turn = None
                self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        """Waits for a call and a turn. None after a rest without either."""
        end = time.monotonic() + _REST
        with self._changed:
            while not self._calls or (self._turn and self._turn.end > time.monotonic()):
                until = self._turn.end if self._calls and self._turn else end
                self._changed.wait(max(until - time.monotonic(), 0.0))
                if not self._calls and time.monotonic() > end:
                    self._resting -= 1
                    return None
            self._resting -= 1
            _PLACE.turn = self._turn = _Turn(self)
            call = self._calls.popleft()
            self._relieve()
            return call
