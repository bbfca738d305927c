"""The options that profiles (TRex calls them tunables) and the runner share."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import pascaline_malformed
from pascaline_loads import Load, gradients_per_job, gradients_per_rank, requests, updates
from pascaline_streams import Stream

_DTYPES = {"f32": 1, "i32": 2}


def _jobs(text: str) -> range:
    first, _, last = text.partition("-")
    jobs = range(int(first), int(last or first) + 1)
    if not jobs or not 0 <= jobs[0] <= jobs[-1] <= 0xFFFF:
        raise argparse.ArgumentTypeError(f"{text!r}: write 1 or 1-4")
    return jobs


def _epochs(text: str) -> dict[int, int]:
    """`7` for all jobs is kept under the key -1; `1:7,2:9` names them.

    Without `=`, by which TRex's console recognises tunables of old.
    """
    try:
        pairs = [("-1", text)] if ":" not in text else [word.split(":") for word in text.split(",")]
        return {int(job): int(epoch) for job, epoch in pairs}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: write 7, or 1:7,2:9") from error


def add_common(parser: argparse.ArgumentParser) -> None:
    """Senders and receiver."""
    add = parser.add_argument
    add("--appliance", default="10.77.0.254", metavar="ADDRESS", help="the appliance's IPv4 address")
    add(
        "--appliance-ipv6", metavar="ADDRESS", help="its IPv6 address; without one, no malformed IPv6 is sent"
    )
    add("--udp-port", type=int, default=16420, metavar="PORT", help="its UDP port")
    add(
        "--first-address",
        default="10.77.0.1",
        metavar="ADDRESS",
        help="rank 0 sends from here, rank 1 from the next",
    )
    add(
        "--jobs",
        type=_jobs,
        default="1",
        metavar="FIRST[-LAST]",
        help="numbers of the jobs, as configured there",
    )
    add("--ranks", type=int, default=4, metavar="N", help="ranks of each job, as configured there")
    add("--payload", type=int, default=1024, metavar="BYTES", help="elements in a packet")
    add("--dtype", choices=_DTYPES, default="f32", help="type of the elements")
    add(
        "--destination-mac",
        metavar="MAC",
        help="the appliance's; without it TRex uses what its port has resolved",
    )
    add("--source-mac", metavar="MAC", help="of all ranks; without it TRex uses its port's own")


def above_zero(text: str) -> float:
    """A rate or a time: anything else ends the script with exit code 2."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def add_sending(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--psns", type=int, default=1000, metavar="N", help="PSNs of each rank; 0 for no end")
    add("--first-psn", type=int, default=0, metavar="PSN")
    add(
        "--pps",
        type=above_zero,
        default=1000.0,
        metavar="RATE",
        help="packets per second of each rank, or of each case",
    )


def add_epochs(parser: argparse.ArgumentParser) -> None:
    """The generation: a profile cannot ask, the runner reads it off /metrics."""
    parser.add_argument(
        "--epochs",
        type=_epochs,
        default="0",
        metavar="EPOCH",
        help="generation of the jobs (7, or 1:7,2:9): job_epoch",
    )
    parser.add_argument(
        "--bases",
        type=_epochs,
        default="0",
        metavar="PSN",
        help="first PSN of the jobs' generations (123, or 1:123,2:456): `run … join` prints it",
    )


def add_gradients(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--layout",
        choices=("rank", "job"),
        default="rank",
        help="a stream per rank, or one per job in which the field engine counts ranks too",
    )


def add_updates(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--reward", type=float, default=1.0, metavar="R", help="reward in each update")
    add("--generated-ns", type=int, metavar="NS", help="when the first is generated (default: now)")


def add_malformed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--refused", action="store_true", help="also what is well-formed and refused for what it says"
    )


def add_control(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--action", choices=("join", "leave"), default="join")
    parser.add_argument("--session", type=int, metavar="NS", help="of the ranks (default: the time now)")


def load(options: argparse.Namespace) -> Load:
    given = vars(options)
    epochs, bases = given.get("epochs", {}), given.get("bases", {})
    return Load(
        appliance=options.appliance,
        appliance_ipv6=options.appliance_ipv6,
        udp_port=options.udp_port,
        first_address=options.first_address,
        jobs=options.jobs,
        ranks=options.ranks,
        payload=options.payload,
        dtype=_DTYPES[options.dtype],
        psns=given.get("psns") or None,
        first_psn=given.get("first_psn", 0),
        pps=given.get("pps", 1000.0),
        session=given.get("session") or time.time_ns(),
        epochs={job: epochs.get(job, epochs.get(-1, 0)) for job in options.jobs},
        bases={job: bases.get(job, bases.get(-1, 0)) for job in options.jobs},
        source_mac=options.source_mac,
        destination_mac=options.destination_mac,
    )


def reasons() -> dict[str, str]:
    """By the names of the malformed mix's streams, the label under which the appliance counts them."""
    cases = pascaline_malformed.MALFORMED + pascaline_malformed.REFUSED
    return {case.name: pascaline_malformed.counter(case.reason) for case in cases}


def _gradients(options: argparse.Namespace, of: Load) -> list[Stream]:
    return gradients_per_job(of) if options.layout == "job" else gradients_per_rank(of)


def _updates(options: argparse.Namespace, of: Load) -> list[Stream]:
    return updates(of, options.reward, options.generated_ns or time.time_ns())


def _malformed(options: argparse.Namespace, of: Load) -> list[Stream]:
    cases = pascaline_malformed.MALFORMED + (pascaline_malformed.REFUSED if options.refused else ())
    return pascaline_malformed.streams(of, cases, of.jobs[0])


@dataclass(frozen=True)
class Kind:
    """A kind of load: its name, its streams, its own options, and its default payload."""

    about: str
    streams: Callable[[argparse.Namespace, Load], list[Stream]]
    add_own: Callable[[argparse.ArgumentParser], None] = lambda _: None
    payload: int = 1024
    # Its packets are meant to be aggregated.
    aggregates: bool = False

    def add(self, parser: argparse.ArgumentParser, *more: Callable[[argparse.ArgumentParser], None]) -> None:
        for add in (add_common, *more, self.add_own):
            add(parser)
        parser.set_defaults(payload=self.payload)


LOADS = {
    "gradients": Kind("each rank sends a packet for each PSN", _gradients, add_gradients, aggregates=True),
    # The field engine reaches the time behind the payload only if that is short.
    "updates": Kind("asynchronous updates with reward and time", _updates, add_updates, 256, aggregates=True),
    "malformed": Kind("packets that must be refused", _malformed, add_malformed),
}
CONTROL = Kind("joins or leaves", lambda options, of: requests(of, options.action), add_control)
