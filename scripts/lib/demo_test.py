"""What scripts/demo decides before and after a run: options, memory, the words of an error."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import clients
from appliance import last_error, with_room
from build import ROOT
from inline import filling
from metrics import Metrics
from olaf_parts import compare
from options import EXAMPLES, parse
from process import Interrupted, Stop, run, run_long
from report import Outcome
from untouched import frames_to_pass

_TEXT = "[dataplane]\nmemory_mb = 512\n\n[pool]\nslots = 4096\n"


class Memory(unittest.TestCase):
    """Of the appliance, by what `pascaline check` says of its file."""

    def test_a_configuration_that_needs_little_stays_as_it_is(self) -> None:
        """Also where check has said nothing of memory."""
        for said in ("16383 packet buffers of 2048 bytes, at least 41 of 512 MB\n", "cores overlap\n"):
            assert with_room(_TEXT, said) == _TEXT

    def test_a_configuration_that_needs_more_has_more(self) -> None:
        """Whether check has accepted it or not, and with room for more than packets."""
        accepted = with_room(_TEXT, "16383 packet buffers of 16384 bytes, at least 500 of 512 MB\n")
        assert "memory_mb = 564\n" in accepted
        refused = with_room(_TEXT, "for rings, slots and lcores, at least 1600 MB: slots may keep 9 packets")
        assert "memory_mb = 1800\n" in refused
        assert "memory_mb = 512\n" not in refused


def _worker(rank: int) -> dict[str, Any]:
    """What one says that has done everything."""
    return {
        "job": 1,
        "rank": rank,
        "checksum": "a",
        "checksums": ["a"] * 10,
        "verified": 10,
        "mismatches": 0,
        "seconds": [0.1] * 10,
    }


class Restarts(unittest.TestCase):
    """Of the appliance, half way."""

    def test_a_restart_that_did_not_happen_is_a_problem(self) -> None:
        """All sums are right, and nothing was shown."""

        def problems(words: list[str], restarts: int) -> list[str]:
            workers = [_worker(rank) for rank in range(4)]
            bad = {"by": "none"}
            return Outcome(parse(words), workers, Metrics(""), bad, [""] * 4, 0, restarts=restarts).problems

        late = "the workers were done before the restart: give them more --allreduces"
        assert late in problems(["--restart-appliance"], 0)
        assert late not in problems(["--restart-appliance"], 1)
        assert late not in problems([], 0)


class Queues(unittest.TestCase):
    """Olaf's beside a FIFO: loss in percent, age in ms."""

    def test_a_load_that_loses_nothing_is_not_judged(self) -> None:
        """As --loads 0.5: both are the same."""
        assert compare(0.5, (0.0, 355.0), (0.0, 354.0), (0.2, "a fifth")) == []
        assert compare(1.2, (4.0, 253.0), (0.0, 204.0), (0.2, "a fifth")) == []

    def test_a_queue_that_is_no_better_is_told(self) -> None:
        """By loss, and by age."""
        assert len(compare(12.0, (90.0, 300.0), (20.0, 290.0), (0.2, "a fifth"))) == 2
        assert len(compare(1.2, (4.0, 253.0), (2.0, 204.0), (0.2, "a fifth"))) == 1
        assert compare(12.0, (90.0, 300.0), (7.0, 100.0), (0.2, "a fifth")) == []

    def test_a_load_that_has_not_come_about_is_told(self) -> None:
        """A FIFO loses what does not fit on the line, or there was less."""
        assert compare(1.5, (35.5, 297.0), (0.0, 100.0), (0.2, "a fifth")) == []
        for load, lost in ((1.5, 16.0), (3.0, 30.0), (12.0, 0.0)):
            (found,) = compare(load, (lost, 100.0), (0.0, 50.0), (0.2, "a fifth"))
            assert "nothing was congested" in found


