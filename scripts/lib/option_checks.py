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
# SwitchML's takes 20 + 8 + 8 bytes of headers, and two exponents.
_SWITCHML_HEADERS = 38
# An acknowledgement that carries 250 floats, as the workers of --mode olaf have.
_OLAF_MTU = 1076
# The kernel has no IPv6 on less.
_IPV6_MTU = 1280
# Workers, of all jobs.
MOST = 64

# What every run obeys.
_ALWAYS = {"mtu", "driver", "timeout", "binary", "keep", "cleanup", "json"}
_SUMS = {"workers", "allreduces", "bytes", "payload", "in_flight", "pool_slots"}
_SEEDED = _SUMS | {"dtype", "seed"}
_OLAF = {"mode", "loads", "seconds", "seed"}
_NEIGHBOUR = {"neighbour", "neighbour_rate", "neighbour_sends", "neighbour_rounds"}
_PLAIN = "plain allreduces"
# What each kind of run obeys besides. A run must not end well as if it had obeyed the others.
_OBEYED: dict[str, set[str]] = {
    "--client c, c-streams and mpi": _SUMS | {"client", "libraries", "wire", "policy", "lcores", "udp_ports"},
    "--mode olaf": _OLAF | {"picture"},
    "--mode olaf --topology two-level": _OLAF | {"topology"},
    "--mode iswitch": {"mode", "workers", "staleness", "pool_slots", "seed"},
    "--protocol switchml": _SEEDED | {"protocol", "lcores"},
    "--inline": _SEEDED | {"inline"},
    "--topology two-level": _SEEDED | {"topology", "leaves", "order", "restart_appliance", "ip6"},
    "--neighbour": _SEEDED | _NEIGHBOUR | {"policy", "order", "lcores", "udp_ports"},
    _PLAIN: _SEEDED
    | {"collective", "root", "wire", "jobs", "policy", "order", "lcores", "udp_ports"}
    | {"ip6", "routed", "multicast", "loss", "duplicate", "reorder", "impairment"}
    | {"restart_appliance", "halt", "reload"},
}


def _room(options: Options) -> int:
    return options.mtu - _HEADERS - (_IPV6_MORE if options.ip6 else 0)


def full_payload(options: Options) -> int:
    """What a full packet holds: workers that are told nothing agree on whole cache lines."""
    return options.payload or _room(options) // 64 * 64


def _kind(options: Options) -> str:
    """Which of the runs is asked for."""
    if options.client != "rust":
        return "--client c, c-streams and mpi"
    if options.mode != "sync":
        below = options.mode == "olaf" and options.topology != "one"
        return f"--mode {options.mode}{' --topology two-level' if below else ''}"
    if options.protocol != "pascaline":
        return "--protocol switchml"
    if options.inline:
        return "--inline"
    if options.topology != "one":
        return "--topology two-level"
    return "--neighbour" if options.neighbour else _PLAIN


def _refuse_unobeyed(parser: argparse.ArgumentParser, options: Options) -> None:
    kind = _kind(options)
    for name, value in vars(options).items():
        if name not in _ALWAYS | _OBEYED[kind] and value != parser.get_default(name):
            others = ", ".join(other for other, obeyed in _OBEYED.items() if name in obeyed)
            word = f"--{name.replace('_', '-')}"
            parser.error(f"{word} is for {others} only" if kind == _PLAIN else f"{word} is not for {kind}")


def _check_kind(parser: argparse.ArgumentParser, options: Options) -> None:
    kind = _kind(options)
    if kind == "--protocol switchml":
        if options.payload not in (0, 256, 1024) or options.workers > MOST_PORTS:
            parser.error(f"--protocol switchml: --payload 256 or 1024, and at most {MOST_PORTS} --workers")
        least = (options.payload or 1024) + _SWITCHML_HEADERS
        if options.mtu < least:
            parser.error(
                f"--protocol switchml: packets of {options.payload or 1024} bytes take an --mtu of {least}, "
                "and --payload 256 takes less"
            )
    if kind == "--topology two-level" and not options.leaves <= options.workers <= MOST_PORTS:
        parser.error(f"--topology two-level: a worker for each leaf at least, and at most {MOST_PORTS}")
    if kind == "--inline" and options.workers > RACK:
        parser.error(f"--inline: all workers are in one rack, at most {RACK}")
    if kind == "--mode iswitch" and options.workers < 2:
        parser.error("--mode iswitch takes two --workers or more: one of them is slow, and missed")
    if options.mode == "olaf" and options.mtu < _OLAF_MTU:
        parser.error(f"--mode olaf: an update is one packet, which takes an --mtu of {_OLAF_MTU}")


def _check_values(parser: argparse.ArgumentParser, options: Options) -> None:
    if options.payload % 8:
        parser.error("--payload is a multiple of 8, the size of the largest element")
    if options.bytes % 4 or not options.bytes:
        parser.error("--bytes is a multiple of 4, the size of an element, and not 0")
    largest = _room(options) // 8 * 8
    if options.payload > largest:
        parser.error(f"--payload {options.payload} does not fit --mtu {options.mtu}: at most {largest}")
    if options.workers * options.jobs > MOST:
        parser.error(f"--workers times --jobs is at most {MOST}")
    if options.root >= options.workers:
        parser.error(f"--root {options.root}: ranks are counted from 0 to {options.workers - 1}")
    if options.ip6 and options.mtu < _IPV6_MTU:
        parser.error(f"--ip6 takes an --mtu of {_IPV6_MTU} bytes at least")
    if options.binary and not options.binary.is_file():
        parser.error(f"--binary {options.binary}: no such file")


def check(parser: argparse.ArgumentParser, options: Options) -> None:
    """Ends the script with exit code 2 if some do not."""
    _refuse_unobeyed(parser, options)
    _check_kind(parser, options)
    _check_values(parser, options)
    bad_network = options.loss or options.duplicate or options.reorder
    if options.reload and (bad_network or options.restart_appliance):
        parser.error("--reload counts every frame: not together with a bad network or --restart-appliance")
    if options.halt and (options.jobs > 1 or options.allreduces < 2 or options.reload):
        parser.error("--halt takes one job and two --allreduces or more, and goes without --reload")
    if (options.ip6 or options.routed or options.collective != "allreduce") and options.workers > MOST_PORTS:
        parser.error(f"--ip6, --routed and --collective: only with {MOST_PORTS} workers at most")
    if options.wire and (options.dtype != "f32" or options.workers > MOST_PORTS):
        parser.error(f"--wire: of f32, with {MOST_PORTS} workers at most")
    if options.multicast and options.routed:
        parser.error("--multicast: without --routed")
    if options.routed and bad_network:
        parser.error("--routed: the bad network has the routers' places")
    inexact = options.client == "c" and options.wire != "f16"
    if options.wire and (options.client == "c-streams" or inexact):
        # Their sums have up to eleven binary digits, and are compared exactly.
        parser.error("--wire: f16 with --client c, any with rust and mpi, none with c-streams")
