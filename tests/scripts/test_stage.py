"""A run on a machine that cannot run it: reported before anything is made."""

import shutil
import subprocess
from collections import namedtuple
from pathlib import Path
from unittest import mock

import pytest

import stage
from netns import Network
from process import Failure, Stop, Unable

_Usage = namedtuple("_Usage", "total used free")


def _done(code: int, error: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess((), code, "", error)


def _unable(run: mock.Mock) -> str:
    """The reason why the run does not begin."""
    network = mock.Mock(spec=Network)
    with mock.patch.object(stage, "run", run), pytest.raises(Unable) as told:
        stage.Stage(Path("/pascaline"), mock.Mock(spec=Stop), network).__enter__()
    assert not network.create.called
    assert told.value.exit_code == 2
    assert Failure("").exit_code == 1
    return str(told.value)


def test_where_no_namespace_can_be_made() -> None:
    """In a user namespace, say."""
    run = mock.Mock(side_effect=[_done(1, "mount --make-shared /run/netns failed\n"), _done(1)])
    said = "root may not make network namespaces here: mount --make-shared /run/netns failed"
    assert _unable(run) == said


def test_without_room_for_a_runs_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs would be cut, with their errors."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(0, 0, 63 * 10**6))
    assert "has 63 MB free: TMPDIR" in _unable(mock.Mock(return_value=_done(0)))
