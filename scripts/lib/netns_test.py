"""Whose namespaces are leftovers."""

from __future__ import annotations

import subprocess
import sys
import unittest

import netns
from build import ROOT


class Leftovers(unittest.TestCase):
    """Processes that sleep under the names of scripts."""

    def _is_over(self, script: str) -> bool:
        # It waits until its standard input ends, so that it cannot outlive this.
        program = "import sys; print(flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", program, f"{ROOT}/scripts/{script}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
            assert running.stdout
            running.stdout.readline()
            return netns._is_over(running.pid, also_kept=False)

    def test_scripts_that_run_keep_their_namespaces(self) -> None:
        """What a script makes in its own process is its own: bench measures calls in a network."""
        for script in ("lib/demo.py", "lib/mistakes.py", "lib/lab.py", "bench.d/main.py"):
            assert not self._is_over(script), script

    def test_others_are_over(self) -> None:
        """The number may have gone to another program, or to nobody."""
        assert self._is_over("lib/house.py")
        with subprocess.Popen([sys.executable, "-c", ""]) as ended:
            ended.wait()
        assert netns._is_over(ended.pid, also_kept=False)


if __name__ == "__main__":
    unittest.main()
