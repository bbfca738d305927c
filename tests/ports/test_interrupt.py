"""Interrupts a real demo in the middle and looks for what is left: namespaces, processes, files.

After SIGKILL only the processes can be gone; the next run of the demo has to remove the rest.
"""

import signal
from pathlib import Path

import pexpect
import psutil
import pytest

from netns import NAMESPACES, work_directory
from tests.runner.shell import ROOT, Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]
_EXIT_CODES = {"ctrl-c": 128 + signal.SIGINT, "term": 128 + signal.SIGTERM, "kill": -signal.SIGKILL}


def _namespaces(pids: set[int]) -> list[str]:
    """The namespaces of the runs of these processes."""
    prefixes = tuple(f"pas-{pid}-" for pid in pids)
    return [path.name for path in NAMESPACES.glob("pas-*") if path.name.startswith(prefixes)]


@pytest.mark.parametrize("how", _EXIT_CODES)
def test_nothing_is_left(how: str, shell: Shell, pascaline: Path) -> None:
    """Ctrl-C on the demo's terminal, SIGTERM, and SIGKILL with the run after it."""
    command = [str(ROOT / "scripts/demo"), "--binary", str(pascaline)]
    demo = pexpect.spawn(command[0], [*command[1:], "--allreduces", "100000"], encoding="utf-8")
    # The bar shows the first finished allreduces: workers and appliance are in the middle of it.
    demo.expect(r"\b[1-9]\d*/\d+ allreduces", timeout=60)
    children = psutil.Process(demo.pid).children(recursive=True)
    pids = {demo.pid, *(child.pid for child in children)}
    # An appliance and four workers.
    assert len(children) >= 5
    assert len(_namespaces(pids)) >= 5
    if how == "ctrl-c":
        demo.sendintr()
    else:
        demo.kill(signal.SIGTERM if how == "term" else signal.SIGKILL)
    demo.expect(pexpect.EOF, timeout=30)
    demo.close()
    code = -demo.signalstatus if demo.signalstatus else demo.exitstatus
    assert code == _EXIT_CODES[how], demo.before
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive
    if how == "kill":
        assert _namespaces(pids), "SIGKILL left nothing to clean up: this test tests nothing"
        shell(*command, "--allreduces", 1, "--bytes", "64KiB", seconds=60)
    assert not _namespaces(pids)
    assert not [pid for pid in pids if work_directory(pid).exists()]
