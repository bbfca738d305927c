"""Allreduces over shaped links: Pascaline, Gloo and Open MPI, against size ÷ bandwidth."""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import install
import programs
import reducers
import shaped
from appliance_shaped import DEVICE
from context import Context
from figure import Beside, Goal, Section

TITLE = "Allreduce over shaped links: Pascaline, Gloo and Open MPI, against size / bandwidth"

KIB, MIB = 1024, 1024 * 1024
OURS, GLOO, RING, DEFAULT = "Pascaline", "Gloo", "Open MPI, ring", "Open MPI, default"
# The sum of all links' rates, in Mbit/s, that two cores can carry through all hops of all workers' packets.
ALL_LINKS = 400
# The goal: the time of an allreduce as a multiple of S/B, its time on an ideal network.
_SHARE = 0.95


def measure(context: Context, section: Section) -> None:
    """All systems in turns, three times; the result is the median of the turns' ratios."""
    counts = context.options.workers or ((4,) if context.options.quick else (2, 4, 8))
    runs = context.pick(3, 1)
    section.notes += [
        "float32, one namespace per worker, each link shaped with tbf in both directions, 1,500-byte frames; "
        "the appliance's own link is not shaped, since it stands for the switch. Time: of the slowest rank, "
        "after a barrier; the median over the sums, and "
        f"{'of one run' if runs == 1 else f'the median of {runs} runs, the systems in turns'}. Every sum is "
        "checked.",
        "S/B: the bytes that a worker must send (and receive), Ethernet, IP, UDP and Pascaline headers "
        "included, over the link's rate: no aggregation in the network can be faster. A ring sends "
        "2(N − 1)/N times the tensor.",
        "The bucket of each shaper holds 6 KiB: so much of a message passes at the speed of memory, which "
        "is 15 % of 40 KiB, for all alike.",
        f"Each rank's link has {ALL_LINKS} Mbit/s ÷ N unless --mbit says otherwise: the cores of this one "
        "machine carry all hops of all links, and are to be no bottleneck.",
        f"The appliance's port: {DEVICE}.",
    ]
    peers = _peers(context, section)
    for count in counts:
        mbit = context.options.mbit or max(1, ALL_LINKS // count)
        sizes = _sizes(count, mbit, quick=context.options.quick)
        # Of each turn; none for a system that failed in it.
        times: Times = {}
        for turn in range(runs):
            ways: dict[str, Any] = {OURS: partial(_ours, context, section, turn), **peers}
            for name, reduce in ways.items():
                what = f"{name}, {count} workers at {mbit} Mbit/s, run {turn + 1} of {runs}"
                with context.attempt(section, what), shaped.Shaped(count, mbit) as network:
                    for size, seconds in reduce(network, sizes).items():
                        times.setdefault(name, {}).setdefault(size, [None] * runs)[turn] = seconds
        section.raw[f"{count} workers"] = {"mbit": mbit, "runs_seconds": times}
        for size in sizes:
            _judge(section, count, mbit, size, times)


Times = dict[str, dict[int, list[float | None]]]
Reducer = Callable[[shaped.Shaped, dict[int, int]], dict[int, float]]


def _ours(
    context: Context, section: Section, turn: int, network: shaped.Shaped, sizes: dict[int, int]
) -> dict[int, float]:
    times, counted = reducers.pascaline(context, network, sizes)
    section.raw[f"Pascaline, {len(network.workers)} workers, run {turn + 1}"] = counted
    return times


def _peers(context: Context, section: Section) -> dict[str, Reducer]:
    peers: dict[str, Reducer] = {}
    if context.options.no_peers:
        section.notes.append("Without peers: --no-peers.")
        return peers

    def mpi() -> str:
        program = install.openmpi(context.peers)
        peers[RING] = lambda network, sizes: reducers.openmpi(context, network, program, sizes, reducers.RING)
        peers[DEFAULT] = lambda network, sizes: reducers.openmpi(context, network, program, sizes)
        return f"{programs.version('mpirun', '--version')}, over TCP; ranks yield while they wait."

    def gloo() -> str:
        python = install.gloo(context.stop)
        peers[GLOO] = lambda network, sizes: reducers.gloo(context, network, python, sizes)
        version = programs.version(str(python), "-c", "import torch; print(torch.__version__)")
        return f"Gloo of PyTorch {version}."

    for name, prepare in (("Open MPI", mpi), ("Gloo", gloo)):
        with context.attempt(section, name):
            section.notes.append(prepare())
    return peers


def _sizes(count: int, mbit: int, *, quick: bool) -> dict[int, int]:
    """How often each size is summed: equally long at every rate."""
    share = mbit * count / ALL_LINKS / (count / 4)
    sizes = {40 * KIB: 60, MIB: 10, 16 * MIB: 3}
    if count == 4:
        sizes[4 * MIB] = 5
    if quick:
        sizes.pop(16 * MIB)
    return {size: max(3, round(times * share)) for size, times in sorted(sizes.items())}


def case_of(count: int, size: int, mbit: int) -> str:
    amount = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
    return f"N = {count}, {amount}, {mbit} Mbit/s"


def _median(turns: list[float | None]) -> float:
    """In milliseconds."""
    return 1e3 * statistics.median(seconds for seconds in turns if seconds is not None)


def _judge(section: Section, count: int, mbit: int, size: int, times: Times) -> None:
    mine = times.get(OURS, {}).get(size)
    if mine is None:
        return
    ours = _median(mine)
    packets = -(-size // shaped.PAYLOAD)
    limit = 1e3 * (size + packets * shaped.PASCALINE_HEADERS) * 8 / (mbit * 1e6)
    case = case_of(count, size, mbit)
    goal = Goal(at_least=_SHARE) if size >= 4 * MIB else None
    section.figure(
        f"{case}: Pascaline", ours, "ms", Beside("S/B with headers", limit), inverse=True, goal=goal,
        group=case, label="Pascaline",
    )  # fmt: skip
    for name in (GLOO, RING, DEFAULT):
        theirs = times.get(name, {}).get(size, [None] * len(mine))
        pairs = [(its, own) for its, own in zip(theirs, mine, strict=True) if its and own]
        if not pairs:
            continue
        least = 1.0 if count >= 4 else None
        if count == 4 and (name, size) == (GLOO, 4 * MIB):
            least = 1.5
        if count == 4 and (name, size) == (RING, 40 * KIB):
            least = 1.45
        section.figure(
            f"{case}: against {name}", ours, "ms", Beside(name, _median(theirs)), inverse=True,
            goal=Goal(at_least=least) if least else None, group=case, label="Pascaline",
            of_turns=statistics.median(its / own for its, own in pairs),
        )  # fmt: skip