class InLine(unittest.TestCase):
    """What passes, and what fills a link."""

    def test_frames_fit_every_mtu(self) -> None:
        """One is as long as the MTU, and fragments are cut at multiples of eight."""
        for mtu in (128, 500, 819, 820, 1500, 9000, 9216):
            lengths = {what: len(frame) - 14 for what, frame in frames_to_pass("kernel", mtu).items()}
            assert lengths["IPv4, as long as the MTU"] == mtu, mtu
            assert max(lengths.values()) == mtu, (mtu, lengths)
            assert (lengths["a first fragment"] - 20) % 8 == 0, mtu

    def test_small_tensors_are_not_summed_for_hours(self) -> None:
        """31,250,000 allreduces of four bytes would fit on the link."""
        assert filling(4) == 2000
        assert filling(4 << 20) == 30
        assert filling(1 << 30) == 4


class Signals(unittest.TestCase):
    """A script that has been asked to end ends, whatever it is at."""

    def setUp(self) -> None:
        """Nobody has asked yet, and afterwards Ctrl-C ends the tests again."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for number in numbers:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        patched = mock.patch.object(Stop, "_signum", None)
        patched.start()
        self.addCleanup(patched.stop)

    def _interrupted(self, action: Any) -> bool:
        try:
            action()
        except Interrupted as interrupted:
            return interrupted.exit_code == 128 + signal.SIGTERM
        return False

    def test_a_signal_during_a_build_ends_what_comes_after_it(self) -> None:
        """That has a clock, and so a `Stop`, of its own."""
        Stop(60).check()
        os.kill(os.getpid(), signal.SIGTERM)
        assert self._interrupted(Stop(60).check)

    def test_a_signal_ends_a_build_with_all_that_it_has_started(self) -> None:
        """A script's compiler would go on by itself."""
        stop = Stop(60)
        with tempfile.TemporaryDirectory() as place:
            pipe = Path(place) / "pipe"
            os.mkfifo(pipe)
            # Whoever has opened it keeps it open.
            command = ["sh", "-c", f"exec 3>{pipe}; kill {os.getpid()}; sleep 60 & wait"]
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            assert self._interrupted(lambda: run_long(command, stop, "failed"))
            ended = select.select([reader], [], [], 10)[0]
            os.close(reader)
            assert ended, "one of them still runs"


class Blanks(unittest.TestCase):
    """A clone may be anywhere."""

    def test_a_program_is_compiled_in_a_path_with_blanks(self) -> None:
        """By what the libraries' own file says of where they are."""
        template = (ROOT / "clients/capi/pascaline.pc.in").read_text()
        with tempfile.TemporaryDirectory() as place:
            libraries = Path(place) / "a clone"
            (libraries / "lib/pkgconfig").mkdir(parents=True)
            told = template.replace("@prefix@", str(libraries)).replace("@libdir@", f"{libraries}/lib")
            (libraries / "lib/pkgconfig/pascaline.pc").write_text(told.replace("@version@", "1"))
            with mock.patch.object(clients, "run", wraps=run) as ran:
                ran.side_effect = lambda *words, **more: None if words[0] == "cc" else run(*words, **more)
                clients.compiled("a.c", libraries, libraries / "a")
            words = ran.call_args.args
            assert f"-I{libraries}/include" in words, words
            assert f"-L{libraries}/lib" in words, words


class Errors(unittest.TestCase):
    """What the JSON says of an appliance that has ended by itself."""

    def test_the_last_words_are_told_with_their_remedy(self) -> None:
        """In one line, without the log before them."""
        log = "INFO ready\npascaline: a.toml:13:13: too little\n  remedy: raise memory_mb\n"
        assert last_error(log) == "pascaline: a.toml:13:13: too little; remedy: raise memory_mb"

    def test_without_last_words_the_last_line_is_told(self) -> None:
        """And that there is none."""
        assert last_error("INFO ready\nWARN going down\n\n") == "WARN going down"
        assert last_error("") == "it said nothing"


