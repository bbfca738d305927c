"""What argparse cannot see of the options of scripts/demo: values that do not fit each other."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from netns import MOST_PORTS, RACK

if TYPE_CHECKING:
    from options import Options

# Ethernet's payload holds IPv4, UDP and Pascaline's header (20 + 8 + 22 bytes) besides the tensor.
_HEADERS = 50
# An IPv6 header is 20 bytes longer than one of IPv4.
_IPV6_MORE = 20
# Workers, of all jobs.
MOST = 64


def _check_protocol(parser: argparse.ArgumentParser, options: Options) -> None:
    if options.payload not in (0, 256, 1024) or options.workers > MOST_PORTS:
        parser.error(f"--protocol switchml: --payload 256 or 1024, and at most {MOST_PORTS} --workers")
    free = {"protocol", "workers", "allreduces", "bytes", "dtype", "payload", "in_flight", "mtu", "driver"}
    free |= {"lcores", "pool_slots", "seed", "timeout", "binary", "keep", "cleanup", "json"}
    for name, value in vars(options).items():
        if name not in free and value != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} is not for --protocol switchml")


def _check_topology(parser: argparse.ArgumentParser, options: Options) -> None:
    if options.mode == "olaf":
        free = {
            "topology",
            "mode",
            "loads",
            "seconds",
            "mtu",
            "driver",
            "seed",
            "timeout",
            "binary",
            "cleanup",
        }
        for name, value in vars(options).items():
            if name not in free | {"json"} and value != parser.get_default(name):
                parser.error(f"--{name.replace('_', '-')} is not for --mode olaf --topology two-level")
        return
    if not options.leaves <= options.workers <= MOST_PORTS:
        parser.error(f"--topology two-level: a worker for each leaf at least, and at most {MOST_PORTS}")
    free = {"topology", "leaves", "workers", "allreduces", "bytes", "dtype", "payload", "in_flight", "mtu"}
    free |= {"driver", "order", "pool_slots", "seed", "timeout", "restart_appliance", "binary", "keep"}
    free |= {"cleanup", "json", "ip6"}
    for name, value in vars(options).items():
        if name not in free and value != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} is not for --topology two-level")


def _check_inline(parser: argparse.ArgumentParser, options: Options) -> None:
    if options.workers > RACK:
        parser.error(f"--inline: all workers are in one rack, at most {RACK}")
    free = {"inline", "workers", "allreduces", "bytes", "dtype", "payload", "in_flight", "mtu", "driver"}
    free |= {"pool_slots", "seed", "timeout", "binary", "keep", "cleanup", "json"}
    for name, value in vars(options).items():
        if name not in free and value != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} is not for --inline")


def _check_multicast(parser: argparse.ArgumentParser, options: Options) -> None:
    if options.multicast and (options.mode != "sync" or options.neighbour or options.routed):
        parser.error("--multicast: in --mode sync, without --neighbour and --routed")


def _room(options: Options) -> int:
    return options.mtu - _HEADERS - (_IPV6_MORE if options.ip6 else 0)


def full_payload(options: Options) -> int:
    """What a full packet holds: workers that are told nothing agree on whole cache lines."""
    return options.payload or _room(options) // 64 * 64


def check(parser: argparse.ArgumentParser, options: Options) -> None:
    """Ends the script with exit code 2 if some do not."""
    if options.payload % 8:
        parser.error("--payload is a multiple of 8, the size of the largest element")
    if options.bytes % 4 or not options.bytes:
        parser.error("--bytes is a multiple of 4, the size of an element, and not 0")
    largest = _room(options) // 8 * 8
    if options.payload > largest:
        parser.error(f"--payload {options.payload} does not fit --mtu {options.mtu}: at most {largest}")
    if options.workers * options.jobs > MOST:
        parser.error(f"--workers times --jobs is at most {MOST}")
    if options.reload and (options.loss or options.duplicate or options.reorder or options.restart_appliance):
        parser.error("--reload counts every frame: not together with a bad network or --restart-appliance")
    if options.neighbour and (options.mode == "olaf" or options.jobs > 1 or options.reload):
        parser.error("--neighbour is for one synchronous job: not with --mode olaf, --jobs or --reload")
    if options.topology != "one":
        _check_topology(parser, options)
    if options.inline:
        _check_inline(parser, options)
    if options.protocol == "switchml":
        _check_protocol(parser, options)
    if options.halt and (options.jobs > 1 or options.allreduces < 2 or options.reload or options.neighbour):
        parser.error(
            "--halt takes one job and two --allreduces or more, and goes without --reload and --neighbour"
        )
    if options.root >= options.workers:
        parser.error(f"--root {options.root}: ranks are counted from 0 to {options.workers - 1}")
    direct = options.mode != "sync" or options.neighbour or options.workers > MOST_PORTS
    if (options.ip6 or options.routed or options.collective != "allreduce") and direct:
        most = f"--mode sync, without --neighbour, with {MOST_PORTS} workers at most"
        parser.error(f"--ip6, --routed and --collective: only with {most}")
    if options.wire and (options.dtype != "f32" or direct):
        parser.error("--wire: of f32, in --mode sync, without --neighbour")
    _check_multicast(parser, options)
    if options.routed and (options.loss or options.duplicate or options.reorder):
        parser.error("--routed: the bad network has the routers' places")
    different = direct or options.reload or options.restart_appliance or options.loss or options.reorder
    different = different or options.ip6 or options.routed or options.collective != "allreduce"
    if options.client != "rust" and (different or options.jobs > 1 or options.halt or options.dtype != "f32"):
        parser.error(
            "--client c, c-streams, mpi: sums of f32 over IPv4 in one job, and nothing else meanwhile"
        )
    inexact = options.client == "c" and options.wire != "f16"
    if options.wire and (options.client == "c-streams" or inexact):
        # Their sums have up to eleven binary digits, and are compared exactly.
        parser.error("--wire: f16 with --client c, any with rust and mpi, none with c-streams")
    if options.binary and not options.binary.is_file():
        parser.error(f"--binary {options.binary}: no such file")
