"""torchrun with a number of nodes that changes: 4, then 3, then 4 again, with a rank killed each time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch.distributed as dist

import pascaline
from conftest import on_this_machine

_PROGRAM = str(Path(__file__).resolve().parent / "rank_program.py")
_SECONDS = 240
_PORT = 29893


class _Nodes:
    """Agents of torchrun with one rank each, as on a machine each, and what their ranks have summed."""

    def __init__(self, env: dict[str, str], place: Path, cleanup: ExitStack) -> None:
        self._env, self._place, self._cleanup = env, place, cleanup
        self.agents: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        """One more."""
        options = ("--nnodes=3:4", "--nproc-per-node=1", "--max-restarts=100", "--monitor-interval=0.2")
        meeting = (
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{_PORT}",
            "--rdzv-id=elastic",
            "--rdzv-conf=is_host=0,last_call_timeout=5",
            "--local-addr=127.0.0.1",
            f"--log-dir={self._place}/log{len(self.agents)}",
            "--redirects=3",
        )
        agent = subprocess.Popen(
            (sys.executable, "-m", "torch.distributed.run", *options, *meeting, _PROGRAM, "elastic"),
            env=self._env,
            stdout=subprocess.DEVNULL,
            stderr=(self._place / f"agent{len(self.agents)}").open("wb"),
            start_new_session=True,
        )
        self.agents.append(agent)
        self._cleanup.callback(_end, agent)
        return agent

    def sums(self, since: float, ranks: int) -> dict[int, tuple[float, int]]:
        """By rank: when the first right sum of this many was there, and its process."""
        file = self._place / "sums"
        rows = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return {
            int(rank): (float(when), int(process))
            for when, of, rank, process in rows
            if int(of) == ranks and float(when) > since
        }

    def first_sum(self, since: float, ranks: int) -> tuple[float, dict[int, int]]:
        """Seconds until all of them have summed, and the process of each."""
        deadline = time.monotonic() + _SECONDS
        while len(found := self.sums(since, ranks)) < ranks:
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.1)
        return max(when for when, _ in found.values()) - since, {rank: at for rank, (_, at) in found.items()}

    def told(self) -> str:
        """The ends of all that was written."""
        files = [*self._place.glob("agent*"), *self._place.glob("log*/**/*.log")]
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-1000:]}" for file in files)


def _end(agent: subprocess.Popen[bytes]) -> None:
    """The agent; its rank is in a session of its own, and goes with it."""
    if agent.poll() is None:
        agent.terminate()
        try:
            agent.wait(30)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[_Nodes]:
    with ExitStack() as cleanup:
        appliance = cleanup.enter_context(pascaline.Appliance(4, admission="1000-1063"))
        url = f"pascaline://{appliance.address}?job=1000"
        # Ranks meet at a machine that stays.
        store = dist.TCPStore("127.0.0.1", _PORT, is_master=True, wait_for_workers=False)
        cleanup.callback(lambda: store)
        # PyTorch 2.15 does not tell a node that comes later where rank 0's store is, if that is shared.
        own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": 1}
        env = on_this_machine(appliance, PASCALINE_URL=url, ELASTIC_PLACE=tmp_path, **own_store)
        yield _Nodes(env, tmp_path, cleanup)
        (tmp_path / "end").touch()


def test_fewer_ranks_and_more_again(nodes: _Nodes) -> None:
    """Each number of ranks sums exactly, at the same job, which Joins have formed."""
    begun = time.time()
    for _ in range(4):
        nodes.start()
    _, ranks = nodes.first_sum(begun, 4)

    # A machine dies: an agent with its rank.
    lost = nodes.agents[-1]
    children = [at for at in ranks.values() if _parent(at) == lost.pid]
    assert len(children) == 1
    died = time.time()
    lost.kill()
    os.kill(children[0], signal.SIGKILL)
    fewer, ranks = nodes.first_sum(died, 3)

    # Another rank dies, and a machine comes.
    died = time.time()
    os.kill(ranks[2], signal.SIGKILL)
    nodes.start()
    more, _ = nodes.first_sum(died, 4)
    print(f"from 4 ranks to 3: {fewer:.1f} s; from 3 to 4: {more:.1f} s, ends of Python and starts included")


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
