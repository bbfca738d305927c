"""Whose namespaces are leftovers: of processes that sleep under the names of scripts."""

import subprocess
import sys

import pytest

import netns
from build import ROOT


def _is_over(script: str) -> bool:
    # It waits until its standard input ends, so that it cannot outlive this.
    program = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, f"{ROOT}/scripts/{script}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout
        running.stdout.readline()
        return netns.is_over(running.pid)


@pytest.mark.parametrize("script", ["lib/demo.py", "lib/examples.py", "lib/call_cost.py", "bench.d/main.py"])
def test_scripts_that_run_keep_their_namespaces(script: str) -> None:
    """What a script makes in its own process is its own: bench measures calls in a network."""
    assert not _is_over(script)


def test_others_are_over() -> None:
    """The number may have gone to another program, or to none."""
    assert _is_over("lib/build.py")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert netns.is_over(ended.pid)
