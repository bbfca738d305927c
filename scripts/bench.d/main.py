"""scripts/bench: measures and reports. See scripts/bench --help."""

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "lib")]

import against  # noqa: E402
import build  # noqa: E402  from scripts/lib
import call_cost  # noqa: E402
import output  # noqa: E402
import pages as report  # noqa: E402
import shaped  # noqa: E402
from context import Context, Cores  # noqa: E402
from figure import Section  # noqa: E402
from process import Failure, Interrupted, Stop, say  # noqa: E402
from quantities import between, reading  # noqa: E402

SECTIONS = (
    "pool",
    "pipeline",
    "host",
    "allreduce",
    "predicted",
    "olaf",
    "scale",
    "memory",
    "ends",
    "inline",
    "security",
)
_LIMIT_SECONDS = 5400.0

_EXAMPLES = """\
examples:
  scripts/bench                            everything: report.md, report.json and pictures in target/bench
  scripts/bench --quick                    fewer and shorter cases: at most five minutes once all is installed
  scripts/bench --only allreduce,memory
  scripts/bench --only allreduce --workers 4 --mbit 200
  scripts/bench --only pipeline --omnireduce ../omnireduce
                                           beside the aggregator of a checkout of sands-lab/omnireduce
  scripts/bench --strict                   exit code 1 if a goal is missed
  scripts/bench --quick --only allreduce --no-peers
                                              without Gloo and Open MPI: nothing is installed
  scripts/bench --against release --json      the packet path of this commit and of another one, in turns
  scripts/bench --install                     only install the peers: iperf3, Open MPI, PyTorch (gigabytes)

sections:
  pool       the aggregator pool on one core, against the bare add
  pipeline   the whole packet path over DPDK ports, against dpdk-testpmd plus the bare add
  host       the worker's kernel-UDP driver, against iperf3
  allreduce  Pascaline, Gloo and Open MPI over the same shaped links, against size / bandwidth
  predicted  allreduces over shaped links, beside what the simulator says of the same links
  olaf       the queue of asynchronous updates, beside FIFO
  scale      what a packet costs with more workers, jobs and slots
  memory     a running appliance against what its configuration promises
  inline     TCP and echoes through the appliance in line, against dpdk-testpmd and against idle
  ends       the worker against bare sockets and Gloo where processors limit
  security   sealed packets against plain ones, the cipher alone, and masked sums

`ends` or `security` alone with --json: the last line has the main figures.

Exit code: 0 if everything was measured, whatever came out; 1 if something was not; 2 for wrong arguments.
Needs root (it asks sudo otherwise). Removes the namespaces that it makes, also when interrupted.
"""


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    stop = Stop(_LIMIT_SECONDS)
    try:
        if options.against:
            return against.main(options, arguments, Path(__file__).resolve(), stop)
        binary = build.ready(
            stop, options.binary, build.Wanted(release=True, tests=True, programs=("pascaline-lab",))
        )
        options.calls = options.calls or _calls(options, binary, stop)
        calls = ["--calls", *(str(path) for path in options.calls)] if options.calls else []
        build.become_root(Path(__file__).resolve(), [*arguments, *calls], binary)
        stop.restart_clock()
        peers = options.peers or options.out.parent / "bench-peers"
        if options.install:
            import install

            install.everything(peers, stop)
            return 0
        return _measure(options, binary, peers.resolve(), stop)
    except Interrupted as interrupted:
        say(f"bench: {interrupted}; everything is cleaned up")
        return interrupted.exit_code
    except Failure as failure:
        say(f"bench: {failure.whole}")
        return 1


def _calls(options: argparse.Namespace, binary: Path, stop: Stop) -> list[Path]:
    """Builds the libraries whose calls `ends` measures: cargo's files are the user's, not root's."""
    if options.install or options.quick or "ends" not in options.only:
        return []
    try:
        parts = call_cost.built(binary, stop)
    except Failure as failure:
        say(f"bench: calls are not measured: {failure.whole}")
        return []
    return [parts.libraries, parts.example]