class Asked(unittest.TestCase):
    """Options that a run does not obey are refused: it must not end well as if it had."""

    def _refused(self, words: str) -> str:
        """The error text that these options end with."""
        said = io.StringIO()
        code: object = None
        with contextlib.redirect_stderr(said):
            try:
                parse(words.split())
            except SystemExit as ended:
                code = ended.code
        assert code == 2, words
        return said.getvalue().splitlines()[-1]

    def test_what_a_run_does_not_obey_is_refused(self) -> None:
        """With the name of the option, and of the run."""
        cases = {
            "--mode iswitch": "--loss 1,--policy dsa,--jobs 2,--reload,--halt,--allreduces 3,--neighbour",
            "--mode olaf": "--workers 3,--loss 1,--reload,--halt,--jobs 2,--bytes 4KiB",
            "--mode olaf --topology two-level": "--workers 6,--picture a.svg,--leaves 3",
            "--client c": "--duplicate 1,--multicast,--order rank,--seed 3,--loss 1,--dtype i32,--halt",
            "--client mpi": "--duplicate 1,--multicast,--order rank,--jobs 2,--mode olaf,--inline,--ip6",
            "--neighbour": "--loss 1,--restart-appliance,--halt,--multicast,--jobs 2,--reload,--wire f16",
            "--protocol switchml": "--wire f16,--policy dsa,--loss 1,--udp-ports 2",
            "--topology two-level": "--lcores 2,--loss 1,--mode iswitch,--neighbour",
            "--inline": "--order rank,--lcores 2,--neighbour,--topology two-level",
        }
        for kind, options in cases.items():
            for option in options.split(","):
                said = self._refused(f"{kind} {option}")
                assert "is not for" in said, (kind, option, said)

    def test_what_belongs_to_another_run_is_told(self) -> None:
        """Without that one."""
        assert "--staleness is for --mode iswitch only" in self._refused("--staleness 2")
        assert "--leaves is for --topology two-level only" in self._refused("--leaves 3")
        assert "--libraries is for --client c" in self._refused("--libraries /nowhere")

    def test_what_a_run_obeys_is_accepted(self) -> None:
        """Among it, what leaves the namespaces."""
        for words in (
            "--mode iswitch --staleness 5 --workers 3 --keep",
            "--mode olaf --loads 0.5 --keep",
            "--mode olaf --topology two-level --seconds 3 --keep",
            "--client c --policy dsa --lcores 2 --udp-ports 2 --wire f16 --keep",
            "--neighbour --policy dsa --lcores 2 --neighbour-rounds 1 --order rank --keep",
            "--protocol switchml --payload 256 --mtu 500 --lcores 2 --keep",
            "--topology two-level --leaves 3 --restart-appliance --ip6",
            "--inline --workers 2 --mtu 500",
            "--policy dsa --jobs 2 --loss 1 --restart-appliance --order rank",
            "--multicast --ip6 --jobs 2 --reload",
        ):
            parse(words.split())

    def test_the_examples_of_the_help_are_accepted(self) -> None:
        """All of them."""
        lines = [line for line in EXAMPLES.splitlines() if line.startswith("  scripts/demo")]
        examples = [line.split("  ")[1] for line in lines]
        assert len(examples) > 20
        for example in examples:
            parse(example.split(" | ")[0].split()[1:])

    def test_packets_that_no_link_takes_are_refused(self) -> None:
        """SwitchML's and Olaf's have one length; IPv6 has a least MTU."""
        assert "an --mtu of 1062" in self._refused("--protocol switchml --mtu 500")
        assert "an --mtu of 1062" in self._refused("--protocol switchml --mtu 1061")
        parse(["--protocol", "switchml", "--mtu", "1062"])
        assert "an --mtu of 1076" in self._refused("--mode olaf --mtu 500")
        assert "an --mtu of 1280" in self._refused("--ip6 --mtu 500")

    def test_training_without_a_server_takes_two(self) -> None:
        """A run that misses nothing shows nothing."""
        assert "two --workers" in self._refused("--mode iswitch --workers 1")


if __name__ == "__main__":
    unittest.main()
