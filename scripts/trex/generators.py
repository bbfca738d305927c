"""Senders of the streams: a TRex server, or a raw socket of this machine."""

from __future__ import annotations

import contextlib
import math
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import pascaline_trex
from pascaline_layers import HEADER
from pascaline_streams import HEADER_AT, Stream, frames

_RESULT = 2
_ALL_PROTOCOLS = 0x0003
_SOCKET_BUFFER = 32 << 20
# SO_RCVBUFFORCE, which Python does not name.
_RECEIVE_BUFFER_FORCE = 33
_SETTLE_SECONDS = 1.0
# Beyond twice what it should take, a sending may last so long: a burst of joins may meet a busy server.
PATIENCE_SECONDS = 30.0
# Answers to all ranks of all jobs.
_CAPTURED = 10_000
_CAPTURE = "udp"


class GeneratorError(Exception):
    """Nothing can be sent; the message says why."""


@dataclass
class Sent:
    offered: int
    seconds: float
    heard: int
    errors: int = 0
    # Stopped before the end: the generator is too slow.
    cut: bool = False


class Generator(Protocol):
    """Sends streams and waits for their end."""

    def send(self, streams: list[Stream], seconds: float | None, patience: float = PATIENCE_SECONDS) -> Sent:
        """Sends all that ends, or for `seconds`. Returns when the last packet has left.

        What takes twice as long as it should, and `patience`, is cut short.
        """

    def ask(self, streams: list[Stream]) -> list[bytes]:
        """Sends requests, one packet each, and returns the frames that come back."""

    def close(self) -> None:
        """Restores the previous state."""


class TRex:
    """A TRex server in stateless mode, one of its ports."""

    def __init__(self, server: str, port: int) -> None:
        self._stl: ModuleType = pascaline_trex.api()
        self._port = port
        # The name of the exceptions that TRex's client raises has changed with v2.60.
        self._errors: Any = getattr(self._stl, "TRexError", None) or self._stl.STLError
        self._timeout: Any = getattr(self._stl, "TRexTimeoutError", None) or self._stl.STLTimeoutError
        self._client: Any = self._stl.STLClient(server=server)
        with self._telling(f"the TRex server {server} does not give us port {port}"):
            self._client.connect()
            try:
                self._client.reset(ports=[port])
            except BaseException:
                despite(self._client.disconnect)
                raise

    @contextlib.contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            # Their text includes a traceback; `brief` is what happened.
            raise GeneratorError(f"{what}: {error.brief()}") from error

    def send(self, streams: list[Stream], seconds: float | None, patience: float = PATIENCE_SECONDS) -> Sent:
        """Sends with one core, so that the field engine's counters run on without gaps."""
        client, ports = self._client, [self._port]
        with self._telling("TRex could not send the streams"):
            client.remove_all_streams(ports=ports)
            client.add_streams(pascaline_trex.to_trex(streams), ports=ports)
            client.clear_stats(ports=ports)
            begin = time.monotonic()
            try:
                client.start(
                    ports=ports, duration=-1 if seconds is None else seconds, core_mask=[0x1], force=True
                )
                # In software mode beyond its capacity TRex keeps the count and lets the time slip.
                client.wait_on_traffic(ports=ports, timeout=int(_limit(streams, seconds, patience)))
                cut = False
            except self._timeout:
                client.stop(ports=ports)
                cut = True
            except BaseException:
                # What comes next, the ranks' leaving, needs an idle port.
                despite(client.stop, ports=ports)
                raise
            elapsed = time.monotonic() - begin
            time.sleep(_SETTLE_SECONDS)
            stats = client.get_stats(ports=ports)[self._port]
        return Sent(int(stats["opackets"]), elapsed, int(stats["ipackets"]), int(stats["oerrors"]), cut)

    def ask(self, streams: list[Stream]) -> list[bytes]:
        """Sends, and has TRex capture what its port receives meanwhile."""
        client, ports = self._client, [self._port]
        frames: list[dict[str, Any]] = []
        with self._telling("TRex could not send the requests, or capture the answers"):
            # Without service mode TRex keeps no packets.
            client.set_service_mode(ports=ports, enabled=True)
            try:
                capture = client.start_capture(rx_ports=ports, limit=_CAPTURED, bpf_filter=_CAPTURE)
                try:
                    self.send(streams, None)
                except BaseException:
                    despite(client.stop_capture, capture["id"], output=frames)
                    raise
                client.stop_capture(capture["id"], output=frames)
            finally:
                despite(client.set_service_mode, ports=ports, enabled=False)
        return [bytes(frame["binary"]) for frame in frames]

    def close(self) -> None:
        despite(self._client.stop, ports=[self._port])
        despite(self._client.disconnect)


