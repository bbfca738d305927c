"""The runner against a stub of TRex's client, which refuses what TRex refuses, in virtual time."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import generators
import rates
import runner
from generators import GeneratorError, TRex
from pascaline_loads import Load
from pascaline_streams import Stream
from search import Phases, Search

from ..bed import ROOT
from .conftest import Told

pytestmark = pytest.mark.all
_CAPACITY = 50_000.0


class _Error(Exception):
    """As TRex's, whose text is long."""

    def brief(self) -> str:
        return str(self)


class _Timeout(_Error):
    """The error of a wait that took too long."""


class _Client:
    """A server with one port of this capacity, and the clock of all that waits for it."""

    def __init__(self, capacity: float) -> None:
        self.now = 0.0
        self.capacity = capacity
        self.sent = 0
        self.seen: list[str] = []
        # What the next sendings end with.
        self.errors: list[BaseException] = []
        self.service = False
        self.captures = 0
        self._streams: list[Stream] = []
        self._begun: float | None = None
        self.time_ns = time.time_ns

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def _need_idle(self) -> None:
        if self._begun is not None:
            raise _Error("Port 0 : *** port is active, please stop the port before executing command")

    def connect(self, **_: object) -> None:
        """Nothing to do."""

    disconnect = reset = connect

    def stop(self, **_: object) -> None:
        """Only packets sent until now count."""
        if self._begun is not None:
            self.sent += round(min(self._wanted, (self.now - self._begun) * self.capacity))
            self._begun = None

    @property
    def _wanted(self) -> int:
        return sum(stream.count or 0 for stream in self._streams)

    def remove_all_streams(self, **_: object) -> None:
        self._need_idle()
        self._streams = []

    def add_streams(self, streams: list[Stream], **_: object) -> None:
        self._need_idle()
        self._streams = streams

    def set_service_mode(self, *, enabled: bool, **_: object) -> None:
        self._need_idle()
        self.service = enabled

    def start_capture(self, **_: object) -> dict[str, int]:
        if not self.service:
            raise _Error("Port 0 : *** port is not under service mode")
        self.captures += 1
        return {"id": 7}

    def stop_capture(self, number: int, output: list[dict[str, bytes]]) -> None:
        assert number == 7
        self.captures -= 1
        output.append({"binary": b"answer"})

    def clear_stats(self, **_: object) -> None:
        self.sent = 0

    def start(self, **_: object) -> None:
        self._need_idle()
        self.seen += [stream.name for stream in self._streams]
        self._begun = self.now

    def wait_on_traffic(self, *, timeout: int, **_: object) -> None:
        if self.errors:
            raise self.errors.pop(0)
        takes = max([stream.delay_us / 1e6 + (stream.count or 0) / stream.pps for stream in self._streams])
        takes = max(takes, self._wanted / self.capacity)
        self.now += min(takes, timeout)
        if takes > timeout:
            raise _Timeout(f"Timeout: operation took more than '{timeout}' seconds")
        self.stop()

    def get_stats(self, **_: object) -> dict[int, dict[str, int]]:
        return {0: {"opackets": self.sent, "ipackets": self.sent, "oerrors": 0}}


@pytest.fixture
def client() -> Iterator[_Client]:
    """The stub in place of TRex's client, and its clock in place of the machine's."""
    made = _Client(_CAPACITY)
    stl = SimpleNamespace(STLClient=mock.Mock(return_value=made), TRexError=_Error, TRexTimeoutError=_Timeout)
    with (
        mock.patch("pascaline_trex.api", return_value=stl),
        mock.patch("pascaline_trex.to_trex", lambda streams: streams),
        mock.patch.object(generators, "time", made),
        mock.patch.object(runner, "time", made),
    ):
        yield made


def _appliance(client: _Client) -> runner.Appliance:
    """One that aggregates all that is sent."""
    counters = ("received", "absorbed")
    # Of all runs: metrics never go back.
    totals = {"before": 1, "last": 0}

    def fetch() -> str:
        totals["before"] += totals["last"] if client.sent < totals["last"] else 0
        totals["last"] = client.sent
        total = totals["before"] + client.sent
        return "".join(f"pascaline_{name}_packets_total {total}\n" for name in counters)

    return runner.Appliance(fetch)


