"""Decisions of scripts/demo before and after a run: memory, judgements, signals, error messages."""

import os
import select
import signal
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import clients
from appliance import last_error, with_room
from build import ROOT
from configuration import Settings, configuration, dumps
from inline import filling
from metrics import Metrics
from netns import Network
from olaf_parts import compare
from options import parse
from process import Interrupted, Stop, run, run_long
from report import Outcome
from untouched import frames_to_pass

_TEXT = "[dataplane]\nmemory_mb = 512\n\n[pool]\nslots = 4096\n"


@pytest.mark.parametrize(
    "said", ["16383 packet buffers of 2048 bytes, at least 41 of 512 MB\n", "cores overlap\n"]
)
def test_a_configuration_that_needs_little_stays_as_it_is(said: str) -> None:
    """Also where `pascaline check` has said nothing of memory."""
    assert with_room(_TEXT, said) == _TEXT


@pytest.mark.parametrize(
    ("said", "memory_mb"),
    [
        ("16383 packet buffers of 16384 bytes, at least 500 of 512 MB\n", 564),
        ("for rings, slots and lcores, at least 1600 MB: slots may keep 9 packets", 1800),
    ],
)
def test_a_configuration_that_needs_more_has_more(said: str, memory_mb: int) -> None:
    """Whether check has accepted it or not, and with room for more than packets."""
    text = with_room(_TEXT, said)
    assert f"memory_mb = {memory_mb}\n" in text
    assert "memory_mb = 512\n" not in text


def test_a_configuration_is_toml_with_all_that_was_asked_for() -> None:
    """Tables, text of others, tables in one line; and a table that is empty is none."""
    keys, more = 'control = "rank0"\n', '[ps]\nmode = "external"\n'
    settings = Settings("af_packet", 64, 32, "coin", "rank", 2, keys, more, ring=7, group="239.77.0.")
    read = tomllib.loads(configuration(Network(3, 1500), settings, Path("/a b/admin.sock")))
    first, second = read["jobs"]
    assert (first["id"], second["id"], second["multicast"]) == (1, 2, "239.77.0.2")
    assert first["members"] == ["10.77.0.1", "10.77.0.2", "10.77.0.3"]
    assert (first["kind"], first["shared"]) == ("dsa", {"conflict": "coin", "order": "rank"})
    assert first["control"] == "rank0"
    assert read["ps"] == {"mode": "external"}
    assert read["ports"][2]["device"] == "net_af_packet2,iface=pas2,framecnt=7"
    assert read["admin"]["listen"] == "unix:/a b/admin.sock"
    nested = {"ports": [{"queue": {"length": 5, "on": True}}], "jobs": []}
    assert tomllib.loads(dumps(nested)) == {"ports": nested["ports"]}


def _worker(rank: int) -> dict[str, Any]:
    """The report of a worker that has done everything."""
    done = {"checksum": "a", "checksums": ["a"] * 10, "verified": 10, "mismatches": 0}
    return {"job": 1, "rank": rank, "seconds": [0.1] * 10, **done}


@pytest.mark.parametrize(
    ("words", "restarts", "late"),
    [(["--restart-appliance"], 0, True), (["--restart-appliance"], 1, False), ([], 0, False)],
)
def test_a_restart_that_did_not_happen_is_a_problem(words: list[str], restarts: int, late: bool) -> None:
    """All sums are right, but no restart was tested."""
    workers = [_worker(rank) for rank in range(4)]
    outcome = Outcome(parse(words), workers, Metrics(""), {"by": "none"}, [""] * 4, 0, restarts=restarts)
    told = "the workers were done before the restart: give them more --allreduces" in outcome.problems
    assert told == late


_A_FIFTH = (0.2, "a fifth")


@pytest.mark.parametrize(
    ("load", "fifo", "olaf"), [(0.5, (0.0, 355.0), (0.0, 354.0)), (1.2, (4.0, 253.0), (0.0, 204.0))]
)
def test_a_load_that_loses_nothing_is_not_judged(
    load: float, fifo: tuple[float, float], olaf: tuple[float, float]
) -> None:
    """As --loads 0.5: both are the same. Loss is in percent, age in ms."""
    assert compare(load, fifo, olaf, _A_FIFTH) == []


