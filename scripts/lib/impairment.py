"""A bad network between workers and appliance: frames lost, doubled and reordered, in both directions.

The kernel's netem does it where the kernel has it, on a bridge in the namespace between. Where it has not,
`pascaline-lab impair` carries the frames across instead. The report has what was done to the frames,
not what was requested.
"""

import json
from typing import Any

import build
from netns import Network, shown
from options import Options
from process import Failure, run
from stage import Stage

_STOP_SECONDS = 5.0
_READY_SECONDS = 10.0
# All but the last in percent of all frames, in each direction.
_ASKED = ("loss", "duplicate", "reorder", "seed")
# netem reorders by delaying the others: long enough for several packets to pass, short for a retransmission
# timer.
_NETEM_DELAY = "delay 1ms reorder {}%"
_NETEM_LIMIT = "limit 20000"


class NoImpairment:
    """The plain link; the others carry frames between a worker's link and the appliance's."""

    def start(self) -> None:
        """Connects the halves."""

    def check(self) -> None:
        """Raises if it has ended unexpectedly."""

    def report(self) -> dict[str, Any]:
        """Ends it and returns its counts."""
        return {"by": "none"}


class UserSpace(NoImpairment):
    """`pascaline-lab impair`, one process per worker."""

    def __init__(self, stage: Stage, network: Network, rates: Options) -> None:
        self._stage, self._network, self._rates = stage, network, rates

    def start(self) -> None:
        lab, rates, middle = build.lab(self._stage.binary), self._rates, self._network.middle or ""
        asked = f"--loss {rates.loss} --duplicate {rates.duplicate} --reorder {rates.reorder}"
        self._bridges = []
        for rank in range(len(self._network.workers)):
            words = f"impair --left w{rank} --right a{rank} --seed {rates.seed + rank} {asked}".split()
            bridge = self._stage.child(f"impair{rank}", [lab, *words], middle, seconds=_STOP_SECONDS)
            self._bridges.append(bridge)
        if not self._stage.stop.wait_for(self._ready, _READY_SECONDS):
            raise Failure("pascaline-lab impair does not get ready", self._bridges[0].tail())

    def _ready(self) -> bool:
        self.check()
        return all("ready" in bridge.err.read_text(errors="replace") for bridge in self._bridges)

    def check(self) -> None:
        self._stage.check(*self._bridges)

    def report(self) -> dict[str, Any]:
        sums = dict.fromkeys(("received", "lost", "duplicated", "reordered", "overflow"), 0)
        for bridge in self._bridges:
            bridge.stop(_STOP_SECONDS)
            for direction in bridge.said().values():
                for key in sums:
                    sums[key] += direction[key]
        return {"by": "pascaline-lab impair", "asked": self._rates.named(*_ASKED), **sums}


class Netem(NoImpairment):
    """The kernel's own. On the bridge's ports, so that it does not matter how the ends send."""

    def __init__(self, network: Network, rates: Options) -> None:
        self._network, self._rates, self._middle = network, rates, network.middle or ""

    def start(self) -> None:
        rates, words = self._rates, [_NETEM_LIMIT]
        words += [_NETEM_DELAY.format(rates.reorder)] if rates.reorder else []
        words += [f"loss {rates.loss}%"] if rates.loss else []
        words += [f"duplicate {rates.duplicate}%"] if rates.duplicate else []
        for rank in range(len(self._network.workers)):
            ports = (f"w{rank}", f"a{rank}")
            self._network.join(self._middle, *ports, bridge=f"br{rank}")
            for port in ports:
                _tc(self._middle, f"add dev {port} root netem {' '.join(words)}")

    def report(self) -> dict[str, Any]:
        """Netem counts what it drops; a duplicate shows as a packet more than the other port received."""
        sums = dict.fromkeys(("received", "lost", "duplicated"), 0)
        for rank in range(len(self._network.workers)):
            for source, port in ((f"a{rank}", f"w{rank}"), (f"w{rank}", f"a{rank}")):
                received = shown(self._middle, source)["stats64"]["rx"]["packets"]
                said = run("tc", "-n", self._middle, "-s", "-j", "qdisc", "show", "dev", port).stdout
                queue = json.loads(said)[0]
                sums["received"] += received
                sums["lost"] += queue["drops"]
                sums["duplicated"] += max(0, queue["packets"] + queue["drops"] - received)
        # Netem does not count the delayed packets that were overtaken.
        return {"by": "netem", "asked": self._rates.named(*_ASKED), **sums, "reordered": None}


def choose(stage: Stage, network: Network, options: Options) -> NoImpairment:
    """Netem if the kernel has it, else user space; --impairment may force one."""
    wanted = options.impairment
    if not options.bad_network:
        return NoImpairment()
    middle = network.middle or ""
    has_netem = wanted != "userspace" and _tc(middle, "add dev lo root netem loss 0%", check=False) == 0
    if has_netem:
        _tc(middle, "del dev lo root")
        return Netem(network, options)
    if wanted == "netem":
        raise Failure("this kernel has no netem (sch_netem): use --impairment userspace or auto")
    return UserSpace(stage, network, options)


def _tc(namespace: str, words: str, *, check: bool = True) -> int:
    verb, *more = words.split()
    return run("tc", "-n", namespace, "qdisc", verb, *more, check=check).returncode
