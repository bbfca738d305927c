"""A bad network between workers and appliance: frames lost, doubled and reordered, in both directions.

The kernel's netem does it where the kernel has it, on a bridge in the namespace between. Where it has not,
`pascaline impair` carries the frames across instead. Either way what was really done to the frames is
reported, not what was asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import build
from netns import Network
from process import Child, Failure, Stop, run

_STOP_SECONDS = 5.0
_READY_SECONDS = 10.0
# netem reorders by delaying the others: long enough for several packets to pass, short for a retransmission
# timer.
_NETEM_DELAY = "1ms"
_NETEM_LIMIT = "20000"


@dataclass(frozen=True)
class Rates:
    """What is asked for, in percent of all frames, in each direction."""

    loss: float
    duplicate: float
    reorder: float
    seed: int

    @property
    def any(self) -> bool:
        """Whether anything is asked for at all."""
        return bool(self.loss or self.duplicate or self.reorder)

    def asked(self) -> dict[str, float]:
        """For the report."""
        return {"loss": self.loss, "duplicate": self.duplicate, "reorder": self.reorder, "seed": self.seed}


class Impairment(Protocol):
    """What carries frames between a worker's link and the appliance's."""

    def start(self, stop: Stop) -> None:
        """Connects the halves."""

    def stop(self) -> None:
        """Ends what it started; safe at any time, also twice."""

    def check(self) -> None:
        """Raises if it ended by itself."""

    def report(self) -> dict[str, Any]:
        """Ends it and says what it did."""


class NoImpairment:
    """The plain link."""

    def start(self, stop: Stop) -> None:
        """Nothing to connect."""

    def stop(self) -> None:
        """Nothing to end."""

    def check(self) -> None:
        """Nothing that could end."""

    def report(self) -> dict[str, Any]:
        """Nothing was done."""
        return {"by": "none"}


class UserSpace:
    """`pascaline-lab impair`, one process per worker."""

    def __init__(self, binary: Path, network: Network, rates: Rates, files: Path) -> None:
        self._binary, self._network, self._rates, self._files = binary, network, rates, files
        self._bridges: list[Child] = []

    def start(self, stop: Stop) -> None:
        rates = self._rates
        for rank in range(len(self._network.workers)):
            options = {
                "--left": f"w{rank}",
                "--right": f"a{rank}",
                "--loss": rates.loss,
                "--duplicate": rates.duplicate,
                "--reorder": rates.reorder,
                "--seed": rates.seed + rank,
            }
            words = [str(word) for pair in options.items() for word in pair]
            command = [str(build.lab(self._binary)), "impair", *words]
            self._bridges.append(Child(f"impair{rank}", command, self._files, self._network.middle))
        if not stop.wait_for(self._ready, _READY_SECONDS):
            raise Failure("pascaline-lab impair does not get ready", self._bridges[0].tail())

    def _ready(self) -> bool:
        self.check()
        return all("ready" in bridge.err.read_text(errors="replace") for bridge in self._bridges)

    def stop(self) -> None:
        for bridge in self._bridges:
            bridge.stop(_STOP_SECONDS)

    def check(self) -> None:
        for bridge in self._bridges:
            code = bridge.exit_code()
            if code is not None:
                raise Failure(f"{bridge.name} ended by itself with exit code {code}", bridge.tail())

    def report(self) -> dict[str, Any]:
        self.stop()
        sums = dict.fromkeys(("received", "lost", "duplicated", "reordered", "overflow"), 0)
        for bridge in self._bridges:
            for direction in _last_object(bridge).values():
                for key in sums:
                    sums[key] += direction[key]
        return {"by": "pascaline-lab impair", "asked": self._rates.asked(), **sums}


class Netem:
    """The kernel's own. On the bridge's ports, so that it does not matter how the ends send."""

    def __init__(self, network: Network, rates: Rates) -> None:
        self._network, self._rates = network, rates

    def start(self, stop: Stop) -> None:
        middle = self._network.middle or ""
        for rank in range(len(self._network.workers)):
            stop.check()
            run("ip", "-n", middle, "link", "add", "name", f"br{rank}", "type", "bridge")
            for port in (f"w{rank}", f"a{rank}"):
                run("ip", "-n", middle, "link", "set", port, "master", f"br{rank}")
                _tc(middle, "add", "dev", port, "root", "netem", *self._options())
            run("ip", "-n", middle, "link", "set", f"br{rank}", "up")

    def _options(self) -> list[str]:
        rates = self._rates
        options = ["limit", _NETEM_LIMIT]
        if rates.reorder:
            options += ["delay", _NETEM_DELAY, "reorder", f"{rates.reorder}%"]
        if rates.loss:
            options += ["loss", f"{rates.loss}%"]
        if rates.duplicate:
            options += ["duplicate", f"{rates.duplicate}%"]
        return options

    def stop(self) -> None:
        """Goes with its namespace."""

    def check(self) -> None:
        """Part of the kernel."""

    def report(self) -> dict[str, Any]:
        """Netem counts what it drops; a duplicate shows as a packet more than the other port received."""
        middle = self._network.middle or ""
        sums = dict.fromkeys(("received", "lost", "duplicated"), 0)
        for rank in range(len(self._network.workers)):
            for source, port in ((f"a{rank}", f"w{rank}"), (f"w{rank}", f"a{rank}")):
                link = json.loads(run("ip", "-n", middle, "-s", "-j", "link", "show", "dev", source).stdout)
                received = link[0]["stats64"]["rx"]["packets"]
                queue = json.loads(run("tc", "-n", middle, "-s", "-j", "qdisc", "show", "dev", port).stdout)[
                    0
                ]
                sums["received"] += received
                sums["lost"] += queue["drops"]
                sums["duplicated"] += max(0, queue["packets"] + queue["drops"] - received)
        # How many of the delayed packets were overtaken netem does not say.
        return {"by": "netem", "asked": self._rates.asked(), **sums, "reordered": None}


def choose(binary: Path, network: Network, rates: Rates, files: Path, wanted: str) -> Impairment:
    """Netem if the kernel has it, else user space; `wanted` may insist on one."""
    if not rates.any:
        return NoImpairment()
    has_netem = wanted != "userspace" and _kernel_has_netem(network)
    if wanted == "netem" and not has_netem:
        raise Failure("this kernel has no netem (sch_netem): use --impairment userspace or auto")
    return Netem(network, rates) if has_netem else UserSpace(binary, network, rates, files)


def _kernel_has_netem(network: Network) -> bool:
    middle = network.middle or ""
    if _tc(middle, "add", "dev", "lo", "root", "netem", "loss", "0%", check=False) != 0:
        return False
    _tc(middle, "del", "dev", "lo", "root")
    return True


def _tc(namespace: str, verb: str, *words: str, check: bool = True) -> int:
    return run("tc", "-n", namespace, "qdisc", verb, *words, check=check).returncode


def _last_object(bridge: Child) -> dict[str, Any]:
    lines = bridge.out.read_text(errors="replace").splitlines()
    try:
        return dict(json.loads(lines[-1]))
    except (IndexError, ValueError) as error:
        raise Failure(f"{bridge.name} did not say what it did", bridge.tail()) from error
