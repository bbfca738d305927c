"""The bed of every training of scripts/train: namespaces, an appliance, ranks, pictures; removed afterwards.

A namespace for each worker, a switch between them and an appliance behind it, as scripts/bench has them: the
same links for Pascaline and for Gloo.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import appliance_shaped
import netns
import programs
import shaped
from build import ROOT
from configuration import UDP_PORT, Tables
from process import Child, Failure, Stop
from stage import Stage

PREFIX = "pastrain"
PORT = 29600
# Workers: each is a process that waits for a processor.
MOST = 64
# Hooks whose sums are rounded to less than float32.
ROUNDING = ("bf16", "fp16", "mxint8", "mxfp8")
# As in scripts/bench: the payload of a frame, and ten times the packets in flight on an empty path.
KEYS = f"job=1&payload={shaped.PAYLOAD}&in_flight=64"


def environment(*, install: bool) -> Path:
    """The Python that has PyTorch and the package `pascaline`."""
    python = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools/torch/bin/python"
    check = (str(python), "-c", "import pascaline.rl, pascaline.torch, tensorboard")
    there = python.exists() and subprocess.run(check, capture_output=True, check=False).returncode == 0
    command = (str(ROOT / "scripts/python"), "--install")
    if (install or not there) and subprocess.run(command, check=False).returncode:
        raise Failure("scripts/python --install failed")
    return python


def tables(network: shaped.Shaped, ranks: int, *, order: str = "arrival", **more: Any) -> Tables:
    """Those of an appliance for one job; `more` are its window and its slots."""
    found = appliance_shaped.whole(network, ranks, device="net_kernel0,iface=pas0", **more)
    found["jobs"][0] |= {"region": {"order": order}} if order != "arrival" else {}
    return found


def words(options: argparse.Namespace, *names: str) -> list[object]:
    """These options on the command line of a rank's program."""
    found: list[object] = []
    for name in names:
        value = getattr(options, name.replace("-", "_"))
        found += [f"--{name}"] * value if isinstance(value, bool) else [f"--{name}", value]
    return found


def run(
    options: argparse.Namespace,
    bed: Bed,
    program: str,
    trainings: int,
    line: Sequence[object],
    *,
    order: str = "arrival",
    job: Tables | None = None,
    each: Callable[[dict[str, Any]], None] = lambda _: None,
) -> list[list[dict[str, Any]]]:
    """The report of each rank of a program of clients/examples/train at the end of each training.

    `line` are its words, `job` the settings in which a second job differs; `each` gets the lines of rank 0.
    """
    network = bed.network(options.workers, options.mbit)
    found = tables(network, options.workers, order=order)
    found["jobs"] += [{**found["jobs"][0], **job}] if job else []
    bed.appliance(network, found)
    children = bed.ranks(network, ROOT / f"clients/examples/train/{program}.py", line, KEYS)

    def place(said: dict[str, Any]) -> str:
        run = f"{said['run'] + 1} of {trainings}, {said['backend']}, step {said['step']}"
        return f"{run}: loss {said['loss']:.3f}"

    bed.attend(children, "step", place, each=each)
    return [[said for said in programs.objects(child) if said.get("done")] for child in children]


def slowest(runs: Sequence[Sequence[Mapping[str, Any]]], key: str = "seconds") -> list[float]:
    """Of each training, the slowest rank's time, which is the training's."""
    return [max(rank[number][key] for rank in runs) for number in range(len(runs[0]))]


def speeds(options: argparse.Namespace, own: float, gloo: float, ratio: float, *more: str) -> dict[str, Any]:
    """Steps per second beside Gloo's, and the steps; `more` are further options to name."""
    return {
        "steps_per_s": round(options.steps / own, 2),
        "gloo_steps_per_s": round(options.steps / gloo, 2),
        "ratio": round(ratio, 3),
        **{name: getattr(options, name) for name in ("workers", "steps", "mbit", *more)},
    }


def speed_text(found: Mapping[str, Any]) -> str:
    """The same for people."""
    return (
        f"{found['steps']} steps of {found['workers']} ranks, links of {found['mbit']} Mbit/s\n"
        f"Pascaline {found['steps_per_s']} steps/s, Gloo {found['gloo_steps_per_s']}: {found['ratio']} times"
    )


