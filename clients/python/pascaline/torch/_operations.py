"""Operations of a group, in the order of the calls, and the objects that torch.distributed holds of them."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work as _Work

from ..errors import ClosedError, PascalineError
from ._promises import Keepers
from ._staging import Arrival
from ._tensors import is_here, seconds
from ._works import made

_KEPT = 256
# Exceptions of an operation: the appliance's, and those of Gloo and PyTorch.
_FAILURES = (PascalineError, RuntimeError, ValueError)
# The latest results stay with their Work. Of earlier ones, the caller holds the tensors.
_WHOLE = 8


class Operation:
    """One operation in flight: how it began, and how it ends.

    `finish` is called once, when all operations before it have ended: it waits for the handle and puts the
    result where it belongs, or starts a copy there. Without an appliance it may do the whole work.
    """

    def __init__(self, tensors: list[Any], finish: Callable[[], Arrival | None]) -> None:
        self.error: BaseException | None = None
        # Copies of its results to a device, if they belong there.
        self.arrival: Arrival | None = None
        self.ended = False
        self.work: Work | None = None
        # Makes its tensors, until it has them.
        self.future: Any = None
        # Set by the thread that ends it.
        self.promises: list[Promise] = []
        self._tensors: Any = tensors
        self._over = False
        self._ending = threading.Lock()
        self._finish: Callable[[], Arrival | None] | None = finish
        # Tensors of inference mode must not be written outside of it.
        self._inference = torch.is_inference_mode_enabled()

    @property
    def tensors(self) -> list[Any]:
        """Its tensors; long after its end, those that are still referenced elsewhere."""
        return _there(self._tensors) if self._over else self._tensors

    def forget(self) -> None:
        """Releases the tensors: a Work lives on for a while."""
        self._over, self._tensors = True, _seen(self._tensors)

    def end(self) -> None:
        """Ends it, well or not. An exception of a signal's handler leaves its state unchanged."""
        if self.ended:
            return
        arrival, failure = None, None
        try:
            with torch.inference_mode(self._inference):
                arrival = self._finish() if self._finish else None
        except BaseException as error:
            # Handlers run in the main thread.
            handles = threading.current_thread() is threading.main_thread()
            if handles and not isinstance(error, _FAILURES):
                raise
            failure = error
        with self._ending:
            # It may have been aborted meanwhile.
            if not self.ended:
                self.arrival, self.error, self._finish, self.ended = arrival, failure, None, True

    def abort(self) -> None:
        """Ends it without its result; a thread that is still inside `finish` is not waited for."""
        with self._ending:
            if not self.ended:
                self.error, self.ended = ClosedError("the operation was aborted with its group", ()), True


class Promise:
    """A future of an operation."""

    def __init__(self, operation: Operation, future: Any, tensors: list[Any]) -> None:
        self.operation = operation
        self._future, self._tensors = future, tensors

    def keep(self) -> None:
        """Fulfils the future."""
        arrival = self.operation.arrival
        # The stream of the caller waits for the present one.
        with arrival.here() if arrival else nullcontext():
            self._future.set_result(self._tensors)
        self.operation.future = None


def _seen(tensors: Any) -> Any:
    """Without keeping them alive."""
    return [_seen(each) for each in tensors] if isinstance(tensors, list) else weakref.ref(tensors)


def _there(seen: Any) -> Any:
    """Those that still exist."""
    if not isinstance(seen, list):
        return seen()
    return [tensor for tensor in map(_there, seen) if tensor is not None]


