"""Tensors in several pieces of memory, for callees that take one piece only."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work as _Work

from ..errors import ArgumentError


def refuse_overlap(tensor: Any) -> None:
    """Raises ArgumentError for a tensor to write to whose elements share memory: it has no right result."""
    if tensor.layout == torch.strided and torch._debug_has_internal_overlap(tensor) == 1:
        raise ArgumentError(
            f"elements of a tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} share"
            " memory, so that it cannot hold a result: pass a clone"
        )


class Pieces:
    """The arguments of a call, each strided tensor replaced by one in one piece.

    The first argument is what the call writes to, if it writes. flat: without their shapes.
    """

    def __init__(self, arguments: tuple[Any, ...], *, writes: bool, flat: bool) -> None:
        self.copied: list[tuple[Any, Any]] = []
        # The tensors that the call writes to, as the caller passed them.
        self.results: list[Any] = []
        self._flat = flat
        self.arguments = tuple(
            self._whole(argument, written=writes and place == 0) for place, argument in enumerate(arguments)
        )

    def _whole(self, argument: Any, *, written: bool) -> Any:
        if isinstance(argument, list | tuple):
            return type(argument)(self._whole(each, written=written) for each in argument)
        if not isinstance(argument, torch.Tensor) or argument.layout != torch.strided:
            return argument
        if written:
            refuse_overlap(argument)
            self.results.append(argument)
        piece = argument if argument.is_contiguous() else argument.detach().contiguous()
        if written and piece is not argument:
            self.copied.append((piece, argument))
        return piece.detach().view(-1) if self._flat else piece

    def put_back(self) -> None:
        """Copies the results to the caller's tensors."""
        for piece, tensor in self.copied:
            tensor.detach().copy_(piece)


class CopiedBack(_Work):
    """A Work of Gloo's whose results are copied to the caller's tensors once it has ended."""

    def __init__(self, work: Any, pieces: Pieces) -> None:
        super().__init__()
        self._work, self._pieces = work, pieces
        self._once = threading.Lock()
        self._future: Any = None

    def _settle(self) -> None:
        with self._once:
            self._pieces.put_back()
            self._pieces.copied.clear()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end. Raises its error."""
        done = self._work.wait(*(() if timeout is None else (timeout,)))
        self._settle()
        return bool(done)

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        done = bool(self._work.is_completed())
        if done and self._work.is_success():
            self._settle()
        return done

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return bool(self._work.is_success())

    def exception(self) -> Any:
        """Its error."""
        return self._work.exception()

    def result(self) -> list[Any]:
        """The caller's tensors."""
        return self._pieces.results

    def source_rank(self) -> int:
        """The sender, of a receive."""
        return int(self._work.source_rank())

    def get_future(self) -> Any:
        """A future of the tensors."""
        if self._future is None:

            def value(done: Any) -> Any:
                done.value()
                self._settle()
                return self._pieces.results

            self._future = self._work.get_future().then(value)
        return self._future

    def synchronize(self) -> None:
        """As wait."""
        self.wait()

    def block_current_stream(self) -> None:
        """As wait."""
        self.wait()
