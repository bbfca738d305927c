"""Workers whose program is interrupted or forks."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import pascaline
from conftest import RANKS, Groups, options, together
from pascaline import errors


def _interrupted(act: Callable[[], Any]) -> float:
    """Seconds until Ctrl-C, after a while, ends it."""
    begun = time.monotonic()
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            act()
    finally:
        timer.cancel()
        timer.join()
    return time.monotonic() - begun


def test_ctrl_c_ends_joining_and_leaving(appliance: pascaline.Appliance, job: int) -> None:
    """Long before their time; the rank is free for the next worker."""
    weights = np.zeros(8, np.float32)
    unread = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    unread.bind(("127.0.0.1", 0))
    silent = (f"127.0.0.1:{unread.getsockname()[1]}", 1, 0, 2)
    where = (appliance.address, job, 0, RANKS)
    for join in (
        lambda: pascaline.Worker(*where, timeout=30),
        lambda: pascaline.Streams(*where, timeout=30),
        lambda: pascaline.AsyncWorker(*silent, weights, join_timeout=30),
    ):
        assert _interrupted(join) < 3
    unread.close()

    joined, left = threading.Barrier(RANKS), threading.Event()

    def other(rank: int) -> None:
        with pascaline.Worker(appliance.address, job, rank, RANKS, timeout=10) as worker:
            joined.wait(10)
            left.wait(10)
            worker.barrier()

    others = [threading.Thread(target=other, args=(rank,)) for rank in range(1, RANKS)]
    for thread in others:
        thread.start()
    worker = pascaline.Worker(*where, timeout=10, linger=5)
    joined.wait(10)
    pending = worker.start(pascaline._worker.Wish("barrier"), None)
    assert _interrupted(worker.leave) < 3
    left.set()
    pending.wait()
    for thread in others:
        thread.join()


def test_a_fork_has_no_part_in_the_workers_of_its_parent(appliance: pascaline.Appliance, job: int) -> None:
    """To the child they are closed, and its end changes nothing for the parent."""

    def child(worker: pascaline.Worker, handle: pascaline.Handle) -> int:
        for call in (worker.barrier, handle.wait):
            with pytest.raises(errors.ClosedError, match="before a fork"):
                call()
        worker.leave()
        appliance.stop()
        return 0

    def act(rank: int) -> None:
        with pascaline.Worker(appliance.address, job, rank, RANKS, timeout=20) as worker:
            if rank == 0:
                handle = worker.allreduce_async(np.zeros(8, np.float32))
                process = os.fork()
                if process == 0:
                    code = 1
                    try:
                        code = child(worker, handle)
                    finally:
                        del worker, handle
                        os._exit(code)
                assert os.waitpid(process, 0)[1] == 0
                handle.wait()
            else:
                forked.wait(20)
                worker.allreduce(np.zeros(8, np.float32))
            worker.barrier()

    forked = threading.Event()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        threading.Timer(0.5, forked.set).start()
        together(act)
    assert appliance.explain(job)["bytes"]["aggregated"] > 0


class _Alarm(Exception):
    """What a program's handler of a signal raises."""


@pytest.mark.parametrize("kind", [SystemExit, TimeoutError, _Alarm])
def test_what_a_handler_raises_is_none_of_the_operations(groups: Groups, kind: type[BaseException]) -> None:
    """It comes out of wait(); the operation goes on, and ends well."""
    works: queue.SimpleQueue[Any] = queue.SimpleQueue()
    raised, ended = threading.Event(), threading.Event()
    tensor = torch.ones(8)

    def handler(*_: Any) -> None:
        raise kind("enough")

    def act(group: Any) -> None:
        if group.rank() == 0:
            works.put(group.allreduce([tensor], options()))
            ended.wait(10)
        else:
            raised.wait(10)
            group.allreduce([torch.ones(8)], options()).wait()

    usual = signal.signal(signal.SIGALRM, handler)
    try:
        with ThreadPoolExecutor(1) as pool:
            others = pool.submit(groups, act)
            work = works.get(timeout=10)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(kind, match="enough"):
                work.wait()
            assert work.exception() is None
            raised.set()
            assert work.wait()
            assert tensor.tolist() == [RANKS] * 8
            ended.set()
            others.result()
    finally:
        signal.signal(signal.SIGALRM, usual)
