"""Trains with PyTorch through an appliance: `scripts/train --help`.

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
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench.d"))

import private
import programs
import shaped
from appliance import UDP_PORT, Appliance
from appliance_shaped import configuration
from build import ROOT, become_root, ready
from process import Child, Failure, Interrupted, Stop

PREFIX = "pastrain"
_PORT = 29600
# As in scripts/bench: what a frame has room for, and ten times what is on its way on an empty path.
_KEYS = f"job=1&payload={shaped.PAYLOAD}&in_flight=64"

_EXAMPLES = """\
Examples:
  scripts/train ddp --json
  scripts/train ddp --workers 4 --mbit 200 --picture target/ddp.png
  scripts/train ddp --hook=bf16 --steps 50
"""
_DESCRIPTION = """\
Trains with PyTorch's DistributedDataParallel: twice through an appliance that adds in the order of ranks, the
second time with an appliance that is killed half way and started again, and once over Gloo, from the same
seed. Needs root.
"""


def main(arguments: list[str]) -> int:
    """One run; exit code 1 if something went wrong."""
    options = _options(arguments)
    stop = Stop(options.timeout)
    try:
        binary = ready(stop, options.binary)
        python = _environment(options.install)
        become_root(Path(__file__), arguments, binary)
        stop.restart_clock()
        found = train(options, binary, python, stop)
    except Interrupted as interrupted:
        return interrupted.exit_code
    except Failure as failure:
        print(f"train: {failure.whole}", file=sys.stderr)
        return 1
    print(json.dumps(found) if options.json else _text(found))
    return 0 if found["ok"] else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/train",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("what", choices=["ddp"], help="ddp: images that are generated")
    parser.add_argument("--workers", type=int, default=4, help="ranks (%(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="steps of each training (%(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="width of the layers (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and data (%(default)s)")
    parser.add_argument(
        "--mbit", type=int, default=200, help="rate of each worker's link; 0: as it is (%(default)s)"
    )
    parser.add_argument("--hook", choices=["none", "mean", "bf16", "fp16"], default="none", help="of DDP")
    parser.add_argument("--no-restart", action="store_true", help="leave the appliance alone")
    parser.add_argument("--picture", type=Path, help="draw the losses into this PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for everything (%(default)s)")
    parser.add_argument("--binary", type=Path, help="the program pascaline; by default it is built")
    parser.add_argument("--install", action="store_true", help="install the package again, as after a change")
    return parser.parse_args(arguments)


def _environment(install: bool) -> Path:
    """The Python that has PyTorch and the package `pascaline`."""
    python = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools/torch/bin/python"
    check = (str(python), "-c", "import pascaline.torch")
    there = python.exists() and subprocess.run(check, capture_output=True, check=False).returncode == 0
    command = (str(ROOT / "scripts/python"), "--install")
    if (install or not there) and subprocess.run(command, check=False).returncode:
        raise Failure("scripts/python --install failed")
    return python


def train(options: argparse.Namespace, binary: Path, python: Path, stop: Stop) -> dict[str, Any]:
    """Three trainings in the same processes."""
    private.remove_leftovers(PREFIX, "train.py")
    network = shaped.Shaped(options.workers, options.mbit)
    owner = f"{PREFIX}-{os.getpid()}"
    network.appliance, network.switch = f"{owner}-app", f"{owner}-sw"
    network.workers = [f"{owner}-w{rank}" for rank in range(options.workers)]
    files = private.directory(PREFIX)
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        files.mkdir(mode=0o700)
        cleanup.enter_context(network)
        text = configuration(network, options.workers, 512, 4096, 512, "net_kernel0,iface=pas0")
        text = text.replace("\nfan_in", '\norder = "rank"\nfan_in')
        appliance = Appliance(binary, network, text, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        children = _start(options, python, network, files)
        for child in children:
            cleanup.callback(child.stop, 5.0)
        restarts = _watch(options, appliance, children, stop)
        return _judge(options, python, children, files, restarts)


def _start(options: argparse.Namespace, python: Path, network: shaped.Shaped, files: Path) -> list[Child]:
    program = ROOT / "examples/train" / f"{options.what}.py"
    command = [str(python), "-B", "-u", str(program), "--backends", "pascaline", "pascaline", "gloo"]
    for name in ("steps", "hidden", "seed", "hook"):
        command += [f"--{name}", str(getattr(options, name))]
    children = []
    for rank, namespace in enumerate(network.workers):
        variables = {
            "RANK": rank,
            "WORLD_SIZE": options.workers,
            "MASTER_ADDR": shaped.address(0),
            "MASTER_PORT": _PORT,
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": 1,
            "PASCALINE_URL": f"pascaline://{shaped.APPLIANCE}:{UDP_PORT}?{_KEYS}",
        }
        words = ["env", *(f"{name}={value}" for name, value in variables.items()), *command]
        words += ["--save", str(files / "weights")]
        children.append(Child(f"rank{rank}", words, files, namespace))
    return children


def _watch(options: argparse.Namespace, appliance: Appliance, children: list[Child], stop: Stop) -> int:
    """Waits for the end; in the middle of the second training the appliance is killed and started again."""
    restarts = 0
    while any(child.exit_code() is None for child in children):
        stop.sleep(0.2)
        failed = next((child for child in children if child.exit_code()), None)
        if failed:
            raise Failure(f"{failed.name} ended with exit code {failed.exit_code()}", failed.tail())
        said = programs.objects(children[0])
        if not said:
            continue
        latest = said[-1]
        if (
            not restarts
            and not options.no_restart
            and latest["run"] == 1
            and latest.get("step", 0) > options.steps // 3
        ):
            appliance.kill_and_restart(stop)
            restarts += 1
        if sys.stderr.isatty() and "step" in latest:
            place = f"{latest['run'] + 1} of 3, {latest['backend']}, step {latest['step']}"
            print(f"\r{place}: loss {latest['loss']:.3f} ", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return restarts


_COMPARE = """
import json, sys, torch
first, second, gloo = (torch.load(f"{sys.argv[1]}.{run}") for run in range(3))
differs = max(float((first[name] - gloo[name]).abs().max()) for name in first)
equal = all(torch.equal(first[name], second[name]) for name in first)
largest = max(float(weight.abs().max()) for weight in first.values())
print(json.dumps({"differs": differs, "equal": equal, "largest": largest}))
"""


def _judge(
    options: argparse.Namespace, python: Path, children: list[Child], files: Path, restarts: int
) -> dict[str, Any]:
    runs = [[said for said in programs.objects(child) if said.get("done")] for child in children]
    compared = subprocess.run(
        (str(python), "-c", _COMPARE, str(files / "weights")), capture_output=True, text=True, check=True
    )
    weights = json.loads(compared.stdout)
    # The slowest rank's time is the training's.
    seconds = [max(run[number]["seconds"] for run in runs) for number in range(3)]
    losses = [run["losses"] for run in runs[0]]
    if options.picture:
        _draw(python, options.picture, losses)
    calls = runs[0][0]["calls"]
    found = {
        "max_weight_diff_vs_gloo": weights["differs"],
        "bit_equal_rank_order": weights["equal"],
        "steps_per_s": round(options.steps / seconds[0], 2),
        "gloo_steps_per_s": round(options.steps / seconds[2], 2),
        "ratio": round(seconds[2] / seconds[0], 3),
        "largest_weight": weights["largest"],
        "workers": options.workers,
        "steps": options.steps,
        "mbit": options.mbit,
        "hook": options.hook,
        "restarts": restarts,
        "calls": calls,
        "losses": [round(losses[0][at], 4) for at in (0, -1)],
    }
    learned = losses[0][-1] < losses[0][0]
    close = options.hook in ("bf16", "fp16") or weights["differs"] < 1e-3 * weights["largest"]
    found["ok"] = bool(weights["equal"] and learned and close and calls["appliance"] >= options.steps)
    return found


_DRAW = """
import json, sys
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot as plot
for name, losses in zip(("Pascaline", "Pascaline, appliance restarted", "Gloo"), json.loads(sys.argv[2])):
    plot.plot(losses, label=name, linewidth=1)
plot.xlabel("step")
plot.ylabel("loss at rank 0")
plot.legend()
plot.savefig(sys.argv[1], dpi=120)
"""


def _draw(python: Path, picture: Path, losses: list[list[float]]) -> None:
    command = (str(python), "-c", _DRAW, str(picture), json.dumps(losses))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"cannot draw {picture}", done.stderr)


def _text(found: dict[str, Any]) -> str:
    return (
        f"{found['steps']} steps of {found['workers']} ranks, links of {found['mbit']} Mbit/s\n"
        f"Pascaline {found['steps_per_s']} steps/s, Gloo {found['gloo_steps_per_s']}:"
        f" {found['ratio']} times\n"
        f"weights differ by {found['max_weight_diff_vs_gloo']:.2e} at most, of {found['largest_weight']:.2f};"
        f" two runs in the order of ranks are {'equal' if found['bit_equal_rank_order'] else 'NOT equal'},"
        f" {found['restarts']} restarts of the appliance\n"
        f"loss {found['losses'][0]} → {found['losses'][1]}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
