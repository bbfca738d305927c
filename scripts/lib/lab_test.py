"""What the lab does with its options, without a network."""

from __future__ import annotations

import os
import signal
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import lab
from appliance import configuration
from fabric import Fabric, Shape
from lab_tcp import whole_seconds
from laboratory import Lab, Sharing
from process import Interrupted, Stop


class Options(unittest.TestCase):
    """Those that are allowed can come to a good end."""

    def test_tcp_has_the_time_that_it_takes(self) -> None:
        """By default: two flows, BBR four times as long, beside four controls."""
        options = lab._parse(["--case", "tcp", "--seconds", "60"])
        assert whole_seconds(lab._sharing(options)) == 4 * (60 + 240)
        assert lab._timeout(options) > 2 * 4 * (60 + 240)
        assert lab._timeout(lab._parse(["--case", "trees"])) == 600
        assert lab._timeout(lab._parse(["--timeout", "5"])) == 5

    def test_a_picture_needs_a_directory(self) -> None:
        """It is said before the cases run."""
        for option in ("--picture", "--shares"):
            with mock.patch("argparse.ArgumentParser._print_message"):
                try:
                    lab._parse([option, "no/such/directory/x.svg"])
                    code: object = None
                except SystemExit as ended:
                    code = ended.code
            assert code == 2, option

    def test_appliances_have_buffers_for_large_racks(self) -> None:
        """What a controller gives a leaf of sixteen; small ones keep the default."""
        for workers, line in ((6, ""), (32, "spare_packets = 30720")):
            fabric = Fabric(Shape(2 if workers == 6 else 4, 2 if workers > 6 else 3, workers, 100))
            bed = Lab(fabric, Path(), Path(), mock.Mock(), mock.Mock(), 1 << 20, 8, sharing=Sharing())
            text = configuration(fabric.spines[0], bed.settings(fan_in=0, jobs=0), Path("admin.sock"))
            assert line in text
            assert bool(line) == ("spare_packets" in text)


class Cases(unittest.TestCase):
    """Those that come after one that failed."""

    def test_what_a_failed_case_left_is_put_aside(self) -> None:
        """An appliance that was killed half way and not taken back has files."""
        with tempfile.TemporaryDirectory() as name, mock.patch("laboratory.Appliance") as made:
            fabric, files = Fabric(Shape(2, 3, 6, 100)), Path(name)
            bed = Lab(fabric, Path(), files, mock.Mock(), mock.Mock(), 1 << 20, 8)
            site = fabric.spines[0]
            (files / site.name).mkdir()
            (files / site.name / "appliance.err").touch()
            bed.appliance(site, bed.settings(fan_in=0, jobs=0))
            assert made.called
            assert [path.name for path in files.glob("*/appliance.err")] == ["appliance.err"]
            assert not list((files / site.name).iterdir())


class Stays(unittest.TestCase):
    """The end of --keep."""

    def test_time_does_not_end_it_but_a_signal_does(self) -> None:
        """However long the cases took."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        patched = mock.patch.object(Stop, "_signum", None)
        patched.start()
        self.addCleanup(patched.stop)
        stop = Stop(-1.0)
        stop.lift_limit()
        stop.check()
        os.kill(os.getpid(), signal.SIGHUP)
        interrupted = False
        try:
            stop.check()
        except Interrupted:
            interrupted = True
        assert interrupted


if __name__ == "__main__":
    unittest.main()
