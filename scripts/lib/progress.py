"""How far a run is, for the person who waits."""

import sys
import time

_BAR = 32
# Without a terminal a bar is only noise: print a line from time to time.
_QUIET_SECONDS = 5.0


class Progress:
    """A bar on stderr; on anything but a terminal a line every few seconds."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._start = time.monotonic()
        self._last_line = self._start
        self._tty = sys.stderr.isatty()

    def show(self, done: int) -> None:
        passed = time.monotonic() - self._start
        text = f"{done}/{self._total} allreduces × ranks, {passed:.1f} s"
        if self._tty:
            filled = _BAR * done // self._total
            print(f"\r  [{'█' * filled}{'·' * (_BAR - filled)}] {text} ", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._last_line > _QUIET_SECONDS:
            self._last_line = time.monotonic()
            print(f"  {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._tty:
            print(file=sys.stderr, flush=True)
