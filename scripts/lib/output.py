"""Standard output of the scripts, and what to do when it cannot be written to.

If the reader has closed it (`scripts/demo | head`), a script ends silently; if the disk is full, with one
line. In both cases it unwinds, so that what it has started ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

# As of a program that SIGPIPE has ended, in a shell's terms.
_READER_GONE = 128 + 13


class _Untaken(BaseException):
    """Standard output could not be written to. Only `end` handles that."""


class _Checked:
    """Standard output, whose failures differ from those of other files."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As the stream's."""
        try:
            return self._stream.write(text)
        except OSError as error:
            raise _Untaken from error

    def flush(self) -> None:
        """As the stream's."""
        try:
            self._stream.flush()
        except OSError as error:
            raise _Untaken from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def end(program: str, main: Callable[[], int | None]) -> NoReturn:
    """Runs a script's main function and ends with its exit code, or with that of standard output."""
    plain = sys.stdout
    sys.stdout = _Checked(plain)
    try:
        sys.exit(_flushed(main))
    except _Untaken as untaken:
        # Unwritten data would be tried again, and reported, at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(untaken.__cause__, BrokenPipeError):
            sys.exit(_READER_GONE)
        remedy = "make room where standard output goes, or send it elsewhere"
        sys.exit(f"{program}: cannot write to standard output: {untaken.__cause__}\n  remedy: {remedy}")
    finally:
        sys.stdout = plain


def _flushed(main: Callable[[], int | None]) -> int | str | None:
    """The exit code, once all has been written. argparse ends the program by itself."""
    try:
        code: int | str | None = main()
    except SystemExit as ended:
        code = ended.code
    sys.stdout.flush()
    return code
