"""DPDK's own telemetry: nothing without its key; with it, the socket answers as dpdk-telemetry.py expects."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bed.appliance import Appliance, Settings, configuration
from tests.bed.network import Star
from tests.bed.process import Deadline

pytestmark = [pytest.mark.all, pytest.mark.root]
_SECONDS = 5.0
_SOCKET = re.compile(r"DPDK is up\W.*?telemetry\W*=\W*(/\S+/dpdk_telemetry\.v2)")
_ANSWER_BYTES = 16 * 1024
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def _running(pascaline: Path, star: Star, files: Path, telemetry: str) -> Iterator[Appliance]:
    settings = Settings("af_packet", pool_slots=1024, window=256)
    text = configuration(star, settings, files / "admin.sock")  # type: ignore[arg-type] # as in a bed
    assert "[telemetry]\n" in text
    text = text.replace("[telemetry]\n", f"[telemetry]\n{telemetry}")
    with Appliance(pascaline, star, text, files) as appliance:
        appliance.wait_ready(Deadline(60))
        yield appliance


def _named(appliance: Appliance) -> str | None:
    found = _SOCKET.search(_COLOUR.sub("", appliance.log()))
    return found.group(1) if found else None


def test_it_is_off_by_default(pascaline: Path, star: Star, tmp_path: Path) -> None:
    with _running(pascaline, star, tmp_path, "") as appliance:
        assert _named(appliance) is None
        opened = Path("/proc/net/unix").read_text()
        assert f"-{appliance.pid}/dpdk_telemetry" not in opened


def test_it_answers(pascaline: Path, star: Star, tmp_path: Path) -> None:
    with _running(pascaline, star, tmp_path, "dpdk = true\n") as appliance:
        path = _named(appliance)
        assert path, appliance.log()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(_SECONDS)
            client.connect(path)
            greeting = json.loads(client.recv(_ANSWER_BYTES))
            assert greeting["pid"] == appliance.pid
            ports = _ask(client, "/ethdev/list")
            assert len(ports) == len(star.workers)
            received = [_ask(client, f"/ethdev/stats,{port}")["ipackets"] for port in ports]
        metrics = appliance.scrape()
        assert sum(received) <= metrics.total("pascaline_port_received_packets_total")
        version = metrics.label("pascaline_build_info", "dpdk")
        assert version
        assert greeting["version"] == f"DPDK {version}"
    assert not Path(path).exists(), "the socket outlives the appliance"


def _ask(client: socket.socket, command: str) -> Any:
    client.send(command.encode())
    return json.loads(client.recv(_ANSWER_BYTES))[command.partition(",")[0]]
