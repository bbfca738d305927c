"""Checks that need neither TRex nor an appliance."""

from __future__ import annotations

import base64
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest

import pascaline_malformed
import pascaline_trex
import stl_control
import stl_gradients
import stl_malformed
import stl_updates
from generators import TRex
from pascaline_loads import Load, gradients_per_job, updates
from pascaline_streams import IP_AT, StreamError, fix_ip, frames
from pascaline_trex import Profile

from ..bed import ROOT
from . import vectors
from .conftest import Told
from .verdict import verdict

pytestmark = pytest.mark.all
_DOCUMENT = ROOT / "docs/protocol.md"
_TREX = ROOT / "scripts/trex"

_PROFILES: list[tuple[Profile, list[str]]] = [
    (stl_gradients.register(), ["--ranks", "5", "--jobs", "3-4", "--psns", "40", "--epochs", "3:9,4:8"]),
    (
        stl_gradients.register(),
        ["--ranks", "8", "--layout", "job", "--psns", "40", "--first-address", "10.1.0.250"],
    ),
    (stl_updates.register(), ["--generated-ns", "1763690000123456789", "--psns", "30", "--pps", "3000"]),
    (stl_malformed.register(), ["--refused", "--psns", "3", "--appliance-ipv6", "2001:db8::fe"]),
    (stl_control.register(), ["--session", "1763690000123456789", "--destination-mac", "02:00:00:00:00:77"]),
    (stl_control.register(), ["--action", "leave", "--session", "7", "--epochs", "3"]),
]


def test_vectors_agree(told: Told) -> None:
    """Every vector, both ways. Holds R16.1 and R16.2 of protocol.md."""
    found = vectors.read(_DOCUMENT)
    # One regular expression finds them: a document whose grammar has changed must not pass as one without
    # vectors.
    assert _DOCUMENT.read_text().count("```vector") == len(found) > 0, (
        f"only {len(found)} vectors could be read"
    )
    wrong = [f"{vector.name}: {line}" for vector in found for line in vectors.differences(vector)]
    assert not wrong, "\n".join(wrong)
    malformed = sum(vector.malformed is not None for vector in found)
    told(f"{len(found)} vectors, {malformed} of them malformed")


def test_flipped_bits_are_noticed(told: Told) -> None:
    """The comparison itself: no change of a frame may pass."""
    flips = 0
    for vector in vectors.read(_DOCUMENT):
        if vector.malformed:
            continue
        for byte in range(len(vector.frame)):
            frame = bytearray(vector.frame)
            frame[byte] ^= 1 << byte % 8
            try:
                noticed = bool(vectors.differences(replace(vector, frame=bytes(frame))))
            except (KeyError, IndexError, AttributeError):
                noticed = True
            assert noticed, f"{vector.name}: a flipped bit in byte {byte} passes"
            flips += 1
    told(f"{flips} flips")


def test_malformed_are_the_documents(told: Told) -> None:
    """The malformed mix is made of the layers, and is what the document prints."""
    printed = {vector.name: vector for vector in vectors.read(_DOCUMENT) if vector.malformed}
    made = {case.name: case for case in pascaline_malformed.VECTORS}
    assert printed.keys() == made.keys(), f"not in both: {sorted(printed.keys() ^ made.keys())}"
    for name, vector in printed.items():
        case = made[name]
        frame = case.make(Load(), 1)
        assert frame == vector.frame, f"{name}: made {frame.hex()}, printed {vector.frame.hex()}"
        assert case.reason == vector.malformed, f"{name}: {case.reason}, printed {vector.malformed}"
    for case in pascaline_malformed.MALFORMED:
        assert verdict(case.make(Load(), 1)) == case.reason, f"{case.name} is not {case.reason}"
    for case in pascaline_malformed.REFUSED:
        assert verdict(case.make(Load(), 1)) is None, f"{case.name} is malformed"
    told(f"{len(made)} cases")


