"""scripts/train ray: Ray Train's workers, whose gradients an appliance adds up."""

import argparse
import sys
from typing import Any

import programs
import shaped
import train_bed
from build import ROOT
from configuration import UDP_PORT
from process import Failure, run
from train_bed import Bed

_RAY = "ray[train]==2.60.0"

DESCRIPTION = """\
Trains with Ray Train on a Ray cluster of this machine, with the backend "pascaline". Ray is installed beside
PyTorch the first time (200 MB).
"""
EXAMPLES = """\
Examples:
  scripts/train ray --json
  scripts/train ray --workers 3 --steps 100
"""


OPTIONS = {"workers": 2, "steps": 50, "seed": 1}


def train(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    """The cluster lives in one namespace, as on one machine; the appliance has its own."""
    _install(bed)
    network = bed.network(1, 0)
    tables = train_bed.tables(network, options.workers)
    del tables["jobs"][0]["members"]
    bed.appliance(network, tables)
    url = f"pascaline://{shaped.APPLIANCE}:{UDP_PORT}?job=1&payload={shaped.PAYLOAD}"
    words: list[object] = [
        "env",
        f"PASCALINE_URL={url}",
        "GLOO_SOCKET_IFNAME=eth0",
        f"RAY_TMPDIR={bed.files}",
    ]
    words += ["RAY_DISABLE_IMPORT_WARNING=1", "RAY_USAGE_STATS_ENABLED=0"]
    words += [bed.python, "-B", ROOT / "clients/examples/train/ray_train.py"]
    words += train_bed.words(options, "workers", "steps", "seed")
    child = bed.child("ray", words, network.workers[0])
    bed.attend([child])
    found = programs.last_object(child) | {"workers": options.workers, "steps": options.steps}
    if not found["losses"]:
        raise Failure("Ray's workers have reported nothing", child.tail())
    conditions = {
        "all workers end with the same weights": found["equal"],
        "the loss falls": found["losses"][1] < found["losses"][0],
        "every step goes through the appliance": found["calls"]["appliance"] >= options.steps,
        "the backend is pascaline": found["backend"] == "pascaline",
    }
    return train_bed.judge(found, conditions)


def _install(bed: Bed) -> None:
    python = str(bed.python)
    if run(python, "-c", "import ray.train", check=False, timeout=60).returncode:
        print(f"installing {_RAY}", file=sys.stderr, flush=True)
        command = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _RAY)
        run(*command, timeout=3600)


def text(found: dict[str, Any]) -> str:
    equal = "the same" if found["equal"] else "NOT the same"
    return (
        f"Ray {found['ray']}: {found['steps']} steps of {found['workers']} workers, weights are {equal}\n"
        f"{found['calls']['appliance']} calls went through the appliance,"
        f" {found['calls']['gloo']} over Gloo\n"
        f"loss {found['losses'][0]:.4f} → {found['losses'][1]:.4f}"
    )
