"""Runs PyTorch's own tests of its distributed package, as far as its wheel ships them and a CPU can run them.

    pytorch_own.py --backend gloo|pascaline [--only WORDS] [--ranks N]

Says one JSON object per test: its name, `passed`, `skipped` or `failed`, and why. The tests are those of
torch.testing._internal.distributed.distributed_test: collectives, groups, send and receive,
DistributedDataParallel and its hooks, object collectives, joins of uneven inputs.

The tests know the names of PyTorch's own backends, and skip what these cannot do. So `pascaline` runs what is
for Gloo: where a test asks for the backend gloo, it gets pascaline. PyTorch starts new processes for each
test; here they go on from test to test, until one has failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

SECONDS = 40


def main() -> None:
    """Coordinates the ranks, or is one of them."""
    parser = argparse.ArgumentParser(description="PyTorch's own tests", allow_abbrev=False)
    parser.add_argument("--backend", choices=["gloo", "pascaline"], default="pascaline")
    parser.add_argument("--ranks", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--only", default="", help="words, one of which is in a test's name, by commas")
    parser.add_argument("--rank", type=int, help="be one of the processes")
    options = parser.parse_args()
    if options.rank is not None:
        _Rank(options).serve()
        return
    with contextlib.ExitStack() as cleanup:
        if options.backend == "pascaline":
            cleanup.enter_context(_appliance(options.ranks))
        _run_all(options)


def _run_all(options: argparse.Namespace) -> None:
    for found in run(options.backend, options.ranks, options.only.split(",")):
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


@contextlib.contextmanager
def _appliance(ranks: int) -> Iterator[None]:
    """One for all tests, and where it is in the environment of the processes."""
    import pascaline

    with pascaline.Appliance(ranks, admission="1000-1063") as appliance:
        keys = "job=1&linger=200ms&join_timeout=20"
        os.environ["PASCALINE_URL"] = f"pascaline://{appliance.address}?{keys}"
        os.environ["PASCALINE_JOBS"] = "1000-1063"
        yield


def run(backend: str, ranks: int, only: list[str]) -> Iterator[dict[str, Any]]:
    """All tests whose names have one of the words."""
    with tempfile.TemporaryDirectory(prefix="pytorch-own-") as place:
        team = _Team(backend, ranks, Path(place))
        try:
            names = team.names()
            for number, name in enumerate(names):
                if any(word in name for word in only):
                    yield {"test": name, **team.test(name, number)}
        finally:
            team.end()


class _Team:
    """The processes, started anew after a failure."""

    def __init__(self, backend: str, ranks: int, place: Path) -> None:
        self._backend, self._ranks, self._place = backend, ranks, place
        self._processes: list[subprocess.Popen[str]] = []
        for name in ("barrier", "test_dir", "init_dir"):
            (place / name).mkdir()

    def names(self) -> list[str]:
        """Of all tests."""
        self._start()
        return self._listed

    def test(self, name: str, number: int) -> dict[str, Any]:
        """Runs one, and returns its outcome."""
        for left in (self._place / "barrier").iterdir():
            left.unlink()
        if not self._processes:
            self._start()
        begun = time.monotonic()
        answers = self._ask({"do": name, "meet": str(self._place / f"meet{number}")}, SECONDS)
        took = {"seconds": round(time.monotonic() - begun, 2)}
        for outcome in ("failed", "skipped", "passed"):
            found = next((answer for answer in answers if answer["outcome"] == outcome), None)
            if found:
                if outcome == "failed":
                    self.end()
                return {**found, **took}
        raise AssertionError(answers)

    def _start(self) -> None:
        words = ["--backend", self._backend, "--ranks", str(self._ranks)]
        more = {
            "BACKEND": "gloo",
            "WORLD_SIZE": str(self._ranks),
            "TEMP_DIR": str(self._place),
            "MASTER_ADDR": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        for rank in range(self._ranks):
            process = subprocess.Popen(
                [sys.executable, "-B", __file__, *words, "--rank", str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(self._place / f"rank{rank}.log").open("w"),
                text=True,
                env=os.environ | more,
            )
            self._processes.append(process)
        # To import all of it takes its time.
        answers = self._ask({"do": "list"}, 300)
        if not all("tests" in answer for answer in answers):
            log = (self._place / "rank0.log").read_text()[-2000:]
            raise SystemExit(f"the processes do not start: {answers}\n{log}")
        self._listed: list[str] = answers[0]["tests"]

    def _ask(self, what: dict[str, str], seconds: float) -> list[dict[str, Any]]:
        """The answers of all; of a process that has none in time, that."""
        for process in self._processes:
            if process.stdin:
                process.stdin.write(json.dumps(what) + "\n")
                process.stdin.flush()
        end = time.monotonic() + seconds
        answers: list[dict[str, Any]] = []
        failed = False
        for rank, process in enumerate(self._processes):
            # Once one has failed, the others may wait for it forever.
            left = min(end - time.monotonic(), 3.0 if failed else seconds)
            ready = process.stdout and select.select([process.stdout], [], [], max(0.0, left))[0]
            line = process.stdout.readline() if ready and process.stdout else ""
            reason = f"rank {rank} has ended" if ready else f"rank {rank} is not done after {seconds:.0f} s"
            answer = json.loads(line) if line else {"outcome": "failed", "why": reason}
            failed = failed or answer.get("outcome") == "failed"
            answers.append(answer)
        # What a test found wrong says more than that another rank waits.
        return sorted(answers, key=lambda answer: answer.get("why", "").startswith("rank "))

    def end(self) -> None:
        """Ends all."""
        for process in self._processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()
        self._processes = []


class _Rank:
    """One process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._rank, self._ranks = options.rank, options.ranks
        # Tests print: what is said goes another way.
        self._say = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        import torch.distributed as dist

        if options.backend == "pascaline":
            import pascaline.torch

            assert pascaline.torch
            _replace(dist)
        from torch.testing._internal.common_utils import set_rng_seed
        from torch.testing._internal.distributed import distributed_test as tests

        self._dist, self._tests, self._seed = dist, tests, set_rng_seed

        class Own(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
            pass

        self._class = Own

    def serve(self) -> None:
        """Does what the coordinator says, until it ends."""
        for line in sys.stdin:
            asked = json.loads(line)
            if asked["do"] == "list":
                names = sorted(name for name in dir(self._class) if name.startswith("test_"))
                answer: dict[str, Any] = {"tests": names}
            else:
                answer = self._test(asked["do"], asked["meet"])
            self._say.write(json.dumps(answer) + "\n")
            self._say.flush()

    def _test(self, name: str, meet: str) -> dict[str, str]:
        case = self._class(name)
        case.rank, case.file_name = self._rank, meet
        self._tests.Barrier.barrier_id = 0
        self._seed()
        try:
            seconds = self._tests.CUSTOM_PG_TIMEOUT.get(name, 30)
            self._dist.init_process_group(
                "gloo",
                init_method=f"file://{meet}",
                world_size=self._ranks,
                rank=self._rank,
                timeout=timedelta(seconds=seconds),
            )
            case._barrier()
            getattr(case, name)()
            case._barrier()
            self._dist.destroy_process_group()
        except BaseException as error:
            return self._judge(error)
        return {"outcome": "passed", "why": ""}

    def _judge(self, error: BaseException) -> dict[str, str]:
        import unittest

        from torch.testing._internal.common_distributed import TEST_SKIPS

        codes = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}
        code = error.code if isinstance(error, SystemExit) else None
        if isinstance(error, unittest.SkipTest) or code in codes:
            if self._dist.is_initialized():
                self._dist.destroy_process_group()
            why = codes.get(code) if isinstance(code, int) else str(error)
            return {"outcome": "skipped", "why": str(why).splitlines()[0]}
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [""]
        return {"outcome": "failed", "why": f"{type(error).__name__}: {lines[0]}"[:300]}


def _replace(dist: Any) -> None:
    """Where gloo is asked for, pascaline is given."""
    begin, group = dist.init_process_group, dist.new_group

    def init_process_group(backend: Any = None, **more: Any) -> Any:
        return begin("pascaline" if backend == "gloo" else backend, **more)

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, **more: Any) -> Any:
        return group(ranks, timeout, "pascaline" if backend == "gloo" else backend, **more)

    for module in (dist, dist.distributed_c10d):
        module.init_process_group, module.new_group = init_process_group, new_group


if __name__ == "__main__":
    main()
