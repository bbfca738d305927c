"""Ranks by libpascaline, called as a program in C calls it: the bits that go in and those that come out."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from process import Failure

from .network import Host

_T = TypeVar("_T")


class DType(IntEnum):
    """`pascaline_dtype`."""

    F32 = 1
    I32 = 2
    F16 = 3
    BF16 = 4
    F64 = 5

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return {DType.F16: 2, DType.BF16: 2, DType.F64: 8}.get(self, 4)


class Op(IntEnum):
    """`pascaline_op`."""

    SUM = 0
    MIN = 1
    MAX = 2
    MEAN = 3


class Report(ctypes.Structure):
    """`pascaline_report`."""

    _fields_ = [
        ("bytes", ctypes.c_uint64),
        ("packets", ctypes.c_uint64),
        ("elapsed_ns", ctypes.c_uint64),
        ("round_trip_ns", ctypes.c_uint64),
        ("retransmissions", ctypes.c_uint64),
        ("overflows", ctypes.c_uint64),
        ("missing_ranks", ctypes.c_uint64),
    ]


class Library:
    """The library in the directory that scripts/clients has named."""

    def __init__(self, directory: Path) -> None:
        self._library = ctypes.CDLL(str(directory / "lib/libpascaline.so.0"))
        self._library.pascaline_last_error.restype = ctypes.c_char_p

    def join(self, hosts: Sequence[Host], urls: Sequence[str]) -> list[Rank]:
        """A rank in each host, once all have joined."""
        pairs = zip(hosts, urls, strict=True)
        return together([partial(host.inside, partial(Rank, self._library, url)) for host, url in pairs])


class Rank:
    """One rank, from `pascaline_init` on. Its sockets are in the namespace of the thread that makes it."""

    def __init__(self, library: ctypes.CDLL, url: str) -> None:
        self._library, self._handle = library, ctypes.c_void_p()
        self._check(library.pascaline_init(url.encode(), ctypes.byref(self._handle)))

    def allreduce(
        self, values: bytes, dtype: DType = DType.F32, op: Op = Op.SUM, *, late: float = 0.0, pieces: int = 1
    ) -> bytes:
        """The result's bits, by one call for each piece; all of them begin `late` seconds later."""
        count = len(values) // dtype.size
        begins = [count * piece // pieces * dtype.size for piece in range(pieces + 1)]
        parts = [values[begin:end] for begin, end in itertools.pairwise(begins)]
        return b"".join(self._call(part, dtype, op, late / pieces) for part in parts)

    def _call(self, values: bytes, dtype: DType, op: Op, late: float) -> bytes:
        time.sleep(late)
        output = ctypes.create_string_buffer(len(values))
        count = ctypes.c_size_t(len(values) // dtype.size)
        call = self._library.pascaline_allreduce
        self._check(call(self._handle, values, output, count, int(dtype), int(op)))
        return output.raw

    def report(self) -> Report:
        """What the latest operation was like."""
        report = Report()
        self._check(self._library.pascaline_last_report(self._handle, ctypes.byref(report)))
        return report

    def leave(self) -> None:
        self._check(self._library.pascaline_finalize(ctypes.byref(self._handle)))

    def _check(self, status: int) -> None:
        if status:
            said = self._library.pascaline_last_error(self._handle)
            raise Failure(f"libpascaline: status {status}: {said.decode()}")


def allreduce(ranks: Sequence[Rank], inputs: Iterable[bytes], *each: Any, **terms: Any) -> bytes:
    """What every rank gets, which must be the same. A list or tuple among the terms has one for each rank."""
    calls = [
        partial(rank.allreduce, values, *each, **{key: _of(term, at) for key, term in terms.items()})
        for at, (rank, values) in enumerate(zip(ranks, inputs, strict=True))
    ]
    first, *others = together(calls)
    assert all(other == first for other in others), "ranks have different bits"
    return first


def leave(ranks: Sequence[Rank]) -> None:
    """All leave at once, as each waits for the others."""
    if ranks:
        together([rank.leave for rank in ranks])


def together(calls: Sequence[Callable[[], _T]]) -> list[_T]:
    """Makes all calls at the same time; returns what they return, in their order."""
    with ThreadPoolExecutor(max_workers=len(calls)) as threads:
        return [done.result() for done in [threads.submit(call) for call in calls]]


def _of(term: Any, at: int) -> Any:
    return term[at] if isinstance(term, (list, tuple)) else term
