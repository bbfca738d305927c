"""Everything that a run creates: networks, files, appliances, programs. It is removed afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import netns
from appliance import Appliance
from configuration import Settings, Tables
from netns import Network
from process import Child, Failure, Stop, Unable, run, say
from progress import Progress
from verdict import Verdict
from workers import Workers

_EXIT_SECONDS = 6.0
PING_TRIES = 10
# For logs and what appliances capture.
_RUN_MB = 64
_V = TypeVar("_V", bound=Verdict)


class Stage:
    """A context manager: what was made and started inside is ended and removed, the latest first."""

    def __init__(self, binary: Path, stop: Stop, *networks: Network, keep: bool = False) -> None:
        self.binary, self.stop, self.networks, self._keep = binary, stop, networks, keep
        self.files = netns.work_directory(os.getpid())
        # By name.
        self.appliances: dict[str, Appliance] = {}
        self._cleanup = ExitStack()
        self._is_part = False

    def __enter__(self) -> Self:
        if self._is_part:
            return self
        _check_machine(self.files.parent)
        self.remove_leftovers()
        # Registered before anything exists, so that it is removed in any case.
        self._cleanup.callback(netns.remove, self.networks, self.files, keep=self._keep)
        try:
            self.files.mkdir(mode=0o700)
            for network in self.networks:
                network.create()
                self.stop.check()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def remove_leftovers(self) -> None:
        for name in netns.remove_leftovers():
            say(f"removed {name}, which an earlier run left behind")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Failure):
            error.log += "".join(f"\n{told}" for told in self._tails())
        self._cleanup.close()

    def _tails(self) -> list[str]:
        return [f"[{name}]\n{appliance.tail()}" for name, appliance in self.appliances.items()]

    def judged(self, outcome: _V) -> _V:
        """The outcome; if it is not good, the ends of the appliances' logs are shown."""
        for told in [] if outcome.good else self._tails():
            say(told)
        return outcome

    def on_leaving(self, end: Callable[..., Any], *arguments: object) -> None:
        """Does this when the run is over, before what was registered earlier."""
        self._cleanup.callback(end, *arguments)

    def part(self, name: str) -> Stage:
        """A part of the run with files of its own, in the same networks: a context manager, too."""
        part = Stage(self.binary, self.stop)
        part.files, part._is_part = self.place(name), True
        return part

    def place(self, name: str) -> Path:
        (self.files / name).mkdir(parents=True, exist_ok=True)
        return self.files / name

    def appliance(
        self,
        network: Network,
        settings: Settings | Tables | str,
        name: str = "appliance",
        files: Path | None = None,
        *,
        realtime: bool = False,
        ready: bool = True,
    ) -> Appliance:
        """Starts one; it is ready on return, unless not required."""
        appliance = Appliance(self.binary, network, settings, files or self.files, realtime=realtime)
        self.appliances[name] = appliance
        self.on_leaving(appliance.stop)
        if ready:
            appliance.wait_ready(self.stop)
        return appliance

    def child(
        self,
        name: str,
        command: Sequence[object],
        namespace: str,
        files: Path | None = None,
        *,
        seconds: float = _EXIT_SECONDS,
    ) -> Child:
        """Starts a program, which has `seconds` to end when it is asked to."""
        child = Child(name, [str(word) for word in command], files or self.files, namespace)
        self.on_leaving(child.stop, seconds)
        return child

    def pascaline(self, name: str, words: str, namespace: str, files: Path | None = None) -> Child:
        """Starts `pascaline` with these words, none of which has a blank."""
        return self.child(name, [self.binary, *words.split()], namespace, files)

    def workers(self, network: Network, files: Path | None = None) -> Workers:
        """Workers in each of a network's namespaces, which are not started yet."""
        workers = Workers(self.binary, network, files or self.files)
        self.on_leaving(workers.stop)
        return workers

    def watch(self, workers: Workers, wanted: int, check: Callable[[], None]) -> None:
        """Waits for the workers' ends, and shows how many of all allreduces of all ranks are done."""
        progress = Progress(wanted)
        try:
            workers.wait(self.stop, check, progress.show)
        finally:
            progress.close()

    def wait(self, children: Sequence[Child], seconds: float, what: str) -> None:
        """Returns once all have ended, well or not."""

        def ended() -> bool:
            self.check()
            return all(child.exit_code() is not None for child in children)

        if not self.stop.wait_for(ended, seconds):
            raise Failure(f"{what} have not ended after {seconds:.0f} s", children[0].tail())

    def run(self, name: str, command: Sequence[object], namespace: str, seconds: float) -> Child:
        """Runs a program, which must succeed."""
        child = self.child(name, command, namespace, seconds=0.0)
        self.wait([child], seconds, name)
        if child.exit_code():
            raise Failure(f"{name} did not come to a good end", child.tail())
        return child

    def check(self, *children: Child) -> None:
        """Raises if an appliance or one of these programs has ended unexpectedly."""
        for appliance in self.appliances.values():
            appliance.check_running()
        for child in children:
            if child.exit_code() is not None:
                raise Failure(f"{child.name} ended too early", child.tail())

    def ping(self, *networks: Network) -> list[str]:
        """Every worker pings its appliance; how long each echo took."""
        pings = []
        for network in networks or self.networks:
            for rank in range(len(network.workers)):
                self.stop.check()
                pings.append(network.ping(rank, PING_TRIES))
        return pings


def _check_machine(place: Path) -> None:
    """Raises `Unable` where nothing can be made: user namespaces and profiles of containers forbid it."""
    name = f"pas-{os.getpid()}-try"
    done = run("ip", "netns", "add", name, check=False)
    run("ip", "netns", "del", name, check=False)
    if done.returncode:
        raise Unable(f"root may not make network namespaces here: {done.stderr.strip()}")
    free = shutil.disk_usage(place).free // 10**6
    if free < _RUN_MB:
        raise Unable(f"a run needs {_RUN_MB} MB, and {place} has {free} MB free: TMPDIR puts it elsewhere")
