"""Every call of a group, with every type and shape of tensor, through the appliance and over Gloo.

Each result is compared with one computed from the ranks' inputs in Python. A combination may be refused, by
an exception at every rank; it may not be wrong. `table` prints how many were right and how many refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import pascaline
from conftest import RANKS, options, together
from pascaline.torch import Group, Settings

_TYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.uint32,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
_SHAPES: dict[str, Callable[[Any], Any]] = {
    "line": lambda dtype: torch.zeros(12, dtype=dtype),
    "table": lambda dtype: torch.zeros(3, 4, dtype=dtype),
    "offset": lambda dtype: torch.zeros(20, dtype=dtype)[5:17],
    "transposed": lambda dtype: torch.zeros(4, 3, dtype=dtype).t(),
    "every other": lambda dtype: torch.zeros(24, dtype=dtype)[::2],
    "column": lambda dtype: torch.zeros(12, 5, dtype=dtype)[:, 2],
    "one": lambda dtype: torch.zeros(1, dtype=dtype),
    "scalar": lambda dtype: torch.zeros((), dtype=dtype),
    "empty": lambda dtype: torch.zeros(0, dtype=dtype),
    "empty table": lambda dtype: torch.zeros(3, 0, dtype=dtype),
    "expanded": lambda dtype: torch.zeros(1, dtype=dtype).expand(12),
}
_OPS = {"SUM": sum, "AVG": None, "MIN": min, "MAX": max}
_found: Counter[str] = Counter()


def _filled(shape: str, dtype: Any, seed: int) -> Any:
    """A tensor of this shape with small numbers that depend on the seed, and on the place unless shared."""
    tensor = _SHAPES[shape](dtype)
    values = [(7 * seed + 3 * place) % 8 + 1 for place in range(max(tensor.numel(), 1))]
    if shape == "expanded":
        tensor[:1].fill_(values[0] % 2 if dtype == torch.bool else values[0])
        return tensor
    if tensor.numel():
        made = torch.tensor(values, dtype=torch.int64).reshape(tensor.shape)
        tensor.copy_(made % 2 == 0 if dtype == torch.bool else made)
    return tensor


def _listed(tensor: Any) -> Any:
    return tensor.reshape(-1).tolist()


def _reduced(inputs: list[Any], op: str) -> list[Any]:
    """By hand, element by element."""
    columns = zip(*map(_listed, inputs), strict=True)
    if op == "AVG":
        return [sum(column) / len(column) for column in columns]
    found = [_OPS[op](column) for column in columns]  # type: ignore[misc]
    return [bool(value) for value in found] if inputs[0].dtype == torch.bool else found


def _near(got: list[Any], wanted: list[Any], dtype: Any) -> bool:
    bits = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6, torch.complex64: 1e-6}
    off = bits.get(dtype, 1e-12)
    if len(got) != len(wanted):
        return False
    pairs = zip(got, wanted, strict=True)
    return all(abs(one - other) <= off * max(1, abs(other)) for one, other in pairs)


class Call:
    """One call with one type and shape: what each rank has, does, and must hold afterwards."""

    def __init__(self, name: str, shape: str, dtype: Any, op: str = "SUM") -> None:
        self.name, self.shape, self.dtype, self.op = name, shape, dtype, op

    def tensor(self, seed: int) -> Any:
        """An input."""
        return _filled(self.shape, self.dtype, seed)

    def run(self, group: Group) -> list[tuple[list[Any], list[Any]]]:
        """Calls; pairs of what came and what should have come."""
        pairs: list[tuple[list[Any], list[Any]]] = getattr(self, f"_{self.name}")(group, group.rank())
        return pairs

    def _inputs(self) -> list[Any]:
        return [self.tensor(rank) for rank in range(RANKS)]

    def _allreduce(self, group: Group, rank: int) -> Any:
        own = self.tensor(rank)
        group.allreduce([own], options(op=getattr(dist.ReduceOp, self.op))).wait()
        return [(_listed(own), _reduced(self._inputs(), self.op))]

    def _allreduce_coalesced(self, group: Group, rank: int) -> Any:
        own = [self.tensor(rank), self.tensor(rank + 5)]
        made = c10d.AllreduceCoalescedOptions()
        made.reduceOp = getattr(dist.ReduceOp, self.op)
        group.allreduce_coalesced(own, made).wait()
        both = (self._inputs(), [self.tensor(other + 5) for other in range(RANKS)])
        return [(_listed(o), _reduced(i, self.op)) for o, i in zip(own, both, strict=True)]

    def _reduce(self, group: Group, rank: int) -> Any:
        own = self.tensor(rank)
        group.reduce([own], options("Reduce", getattr(dist.ReduceOp, self.op), 1)).wait()
        return [(_listed(own), _reduced(self._inputs(), self.op))] if rank == 1 else []

    def _broadcast(self, group: Group, rank: int) -> Any:
        own = self.tensor(rank)
        group.broadcast([own], options("Broadcast", root=2)).wait()
        return [(_listed(own), _listed(self.tensor(2)))]

    def _allgather(self, group: Group, rank: int) -> Any:
        outputs = [self.tensor(50) for _ in range(RANKS)]
        group.allgather([outputs], [self.tensor(rank)], options("Allgather")).wait()
        return [(_listed(o), _listed(i)) for o, i in zip(outputs, self._inputs(), strict=True)]

    def _all_gather_single(self, group: Group, rank: int) -> Any:
        own = self.tensor(rank)
        output = torch.zeros(RANKS * own.numel(), dtype=self.dtype)
        group.all_gather_single(output, own, options("Allgather")).wait()
        return [(_listed(output), [value for i in self._inputs() for value in _listed(i)])]

    def _gather(self, group: Group, rank: int) -> Any:
        # An output that only the root could refuse leaves the others waiting.
        shared = self.shape == "expanded"
        room = [self.tensor(50).clone() if shared else self.tensor(50) for _ in range(RANKS)]
        outputs = [room] if rank == 1 else []
        group.gather(outputs, [self.tensor(rank)], options("Gather", root=1)).wait()
        found = outputs[0] if rank == 1 else []
        return [(_listed(o), _listed(i)) for o, i in zip(found, self._inputs(), strict=False)]

    def _scatter(self, group: Group, rank: int) -> Any:
        output = self.tensor(50)
        group.scatter([output], [self._inputs()] if rank == 1 else [], options("Scatter", root=1)).wait()
        return [(_listed(output), _listed(self.tensor(rank)))]

    def _lists(self) -> list[list[Any]]:
        """By sender and receiver."""
        return [[self.tensor(3 * sender + to) for to in range(RANKS)] for sender in range(RANKS)]

    def _reduce_scatter(self, group: Group, rank: int) -> Any:
        output = self.tensor(50)
        lists = self._lists()
        made = options("ReduceScatter", getattr(dist.ReduceOp, self.op))
        group.reduce_scatter([output], [lists[rank]], made).wait()
        return [(_listed(output), _reduced([each[rank] for each in lists], self.op))]

    def _reduce_scatter_single(self, group: Group, rank: int) -> Any:
        output = self.tensor(50)
        lists = self._lists()
        whole = torch.cat([each.reshape(-1) for each in lists[rank]])
        made = options("ReduceScatter", getattr(dist.ReduceOp, self.op))
        group.reduce_scatter_single(output, whole, made).wait()
        return [(_listed(output), _reduced([each[rank] for each in lists], self.op))]

    def _alltoall(self, group: Group, rank: int) -> Any:
        outputs = [self.tensor(50) for _ in range(RANKS)]
        lists = self._lists()
        group.alltoall(outputs, lists[rank], options("AllToAll")).wait()
        return [(_listed(o), _listed(each[rank])) for o, each in zip(outputs, lists, strict=True)]

    def _all_to_all_single(self, group: Group, rank: int) -> Any:
        lists = self._lists()
        whole = torch.cat([each.reshape(-1) for each in lists[rank]])
        output = torch.zeros_like(whole)
        group.all_to_all_single(output, whole, [], [], options("AllToAll")).wait()
        return [(_listed(output), [value for each in lists for value in _listed(each[rank])])]

    def _send(self, group: Group, rank: int) -> Any:
        own = self.tensor(rank)
        if rank == 0:
            group.send([own], 1, 9).wait()
            return []
        if rank == 1:
            # A receiver that refuses would leave the sender waiting.
            own = own.clone() if self.shape == "expanded" else own
            group.recv([own], 0, 9).wait()
            return [(_listed(own), _listed(self.tensor(0)))]
        return []


_CALLS = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "broadcast",
    "allgather",
    "all_gather_single",
    "gather",
    "scatter",
    "alltoall",
    "all_to_all_single",
    "send",
)
_REDUCING = ("allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_single")


def _calls(name: str) -> Iterator[Call]:
    for shape in _SHAPES:
        for dtype in _TYPES:
            for op in _OPS if name in _REDUCING else ("SUM",):
                yield Call(name, shape, dtype, op)


@pytest.fixture(scope="module")
def way(request: pytest.FixtureRequest, appliance: pascaline.Appliance) -> Iterator[tuple[str, list[Group]]]:
    """Groups of threads, with a job of the appliance's or with none."""
    named: str = request.param
    store = dist.HashStore()
    settings = Settings(appliance.address, worker={"timeout": 10.0, "linger": 0.2})

    def one(rank: int) -> Group:
        place = SimpleNamespace(store=store, group_rank=rank, group_size=RANKS, timeout=timedelta(seconds=10))
        return Group(place, settings, 1063 if named == "appliance" else 0)

    made = together(one)
    yield named, made
    together(lambda rank: made[rank].shutdown())


