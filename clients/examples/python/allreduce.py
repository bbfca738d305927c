#!/usr/bin/env python3
"""One rank of a synchronous job in plain Python: written from docs/protocol.md alone, standard library only.

    python3 clients/examples/python/allreduce.py --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4

Start one such process, or `pascaline worker allreduce --dtype i32`, for each rank. Every rank can compute
every rank's numbers, as that command does, so each checks all sums, bit by bit. Numbers in brackets are
sections of docs/protocol.md. It shows the protocol, and is slow. When its generation ends it stops; section
10 says how a worker can continue.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import enum
import json
import secrets
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass

PORT, VERSION = 16420, 3
GRADIENT, RESULT, REMINDER, CONTROL = 1, 2, 6, 8
JOIN, LEAVE, ACK = 1, 2, 8
FIN, RETRANSMISSION, BYPASS, TRAILER = 1 << 1, 1 << 2, 1 << 3, 1 << 5
I32_SUM, F32_SUM = 0x02, 0x01
OK, PENDING, UNKNOWN_JOB, WRONG_EPOCH, TOO_MANY = 0, 1, 2, 7, 17
Status = enum.IntEnum(
    "Status",
    "ok pending unknown_job rank_out_of_range fan_in_mismatch source_refused stale_session wrong_epoch "
    "not_member payload_mismatch element_mismatch unsupported rank_spoofed rank_lost quota halted "
    "unknown_psn too_many operation_mismatch rank_left rank_taken not_permitted "
    "jobs_of_host objective no_server not_finite from_the_future bad_count low_reward diverges "
    "no_update no_model ranks_of_host overtaken",
    start=0,
)
GENERATION, NONE_YET = 0x10000, 0x20000
HEADER = struct.Struct("!BBBBHHIHHHHH")
BODY = struct.Struct("!BBBBIQQHHHBBIIIIIIQQ")
# The timers of sections 9 and 11.
ASK_SECONDS, SLOWEST_ASK_SECONDS, HEARTBEAT_SECONDS = 0.02, 0.1, 0.1
RETRANSMIT_SECONDS, LONGEST_SECONDS, LINGER_SECONDS = 0.2, 1.0, 5.0
WINDOW, IN_FLIGHT = 512, 64


class Failed(Exception):
    """The operation has failed. Says why."""


@dataclass
class Sent:
    """A contribution without a result."""

    payload: bytes
    flags: int
    due: float
    times: int = 1


class Worker:
    """Joins, allreduces, answers Reminders, leaves."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.job, self.rank, self.ranks, self.payload = (
            options.job,
            options.rank,
            options.ranks,
            options.payload,
        )
        self.deadline = options.deadline
        self.session = secrets.randbits(64) or 1
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.connect((options.appliance, PORT))
        self.socket.setblocking(False)
        self.cookie = self.number = self.first_number = self.epoch = self.window = 0
        self.known = NONE_YET
        # The oldest PSN without a result, the next one that no operation has taken, the last result's.
        self.una = self.next = 0
        self.first, self.bytes, self.element = 0, 0, 0
        self.sent: dict[int, Sent] = {}
        self.results: dict[int, bytes] = {}
        self.kept: dict[int, bytes] = {}
        self.answer: tuple[int, int] | None = None
        self.resent = 0

    # ---- packets ----

    def header(self, kind: int, psn: int, count: int, flags: int, element: int, epoch: int) -> bytes:
        """A header, in network byte order [4]."""
        first = (VERSION, kind, flags, element, self.job, self.rank, psn % (1 << 32), self.ranks, count)
        return HEADER.pack(*first, 0, 0, epoch)

    def send(self, datagram: bytes) -> None:
        """A packet that the network or the host refuses counts as lost: timers repeat it."""
        with contextlib.suppress(OSError):
            self.socket.send(datagram)

    def request(self, action: int) -> None:
        """[9] A Join or a Leave. Requests are numbered, so that late answers differ from fresh ones."""
        self.number += 1
        joins = action == JOIN
        cookie, payload, window, known = (
            (self.cookie, self.payload, WINDOW, self.known) if joins else (0, 0, 0, 0)
        )
        first = self.first if self.bytes else self.una
        head = self.header(CONTROL, 0, 0, 0, F32_SUM, 0 if joins else self.epoch)
        element, length = (self.element, self.bytes) if joins else (0, 0)
        who = (action, 0, 0, element, self.number, self.session, cookie)
        terms = (payload, window, 0, 0, 0, 0, known, 0)
        self.send(head + BODY.pack(*who, *terms, self.una, first, 0, length, 0))

    def contribute(self, psn: int, flags: int = 0) -> None:
        """[10, 11] Sends a contribution, for the first time or again."""
        sent = self.sent[psn]
        self.send(self.header(GRADIENT, psn, 1, sent.flags | flags, I32_SUM, self.epoch) + sent.payload)

    def receive(self, until: float) -> None:
        """Takes in what has arrived, or waits for it until then."""
        select.select([self.socket], [], [], max(0.0, until - time.monotonic()))
        while True:
            try:
                datagram = self.socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                continue  # An ICMP error is no answer: any host could have sent it.
            if len(datagram) >= HEADER.size:
                self.take(datagram)

    def take(self, datagram: bytes) -> None:
        """Judges one packet. Only what answers this worker's own requests changes anything [14]."""
        version, kind, flags, element, job, _, psn, fan_in, count, _, _, epoch = HEADER.unpack_from(datagram)
        rest = datagram[HEADER.size :]
        if (version, job) != (VERSION, self.job):
            return
        if kind == CONTROL and len(rest) >= BODY.size:
            self.take_ack(epoch, rest)
        elif epoch != self.epoch or fan_in != self.ranks or flags & (BYPASS | TRAILER):
            return
        elif kind == RESULT and element == I32_SUM and count == self.ranks:
            sent = self.sent.get(psn)
            if sent and len(sent.payload) == len(rest):
                del self.sent[psn]
                self.results[psn] = self.kept[psn] = rest
        elif kind == REMINDER:
            self.remind(psn)

    def take_ack(self, epoch: int, rest: bytes) -> None:
        """[9] An Ack counts if it answers a request of this session that is not out of date."""
        action, status, answers, _, number, session, cookie, _, window, *more = BODY.unpack_from(rest)
        _, _, _, expected, _, _, base, *_ = more
        current = self.first_number <= number <= self.number
        if action != ACK or session != self.session or answers not in (JOIN, LEAVE) or not current:
            return
        if answers == JOIN:
            self.cookie = cookie or self.cookie
            if not self.window:
                if self.known != GENERATION + epoch:
                    # Answers to what it asked before are out of date.
                    self.known, self.first_number = GENERATION + epoch, self.number + 1
                    status = WRONG_EPOCH if status != OK else status
                if status == OK:
                    self.epoch, self.window = epoch, window
                    self.una = self.next = base
        self.answer = (status, expected)

    def remind(self, psn: int) -> None:
        """[11] A rank lacks the result of this PSN."""
        if psn in self.kept:
            self.send(self.header(RESULT, psn, self.ranks, 0, I32_SUM, self.epoch) + self.kept[psn])
        elif psn in self.sent:
            self.contribute(psn, RETRANSMISSION)

    # ---- for users ----

    def join(self) -> None:
        """[9] Asks for a cookie and the generation, joins with them, and waits until all ranks are here."""
        end, pause = time.monotonic() + self.deadline, ASK_SECONDS
        while time.monotonic() < end:
            self.answer = None
            self.request(JOIN)
            again = time.monotonic() + pause
            while not self.answer and time.monotonic() < again:
                self.receive(again)
            status = self.answer[0] if self.answer else PENDING
            if status == OK:
                return
            if status not in (PENDING, WRONG_EPOCH, TOO_MANY):
                raise Failed(f"the appliance refuses the Join: {name(status)}")
            if status == WRONG_EPOCH:
                continue  # It now knows the generation and has a cookie: it asks again at once.
            if self.answer:
                self.sleep(again)
                pause = min(2 * pause, SLOWEST_ASK_SECONDS)
        self.leave(0.0)
        raise Failed(f"not all of the {self.ranks} ranks have joined within {self.deadline:g} s")

    def sleep(self, until: float) -> None:
        """Waits, and answers meanwhile."""
        while time.monotonic() < until:
            self.receive(until)

    def allreduce(self, values: array.array[int]) -> array.array[int]:
        """[10] The sums over all ranks, of 32-bit integers."""
        whole = elements(values.tobytes()).tobytes()
        packets = -(-len(whole) // self.payload)
        self.first, self.bytes, self.element, self.results = self.next, len(whole), I32_SUM, {}
        psns = [(self.first + number) % (1 << 32) for number in range(packets)]
        self.next = (self.first + packets) % (1 << 32)
        end = time.monotonic() + self.deadline
        heartbeat, position, self.answer = time.monotonic() + HEARTBEAT_SECONDS, 0, None
        while len(self.results) < packets:
            now = time.monotonic()
            if now > end:
                raise Failed(f"{len(self.results)} of {packets} packets within {self.deadline:g} s")
            self.advance()
            # Never further than S beyond the oldest PSN without a result: the spread rule.
            while position < packets and (psns[position] - self.una) % (1 << 32) < self.window:
                if len(self.sent) >= IN_FLIGHT:
                    break
                piece = whole[position * self.payload : (position + 1) * self.payload]
                flags = FIN if position == packets - 1 else 0
                self.sent[psns[position]] = Sent(piece, flags, now + RETRANSMIT_SECONDS)
                self.contribute(psns[position])
                position += 1
            self.repeat(now)
            if now >= heartbeat:
                self.request(JOIN)
                heartbeat = now + HEARTBEAT_SECONDS
            self.receive(min([heartbeat, end, *(sent.due for sent in self.sent.values())]))
            if self.answer and self.answer[0] not in (OK, PENDING, TOO_MANY):
                raise Failed(f"the appliance says: {name(self.answer[0])}")
        self.advance()
        self.bytes = self.element = 0
        self.kept = {
            psn: kept for psn, kept in self.kept.items() if (self.una - psn) % (1 << 32) <= self.window
        }
        return elements(b"".join(self.results[psn] for psn in psns))

    def advance(self) -> None:
        """Moves the oldest PSN without a result."""
        while self.una in self.results and self.una != self.next:
            self.una = (self.una + 1) % (1 << 32)

    def repeat(self, now: float) -> None:
        """[11] Sends late contributions again; after three times with a Reminder beside it."""
        for psn, sent in self.sent.items():
            if now < sent.due:
                continue
            self.contribute(psn, RETRANSMISSION)
            if sent.times > 3:
                self.send(self.header(REMINDER, psn, 0, 0, I32_SUM, self.epoch))
            sent.due = now + min(RETRANSMIT_SECONDS * 2**sent.times, LONGEST_SECONDS)
            sent.times += 1
            self.resent += 1

    def leave(self, linger: float = LINGER_SECONDS) -> None:
        """[9] Leaves the job; sends missing results to other ranks until all have finished."""
        end, pause = time.monotonic() + linger, ASK_SECONDS
        self.first_number, self.answer = self.number + 1, None
        while True:
            self.request(LEAVE)
            self.sleep(time.monotonic() + pause)
            status, waiting = self.answer or (PENDING, 0)
            if status not in (PENDING, TOO_MANY):
                return
            if waiting and linger:
                end = time.monotonic() + linger
            if time.monotonic() > end:
                return
            pause = min(2 * pause, SLOWEST_ASK_SECONDS)


def name(status: int) -> str:
    """The word for a status."""
    return Status(status).name if status < len(Status) else str(status)


def elements(payload: bytes) -> array.array[int]:
    """Elements are little endian, unlike everything else [7]; the same turns ours into theirs."""
    values = array.array("i", payload)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def mix(value: int) -> int:
    """Murmur3's finaliser, with which `pascaline worker allreduce` makes its numbers."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor % (1 << 64)
    return value ^ value >> 33


def samples(seed: int, rank: int, iteration: int, elements: int) -> array.array[int]:
    """The numbers of a rank in an iteration: 21 bits with a sign."""
    stream = mix(mix(seed) ^ rank << 32 ^ iteration)
    mixed = (mix((stream + index) % (1 << 64)) for index in range(elements))
    return array.array("i", ((value - (value >> 63 << 64)) >> 43 for value in mixed))


def main() -> int:
    """Allreduces and checks; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--appliance", required=True, metavar="ADDRESS")
    for required in ("--job", "--rank", "--ranks"):
        add(required, type=int, required=True)
    add("--elements", type=int, default=16384, help="of each tensor, 32-bit integers")
    add("--iterations", type=int, default=3)
    add("--payload", type=int, default=1024, help="bytes of a full packet, a multiple of 8")
    add("--seed", type=int, default=1, help="of the numbers, the same at all ranks")
    add("--deadline", type=float, default=30.0, metavar="SECONDS")
    options = parser.parse_args()
    worker, right = Worker(options), 0
    try:
        worker.join()
        for iteration in range(options.iterations):
            # The command's ranks meet before an allreduce, and again before they check it.
            worker.allreduce(array.array("i", [0]))
            every = [samples(options.seed, r, iteration, options.elements) for r in range(options.ranks)]
            sums = worker.allreduce(every[options.rank])
            worker.allreduce(array.array("i", [0]))
            right += all(got == sum(parts) for got, *parts in zip(sums, *every, strict=True))
    except Failed as failed:
        worker.leave(0.0)
        print(f"allreduce.py: {failed}", file=sys.stderr)
        return 1
    worker.leave()
    found = {
        "rank": options.rank,
        "iterations": options.iterations,
        "verified": right,
        "resent": worker.resent,
    }
    print(json.dumps(found))
    return 0 if right == options.iterations else 1


if __name__ == "__main__":
    sys.exit(main())
