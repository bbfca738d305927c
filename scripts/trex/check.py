"""scripts/trex/check: what can be checked of the TRex profiles without TRex.

The Scapy layers against the protocol's test vectors, the profiles through TRex's own compiler of streams, and
the same streams as pcap files replayed into real DPDK ports of an appliance that must count every frame under
the right name.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "lib")]

import build  # noqa: E402
from process import Failure, Interrupted, Skipped, Stop  # noqa: E402

_TIMEOUT_SECONDS = 150.0
_BUILD_SECONDS = 3600.0
_DOCUMENT = _HERE.parents[1] / "docs/protocol.md"


def main(arguments: list[str]) -> int:
    """Runs every check, prints a line for each, and returns the exit code."""
    options = _parse(arguments)
    os.chdir(_HERE)
    try:
        checks = _offline()
        if not options.offline:
            binary = build.ready(Stop(_BUILD_SECONDS), options.binary, build.RELEASE)
            build.become_root(Path(__file__).resolve(), arguments, binary)
            checks += _online(binary, Stop(options.timeout, "--timeout"))
        report = sys.stderr if options.json else sys.stdout
        results = [_run(name, check, report) for name, check in checks]
    except Interrupted as interrupted:
        print(f"trex/check: {interrupted}; everything is cleaned up", file=sys.stderr)
        return interrupted.exit_code
    except Failure as failure:
        print(f"trex/check: {failure.whole}", file=sys.stderr)
        return 1
    counted = [sum(outcome == one for _, outcome, _ in results) for one in (True, False, None)]
    print("{} passed, {} failed, {} skipped".format(*counted), file=report, flush=True)
    failed = counted[1] > 0
    if options.json:
        found = [{"check": name, "ok": outcome, "detail": detail} for name, outcome, detail in results]
        print(json.dumps({"ok": not failed, "checks": found}))
    return 1 if failed else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/trex/check", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--offline", action="store_true", help="no appliance: vectors and compiler only; needs no root"
    )
    parser.add_argument(
        "--binary",
        type=lambda text: Path(text).resolve(),
        metavar="FILE",
        help="use this pascaline instead of building it",
    )
    parser.add_argument(
        "--timeout", type=float, default=_TIMEOUT_SECONDS, metavar="S", help="give up after (150)"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object as the last line of standard output"
    )
    return parser.parse_args(arguments)


def _offline() -> list[tuple[str, Callable[[], str]]]:
    import check_offline as offline
    import check_search as search

    return [
        ("vectors: decoded and encoded as printed", lambda: offline.vectors_agree(_DOCUMENT)),
        ("vectors: a flipped bit is noticed", lambda: offline.flipped_bits_are_noticed(_DOCUMENT)),
        ("malformed mix: the document's frames", lambda: offline.malformed_are_the_documents(_DOCUMENT)),
        ("profiles: import without TRex, and say what is missing", offline.profiles_without_trex),
        ("profiles: compiled by TRex's client, the same frames", offline.compiled_profiles_agree),
        ("profiles: what TRex cannot do is refused", offline.impossible_streams_are_refused),
        ("runner: its calls fit TRex's client", offline.runner_fits_the_client),
        ("runner: rates and times of 0 are refused", offline.no_rate_is_refused),
        ("runner: TRex's Scapy goes first", offline.scapy_of_trex_goes_first),
        ("search: finds the knee of simulated ports", search.finds_the_knee),
        ("search: noise does not mislead it", search.noise_does_not_mislead),
        ("search: says where there is no answer", search.ends_are_told),
        ("search: a generator that is too slow ends it", search.a_slow_generator_ends_it),
    ]


def _online(binary: Path, stop: Stop) -> list[tuple[str, Callable[[], str]]]:
    import check_replay as replay

    return [
        ("replay: net_pcap port", lambda: replay.pcap_port(binary, stop)),
        ("replay: net_af_packet port", lambda: replay.veth_port(binary, stop)),
        ("runner: scripts/trex/run over an interface", lambda: replay.runner_over_an_interface(binary, stop)),
    ]


def _run(name: str, check: Callable[[], str], report: TextIO) -> tuple[str, bool | None, str]:
    """The name, whether it holds (none if it cannot run here), and what there is to say."""
    start = time.monotonic()
    good: bool | None = True
    try:
        detail = check()
    except Skipped as skipped:
        print(f"- skipped: {name}: {skipped}", file=report, flush=True)
        return name, None, str(skipped)
    except Interrupted:
        raise
    except Failure as failure:
        good, detail = False, failure.whole
    except AssertionError as wrong:
        good, detail = False, str(wrong)
    except Exception:  # One broken check must not hide the others.
        good, detail = False, traceback.format_exc()
    mark = "✓" if good else "✗"
    print(f"{mark} {name} ({time.monotonic() - start:.1f} s): {detail}", file=report, flush=True)
    return name, good, detail


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
