"""A virtual machine: QEMU without KVM, the agent inside it, and the monitor that pulls cables."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from process import Failure, Stop, tail

from ..bed.metrics import Metrics
from ..bed.process import Process
from ..runner.shell import Done
from . import chapter
from .image import Image

PROGRAM = "qemu-system-x86_64"
_PROCESSORS, _MEMORY_MB = 2, 2560
_BOOT_SECONDS = 600.0
_CONNECT_SECONDS = 20.0
# A command that the guest does not answer at all is late by this much.
_LATE_SECONDS = 30.0
_EVENT_SECONDS = 60.0
_END_SECONDS = 5.0
TELEMETRY = "http://127.0.0.1:9464"


class Lines:
    """A stream of JSON objects over a Unix socket that QEMU listens at, read by a thread."""

    def __init__(self, place: Path, took: Callable[[dict[str, Any]], None]) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        end = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                self._socket.connect(str(place))
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise Failure(f"QEMU does not listen at {place}: {error}") from error
                time.sleep(0.1)
        self._took = took
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, said: dict[str, Any]) -> None:
        with self._lock:
            self._socket.sendall((json.dumps(said) + "\n").encode())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._socket.makefile("rb") as stream:
            for line in stream:
                # Where the guest was reset in the middle of a line.
                with contextlib.suppress(ValueError):
                    self._took(json.loads(line))


class Monitor:
    """QEMU's monitor (QMP)."""

    def __init__(self, place: Path) -> None:
        self._answers: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._told = threading.Condition()
        self._lines = Lines(place, self._take)
        self("qmp_capabilities")

    def __call__(self, command: str, **arguments: Any) -> Any:
        """Gives a command; returns what it returns."""
        with self._told:
            self._answers.clear()
        self._lines.send({"execute": command, "arguments": arguments})
        with self._told:
            if not self._told.wait_for(lambda: self._answers, _LATE_SECONDS):
                raise Failure(f"QEMU's monitor does not answer to {command}")
            answer = self._answers.pop()
        if "error" in answer:
            raise Failure(f"QEMU refuses {command} {arguments}: {answer['error'].get('desc')}")
        return answer["return"]

    def wait_for(self, event: str, **data: Any) -> None:
        """Returns once QEMU has told of an event with these data."""

        def has_come() -> bool:
            of_kind = [one.get("data", {}) for one in self._events if one["event"] == event]
            return any(all(one.get(key) == value for key, value in data.items()) for one in of_kind)

        with self._told:
            if not self._told.wait_for(has_come, _EVENT_SECONDS):
                raise Failure(f"QEMU tells of no {event} {data} in {_EVENT_SECONDS:.0f} s")

    def forget(self) -> None:
        """Events of the past count no more."""
        with self._told:
            self._events.clear()

    def close(self) -> None:
        self._lines.close()

    def _take(self, said: dict[str, Any]) -> None:
        with self._told:
            if "event" in said:
                self._events.append(said)
            elif "return" in said or "error" in said:
                self._answers.append(said)
            self._told.notify_all()


