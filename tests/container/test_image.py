"""The appliance runs in the container: as another user than root, with two capabilities, on a port.

Podman makes the image out of a package of the programs under test, and of Debian's packages. It is started
with the options that the quadlet has, but for the network, which is the test's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..bed.metrics import Accounting
from ..bed.network import Star
from ..bed.process import Deadline
from ..bed.workers import Load, Workers
from ..conftest import require
from ..runner.programs import Programs
from ..runner.shell import Shell
from .podman import IMAGE, Contained, Podman

pytestmark = [pytest.mark.all, pytest.mark.root]
_USER = 16420
# CAP_NET_ADMIN is 12, CAP_NET_RAW 13.
_TWO_CAPABILITIES = 1 << 12 | 1 << 13
_MOST_BYTES = 80_000_000
_READY_SECONDS = 3.0
_LOAD = Load(allreduces=3, bytes=1 << 20, dtype="i32", payload=1024, in_flight=64, seed=1, deadline=30)


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, target: Path, environment: dict[str, str]
) -> Iterator[Podman]:
    for program in ("podman", "mmdebstrap"):
        require(program, program)
    podman = Podman(Shell(target / "test-logs/container.log", environment), tmp_path_factory.mktemp("podman"))
    yield podman
    podman.close()


@pytest.fixture(scope="module")
def built(
    store: Podman, programs: Programs, target: Path, environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:  # fmt: skip
    """What scripts/container says of the image that it has made."""
    if not (target / "tools/bin/cargo-deb").is_file():
        require("cargo-deb", "cargo-deb")
    package = Shell(target / "test-logs/package.log", environment)
    words = ("scripts/package", "--programs", programs.directory)
    file = Path(package(*words, seconds=600).out.splitlines()[-1])
    return store.build(file, tmp_path_factory.mktemp("archive") / "pascaline.tar.gz")


def test_image_is_small(built: dict[str, Any], store: Podman) -> None:
    """Compressed, as it is sent; the laboratory is not inside, root is not its user."""
    print(f"{built['archive_bytes'] / 1e6:.1f} MB compressed")
    assert 0 < built["archive_bytes"] <= _MOST_BYTES
    (image,) = store.json("image", "inspect", IMAGE)
    assert image["Config"]["User"] == f"{_USER}:{_USER}"
    assert image["Healthcheck"]["Test"]
    there = ("run", "--rm", "--network=none", "--entrypoint=/bin/ls", IMAGE, "/usr/bin")
    programs = set(store(*there).out.split())
    assert {"pascaline", "pascaline-fleet"} <= programs
    assert "pascaline-lab" not in programs


@pytest.fixture
def star() -> Iterator[Star]:
    with Star(4) as network:
        yield network


@pytest.mark.usefixtures("built")
def test_sums_are_exact(store: Podman, star: Star, pascaline: Path, tmp_path: Path) -> None:
    """Four workers behind a port each; and what the appliance may, which is no more than it needs."""
    stop = Deadline(120)
    workers = Workers(pascaline, star, tmp_path)  # type: ignore[arg-type] # it has what workers need
    begun = time.monotonic()
    with Contained(store, pascaline, star, tmp_path) as appliance:
        try:
            appliance.wait_ready(stop)
            took = time.monotonic() - begun
            print(f"ready {took:.2f} s after podman run")
            assert took <= _READY_SECONDS
            _check_rights(appliance)
            store("healthcheck", "run", appliance.container)
            workers.start(_LOAD)
            workers.wait(stop, appliance.check_running, lambda _: None)
            results = workers.results()
            assert [(one["verified"], one["mismatches"]) for one in results] == [(_LOAD.allreduces, 0)] * 4
            assert Accounting.of(appliance.settled(stop)).holds
        finally:
            workers.stop()
        assert appliance.stop() == 0
    assert not store.json("ps", "--all", "--format=json")


def _check_rights(appliance: Contained) -> None:
    status = appliance.status()
    assert status["Uid"].split() == [str(_USER)] * 4
    assert status["Gid"].split() == [str(_USER)] * 4
    for each in ("CapEff", "CapPrm", "CapBnd"):
        assert int(status[each], 16) == _TWO_CAPABILITIES, each
    assert status["NoNewPrivs"] == "1"
    refused = appliance.inside("echo > /etc/written", code=1)
    assert "Read-only file system" in refused
    assert "admin.sock" in appliance.inside("ls /run/pascaline")


@pytest.mark.usefixtures("built")
def test_health_is_the_ports(store: Podman, star: Star, pascaline: Path, tmp_path: Path) -> None:
    """The health check fails once a port has lost its link, although the process is there."""
    with Contained(store, pascaline, star, tmp_path) as appliance:
        appliance.wait_ready(Deadline(60))
        store("healthcheck", "run", appliance.container)
        star.at_workers[0].set("eth0", state="down")
        end = time.monotonic() + 10
        while store("healthcheck", "run", appliance.container, code=None).code == 0:
            assert time.monotonic() < end, "healthy for ten seconds without a link"
            time.sleep(0.2)


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("granted", "asked", "capabilities"),
    [("NET_RAW,NET_ADMIN", "+net_raw,+net_admin", _TWO_CAPABILITIES), ("IPC_LOCK", "+ipc_lock", 1 << 14)],
    ids=["kernel", "vfio"],
)
def test_capabilities_without_ambient_ones(
    store: Podman, granted: str, asked: str, capabilities: int
) -> None:
    """As in Kubernetes: a user other than root begins without any, and takes those that the pod has."""
    options = ("--rm", "--network=none", "--cap-drop=all", f"--cap-add={granted},SETUID,SETGID", "--user=0")
    as_user = (
        f"--reuid={_USER}",
        f"--regid={_USER}",
        "--clear-groups",
        "--inh-caps=-all",
        "--ambient-caps=-all",
    )
    take = ("/usr/libexec/pascaline/setpriv", f"--inh-caps={asked}", f"--ambient-caps={asked}")
    show = ("grep", "CapEff", "/proc/self/status")
    begin = ("run", *options, "--entrypoint=/usr/bin/setpriv", IMAGE, *as_user)
    assert int(store(*begin, *show).out.split()[-1], 16) == 0
    assert int(store(*begin, *take, *show).out.split()[-1], 16) == capabilities
