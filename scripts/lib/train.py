"""Trains with PyTorch through an appliance: `scripts/train --help`. Each training has a module."""

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench.d"))

import output
import train_arrival
import train_bed
import train_ddp
import train_fsdp
import train_gpt
import train_ray
import train_rl
from build import become_root, ready
from process import Failure, Interrupted, Stop
from quantities import between, reading, real

_KINDS: dict[str, ModuleType] = {
    "ddp": train_ddp,
    "fsdp": train_fsdp,
    "gpt": train_gpt,
    "ray": train_ray,
    "rl": train_rl,
    "arrival": train_arrival,
}


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    kind = _KINDS[options.what]
    stop = Stop(options.timeout, "--timeout")
    try:
        binary = ready(stop, options.binary)
        python = train_bed.environment(install=options.install)
        become_root(Path(__file__), arguments, binary)
        stop.restart_clock()
        with train_bed.Bed(binary, python, stop) as bed:
            found = kind.train(options, bed)
    except Interrupted as interrupted:
        return interrupted.exit_code
    except Failure as failure:
        print(f"train: {failure.whole}", file=sys.stderr)
        return 1
    print(json.dumps(found) if options.json else kind.text(found))
    for condition in found["failed"]:
        print(f"train: this does not hold: {condition}", file=sys.stderr)
    return 0 if found["ok"] else 1


# Types and help of options that several kinds have; a kind may have OWN ones.
_SOME = between(1, 2**16)
_TABLE: dict[str, tuple[Any, str]] = {
    # A single worker has no other to sum with.
    "workers": (between(2, train_bed.MOST), "ranks"),
    "steps": (between(2, 10**7), "steps of each training"),
    "seed": (between(0, 2**31), "of weights and data"),
    "turns": (_SOME, "trainings over each backend"),
    "hidden": (_SOME, "width of the layers"),
    "wide": (_SOME, "width of the layers"),
    "layers": (_SOME, "layers of attention"),
    "mbit": (between(0, 10**6), "rate of each worker's link; 0: as it is"),
    "hook": (("none", "mean", *train_bed.ROUNDING), "of DDP"),
    "feedback": (bool, "what a hook's rounding leaves comes with the next gradients"),
    "bucket-mb": (real(0, 4096, above=True), "MB of gradients in one allreduce"),
    "trace": (Path, "draw some steps of the first training, which slows it down, into this PNG"),
    "no-restart": (bool, "leave the appliance alone"),
    "tensorboard": (Path, "write losses for TensorBoard below this directory"),
    "picture": (Path, "draw the curves into this PNG"),
    "json": (bool, "print one JSON object, as the last line"),
    "timeout": (real(0, 10**6, above=True), "seconds for everything"),
    "binary": (Path, "the program pascaline; by default it is built"),
    "install": (bool, "install the package again, after a change"),
}
_OF_ALL = {"json": False, "timeout": 300.0, "binary": None, "install": False}


def _options(arguments: list[str]) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    whole = argparse.ArgumentParser(
        prog="scripts/train",
        description="Trains with PyTorch through an appliance, in network namespaces. Needs root.",
        epilog="Examples:\n" + "\n".join(kind.EXAMPLES.splitlines()[1] for kind in _KINDS.values()),
        formatter_class=form,
        allow_abbrev=False,
    )
    kinds = whole.add_subparsers(dest="what", required=True)
    for name, kind in _KINDS.items():
        parser = kinds.add_parser(
            name,
            help=" ".join(kind.DESCRIPTION.split(". ")[0].split()),
            description=kind.DESCRIPTION,
            epilog=kind.EXAMPLES,
            formatter_class=form,
            allow_abbrev=False,
        )
        table = _TABLE | getattr(kind, "OWN", {})
        for option, usual in {**kind.OPTIONS, **_OF_ALL}.items():
            read, about = table[option]
            how = reading(usual, read, about, "N" if type(usual) is int else "")
            parser.add_argument(f"--{option}", default=usual, **how)
    options = whole.parse_args(arguments)
    if getattr(options, "feedback", False) and options.hook not in train_bed.ROUNDING:
        whole.error(f"--feedback is of what a hook rounds: --hook {', '.join(train_bed.ROUNDING)}")
    return options


if __name__ == "__main__":
    output.end("train", lambda: main(sys.argv[1:]))