def despite(action: Callable[..., object], *arguments: object, **named: object) -> None:
    """Cleans up: a failure is reported, and does not hide the error before it."""
    try:
        action(*arguments, **named)
    except Exception as error:
        told = error.brief() if hasattr(error, "brief") else error
        print(f"scripts/trex: while cleaning up: {told}", file=sys.stderr)


def _limit(streams: list[Stream], seconds: float | None, patience: float) -> float:
    """The time limit of a sending."""
    longest = max(map(_seconds, streams), default=0.0) if seconds is None else seconds
    return 2 * longest + patience


def _seconds(stream: Stream) -> float:
    return stream.delay_us / 1e6 + (stream.count or 0) / stream.pps


class Interface:
    """A raw socket. Slow, and exact: for trying out and for tests.

    `pace` is called after every packet with the number sent so far; it may wait until the other end has
    caught up.
    """

    def __init__(self, name: str, pace: Callable[[int], None] = lambda _: None) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        # Beyond the system's limit: the right to open a raw socket includes it.
        self._socket.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCE, _SOCKET_BUFFER)
        self._socket.bind((name, 0))
        self._socket.setblocking(False)
        self._pace = pace
        self.results: list[bytes] = []
        self.others: list[bytes] = []

    def send(self, streams: list[Stream], seconds: float | None, patience: float = PATIENCE_SECONDS) -> Sent:
        """Sends each frame when it is due, or later."""
        return self.replay(frames(streams), seconds, _limit(streams, seconds, patience))

    def ask(self, streams: list[Stream]) -> list[bytes]:
        """Sends, and keeps what comes back."""
        self.send(streams, None)
        return self.others

    def replay(
        self, timed: Iterable[tuple[float, bytes]], seconds: float | None = None, limit: float = math.inf
    ) -> Sent:
        """Sends frames, each when it is due: seconds from now; gives up after `limit`."""
        self.results.clear()
        self.others.clear()
        heard, sent, cut, begin = 0, 0, False, time.monotonic()
        for due, frame in timed:
            if seconds is not None and due >= seconds:
                break
            now = time.monotonic() - begin
            if now > limit:
                cut = True
                break
            ahead = due - now
            if ahead > 0:
                time.sleep(ahead)
            self._put(frame)
            sent += 1
            self._pace(sent)
            heard += self._drain()
        elapsed = time.monotonic() - begin
        quiet = time.monotonic()
        while time.monotonic() - quiet < _SETTLE_SECONDS:
            more = self._drain()
            heard += more
            if more:
                quiet = time.monotonic()
            time.sleep(0.01)
        return Sent(sent, elapsed, heard, cut=cut)

    def _put(self, frame: bytes) -> None:
        while True:
            try:
                self._socket.send(frame)
            except BlockingIOError:
                time.sleep(0.0001)
            else:
                return

    def _drain(self) -> int:
        """Takes in what has arrived; frames of this host itself are skipped."""
        count = 0
        while True:
            try:
                frame, address = self._socket.recvfrom(65536)
            except BlockingIOError:
                return count
            if address[2] == socket.PACKET_OUTGOING:
                continue
            count += 1
            if len(frame) > HEADER_AT + HEADER and frame[HEADER_AT + 1] == _RESULT:
                self.results.append(frame)
            else:
                self.others.append(frame)

    def close(self) -> None:
        self._socket.close()
