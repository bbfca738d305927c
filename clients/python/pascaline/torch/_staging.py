"""Tensors on a device: what a group sums of them lies in pinned memory of the host meanwhile.

Copies are made on separate streams, one each way, in parallel with computation, and no call waits for
one: a thread waits for what comes from the device, and then starts the operation; a wait for
the result makes the caller's stream wait for the copy back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import torch

from ._tensors import is_here


class Event(Protocol):
    """A place in a stream."""

    def synchronize(self) -> None:
        """Waits until the device has come there."""


class Arrival:
    """Results on their way to a device."""

    def __init__(self, module: Any, stream: Any) -> None:
        self._module, self._stream = module, stream
        self._event = stream.record_event()

    def wait(self) -> None:
        """Has their device's present stream wait for them, and not the caller."""
        self._event.wait(self._module.current_stream(self._stream.device))

    def here(self) -> AbstractContextManager[Any]:
        """The stream that brings them is the present one in this context."""
        context: AbstractContextManager[Any] = self._module.stream(self._stream)
        return context


class Device:
    """The ways to one device and from it."""

    def __init__(self, device: torch.device) -> None:
        self._module = torch.get_device_module(device)
        self._device = device
        self._from, self._to = self._module.Stream(device), self._module.Stream(device)

    def fetch(self, tensor: Any, *, read: bool) -> tuple[Any, Event]:
        """A tensor of the host, and the event to wait for before it is used."""
        self._from.wait_stream(self._module.current_stream(self._device))
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        if read:
            with self._module.stream(self._from):
                host.copy_(tensor.detach(), non_blocking=True)
            # Its memory is not reused until it has been copied.
            tensor.record_stream(self._from)
        # Waiting for it takes no processor.
        event: Event = self._module.Event(blocking=True)
        self._from.record_event(event)
        return host, event

    def bring(self, pairs: Iterable[tuple[Any, Any]]) -> Arrival:
        """Copies tensors of the host, the first ones, to tensors of the device."""
        with self._module.stream(self._to):
            for host, tensor in pairs:
                tensor.detach().copy_(host, non_blocking=True)
                tensor.record_stream(self._to)
        return Arrival(self._module, self._to)


def fetch(tensor: Any, *, read: bool = True, copy: bool = False) -> tuple[Any, Event | None]:
    """A tensor of the host to send and receive in its place, and what to wait for before it is used.

    The tensor itself, if it lies in the host's memory in one piece, unless a `copy` is wanted. read: what it
    holds counts.
    """
    device = _device_of(tensor)
    if device is None:
        # Gloo, which may have to do it again, sees where memory begins, and no strides.
        same = tensor.is_contiguous() and not copy
        return (tensor if same else tensor.detach().clone(memory_format=torch.contiguous_format)), None
    return device.fetch(tensor, read=read)


def bring(pairs: Sequence[tuple[Any, Any]]) -> Arrival | None:
    """Copies tensors of the host, the first ones, to where they belong: to one device, or to none."""
    device = _device_of(pairs[0][1]) if pairs else None
    if device:
        return device.bring(pairs)
    for host, tensor in pairs:
        if host is not tensor:
            tensor.detach().copy_(host)
    return None


def _device_of(tensor: Any) -> Device | None:
    return None if is_here(tensor) else _device(tensor.device)


@functools.cache
def _device(device: torch.device) -> Device:
    return Device(device)


Started = TypeVar("Started")


class Starts:
    """Starts operations in the order of their calls, which is the same at all ranks.

    One at once, unless it or one before it waits for a device.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._latest: Future[Any] | None = None

    def begin(self, start: Callable[[], Started], ready: Event | None) -> Callable[[], Started]:
        """Starts one; returns what waits until it has been started."""
        if ready is None and (self._latest is None or self._latest.done()):
            started = start()
            return lambda: started
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="pascaline-starts")

        def later() -> Started:
            if ready is not None:
                ready.synchronize()
            return start()

        latest = self._pool.submit(later)
        self._latest = latest
        return latest.result

    def close(self) -> None:
        """Ends the thread, once all have been started."""
        if self._pool:
            self._pool.shutdown()
