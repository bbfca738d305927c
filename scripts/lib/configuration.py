"""The appliance's configuration: tables as Python has them, and the TOML that they are written as."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from netns import Network
from options import Options

UDP_PORT = 16420
JOB = 1
TELEMETRY = ("127.0.0.1", 9464)
DRAIN_SECONDS = 1.0
# Bytes before the frame in a slot of an af_packet ring.
_RING_HEADER = 128
# Sufficient for frames of 1,500 bytes.
MEMORY_MB = 512
# Under this key a table may have lines that are copied unchanged.
LINES = ""
Tables = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    driver: str
    pool_slots: int
    window: int
    policy: str = "default"
    order: str = "arrival"
    jobs: int = 1
    # Further lines of each job, and tables of the configuration, as text.
    job_keys: str = ""
    more: str = ""
    # Ranks of each job; 0: one in each worker's namespace.
    fan_in: int = 0
    # Packet buffers for future jobs; 0 for the default.
    spare_packets: int = 0
    # Frames that the kernel keeps for a port that is not polled; 0 for the driver's default.
    ring: int = 0
    udp_ports: int = 1
    lcores: int = 1
    name: str = "demo"
    # With a job's number behind it, the multicast group of its results.
    group: str = ""
    # Who verifies the UDP checksums that ports receive; the appliance's default if empty.
    verify: str = ""
    # The file with the key that packets are sealed with; without one they are not.
    security: str = "none"
    key_file: str = ""

    @classmethod
    def of(cls, options: Options, window: int, **more: Any) -> Self:
        """The options of scripts/demo, and `more`."""
        return cls(**options.shared(cls) | {"window": window} | more)


def dumps(tables: Mapping[str, Any]) -> str:
    """TOML: a list is an array of tables, a table within a table is written in one line."""
    parts = []
    for name, value in tables.items():
        if name == LINES:
            parts.append(f"{value.strip()}\n")
            continue
        head = f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
        parts += [f"{head}\n{_lines(table)}" for table in (value if isinstance(value, list) else [value])]
    return "\n".join(part for part in parts if part.strip())


def _lines(table: Mapping[str, Any]) -> str:
    lines = [
        f"{value.rstrip()}\n" if key == LINES else f"{key} = {_value(value)}\n"
        for key, value in table.items()
        if key != LINES or value.strip()
    ]
    return "".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_value(one)}' for key, one in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def ring_slot(mtu: int) -> int:
    """Bytes of a slot of an af_packet ring that holds whole frames; 2 KiB unless the driver is given more."""
    slot = 2048
    while slot < mtu + _RING_HEADER:
        slot *= 2
    return slot


def device(driver: str, port: int, mtu: int, ring: int = 0, queues: int = 1) -> str:
    """The DPDK device on one end of a veth pair."""
    text = f"net_{driver}{port},iface=pas{port}"
    slot = ring_slot(mtu)
    if driver == "af_packet" and slot > ring_slot(0):
        # A block holds at least one slot.
        text += f",framesz={slot},blocksz={slot}"
    if driver == "af_packet" and ring:
        text += f",framecnt={ring}"
    if queues > 1 and driver != "kernel":
        text += f",{'qpairs' if driver == 'af_packet' else 'queue_count'}={queues}"
    return text


def port(name: str, device: str, mtu: int, **more: Any) -> Tables:
    return {"name": name, "device": device, "mtu": mtu, **more}


def policy_keys(settings: Settings) -> Tables:
    """The keys of a job that say how it uses the pool."""
    kind = {"default": "region", "switchml": "region", "always": "dsa", "coin": "dsa"}.get(
        settings.policy, settings.policy
    )
    # A region has twice the window.
    if settings.policy == "default" and settings.jobs * 2 * settings.window > settings.pool_slots:
        kind = "dsa"
    table: Tables = {}
    if settings.policy in ("always", "coin"):
        # DSA's strawmen: everything else as in DSA.
        table["conflict"] = settings.policy
    if settings.order != "arrival":
        table["order"] = settings.order
    keys: Tables = {} if kind == "region" else {"kind": kind}
    if table:
        keys["region" if kind == "region" else "shared"] = table
    if settings.key_file:
        keys |= {"security": settings.security, "key_file": settings.key_file}
    return keys | ({LINES: settings.job_keys} if settings.job_keys else {})


def cores(lcores: int = 1) -> list[int]:
    """The core of control, and one for each lcore: different ones, as long as there are any."""
    usable = sorted(os.sched_getaffinity(0))
    return [usable[place % len(usable)] for place in range(1 + lcores)]


def base(name: str, *addresses: str, udp_ports: int = 1, lcores: int = 1, **dataplane: Any) -> Tables:
    """The tables [appliance] and [dataplane]; further keys of the latter."""
    main, *lcore_places = places = cores(lcores)
    return {
        "appliance": {
            "name": name, "addresses": addresses, "udp_port": UDP_PORT, "udp_ports": udp_ports,
        },
        "dataplane": {
            "main_core": main,
            "cores": lcore_places,
            **({} if len(set(places)) == len(places) else {"float": True}),
            "idle": "backoff", "hugepages": "auto", "memory_mb": MEMORY_MB,
            **dataplane,
        },
    }  # fmt: skip


def tables(name: str, address: str, more: str) -> str:
    """The same as text; `more` are further lines of [dataplane]."""
    further: dict[str, Any] = {LINES: more}
    return dumps(base(name, address, **further))


def telemetry(listen: tuple[str, int] = TELEMETRY) -> Tables:
    return {"listen": f"{listen[0]}:{listen[1]}"}


def whole(network: Network, settings: Settings, admin: Path) -> Tables:
    """An appliance with a port to each of a network's links, and jobs whose ranks are its workers."""
    fan_in = settings.fan_in or len(network.workers)
    devices = [
        device(settings.driver, number, network.mtu, settings.ring, settings.lcores)
        for number in range(network.ports)
    ]
    split: dict[str, Any] = {"udp_ports": settings.udp_ports, "lcores": settings.lcores}
    jobs = [
        {
            "id": number,
            "name": f"{settings.name}{number - JOB}",
            "fan_in": fan_in,
            "window": settings.window,
            "members": [network.address(rank) for rank in range(fan_in)],
            **policy_keys(settings),
            **({"multicast": f"{settings.group}{number}"} if settings.group else {}),
        }
        for number in range(JOB, JOB + settings.jobs)
    ]
    verify = {"verify": settings.verify} if settings.verify else {}
    spare = {"spare_packets": settings.spare_packets} if settings.spare_packets else {}
    return {
        **base("demo", network.appliance_address, drain=f"{DRAIN_SECONDS:.0f}s", **split),
        "ports": [port(f"p{number}", name, network.mtu, **verify) for number, name in enumerate(devices)],
        "pool": {"slots": settings.pool_slots, "ways": 4, "age_limit": "500ms", **spare},
        "jobs": jobs,
        LINES: settings.more,
        "telemetry": telemetry(),
        "admin": {"listen": f"unix:{admin}"},
    }


def without_seals(text: str) -> str:
    """A configuration whose jobs' packets are not sealed."""
    return re.sub(r"^(security|key_file) = .*\n", "", text, flags=re.MULTILINE)


def configuration(network: Network, settings: Settings, admin: Path) -> str:
    """The same as text."""
    return dumps(whole(network, settings, admin))