class Guest:
    """The machine of a run. It ends with `close`."""

    def __init__(
        self,
        image: Image,
        files: Path,
        stop: Stop,
        host: str,
        devices: Sequence[str],
        *,
        payload: Path,
        iommu: bool,
    ) -> None:
        """In a namespace, with devices as QEMU's command line has them; `payload` is a disk to read."""
        self._stop, self._files = stop, files
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._boots: list[str] = []
        command = _command(image, files, devices, payload=payload, iommu=iommu)
        self._qemu = Process("qemu", command, files, host)
        try:
            self.monitor = Monitor(files / "monitor")
            self._agent = Lines(files / "agent", self._take)
            self.monitor("cont")
        except Failure as failure:
            self._qemu.stop(_END_SECONDS)
            raise Failure(str(failure), self._qemu.tail()) from failure

    @property
    def pid(self) -> int:
        return self._qemu.pid

    def close(self) -> None:
        for lines in (self._agent, self.monitor):
            lines.close()
        self._qemu.stop(_END_SECONDS)

    # ---- life ----

    def wait_booted(self, boots: int = 1) -> float:
        """Returns once the agent has reported of this many boots, with the seconds that this took."""
        since = time.monotonic()

        def booted() -> bool:
            if self._qemu.exit_code() is not None:
                raise Failure("QEMU has ended", self._qemu.tail())
            if "Kernel panic" in self.console():
                raise Failure("the guest's kernel has stopped", self.console())
            return len(self._boots) >= boots

        if not self._stop.wait_for(booted, _BOOT_SECONDS):
            raise Failure(f"the guest has not booted in {_BOOT_SECONDS:.0f} s", self.console())
        return time.monotonic() - since

    def reboot(self) -> float:
        boots = len(self._boots)
        self.start("systemctl reboot")
        return self.wait_booted(boots + 1)

    def console(self, lines: int = 20) -> str:
        return tail(self._files / "console", lines)

    # ---- commands ----

    def start(self, command: str, seconds: float = 60.0) -> Future[dict[str, Any]]:
        """Has a command run, and does not wait for it."""
        return self._ask({"shell": command, "seconds": seconds})

    def run(self, command: str, *, code: int | None = 0, seconds: float = 60.0) -> Done:
        """Runs a command; fails if it ends with another exit code (None: any)."""
        done = self.end(command, self.start(command, seconds), seconds)
        if code is not None and done.code != code:
            raise Failure(f"in the guest, exit code {done.code}, not {code}: {command}", done.text[-3000:])
        return done

    def end(self, command: str, started: Future[dict[str, Any]], seconds: float) -> Done:
        """The result of a command that was started."""
        if not self._stop.wait_for(started.done, seconds + _LATE_SECONDS):
            raise Failure(f"the guest does not answer: {command}", self.console())
        said = started.result()
        return Done(int(said["code"]), said.get("out", ""), said.get("err", ""))

    def page(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the appliance's; status 0 if nothing answers."""
        done = self.end(path, self._ask({"url": TELEMETRY + path}), _LATE_SECONDS)
        return done.code, done.out

    def metrics(self) -> Metrics:
        status, body = self.page("/metrics")
        if status != 200:
            raise Failure(f"/metrics answers with status {status}", self.journal())
        return Metrics(body)

    def journal(self, lines: int = 30, since: str = "today") -> str:
        # With a time to begin at, Debian 12's journalctl takes `-n` for the first lines from there.
        words = f"journalctl -u pascaline -o cat --no-pager --since {since} | tail -n {lines}"
        return self.run(words, code=None).text

    def _ask(self, asked: dict[str, Any]) -> Future[dict[str, Any]]:
        number, future = next(self._numbers), Future[dict[str, Any]]()
        self._waiting[number] = future
        self._agent.send({"id": number, **asked})
        return future

    def _take(self, said: dict[str, Any]) -> None:
        if said["id"] == 0:
            self._boots.append(said["out"])
        elif future := self._waiting.pop(said["id"], None):
            future.set_result(said)


def _command(image: Image, files: Path, devices: Sequence[str], *, payload: Path, iommu: bool) -> list[str]:
    # A processor that is busy is late: the kernel would take that for a broken timer.
    words = [
        "root=/dev/vda",
        "rw",
        "console=ttyS0",
        "quiet",
        "mitigations=off",
        "random.trust_cpu=on",
        "no_timer_check",
    ]
    command = [
        PROGRAM, "-S", "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
        "-smp", str(_PROCESSORS), "-m", str(_MEMORY_MB),
        "-kernel", str(image.kernel), "-initrd", str(image.initrd),
        "-serial", f"file:{files / 'console'}",
        "-qmp", f"unix:{files / 'monitor'},server=on,wait=off",
        "-drive", f"file={image.disk},format=raw,if=virtio,snapshot=on",
        "-drive", f"file={payload},format=raw,if=virtio,readonly=on",
        "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=agent,path={files / 'agent'},server=on,wait=off",
        "-device", "virtserialport,chardev=agent,name=pascaline.agent",
    ]  # fmt: skip
    if iommu:
        command += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
        words += chapter.iommu()
    return [*command, "-append", " ".join(words), *devices]
