"""What a group does when the appliance fails: an exception, or a fallback to Gloo.

Ranks stop at the same operation, or at two that follow each other: no rank completes an operation to which
another has not yet contributed. Where some have completed the earlier one, the others get its result from
one of them, so that all have the same bits; then all operations go over Gloo.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .._worker import Handle, Worker
from ..errors import (
    ArgumentError,
    IncompleteError,
    MismatchError,
    PascalineError,
    RanksLostError,
    RefusedError,
)
from ._gloo import abandon, gloo
from ._settings import Settings

# How often a rank asks to join a job that the appliance does not allow its host to form, and seconds
# between: it may allow the host of another rank.
_TRIES, _BETWEEN = 3, 0.2
# Why the first group for which the appliance has no room goes over Gloo.
_NO_ROOM: list[PascalineError] = []


class Recovery:
    """The state of a group in which an appliance may fail."""

    def __init__(
        self, settings: Settings, store: Any, rank: int, size: int, timeout: timedelta, bind: str | None
    ) -> None:
        self._settings = settings
        self._bind = bind
        self._store = store
        self._rank, self._size, self._timeout = rank, size, timeout
        self._gloo: Any = None
        self._number = 0
        # The result of the latest operation that has ended, where others may need it; of a barrier none.
        self._latest: Any = None
        # Whether all ranks have the same.
        self._shared = True
        self.over = False
        self._aborted = False

    def abort(self) -> None:
        """From now on failed operations are not repeated over Gloo."""
        self._aborted = True
        if self._gloo is not None:
            abandon(self._gloo)

    def joined(self, join: Callable[[], Worker], group: Any, *, spare: bool) -> Worker | None:
        """A worker. None if a rank could not join and there is a fallback.

        spare: the job is one more of many. Where the appliance admits no more of them, such a group goes over
        Gloo in any case, as one for which there is no number.
        """
        if not self._settings.fallback and not spare:
            return join()
        worker, error = None, None
        try:
            worker = self._as_admitted(join) if spare else join()
        except PascalineError as failure:
            if not self._settings.fallback and not self._is_refused(failure):
                raise
            error = failure
        flag = torch.tensor([0 if worker is None else 1], dtype=torch.int32)
        options = c10d.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MIN
        group.allreduce([flag], options).wait()
        if flag.item():
            return worker
        if worker:
            worker.leave()
        error = error or PascalineError("another rank could not join")
        if self._settings.fallback:
            self._warn(error)
        elif self._rank == 0 and not _NO_ROOM:
            # The first of many groups warns for all.
            _NO_ROOM.append(error)
            text = (
                f"the appliance has no room for a further group of processes, which goes over Gloo: {error}"
            )
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return None

    def _as_admitted(self, join: Callable[[], Worker]) -> Worker:
        """Joins, unless the appliance lets no rank's host form the job: one that it lets is enough."""
        for _ in range(_TRIES - 1):
            try:
                return join()
            except RefusedError:
                time.sleep(_BETWEEN)
        try:
            return join()
        except RefusedError:
            self._store.set("refused", str(self._rank))
            raise

    def _is_refused(self, failure: PascalineError) -> bool:
        """Whether no rank can join: the appliance says so, or has said so to one that this one waited for."""
        if isinstance(failure, RefusedError):
            return True
        return isinstance(failure, IncompleteError) and bool(self._store.check(["refused"]))

    def keep(self, data: Any | None) -> Any | None:
        """A copy of what goes into an operation, where it may have to be done again."""
        return data.detach().clone() if data is not None and self._settings.fallback else None

    def next_number(self) -> int:
        """The number of the next operation."""
        self._number += 1
        return self._number

    def complete(
        self,
        number: int,
        handle: Handle | None,
        data: Any | None,
        kept: Any | None,
        again: Callable[[Any], None],
        *,
        shared: bool,
    ) -> bool:
        """Ends an operation; whether through the appliance. shared: all ranks get the same."""
        if handle is None or self.over:
            self._restore(data, kept if handle else None)
            again(self._second())
            return False
        try:
            handle.wait()
        except PascalineError as error:
            final = isinstance(error, (ArgumentError, MismatchError, RanksLostError))
            if final or self._aborted or not self._settings.fallback:
                raise
            self._fall_back(error, number, (data, kept, shared), again)
            return False
        if self._settings.fallback:
            self._shared = shared
            self._latest = data.detach().clone() if data is not None and shared else None
        return True

    def _fall_back(
        self,
        error: PascalineError,
        number: int,
        operation: tuple[Any | None, Any, bool],
        again: Callable[[Any], None],
    ) -> None:
        data, kept, shared = operation
        self._store.set(f"stopped/{self._rank}", str(number))
        stopped = [int(self._store.get(f"stopped/{rank}")) for rank in range(self._size)]
        first, ahead = min(stopped), [rank for rank, at in enumerate(stopped) if at > min(stopped)]
        behind = bool(ahead) and number == first
        if ahead and not (shared if behind else self._shared):
            # Those ahead have parts of their own of the result, and no longer what they were made of.
            raise error
        self.over = True
        self._warn(error)
        group = self._second()
        if ahead:
            result = data if behind else self._latest
            options = c10d.BroadcastOptions()
            options.rootRank = ahead[0]
            if result is not None:
                whole = result.contiguous()
                group.broadcast([whole], options).wait()
                if behind and whole is not result:
                    result.copy_(whole)
            if behind:
                return
        self._restore(data, kept)
        again(group)

    def _restore(self, data: Any | None, kept: Any | None) -> None:
        if data is not None and kept is not None:
            data.detach().copy_(kept)

    def _second(self) -> Any:
        """A group of Gloo's beside that of the calls that are Gloo's anyway: their orders are two."""
        if self._gloo is None:
            store = dist.PrefixStore("second", self._store)
            self._gloo = gloo(store, self._rank, self._size, self._timeout, self._bind)
        return self._gloo

    def _warn(self, error: PascalineError) -> None:
        if self._rank == 0:
            text = f"the appliance fails, and everything goes over Gloo from here on: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