def test_profiles_without_trex(told: Told) -> None:
    """Importing a profile needs no TRex; asking it for streams says what is missing."""
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('trex', 'trex_stl_lib')))\n"
        "import {name}, pascaline_trex\n"
        "try: {name}.register().get_streams(0, [])\n"
        "except pascaline_trex.TRexMissing as missing: print(missing)"
    )
    for profile in ("stl_gradients", "stl_updates", "stl_malformed", "stl_control"):
        command = [sys.executable, "-B", "-c", program.format(name=profile)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"PYTHONPATH": str(_TREX)},
        )
        assert done.returncode == 0, f"{profile}: {done.stdout}{done.stderr}"
        assert "PYTHONPATH" in done.stdout, f"{profile}: {done.stdout}{done.stderr}"
    told("4 profiles")


def _need_client() -> None:
    if not all(importlib.util.find_spec(name) for name in ("imp", "trex_stl_lib")):
        pytest.skip("the client library trex-stl-lib 0.3 needs Python 3.11")


def test_compiled_profiles_agree(told: Told) -> None:
    """The client library compiles each profile to instructions that make the frames that we replay."""
    _need_client()
    streams, compared = 0, 0
    for profile, tunables in _PROFILES:
        ours = profile.streams(profile.options().parse_args(tunables))
        theirs = [
            stream.to_json() for stream in profile.get_streams(direction=0, tunables=tunables, port_id=0)
        ]
        assert len(ours) == len(theirs), f"{profile}: {len(theirs)} streams of {len(ours)}"
        for stream, compiled in zip(ours, theirs, strict=True):
            mode = compiled["mode"]
            assert (mode["type"], mode["total_pkts"]) == ("single_burst", stream.count), (
                f"{stream.name}: {mode}"
            )
            own = stream.own_source_mac | stream.own_destination_mac << 1
            assert compiled["flags"] == own, f"{stream.name}: MAC flags {compiled['flags']}"
            for packet in range(stream.count or 0):
                frame = _carried_out(compiled, packet)
                assert frame == stream.frame(packet), f"{stream.name}, packet {packet}: {frame.hex()}"
                compared += 1
            streams += 1
        assert profile.get_streams(direction=1, tunables=tunables) == [], f"{profile}: odd ports send, too"
    told(f"{streams} streams, {compared} frames")


def _carried_out(compiled: dict[str, Any], packet: int) -> bytes:
    """The n-th packet by TRex's field engine."""
    frame = bytearray(base64.b64decode(compiled["packet"]["binary"]))
    values: dict[str, tuple[int, int]] = {}
    for step in compiled["vm"]["instructions"]:
        if step["type"] == "flow_var":
            cycle = step["max_value"] - step["min_value"] + 1
            start = step["init_value"] - step["min_value"]
            value = step["min_value"] + (start + packet * step["step"]) % cycle
            values[step["name"]] = value, step["size"]
        elif step["type"] == "write_flow_var":
            value, size = values[step["name"]]
            place = slice(step["pkt_offset"], step["pkt_offset"] + size)
            frame[place] = (value + step["add_value"]).to_bytes(
                size, "big" if step["is_big_endian"] else "little"
            )
        elif step["type"] == "write_mask_flow_var":
            value = values[step["name"]][0] + step["add_value"]
            value = value << step["shift"] if step["shift"] > 0 else value >> -step["shift"]
            size = step["pkt_cast_size"]
            order: Literal["big", "little"] = "big" if step["is_big_endian"] else "little"
            place = slice(step["pkt_offset"], step["pkt_offset"] + size)
            kept = int.from_bytes(frame[place], order) & ~step["mask"]
            frame[place] = (kept | value & step["mask"]).to_bytes(size, order)
        elif step["type"] == "fix_checksum_ipv4":
            assert step["pkt_offset"] == IP_AT
            fix_ip(frame)
        else:
            raise AssertionError(f"an instruction that no stream of ours needs: {step}")
    return bytes(frame)


