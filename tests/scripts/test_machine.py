"""What scripts/demo says on a machine that cannot run it, before it builds or makes anything."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path
from unittest import mock

import pytest

import demo
import machine

_Usage = namedtuple("_Usage", "total used free")


def _told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What it ends with, where nothing may be built."""
    with mock.patch("build.ready", side_effect=AssertionError("it builds")):
        assert demo.main(list(words)) == 2
    return capsys.readouterr().err


def test_without_root_and_sudo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Said with what to do, in JSON, too."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with mock.patch("build.ready", side_effect=AssertionError("it builds")):
        assert demo.main(["--json"]) == 2
    said = capsys.readouterr()
    assert "need root, and there is no sudo: run it as root" in said.err
    assert said.out.startswith('{"ok":false,"error":')


def test_where_sudo_asks_and_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rather than waiting for a password that nobody types."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/sudo")
    monkeypatch.setattr(machine, "_succeeds", lambda *_, **__: False)
    assert "there is no terminal" in _told(capsys)


def test_in_a_container_without_rights(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root of a container may lack what root has elsewhere."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(machine, "_status", lambda: "CapEff:\t00000000a80425fb\n")
    said = _told(capsys)
    assert "lacks CAP_NET_ADMIN, CAP_SYS_ADMIN" in said
    assert "--privileged" in said
    monkeypatch.setattr(machine, "_status", lambda: "CapEff:\t000001ffffffffff\n")
    monkeypatch.setattr(machine, "_namespace_refused", lambda: "mount failed")
    assert "may not make network namespaces here: mount failed" in _told(capsys)


@pytest.mark.parametrize(
    ("built", "free_mb", "fits"), [(False, 1999, False), (True, 500, True), (True, 199, False)]
)
def test_without_room_for_the_build(
    built: bool, free_mb: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first build takes more than a later one. The target directory need not exist yet."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(machine, "_check_capabilities", lambda: None)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "far away/target"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(0, 0, free_mb * 10**6))
    if built:
        (tmp_path / "far away/target").mkdir(parents=True)
        (tmp_path / "far away/target/CACHEDIR.TAG").touch()
    if fits:
        machine.check(build=True)
    else:
        with pytest.raises(machine.Unfit, match=f"far away/target has {free_mb} MB free"):
            machine.check(build=True)
