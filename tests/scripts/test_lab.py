"""The lab's use of its options, without a network."""

import os
import signal
from pathlib import Path
from unittest import mock

import pytest

from appliance import configuration
from process import Interrupted, Stop

from ..lab import laboratory
from ..lab.fabric import Shape, Site
from ..lab.options import parse, sharing, timeout
from ..lab.tcp import whole_seconds


def test_tcp_has_the_time_that_it_takes() -> None:
    """By default: two flows, BBR four times as long, beside four controls."""
    options = parse(["--case", "tcp", "--seconds", "60"])
    assert whole_seconds(sharing(options)) == 4 * (60 + 240)
    assert timeout(options) > 2 * 4 * (60 + 240)
    assert parse(["--case", "trees"]).timeout == 600
    assert parse(["--timeout", "5"]).timeout == 5


@pytest.mark.parametrize("option", ["--picture", "--shares"])
def test_a_picture_needs_a_directory(option: str) -> None:
    """It is said before the cases run."""
    with pytest.raises(SystemExit) as ended:
        parse([option, "no/such/directory/x.svg"])
    assert ended.value.code == 2


def _lab(workers: int, spines: int, leaves: int, files: Path = Path()) -> laboratory.Lab:
    """One without a network."""
    racks = [mock.Mock(workers=["w"] * (workers // leaves)) for _ in range(leaves)]
    fabric = mock.Mock(shape=Shape(spines, leaves, workers, 100), leaves=racks, spines=[mock.Mock()] * spines)
    return laboratory.Lab(fabric, Path(), files, mock.Mock(), mock.Mock(), 1 << 20, 8)


@pytest.mark.parametrize(
    ("workers", "spines", "leaves", "line"), [(6, 2, 3, ""), (32, 4, 2, "spare_packets = 30720")]
)
def test_appliances_have_buffers_for_large_racks(workers: int, spines: int, leaves: int, line: str) -> None:
    """What a controller gives a leaf of sixteen; small ones keep the default."""
    site = Site("spine0", "app", "10.82.0.254", "02:50:00:00:01:00", 1500)
    settings = _lab(workers, spines, leaves).settings(fan_in=0, jobs=0)
    text = configuration(site, settings, Path("admin.sock"))  # type: ignore[arg-type]
    assert line in text
    assert bool(line) == ("spare_packets" in text)


def test_what_a_failed_case_left_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An appliance that was killed half way and not taken back has files."""
    made = mock.Mock()
    monkeypatch.setattr(laboratory, "Appliance", made)
    site = Site("spine0", "app", "10.82.0.254", "02:50:00:00:01:00", 1500)
    (tmp_path / site.name).mkdir()
    (tmp_path / site.name / "appliance.err").touch()
    bed = _lab(6, 2, 3, tmp_path)
    bed.appliance(site, bed.settings(fan_in=0, jobs=0))
    assert made.called
    assert [path.name for path in tmp_path.glob("*/appliance.err")] == ["appliance.err"]
    assert not list((tmp_path / site.name).iterdir())


def test_time_does_not_end_a_lab_that_stays_but_a_signal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the cases took."""
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(Stop, "_signum", None)
    try:
        stop = Stop(-1.0)
        stop.lift_limit()
        stop.check()
        os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(Interrupted):
            stop.check()
    finally:
        for number, handler in signals.items():
            signal.signal(number, handler)
