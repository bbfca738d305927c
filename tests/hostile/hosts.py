"""Attacks that every host on a segment is exposed to: ARP, ICMP, neighbour discovery, HTTP."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import replace

import httpx
from scapy.layers.inet6 import (
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
)

from . import bed as beds
from . import frames as f
from .scene import Case, Scene

_HALF_OPEN = 300
_ANSWER_SECONDS = 2.0
_NONSENSE = (
    b"\0" * 64,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b'POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{"id"',
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"DELETE /api/v1/jobs/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PATCH /api/v1/jobs/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n[[[[[[[[[",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000,
)
_STRANGE_HOST = "pascaline.example"


def _arp_spoofing(scene: Scene) -> list[bytes]:
    """Claims of the ranks' addresses, and of the appliance's own, as requests, replies and announcements."""
    way = scene.way()
    ranks = [beds.worker_address(rank) for rank in range(f.RANKS)]
    found = []
    for sender in (*ranks, beds.APPLIANCE_ADDRESS, beds.SERVER_ADDRESS):
        found += [way.arp(sender, beds.APPLIANCE_ADDRESS, reply=reply) for reply in (True, False)]
        found.append(replace(way, target_mac=f.BROADCAST).arp(sender, sender, reply=False))
    return found


def _arp_flood(scene: Scene) -> list[bytes]:
    way = replace(scene.way(), target_mac=f.BROADCAST)
    return [way.arp(f"10.77.0.{1 + host}", beds.APPLIANCE_ADDRESS, reply=False) for host in range(253)]


def _echo_flood(scene: Scene) -> list[bytes]:
    return [
        scene.way().icmp(bytes(length), type="echo-request", id=0x7070, seq=length)
        for length in range(0, 1400, 7)
    ]


def _discovery_flood(scene: Scene) -> list[bytes]:
    """Neighbour solicitations for the appliance, advertisements in others' names, router advertisements."""
    found = []
    for number in range(200):
        way = replace(scene.way(), source=f"2001:db8::{number + 1:x}", target=beds.APPLIANCE_IPV6)
        source, target = (
            option(lladdr=way.source_mac) for option in (ICMPv6NDOptSrcLLAddr, ICMPv6NDOptDstLLAddr)
        )
        another = f"2001:db8::{number + 2:x}"
        messages = (
            ICMPv6ND_NS(tgt=beds.APPLIANCE_IPV6) / source,
            ICMPv6ND_NA(tgt=another, R=0, S=1, O=1) / target,
            ICMPv6ND_RA(chlim=64, routerlifetime=1800, prf=0) / source,
        )
        found += [bytes(way.ip(hlim=255) / message) for message in messages]
    return found


def _half_open(scene: Scene) -> None:
    """Requests that never end, and stay open until the case is over."""

    def connect() -> list[socket.socket]:
        found = []
        for _ in range(_HALF_OPEN):
            one = socket.socket()
            one.settimeout(0.2)
            with contextlib.suppress(OSError):
                one.connect(beds.TELEMETRY)
                one.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ")
            found.append(one)
        return found

    scene.sockets = scene.bed.at_appliance.inside(connect)


def _answers_in_time(scene: Scene) -> list[str]:
    """The page answers although the requests have not ended."""
    problems = []
    start = time.monotonic()
    try:
        status = scene.appliance.get("/healthz").status_code
        if status != 200:
            problems.append(f"/healthz answers with {status} beside {_HALF_OPEN} half-sent requests")
    except httpx.HTTPError as error:
        passed = time.monotonic() - start
        problems.append(f"/healthz: {error!r} after {passed:.1f} s beside {_HALF_OPEN} half-sent requests")
    for one in scene.sockets:
        one.close()
    scene.sockets = []
    return problems


def _foreign_host(scene: Scene) -> list[str]:
    """A page that accepts any Host can be read by a web site whose name resolves to it (DNS rebinding)."""
    status = scene.appliance.get("/metrics", headers={"Host": _STRANGE_HOST}).status_code
    return [f"/metrics answers the Host {_STRANGE_HOST} with {status}"] if status == 200 else []


def _refuses_nonsense(scene: Scene) -> list[str]:
    """The admin API answers each malformed request with an error or not at all, and then a good one."""
    for request in _NONSENSE:
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            client.settimeout(_ANSWER_SECONDS)
            client.connect(str(scene.appliance.socket))
            client.sendall(request)
            answer = client.recv(64)
            if answer.startswith(b"HTTP/1.1 2"):
                return [f"the admin API takes {request[:40]!r}"]
    scene.appliance.admin("/api/v1/status")
    return []


def _trickle(scene: Scene) -> list[bytes]:
    """Frames for the comparison: these attacks are not on the packet path."""
    return [scene.way().to_closed_port().frame(bytes(18))]


CASES = [
    Case("arp-spoofing", "claims of the ranks' and the appliance's addresses", _arp_spoofing),
    Case("arp-flood", "requests for the appliance's address", _arp_flood, ("answered",)),
    Case("icmp-flood", "echo requests of every length", _echo_flood, ("answered",)),
    Case("discovery-flood", "IPv6 neighbour and router discovery", _discovery_flood),
    Case(
        "http-half-open",
        f"{_HALF_OPEN} half-sent requests at the telemetry port",
        _trickle,
        prepare=_half_open,
        judge=_answers_in_time,
        rate=100.0,
    ),
    Case(
        "admin-nonsense", "malformed requests at the admin API", _trickle, judge=_refuses_nonsense, rate=100.0
    ),
    Case("http-foreign-host", "a page under another host's name", _trickle, judge=_foreign_host, rate=100.0),
]
