"""A soak: allreduces without end for a while; the appliance may neither grow nor lose packet buffers.

Workers come and go in batches, so that joining and leaving are soaked too. After each batch all have left.
"""

import os
import time
from pathlib import Path

import pytest

from tests.bed.appliance import Appliance, Settings
from tests.bed.leaks import Memory, climb, kib_per_hour, leaks, loses_buffers
from tests.bed.metrics import Accounting
from tests.bed.network import Star
from tests.bed.process import Deadline
from tests.bed.workers import Load, Workers

pytestmark = [pytest.mark.root, pytest.mark.all]
_SECONDS = float(os.environ.get("SOAK_SECONDS", "90"))
# Threads touch their stacks and the allocator its arenas for a while: a third of the soak, at least.
_WARM_UP_SECONDS = max(30.0, _SECONDS / 3)
# Beyond the soak itself: bringing up, the last batch, draining.
_SLACK_SECONDS = 120.0
_BUFFERS = "pascaline_packet_buffers_in_use"
_BATCH = Load(allreduces=10, bytes=4 << 20, dtype="f32", payload=1024, in_flight=128, seed=1, deadline=60)


def test_memory_does_not_grow(pascaline: Path, star: Star, tmp_path: Path) -> None:
    """SOAK_SECONDS says for how long (90)."""
    stop = Deadline(_SECONDS + _SLACK_SECONDS)
    workers = Workers(pascaline, star, tmp_path)  # type: ignore[arg-type] # it has what workers need
    buffers = []
    with Appliance(
        pascaline, star, Settings("af_packet", pool_slots=4096, window=512), tmp_path
    ) as appliance:
        appliance.wait_ready(stop)
        memory = Memory(appliance.pid)
        end = time.monotonic() + _SECONDS
        try:
            while time.monotonic() < end:
                workers.start(_BATCH)
                workers.wait(stop, appliance.check_running, lambda _: memory.sample())
                for result in workers.results():
                    assert result["verified"] == _BATCH.allreduces
                    assert result["mismatches"] == 0
                buffers.append(appliance.settled(stop).total(_BUFFERS))
        finally:
            workers.stop()
        memory.sample(now=True)
        assert Accounting.of(appliance.settled(stop)).holds
        assert appliance.stop() == 0
    slope = kib_per_hour(memory.samples, _WARM_UP_SECONDS)
    print(
        f"{len(buffers)} batches, {slope} KiB per hour, buffers in use climbed by {climb(buffers)}: {buffers}"
    )
    assert slope is not None, "too short to judge memory by"
    assert not leaks(slope), f"memory grows by {slope:.0f} KiB per hour"
    assert not loses_buffers(buffers), buffers
