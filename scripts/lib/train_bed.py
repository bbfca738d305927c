"""What every training of scripts/train needs: namespaces, an appliance, ranks, pictures; gone afterwards.

A namespace for each worker, a switch between them and an appliance behind it, as scripts/bench has them: the
same links for Pascaline and for Gloo.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import private
import programs
import shaped
from appliance import UDP_PORT, Appliance
from build import ROOT
from process import Child, Failure, Stop
from quantities import between, real

PREFIX = "pastrain"
PORT = 29600
# Workers: each is a process that waits for a processor.
MOST = 64
# Hooks whose sums are rounded to less than float32.
ROUNDING = ("bf16", "fp16", "mxint8", "mxfp8")


def environment(*, install: bool) -> Path:
    """The Python that has PyTorch and the package `pascaline`."""
    python = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools/torch/bin/python"
    check = (str(python), "-c", "import pascaline.rl, pascaline.torch, tensorboard")
    there = python.exists() and subprocess.run(check, capture_output=True, check=False).returncode == 0
    command = (str(ROOT / "scripts/python"), "--install")
    if (install or not there) and subprocess.run(command, check=False).returncode:
        raise Failure("scripts/python --install failed")
    return python


def add_hook(parser: argparse.ArgumentParser) -> None:
    """Which of pascaline.torch.hooks DistributedDataParallel reduces its buckets with."""
    parser.add_argument(
        "--hook", choices=["none", "mean", *ROUNDING], default="none", help="of DDP (%(default)s)"
    )
    parser.add_argument(
        "--feedback", action="store_true", help="what a hook's rounding leaves comes with the next gradients"
    )


def add_sizes(parser: argparse.ArgumentParser, steps: int, *, workers: int = 4) -> None:
    """How much there is to do, and by whom. One worker alone has nobody to sum with."""
    add = parser.add_argument
    add("--workers", type=between(2, MOST), default=workers, metavar="N", help=f"ranks ({workers})")
    add(
        "--steps",
        type=between(2, 10**7),
        default=steps,
        metavar="N",
        help=f"steps of each training ({steps})",
    )
    add("--seed", type=between(0, 2**31), default=1, metavar="N", help="of weights and data (1)")


def add_width(parser: argparse.ArgumentParser, name: str, usual: int, what: str) -> None:
    """A number of what a network has."""
    parser.add_argument(name, type=between(1, 2**16), default=usual, metavar="N", help=f"{what} ({usual})")


def add_links(parser: argparse.ArgumentParser) -> None:
    """What the network is like."""
    parser.add_argument(
        "--mbit", type=between(0, 10**6), default=200, metavar="N",
        help="rate of each worker's link; 0: as it is (%(default)s)",
    )  # fmt: skip


def add_bucket(parser: argparse.ArgumentParser, usual: float) -> None:
    """What one allreduce takes."""
    parser.add_argument(
        "--bucket-mb", type=real(0, 4096, above=True), default=usual, metavar="MB",
        help="of gradients in one allreduce (%(default)s)",
    )  # fmt: skip


def judge(found: dict[str, Any], conditions: Mapping[str, bool]) -> None:
    """Whether all hold, and which do not."""
    found["failed"] = [what for what, holds in conditions.items() if not holds]
    found["ok"] = not found["failed"]


class Bed:
    """A context manager: what it has started and made is ended and removed when it is left."""

    def __init__(self, binary: Path, python: Path) -> None:
        self.binary = binary
        self.python = python
        self.files = private.directory(PREFIX)
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        private.remove_leftovers(PREFIX, "train.py")
        self._cleanup.callback(shutil.rmtree, self.files, ignore_errors=True)
        self.files.mkdir(mode=0o700)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def network(self, workers: int, mbit: int, mtu: int = shaped.MTU) -> shaped.Shaped:
        """Namespaces under this script's own names."""
        network = shaped.Shaped(workers, mbit, mtu=mtu)
        owner = f"{PREFIX}-{os.getpid()}"
        network.appliance, network.switch = f"{owner}-app", f"{owner}-sw"
        network.workers = [f"{owner}-w{rank}" for rank in range(workers)]
        return self._cleanup.enter_context(network)

    def appliance(self, network: shaped.Shaped, text: str, stop: Stop) -> Appliance:
        """One that is ready."""
        appliance = Appliance(self.binary, network, text, self.files)
        self._cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        return appliance

    def child(self, name: str, words: Sequence[object], namespace: str) -> Child:
        """A process in a namespace."""
        child = Child(name, [str(word) for word in words], self.files, namespace)
        self._cleanup.callback(child.stop, 5.0)
        return child

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

    def draw(self, picture: Path, across: str, up: str, lines: Mapping[str, Any], more: str = "") -> None:
        """Lines into a PNG: lists of numbers, or objects with x, y and, if they have one, their spread."""
        picture.parent.mkdir(parents=True, exist_ok=True)
        command = (str(self.python), "-c", _DRAW, str(picture), across, up, json.dumps(lines), more)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"cannot draw {picture}", done.stderr)


def watch(
    children: Sequence[Child],
    trainings: int,
    stop: Stop,
    each: Callable[[dict[str, Any]], None] = lambda _: None,
) -> None:
    """Waits for the end of all ranks, and shows how far rank 0 is; `each` gets what it has said last."""
    shown = sys.stderr.isatty()
    while any(child.exit_code() is None for child in children):
        stop.sleep(0.2)
        failed = next((child for child in children if child.exit_code()), None)
        if failed:
            raise Failure(f"{failed.name} ended with exit code {failed.exit_code()}", failed.tail())
        said = programs.objects(children[0])
        if not said:
            continue
        latest = said[-1]
        each(latest)
        if shown and "step" in latest:
            place = f"{latest['run'] + 1} of {trainings}, {latest['backend']}, step {latest['step']}"
            print(f"\r{place}: loss {latest['loss']:.3f} ", end="", file=sys.stderr, flush=True)
    if shown:
        print(file=sys.stderr)


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
