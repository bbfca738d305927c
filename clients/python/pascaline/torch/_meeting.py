"""How the processes of a group find each other in a store that may still have entries of earlier processes.

torchrun with a fixed address, as on one machine, keeps one store while it starts ranks anew (PyTorch 2.15:
`StaticTCPRendezvous`), and a program may end its group and begin another one. Entries of their
predecessors look like new ones: a rank that believes them connects to a dead process.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ..errors import IncompleteError, MismatchError

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


def compare(store: Any, rank: int, size: int, settings: Mapping[str, Any], timeout: timedelta) -> None:
    """Has all ranks compare what must be the same everywhere.

    Rank 0 reads what each has, and writes what differs. Raises MismatchError, at every rank, which
    names the setting, its values and the ranks.
    """
    store.set(f"settings/{rank}", json.dumps(settings))
    if rank == 0:
        store.wait([f"settings/{other}" for other in range(size)], timeout)
        theirs = [json.loads(store.get(f"settings/{other}")) for other in range(size)]
        store.set("settings/verdict", json.dumps(_difference(theirs)))
    store.wait(["settings/verdict"], timeout)
    text, ranks = json.loads(store.get("settings/verdict"))
    if text:
        raise MismatchError(text, ranks)


def _difference(all_ranks: Sequence[Mapping[str, Any]]) -> tuple[str, list[int]]:
    first = all_ranks[0]
    for name in sorted(set().union(*all_ranks)):
        others = [rank for rank, found in enumerate(all_ranks) if found.get(name) != first.get(name)]
        if others:
            other = all_ranks[others[0]].get(name)
            text = f"{name} is {first.get(name)} at rank 0 and {other} at rank {others[0]}: set it alike"
            return f"{text} at all ranks, in the environment or by pascaline.torch.configure", others
    return "", []


def _read(store: Any, key: str) -> str:
    """The entry, or None."""
    return str(store.get(key).decode()) if store.check([key]) else ""


def _wait(end: float, text: str, ranks: Sequence[int]) -> None:
    if time.monotonic() > end:
        more = "see what they say, or give init_process_group a longer timeout"
        raise IncompleteError(f"{text}; {more}", ranks)
    time.sleep(_LOOK)
