"""Trains with PyTorch through an appliance: `scripts/train --help`. What there is has a module of its own."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

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

_KINDS: dict[str, ModuleType] = {
    "ddp": train_ddp,
    "fsdp": train_fsdp,
    "gpt": train_gpt,
    "ray": train_ray,
    "rl": train_rl,
    "arrival": train_arrival,
}


def main(arguments: list[str]) -> int:
    """One run; exit code 1 if something went wrong."""
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
        kind.add(parser)
        add = parser.add_argument
        add("--picture", type=Path, help="draw the curves into this PNG")
        add("--json", action="store_true", help="print one JSON object, as the last line")
        train_bed.add_real(parser, "--timeout", 300.0, 10**6, "seconds for everything", above=True)
        add("--binary", type=Path, help="the program pascaline; by default it is built")
        add("--install", action="store_true", help="install the package again, after a change")
    options = whole.parse_args(arguments)
    if getattr(options, "feedback", False) and options.hook not in train_bed.ROUNDING:
        whole.error(f"--feedback is of what a hook rounds: --hook {', '.join(train_bed.ROUNDING)}")
    return options


if __name__ == "__main__":
    output.end("train", lambda: main(sys.argv[1:]))