class Line:
    """The operations of a group that have not ended, and the thread that ends those with a future."""

    def __init__(self) -> None:
        self._waiting: deque[Operation] = deque()
        # One thread ends the first of those; notified when it has ended.
        self._changed = threading.Condition()
        self._busy = False
        # C++ holds only the base object of a Work, which is of no use without the Python object: those that
        # have not ended are kept alive, and the latest ones, which C++ may be handing on.
        self._kept: deque[Work] = deque(maxlen=_KEPT)
        # The latest ones that have ended, with their tensors.
        self._ended: deque[Operation] = deque()
        self._promised: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._keepers = Keepers()

    def join(self, operation: Operation) -> Work:
        """The next one."""
        operation.work = Work(self, operation)
        self._kept.append(operation.work)
        self._waiting.append(operation)
        return made(operation.work)

    def end(self, operation: Operation) -> None:
        """Ends it, and those before it. Raises its error."""
        if not operation.ended:
            Keepers.step_aside()
        while not operation.ended and self._waiting:
            self._step(operation)
        if operation.error:
            raise operation.error

    def _step(self, operation: Operation) -> None:
        """Ends the first one, or waits until another thread has; no longer than for `operation`."""
        own = False
        try:
            with self._changed:
                self._changed.wait_for(lambda: operation.ended or not self._busy)
                if operation.ended or not self._waiting:
                    return
                own = self._busy = True
                first = self._waiting[0]
            # Without the lock: threads that wait for an ended operation continue.
            first.end()
        finally:
            if own:
                self._release()

    def _release(self, *, stepping: bool = True) -> None:
        with self._changed:
            if stepping:
                self._busy = False
            promises = self._note()
            self._changed.notify_all()
        # Elsewhere: a callback may wait for an operation that this thread has yet to end.
        for promise in promises:
            self._keepers.submit(promise.keep)

    def _note(self) -> list[Promise]:
        promises: list[Promise] = []
        while self._waiting and self._waiting[0].ended:
            ended = self._waiting.popleft()
            ended.work = None
            promises += ended.promises
            ended.promises = []
            self._ended.append(ended)
        while len(self._ended) > _WHOLE:
            self._ended.popleft().forget()
        return promises

    def ended_within(self, operation: Operation, seconds: float) -> bool:
        """Whether it ends in time. It continues in any case."""
        if not operation.ended and operation.future is None:
            self.promise(operation)
        if not operation.ended:
            Keepers.step_aside()
        with self._changed:
            return self._changed.wait_for(lambda: operation.ended, seconds)

    def promise(self, operation: Operation) -> Any:
        """A future of it: the tensors, or its error."""
        tensors = operation.tensors
        away = {tensor.device for tensor in tensors if not is_here(tensor)}
        base: Any = torch.futures.Future(devices=sorted(away, key=str))

        def value(_: Any) -> Any:
            # C++ does not see an exception that is set on a future; it sees one that a callback raises.
            if operation.error:
                raise operation.error
            return tensors

        future = base.then(value)
        promise = Promise(operation, base, tensors)
        with self._changed:
            # The thread that ends it takes the lock once more, and finds the promise.
            ended = operation.ended
            if not ended:
                operation.promises.append(promise)
                operation.future = future
            if not ended and self._thread is None:
                self._thread = threading.Thread(target=self._end_all, name="pascaline-futures", daemon=True)
                self._thread.start()
        if ended:
            promise.keep()
        else:
            self._promised.put(operation)
            # The caller may be a callback that waits for this future.
            Keepers.step_aside()
        return future

    def is_empty_within(self, seconds: float) -> bool:
        """Whether all of them have ended by then."""
        with self._changed:
            last = self._waiting[-1] if self._waiting else None
        return last is None or self.ended_within(last, max(seconds, 0.0))

    def close(self, *, abort: bool) -> None:
        """Ends operations in flight, and the thread; with `abort`, without waiting for either."""
        with self._changed:
            waiting = list(self._waiting)
        for operation in waiting if abort else ():
            operation.abort()
        if abort:
            self._release(stepping=False)
        elif waiting:
            self._quietly(waiting[-1])
        if self._thread:
            self._promised.put(None)
            if not abort:
                self._thread.join()
        self._keepers.drain()

    def _quietly(self, operation: Operation) -> None:
        try:
            self.end(operation)
        except Exception:
            return

    def _end_all(self) -> None:
        while (operation := self._promised.get()) is not None:
            while not operation.ended and self._waiting:
                self._step(operation)
            # Holds no tensor while there is nothing to do.
            del operation


class Work(_Work):
    """What a call of torch.distributed returns."""

    def __init__(self, line: Line, operation: Operation) -> None:
        super().__init__()
        self._line = line
        self._operation = operation

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end; every operation has one. Raises what went wrong.

        As with Gloo, after the timeout a RuntimeError; the operation continues.
        """
        limit = seconds(timeout)
        if limit is not None and not self._line.ended_within(self._operation, limit):
            raise RuntimeError("Operation timed out!")
        self._line.end(self._operation)
        if self._operation.arrival:
            self._operation.arrival.wait()
        return True

    def is_completed(self) -> bool:
        """Whether it has ended, well or not. The caller need not wait: the group ends it meanwhile."""
        if not self._operation.ended:
            self.get_future()
        return self._operation.ended

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._operation.ended and self._operation.error is None

    def exception(self) -> BaseException | None:
        """Its error."""
        return self._operation.error

    def result(self) -> list[Any]:
        """The tensors."""
        return self._operation.tensors

    def get_future(self) -> Any:
        """A future of the tensors."""
        operation = self._operation
        future = operation.future
        if future is None:
            future = self._line.promise(operation)
        return future

    def synchronize(self) -> None:
        """As wait."""
        self.wait()

    def block_current_stream(self) -> None:
        """As wait: the host, too, waits until the sum is there."""
        self.wait()


class Works(_Work):
    """Several Works as one, each by the appliance or Gloo: it ends with the last, and fails with any."""

    def __init__(self, works: Sequence[Any], tensors: list[Any]) -> None:
        super().__init__()
        self._works = works
        self._tensors = tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for all of them. Raises the first error."""
        limit = seconds(timeout)
        end = None if limit is None else time.monotonic() + limit
        failures = []
        for work in self._works:
            try:
                # A timeout of 0 would mean no limit.
                left = () if end is None else (timedelta(seconds=max(end - time.monotonic(), 0.001)),)
                work.wait(*left)
            except _FAILURES as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return True

    def is_completed(self) -> bool:
        """Whether all have ended, well or not."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Whether all have ended well."""
        return all(work.is_success() for work in self._works)

    def exception(self) -> BaseException | None:
        """The first error."""
        return next((error for work in self._works if (error := work.exception())), None)

    def result(self) -> list[Any]:
        """The tensors."""
        return self._tensors

    def get_future(self) -> Any:
        """A future of the tensors."""

        def value(done: Any) -> Any:
            for each in done.value():
                each.value()
            return self._tensors

        return torch.futures.collect_all([work.get_future() for work in self._works]).then(value)

    def synchronize(self) -> None:
        """As wait."""
        self.wait()

    def block_current_stream(self) -> None:
        """As wait."""
        self.wait()