def test_impossible_streams_are_refused(told: Told) -> None:
    """TRex's limits are checked by the profiles: its client does not, and its server may end by it."""
    load = Load(payload=1024, psns=10)
    attempts: dict[str, Callable[[], object]] = {
        "a time beyond byte 512": lambda: updates(load, 1.0, 1),
        "a variable of 64 bits": lambda: updates(replace(load, payload=256, psns=10), 1.0, (1 << 63) - 1),
        "three ranks in one stream": lambda: gradients_per_job(replace(load, ranks=3)),
        "too many PSNs in one stream": lambda: gradients_per_job(replace(load, ranks=4, psns=1 << 31)),
        "half an element": lambda: gradients_per_job(replace(load, payload=1022)),
        "an end that is not there": lambda: list(frames(gradients_per_job(replace(load, psns=None)))),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except StreamError:
            continue
        raise AssertionError(f"accepted: {what}")
    told(f"{len(attempts)} attempts")


def test_runner_fits_the_client(told: Told) -> None:
    """The runner against TRex's client without a server: every call fits the client's own signatures."""
    _need_client()
    streams = stl_gradients.register().streams(
        stl_gradients.register().options().parse_args(["--psns", "10"])
    )
    stl = pascaline_trex.api()
    with mock.patch.object(stl, "STLClient", autospec=True) as client, mock.patch("generators.time.sleep"):
        server = client.return_value
        server.get_stats.return_value = {3: {"opackets": 40, "ipackets": 44, "oerrors": 0}}
        trex = TRex("trex1", 3)
        server.start_capture.return_value = {"id": 5}
        server.stop_capture.side_effect = lambda _, output: output.append({"binary": b"answer"})
        sent = trex.send(streams, None)
        heard = trex.ask(streams)
        trex.close()
    assert heard == [b"answer"], f"captured: {heard}"
    assert (sent.offered, sent.heard, sent.errors) == (40, 44, 0), f"{sent}"
    added = server.add_streams.call_args.args[0]
    assert all(isinstance(stream, stl.STLStream) for stream in added), f"{added}"
    assert len(added) == 4, f"{added}"
    assert server.start.call_args.kwargs["core_mask"] == [1], (
        "more than one core would cut the PSNs in pieces"
    )
    assert server.disconnect.called, "the client stays connected"
    told(f"{len(server.method_calls)} calls")


def test_no_rate_is_refused(told: Told) -> None:
    """Rates and times of 0 end the runner with exit code 2 before it sends anything."""
    begin = [sys.executable, "-B", str(_TREX / "run"), "--interface", "lo"]
    attempts = (
        ("gradients", "--pps", "0"),
        ("--ndr", "--trial-seconds", "0", "gradients"),
        ("--ndr", "--width", "0", "gradients"),
        ("--ndr", "--least-rate", "-1", "gradients"),
        ("--seconds", "nan", "gradients"),
    )
    for words in attempts:
        done = subprocess.run([*begin, *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2, f"{words}: {done.stderr}"
        assert "is not a number above 0" in done.stderr, f"{words}: {done.stderr}"
    told(f"{len(attempts)} attempts")


def test_scapy_of_trex_goes_first(told: Told) -> None:
    """In a folder laid out as TRex's, with PYTHONPATH as docs/trex.md says."""
    with tempfile.TemporaryDirectory() as folder:
        trex = Path(folder)
        interactive = trex / "automation/trex_control_plane/interactive"
        bundled = trex / "external_libs/scapy-2.4.3/scapy"
        for path in (interactive, bundled):
            path.mkdir(parents=True)
        (bundled / "__init__.py").write_text("")
        program = "import libraries, scapy; print(scapy.__file__)"
        environment = os.environ | {"PYTHONPATH": f"{interactive}{os.pathsep}{_TREX}"}
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
        assert done.stdout.strip() == str(bundled / "__init__.py"), done.stdout + done.stderr
    told("2.4.3 before this one's")