def _of_rank(made: list[Group], call: Call, rank: int) -> str:
    return _outcome(made[rank], call)


def _outcome(group: Group, call: Call) -> str:
    try:
        pairs = call.run(group)
    except (RuntimeError, ValueError, TypeError) as error:
        return f"refused: {error}"
    return "right" if all(_near(got, wanted, call.dtype) for got, wanted in pairs) else f"wrong: {pairs}"


@pytest.mark.parametrize("way", ["appliance", "gloo"], indirect=True)
@pytest.mark.parametrize("name", _CALLS)
def test_no_result_is_wrong(name: str, way: tuple[str, list[Group]]) -> None:
    """Right, or refused at every rank that could have got a wrong result."""
    named, made = way
    wrong = []
    for call in _calls(name):
        found = together(partial(_of_rank, made, call))
        kinds = {each.partition(":")[0] for each in found}
        kind = "wrong" if "wrong" in kinds else "refused" if "refused" in kinds else "right"
        _found[kind] += 1
        if kind == "wrong" or "timed out" in str(found).lower():
            wrong.append((call.shape, call.dtype, call.op, found))
    assert not wrong, f"{len(wrong)} over {named}: {wrong[:3]}"


def test_the_table_is_full() -> None:
    """Prints how many there were; most are right, and none is wrong."""
    print("table:", dict(_found))
    cases = 2 * len(_SHAPES) * len(_TYPES) * (len(_REDUCING) * len(_OPS) + 8)
    assert sum(_found.values()) == cases
    assert _found["wrong"] == 0
    assert _found["right"] > cases // 2
