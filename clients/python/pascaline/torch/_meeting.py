"""How the processes of a group find each other in a store that may still know their forerunners.

torchrun with a fixed address, as on one machine, keeps one store while it starts ranks anew (PyTorch 2.15:
`StaticTCPRendezvous`), and a program may end its group and begin another one. Entries of their
predecessors look like new ones: a rank that believes them connects to a dead process.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ..errors import IncompleteError

_LOOK = 0.005


def meet(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """A part of the store that is these processes' alone.

    Each rank writes a unique word. Once every rank has one, rank 0 welcomes them, with a new word for the
    generation. A rank that finds its word among those welcomed confirms it. If one does not, rank 0 has
    welcomed a predecessor's word, and reads again. Raises IncompleteError after the timeout.
    """
    own, end = uuid.uuid4().hex, time.monotonic() + timeout.total_seconds()
    if rank == 0:
        _welcome(store, own, range(1, size), end)
        return dist.PrefixStore(own, store)
    store.set(f"word/{rank}", own)
    while own not in (words := _read(store, "welcome").split()):
        _wait(end, "rank 0 of the group of processes has not said in time that all are there", ())
    store.set(f"here/{rank}", words[0])
    return dist.PrefixStore(words[0], store)


def _welcome(store: Any, own: str, others: Sequence[int], end: float) -> None:
    welcomed: list[str] = []
    while late := [rank for rank in others if _read(store, f"here/{rank}") != own]:
        words = [_read(store, f"word/{rank}") for rank in others]
        if all(words) and words != welcomed:
            welcomed = words
            store.set("welcome", " ".join((own, *words)))
        late = [rank for rank, word in zip(others, words, strict=True) if not word] or late
        _wait(end, f"of the group of processes, these ranks have not come in time: {late}", late)


def _read(store: Any, key: str) -> str:
    """What is there, or nothing."""
    return str(store.get(key).decode()) if store.check([key]) else ""


def _wait(end: float, text: str, ranks: Sequence[int]) -> None:
    if time.monotonic() > end:
        more = "see what they say, or give init_process_group a longer timeout"
        raise IncompleteError(f"{text}; {more}", ranks)
    time.sleep(_LOOK)