def judge(found: dict[str, Any], conditions: Mapping[str, bool]) -> dict[str, Any]:
    """The same with whether all hold, and which do not."""
    failed = [what for what, holds in conditions.items() if not holds]
    return {**found, "failed": failed, "ok": not failed}


class Bed(Stage):
    """A stage under names of its own, with the Python that trains."""

    def __init__(self, binary: Path, python: Path, stop: Stop) -> None:
        super().__init__(binary, stop)
        self.python, self.files = python, netns.work_directory(os.getpid(), PREFIX)

    def remove_leftovers(self) -> None:
        netns.remove_leftovers(PREFIX, ["train.py"])

    def network(self, workers: int, mbit: int, mtu: int = shaped.MTU) -> shaped.Shaped:
        network = shaped.Shaped(workers, mbit, mtu=mtu, prefix=PREFIX)
        self.on_leaving(network.destroy)
        network.create()
        return network

    def ranks(
        self, network: shaped.Shaped, program: Path, words: Sequence[object], keys: str, **more: object
    ) -> list[Child]:
        """A process of torch.distributed in each worker's namespace."""
        children = []
        for rank, namespace in enumerate(network.workers):
            variables = {
                "RANK": rank,
                "WORLD_SIZE": len(network.workers),
                "MASTER_ADDR": shaped.address(0),
                "MASTER_PORT": PORT,
                "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": 1,
                "PASCALINE_URL": f"pascaline://{shaped.APPLIANCE}:{UDP_PORT}?{keys}",
                **more,
            }
            command = ["env", *(f"{name}={value}" for name, value in variables.items())]
            command += [str(self.python), "-B", "-u", str(program)]
            children.append(self.child(f"rank{rank}", [*command, *words], namespace))
        return children

    def attend(
        self,
        ranks: Sequence[Child],
        key: str = "",
        told: Callable[[dict[str, Any]], str] = str,
        *,
        each: Callable[[dict[str, Any]], None] = lambda _: None,
        around: Sequence[Child] = (),
    ) -> None:
        """Returns when all ranks have ended well; processes `around` them must not end.

        `each` gets what rank 0 has said last, of which a terminal shows what is `told` if it has the key.
        """
        shown = key and sys.stderr.isatty()
        running = True
        while running:
            running = any(rank.exit_code() is None for rank in ranks)
            self.stop.sleep(0.2)
            self.check(*around)
            if failed := next((rank for rank in ranks if rank.exit_code()), None):
                raise Failure(f"{failed.name} ended with exit code {failed.exit_code()}", failed.tail())
            latest: dict[str, Any] = next(reversed(programs.objects(ranks[0])), {})
            if latest:
                each(latest)
            if shown and key in latest:
                print(f"\r{told(latest)}   ", end="", file=sys.stderr, flush=True)
        if shown:
            print(file=sys.stderr)

    def draw(self, picture: Path, across: str, up: str, lines: Mapping[str, Any], more: str = "") -> None:
        """Lines into a PNG: lists of numbers, or objects with x, y and, if they have one, their spread."""
        picture.parent.mkdir(parents=True, exist_ok=True)
        command = (str(self.python), "-c", _DRAW, str(picture), across, up, json.dumps(lines), more)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"cannot draw {picture}", done.stderr)


_DRAW = """
import json, sys
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot as plot
figure, axes = plot.subplots(figsize=(7, 4.2))
for name, line in json.loads(sys.argv[4]).items():
    if isinstance(line, list):
        line = {"x": list(range(1, len(line) + 1)), "y": line}
    drawn, = axes.plot(line["x"], line["y"], label=name, linewidth=1.2)
    if "spread" in line:
        below = [y - s for y, s in zip(line["y"], line["spread"])]
        above = [y + s for y, s in zip(line["y"], line["spread"])]
        axes.fill_between(line["x"], below, above, color=drawn.get_color(), alpha=0.2, linewidth=0)
axes.set_xlabel(sys.argv[2])
axes.set_ylabel(sys.argv[3])
if sys.argv[5]:
    axes.set_title(sys.argv[5], fontsize=9)
axes.grid(alpha=0.3)
axes.legend()
figure.tight_layout()
figure.savefig(sys.argv[1], dpi=120)
"""
