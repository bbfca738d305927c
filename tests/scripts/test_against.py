"""How two programs are compared, without any."""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import against
import versions
from against import FIGURES, Comparison, Run, Turn
from process import Failure


def _run(speed: float, bare_add: float = 24.0) -> Run:
    return Run(dict.fromkeys(FIGURES, speed), {"bare add": bare_add, "testpmd": 30.0})


class TestCompared:
    """Medians, their intervals, and turns that do not count."""

    def test_a_disturbed_turn_is_thrown_away_and_counted(self) -> None:
        """Here the machine was slower while the new program ran."""
        turns = [Turn(_run(10.0), _run(11.0)) for _ in range(6)]
        turns.append(Turn(_run(10.0), _run(5.0, bare_add=26.0)))
        said = Comparison(turns).said()
        assert (said["turns"], said["thrown_away"]) == (6, 1)
        assert said["hot"] == 1.1
        assert said["between"]["hot"] == [1.1, 1.1]

    def test_what_is_slower_is_a_loss_only_where_that_is_certain(self) -> None:
        """Seven turns can tell, five cannot; nor can turns that scatter."""

        def lost(ratios: list[float]) -> list[str]:
            said = Comparison([Turn(_run(1.0), _run(ratio)) for ratio in ratios]).said()
            return against.losses(said)

        assert lost([0.9] * 7) == list(FIGURES)
        assert lost([0.9] * 5) == []
        assert lost([0.9] * 6 + [0.96]) == []
        assert lost([0.96] * 7) == []

    def test_the_interval_is_that_of_ranks(self) -> None:
        """Of ten values the median of all lies between the second and the ninth, 98 times of a hundred."""
        assert against.interval([float(n) for n in range(10)]) == (1.0, 8.0)
        assert against.interval([1.0] * 5) is None
        assert against.interval([]) is None

    def test_without_a_clean_turn_nothing_is_said(self) -> None:
        """There is no median without values."""
        said = Comparison([]).said()
        assert (said["pool"], said["turns"], said["thrown_away"]) == (None, 0, 0)
        assert against.losses(said) == []


def _refusal(act: Callable[[], object]) -> str:
    """The message with which something is refused."""
    try:
        act()
    except Failure as failure:
        return str(failure)
    return ""


class TestVersions:
    """Clear errors for commits that cannot be built and files that are no program."""

    def test_a_name_that_is_no_commit(self) -> None:
        """The message lists the possible names."""
        said = _refusal(lambda: versions.commit("no-such-commit"))
        assert "'no-such-commit' is neither a commit of this repository nor a program" in said

    def test_the_last_release_is_the_newest_tag(self) -> None:
        """Without one it is a commit that is written down."""
        for tags, wanted in (("v2\nv1", "v2^{commit}"), ("", f"{versions._BEFORE_RELEASES}^{{commit}}")):
            with mock.patch.object(versions, "git", side_effect=[tags, "abc"]) as git:
                assert versions.commit("release") == "abc"
            assert git.call_args.args[-1] == wanted

    def test_a_tree_with_changes(self) -> None:
        """Only commits are compared."""
        with mock.patch.object(versions, "git", return_value=" M aggregator/src/slot.rs\n?? new.rs"):
            said = _refusal(versions.clean)
        assert "changes that are not committed (aggregator/src/slot.rs, new.rs)" in said

    def test_a_disk_without_room(self) -> None:
        """Before a build begins."""
        with (
            tempfile.TemporaryDirectory() as place,
            mock.patch("shutil.disk_usage", return_value=mock.Mock(free=1 << 30)),
        ):
            said = _refusal(lambda: versions._room(Path(place)))
        assert "1.0 GiB free, and building a commit takes 6" in said

    def test_a_program_without_benches(self) -> None:
        """It may be of any age."""
        done: subprocess.CompletedProcess[bytes] = subprocess.CompletedProcess([], 2)
        with mock.patch("subprocess.run", return_value=done):
            said = _refusal(lambda: versions.given("/bin/sh"))
        assert "has no `bench pool`" in said

    def test_a_name_is_a_commit_unless_it_is_a_path(self) -> None:
        """A file of that name here is none."""
        assert versions.given("main") is None
        assert versions.given("/no/such/program") is None
