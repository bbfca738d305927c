"""An appliance on this machine, for notebooks and tests."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ._admin import Explanation, explain, get
from .errors import ApplianceError

_READY_SECONDS = 30.0
_EXIT_SECONDS = 6.0
_LOG_LINES = 15
_LINK = re.compile(r"pas(\d+)n(\d+)h")


class Appliance:
    """An appliance that this process starts, with a network of one cable to it.

    Workers on this machine reach it at `address`. It lives as long as this object and the thread that has
    made it; `with Appliance(...)` ends it. It needs root, since it makes a pair of veth interfaces and opens
    one of them, and the program `pascaline`. It is for trying out: a real one has a machine of its own.
    """

    def __init__(
        self,
        ranks: int,
        jobs: Sequence[int] = (1,),
        *,
        keys: Mapping[str, Any] | None = None,
        admission: str | None = None,
        slots: int = 4096,
        mtu: int = 1500,
        server: Mapping[str, Any] | None = None,
        more: str = "",
        binary: str | os.PathLike[str] | None = None,
    ) -> None:
        """Starts it, and returns once it is ready.

        jobs: their numbers; each has this many ranks. keys: more keys of each job, such as
        {"dead_after": "3s"} or {"kind": "updates"}; without `kind` they share the pool if it has no room for
        a region of each.
        admission: numbers of jobs that are formed by their workers, such as "1000-1063", for groups of
        PyTorch. slots: of its pool. mtu: of the cable. server: keys of a parameter server (`pascaline ps`),
        such as {"rule": "staleness"}, which runs beside it: jobs of kind "updates" need one. more: further
        tables of its configuration. binary: the program; by default PASCALINE_BINARY, the one in PATH, or the
        one that a clone has built.
        """
        if os.geteuid() != 0:
            raise ApplianceError("an appliance needs root: it makes network interfaces. Start Python as root")
        self._binary = _program(binary)
        self._files = Path(tempfile.mkdtemp(prefix="pascaline-"))
        self.admin = f"unix:{self._files}/admin.sock"
        self._end = weakref.finalize(self, _remove, os.getpid(), None, self._files)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._mtu, self._server = mtu, server
        try:
            self._wire()
            text = self._configuration(ranks, jobs, keys or {}, admission, slots) + more
            (self._files / "appliance.toml").write_text(text)
            self.start()
        except BaseException:
            self.stop()
            raise

    def _configuration(
        self, ranks: int, jobs: Sequence[int], keys: Mapping[str, Any], admission: str | None, slots: int
    ) -> str:
        usable = sorted(os.sched_getaffinity(0))
        # The region of the default window.
        own = 1024 * len(jobs) <= (slots // 2 if admission else slots)
        told = ({} if own else {"kind": "dsa"}) | dict(keys)
        written = "".join(f"{key} = {_toml(value)}\n" for key, value in told.items())
        formed = ""
        if admission:
            formed = (
                f'[admission]\njobs = "{admission}"\nfrom = ["{self._net}.0/24"]\nmax_jobs = 64\n'
                f"max_jobs_per_host = 64\nmax_fan_in = {max(ranks, 2)}\nslots_per_job = 512\n"
            )
        server = ""
        if self._server is not None:
            usual = {"mode": "external", "address": f"{self._net}.1", "checkpoint": "no"}
            told = usual | dict(self._server)
            server = "[ps]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in told.items())
        tables = "\n".join(f"[[jobs]]\nid = {job}\nfan_in = {ranks}\n{written}" for job in jobs)
        return f"""\
[appliance]
name = "{self._link}"
addresses = ["{self.address}"]

[dataplane]
main_core = {usable[0]}
cores = [{usable[1 % len(usable)]}]
float = true
idle = "backoff"
hugepages = "auto"
memory_mb = 512

[[ports]]
name = "p0"
device = "net_kernel0,iface={self._link}a"
mtu = {self._mtu}

[pool]
slots = {slots}