def _measure(options: argparse.Namespace, binary: Path, peers: Path, stop: Stop) -> int:
    for name in shaped.remove_leftovers():
        say(f"bench: removed {name}, which an earlier run left behind")
    files = Path(tempfile.mkdtemp(prefix=f"{shaped.PREFIX}-{os.getpid()}-"))
    started = time.time()
    sections = []
    try:
        for name in options.only:
            (files / name).mkdir()
            calls = call_cost.Built(*options.calls) if options.calls else None
            context = Context(binary, files / name, peers, stop, options, calls)
            sections.append(_section(name, context))
    finally:
        # Also an interrupted report: a section may have taken many minutes.
        if sections:
            said = report.write(options.out, sections, quick=options.quick, root=build.ROOT, started=started)
        shutil.rmtree(files, ignore_errors=True)
    if options.json:
        print(json.dumps(said, ensure_ascii=False), flush=True)
    print(report.text(sections, said), file=sys.stderr if options.json else sys.stdout)
    if options.json and options.only in (["ends"], ["security"]):
        # null where something could not be measured: the report says why.
        print(json.dumps(sections[0].raw.get("last line", {})), flush=True)
    seconds = time.time() - started
    say(f"bench: {options.out}/report.md, report.json and a picture per section, in {seconds:.0f} s")
    return 1 if said["failures"] or (options.strict and said["goals_missed"]) else 0


def _section(name: str, context: Context) -> Section:
    module = importlib.import_module(f"sections.{name}")
    section = Section(name, module.TITLE, load=os.getloadavg()[0])
    context.say(f"{name} ...")
    start, before = time.monotonic(), Cores.now()
    try:
        module.measure(context, section)
    except Failure as failure:
        section.failures.append(str(failure))
        context.say(f"{name}: {failure.whole}")
    section.seconds, section.stolen = time.monotonic() - start, Cores.now().share_since(before)
    context.say(f"{name}: {section.seconds:.0f} s")
    return section


def _counts(text: str) -> list[int]:
    counts = [int(word) for word in text.split(",")]
    if not counts or min(counts) < 2 or max(counts) > 32:
        raise argparse.ArgumentTypeError("2 to 32 workers")
    return counts


def _sections(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SECTIONS]:
        raise argparse.ArgumentTypeError(f"no section {unknown[0]!r}: there are {', '.join(SECTIONS)}")
    return names


_TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or build.ROOT / "target")
# The type of each, its default, help and argument.
_OPTIONS: dict[str, tuple[Any, Any, str, str]] = {
    "quick": (bool, False, "fewer cases, shorter measurements", ""),
    "workers": (_counts, [], "allreduce: numbers of workers [2,4,8; quick: 4]", "N,..."),
    "mbit": (between(0, 10**6), 0, "allreduce: rate of each worker's link [400 / workers]", "N"),
    "out": (Path, _TARGET / "bench", "where the report goes", "DIR"),
    "peers": (Path, None, "where peers are that are no Debian packages [OUT/../bench-peers]", "DIR"),
    "install": (bool, False, "install the peers, measure nothing", ""),
    "no-peers": (bool, False, "install no peers and do without them", ""),
    "omnireduce": (Path, None, "pipeline: measure the aggregator of this checkout of OmniReduce, too", "DIR"),
    "against": (
        str, None,
        "only compare the packet path with that of another commit, of the last `release`, or of a program "
        "built before: medians of new ÷ old, and what they lie between; with --strict exit code 1 for what "
        "is certainly over 5 %% slower",
        "COMMIT",
    ),
    "turns": (between(1, 1000), 7, "--against: runs of both programs, a minute each", "N"),
    "binary": (Path, None, "this program instead of one that is built now", "FILE"),
    "strict": (bool, False, "exit code 1 if a goal is missed", ""),
    "json": (bool, False, "print the report's JSON on standard output, the summary on standard error", ""),
}  # fmt: skip


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures Pascaline beside its limits and its peers and writes one report.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option, (read, usual, about, shown) in _OPTIONS.items():
        parser.add_argument(f"--{option}", default=usual, **reading(usual, read, about, shown))
    only = "only these sections, separated by commas"
    parser.add_argument("--only", action="extend", type=_sections, default=[], metavar="SECTION", help=only)
    parser.add_argument("--calls", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    _check(parser, options)
    return options


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the script with exit code 2 if something is wrong with the options."""
    options.only = [name for name in SECTIONS if not options.only or name in options.only]
    options.out = options.out.resolve()
    try:
        # Fails now rather than after all measurements.
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {options.out}: {error.strerror}")


if __name__ == "__main__":
    output.end("bench", lambda: main(sys.argv[1:]))