def test_a_queue_that_is_no_better_is_told() -> None:
    """By loss, and by age."""
    assert len(compare(12.0, (90.0, 300.0), (20.0, 290.0), _A_FIFTH)) == 2
    assert len(compare(1.2, (4.0, 253.0), (2.0, 204.0), _A_FIFTH)) == 1
    assert compare(12.0, (90.0, 300.0), (7.0, 100.0), _A_FIFTH) == []


@pytest.mark.parametrize(("load", "lost"), [(1.5, 16.0), (3.0, 30.0), (12.0, 0.0)])
def test_a_load_that_has_not_come_about_is_told(load: float, lost: float) -> None:
    """A FIFO loses what does not fit on the line, or there was less."""
    assert compare(1.5, (35.5, 297.0), (0.0, 100.0), _A_FIFTH) == []
    (found,) = compare(load, (lost, 100.0), (0.0, 50.0), _A_FIFTH)
    assert "nothing was congested" in found


@pytest.mark.parametrize("mtu", [128, 500, 819, 820, 1500, 9000, 9216])
def test_frames_fit_every_mtu(mtu: int) -> None:
    """One is as long as the MTU, and fragments are cut at multiples of eight."""
    lengths = {what: len(frame) - 14 for what, frame in frames_to_pass("kernel", mtu).items()}
    assert lengths["IPv4, as long as the MTU"] == mtu == max(lengths.values())
    assert (lengths["a first fragment"] - 20) % 8 == 0


@pytest.mark.parametrize(("size", "allreduces"), [(4, 2000), (4 << 20, 30), (1 << 30, 4)])
def test_small_tensors_are_not_summed_for_hours(size: int, allreduces: int) -> None:
    """31,250,000 allreduces of four bytes would fit on the link."""
    assert filling(size) == allreduces


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No signal has come yet, and afterwards Ctrl-C ends the tests again."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(Stop, "_signum", None)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _interrupted(action: Callable[[], object]) -> bool:
    with pytest.raises(Interrupted) as ended:
        action()
    return ended.value.exit_code == 128 + signal.SIGTERM


@pytest.mark.usefixtures("unasked")
def test_a_signal_during_a_build_ends_what_comes_after_it() -> None:
    """That has a clock, and so a `Stop`, of its own."""
    Stop(60).check()
    os.kill(os.getpid(), signal.SIGTERM)
    assert _interrupted(Stop(60).check)


@pytest.mark.usefixtures("unasked")
def test_a_signal_ends_a_build_with_all_that_it_has_started(tmp_path: Path) -> None:
    """A script's compiler would continue alone."""
    stop, pipe = Stop(60), tmp_path / "pipe"
    os.mkfifo(pipe)
    # Every process that has opened it keeps it open.
    command = ["sh", "-c", f"exec 3>{pipe}; kill {os.getpid()}; sleep 60 & wait"]
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert _interrupted(lambda: run_long(command, stop, "failed"))
    ended = select.select([reader], [], [], 10)[0]
    os.close(reader)
    assert ended, "one of them still runs"


def test_a_program_is_compiled_in_a_path_with_blanks(tmp_path: Path) -> None:
    """By what the libraries' own file says of where they are: a clone may be anywhere."""
    template = (ROOT / "clients/capi/pascaline.pc.in").read_text()
    libraries = tmp_path / "a clone"
    (libraries / "lib/pkgconfig").mkdir(parents=True)
    told = template.replace("@prefix@", str(libraries)).replace("@libdir@", f"{libraries}/lib")
    (libraries / "lib/pkgconfig/pascaline.pc").write_text(told.replace("@version@", "1"))
    with mock.patch.object(clients, "run", wraps=run) as ran:
        ran.side_effect = lambda *words, **more: None if words[0] == "cc" else run(*words, **more)
        clients.compiled("a.c", libraries, libraries / "a")
    words = ran.call_args.args
    assert f"-I{libraries}/include" in words, words
    assert f"-L{libraries}/lib" in words, words


def test_the_last_words_are_told_with_their_remedy() -> None:
    """In one line, without the log before them."""
    log = "INFO ready\npascaline: a.toml:13:13: too little\n  remedy: raise memory_mb\n"
    assert last_error(log) == "pascaline: a.toml:13:13: too little; remedy: raise memory_mb"


def test_without_last_words_the_last_line_is_told() -> None:
    """And that there is none."""
    assert last_error("INFO ready\nWARN going down\n\n") == "WARN going down"
    assert last_error("") == "it said nothing"