{tables}
{formed}{server}
[admin]
listen = "{self.admin}"
"""

    def _wire(self) -> None:
        with _alone():
            _remove_leftovers()
            number = next(n for n in range(256) if not _exists(f"pas{os.getpid()}n{n}h"))
            self._link = f"pas{os.getpid()}n{number}"
            self._net = f"10.77.{_free_net()}"
            self.address = f"{self._net}.254"
            here, there = f"{self._link}h", f"{self._link}a"
            _ip("link", "add", "name", here, "type", "veth", "peer", "name", there)
            self._end_with([])
            _ip("addr", "add", f"{self._net}.1/24", "dev", here)
        for end in (here, there):
            _ip("link", "set", end, "mtu", str(self._mtu), "up")

    def start(self) -> None:
        """Starts it again after `kill`, without any state."""
        self._processes = [self._program("run")]
        appliance = self._processes[0]
        end = time.monotonic() + _READY_SECONDS
        while not self._answers():
            if appliance.poll() is not None:
                raise ApplianceError(
                    f"the appliance ended with exit code {appliance.returncode}:\n{self.log()}"
                )
            if time.monotonic() > end:
                raise ApplianceError(
                    f"the appliance is not ready after {_READY_SECONDS:.0f} s:\n{self.log()}"
                )
            time.sleep(0.02)
        if self._server is not None:
            self._processes.append(self._program("ps"))

    def _program(self, command: str) -> subprocess.Popen[bytes]:
        """Starts one with the configuration, and registers its end."""
        words = ["setpriv", "--pdeathsig", "KILL", str(self._binary), command, "-c"]
        with (self._files / "log").open("ab") as log:
            process = subprocess.Popen(
                [*words, str(self._files / "appliance.toml")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._end_with([*self._processes, process])
        return process

    def _end_with(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._end.detach()
        self._end = weakref.finalize(self, _remove, os.getpid(), self._link, self._files, processes)

    def _answers(self) -> bool:
        try:
            get("/api/v1/status", self.admin)
        except ApplianceError:
            return False
        return True

    def explain(self, job: int | str = 1) -> Explanation:
        """Why a job is aggregated here, or not."""
        return explain(job, self.admin)

    def status(self) -> Mapping[str, Any]:
        """Its status by the admin API."""
        return get("/api/v1/status", self.admin)

    def log(self) -> str:
        """The end of its log."""
        lines = (self._files / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])

    def kill(self) -> None:
        """Kills it without a warning: for tests."""
        for process in self._processes:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Lets it complete open operations, and removes everything."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Appliance(address={self.address!r}, admin={self.admin!r})"


def _toml(value: Any) -> str:
    """A value; a table stands in one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(one)}' for key, one in value.items())} }}"
    return json.dumps(value)


def _program(binary: str | os.PathLike[str] | None) -> Path:
    wanted = binary or os.environ.get("PASCALINE_BINARY")
    if wanted:
        if not os.access(wanted, os.X_OK):
            raise ApplianceError(f"{os.fspath(wanted)} is no program: give the path of `pascaline`")
        return Path(wanted).resolve()
    built = [Path.cwd() / f"target/{profile}/pascaline" for profile in ("release", "debug")]
    for place in (shutil.which("pascaline"), *built):
        # An environment may have a command of this name that is a script of Python's.
        if place and os.access(place, os.X_OK) and Path(place).read_bytes()[:4] == b"\x7fELF":
            return Path(place)
    raise ApplianceError(
        "there is no program `pascaline`: build it (cargo build --release -p pascaline, in a clone) or"
        " install its package, and put it into PATH or name it in PASCALINE_BINARY"
    )


def _free_net() -> int:
    """Of the networks 10.77.n.0/24, one that this machine has no address in."""
    shown = subprocess.run(("ip", "-4", "-o", "addr"), capture_output=True, text=True, check=False).stdout
    taken = {int(found) for found in re.findall(r"inet 10\.77\.(\d+)\.", shown)}
    return next(net for net in range(256) if net not in taken)


def _exists(link: str) -> bool:
    return Path(f"/sys/class/net/{link}").exists() or link in _links()


def _links() -> list[str]:
    shown = subprocess.run(("ip", "-o", "link"), capture_output=True, text=True, check=False).stdout
    return re.findall(r"^\d+: ([^:@]+)", shown, re.MULTILINE)


def _remove_leftovers() -> None:
    """Removes leftovers of killed processes."""
    for name in _links():
        if (found := _LINK.fullmatch(name)) and not Path(f"/proc/{found[1]}").exists():
            _ip("link", "del", name, check=False)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Excludes other threads and processes of this machine that search for a free network."""
    place = os.open("/sys/class/net", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def _remove(
    owner: int, link: str | None, files: Path, processes: Sequence[subprocess.Popen[bytes]] = ()
) -> None:
    # A forked child's exit must not end it.
    if os.getpid() != owner:
        return
    for process in processes:
        _stop(process)
    if link:
        _ip("link", "del", f"{link}h", check=False)
    shutil.rmtree(files, ignore_errors=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(("ip", *words), capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise ApplianceError(f"ip {' '.join(words)}: {done.stderr.strip()}")