def _one_stream(load: Load) -> list[Stream]:
    return [load.stream("gradient", bytes(64))]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), _Error("no link")], ids=["ctrl-c", "error"])
@pytest.mark.parametrize("later", [[], [_Error("no memory")]], ids=["leaves", "cannot leave"])
def test_early_end(
    client: _Client,
    told: Told,
    error: BaseException,
    later: list[BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An early end of a run stops the port before the ranks leave, and is the error in the end."""
    client.errors = [error, *later]
    trex, load = TRex("trex1", 0), Load(ranks=2)
    with (
        mock.patch.object(runner, "join", return_value=load),
        pytest.raises((KeyboardInterrupt, GeneratorError)) as raised,
        runner.joined(_appliance(client), trex, load) as joined,
    ):
        runner.run(_appliance(client), trex, _one_stream(joined), None)
    assert error in (raised.value, raised.value.__cause__), repr(raised.value)
    assert client.seen == ["gradient", "leave 1.0", "leave 1.1"]
    assert ("while cleaning up: TRex could not send the streams: no memory" in capsys.readouterr().err) is (
        later != []
    )
    # The port is idle: a next run may begin.
    trex.send(_one_stream(load), None)
    told(f"{type(error).__name__} is the error")


def test_early_end_of_a_question(client: _Client, told: Told) -> None:
    """Neither a capture nor the service mode stays behind."""
    trex, streams = TRex("trex1", 0), _one_stream(Load())
    client.errors = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        trex.ask(streams)
    assert (client.captures, client.service) == (0, False)
    assert trex.ask(streams) == [b"answer"]
    assert (client.captures, client.service) == (0, False)
    told("twice")


def test_slow_generator(client: _Client, told: Told) -> None:
    """A rate that the generator cannot send is a result, and the search goes on below."""
    search = Search(1000.0, 10e6, [0.0, 0.005], Phases())
    plan = rates.Plan(Load(ranks=1), _one_stream, False, True, True, search)
    strict, partial = rates.find(_appliance(client), TRex("trex1", 0), plan)
    first, *others = search.trials
    assert "cannot send 10,000,000 packets/s" in first.problem, first
    assert first.seconds < client.now, "virtual time has not passed"
    assert not any(trial.problem for trial in others), others
    for answer in (strict, partial):
        assert answer.lower is not None, search.trials
        assert answer.lower.rate == pytest.approx(_CAPACITY, rel=0.05), answer
    told(f"{len(search.trials)} trials, {client.now:.0f} s")


def test_slow_generator_of_one_run(client: _Client, told: Told) -> None:
    """It is stopped, and that is no result."""
    load = Load(ranks=1, pps=10e6, psns=10_000_000)
    report = runner.run(_appliance(client), TRex("trex1", 0), _one_stream(load), None)
    assert 0 < report.offered < 10_000_000, report
    assert "cannot send" in report.problem, report
    assert f"NO RESULT: {report.problem}" in report.text()
    told(report.problem)


def _script() -> Any:
    loader = importlib.machinery.SourceFileLoader("trex_run", str(ROOT / "scripts/trex/run"))
    spec = importlib.util.spec_from_loader("trex_run", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_documented_lines(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of docs/trex.md and of the runner's help is one that the runner or its profile takes."""
    script, page = _script(), (ROOT / "docs/trex.md").read_text()
    blocks = re.findall(r"```(?:sh|text)\n(.*?)```", page, re.DOTALL)
    lines = "\n".join([*(block.replace("\\\n", " ") for block in blocks), script._EXAMPLES]).splitlines()
    runs = [shlex.split(line)[1:] for line in lines if line.strip().startswith("scripts/trex/run ")]
    starts = [shlex.split(line) for line in lines if line.strip().startswith("start -f ")]
    for words in runs:
        monkeypatch.setattr("sys.argv", ["run", *words])
        script._options()
    for words in starts:
        profile = importlib.import_module(Path(words[2]).stem).register()
        tunables = words[words.index("-t") + 1 :]
        assert not any("=" in word for word in tunables), "the console takes `=` for tunables of old"
        profile.streams(profile.options().parse_args(tunables))
    assert (len(runs), len(starts)) >= (9, 2)
    told(f"{len(runs)} lines of the runner, {len(starts)} of the console")
