"""Podman with a store of its own, so that nothing of the user's is used or changed."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
from pathlib import Path
from typing import Any

from appliance import Appliance, Settings
from configuration import configuration
from process import Child

from ..bed.network import Star
from ..runner.shell import ROOT, Done, Shell
from . import quadlet

UNIT = ROOT / "conf/container/pascaline.container"
IMAGE = "localhost/pascaline-test"
# Of the host: its network, its file, the service manager that waits until all is ready.
_ELSEWHERE = ("Network", "Volume", "Notify", "Image", "ContainerName")
_MIXED = Path("/sys/fs/cgroup/unified")
_MOST = 20_000
# The right to raise a limit, as the quadlet does for locked memory.
_CAP_SYS_RESOURCE = 24


def _may_raise_limits() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    (mask,) = (line.split()[1] for line in lines if line.startswith("CapEff:"))
    return bool(int(mask, 16) >> _CAP_SYS_RESOURCE & 1)


class Podman:
    """Runs podman; the store is below `files`."""

    def __init__(self, shell: Shell, files: Path) -> None:
        self._shell = shell
        self._store = files / "store"
        self._null = files / "null"
        os.mknod(self._null, stat.S_IFCHR | 0o666, os.stat("/dev/null").st_rdev)
        self._null.chmod(0o666)
        storage = files / "storage.conf"
        storage.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self._store}"\nrunroot = "{files}/run"\n'
        )
        engine = files / "containers.conf"
        # Of this machine no more than namespaces: no cgroups, no journal, no services, no higher limit.
        files_open = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], _MOST)
        processes = min(resource.getrlimit(resource.RLIMIT_NPROC)[1], _MOST)
        limits = f'["nofile={files_open}:{files_open}", "nproc={processes}:{processes}"]'
        engine.write_text(
            f'[containers]\ncgroups = "disabled"\ndefault_ulimits = {limits}\n'
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nlock_type = "file"\n'
            f'tmp_dir = "{files}/state"\n[network]\nnetwork_config_dir = "{files}/networks"\n'
        )
        self.environment = shell.environment | {
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(engine),
        }

    def __call__(self, *words: object, seconds: float = 60, code: int | None = 0) -> Done:
        command = self.command(*words)
        return self._shell(*command, seconds=seconds, code=code, environment=self.environment)

    def command(self, *words: object) -> list[str]:
        """Its command line, in a view of the file system that is its own.

        crun takes no mixture of both versions of cgroups, and needs neither. It gives a container's standard
        input to its user: that must not be the machine's /dev/null.
        """
        view = f'if [ -d {_MIXED} ]; then umount {_MIXED}; fi; mount --bind {self._null} /dev/null; exec "$@"'
        own = ("unshare", "--mount", "--propagation=private", "sh", "-e", "-c", view, "sh")
        return [*own, "podman", *map(str, words)]

    def json(self, *words: object) -> Any:
        return json.loads(self(*words).out)

    def build(self, package: Path, archive: Path) -> dict[str, Any]:
        """The image, and what scripts/container says of it."""
        words = ("scripts/container", "--deb", package, "--tag", IMAGE, "--archive", archive, "--json")
        return self._shell.json(*words, seconds=900, environment=self.environment)

    def close(self) -> None:
        """Removes the images, which take a gigabyte: pytest keeps a run's files for a while."""
        self("rm", "--all", "--force", code=None)
        self("rmi", "--all", "--force", code=None, seconds=120)
        shutil.rmtree(self._store, ignore_errors=True)


class Contained(Appliance):
    """An appliance in a container: started as the quadlet has it, in the namespace of a network."""

    def __init__(self, podman: Podman, binary: Path, star: Star, files: Path) -> None:
        self._podman = podman
        self.container = "pascaline-under-test"
        settings = Settings("kernel", pool_slots=4096, window=256)
        text = configuration(star, settings, Path("/run/pascaline/admin.sock"))  # type: ignore[arg-type]
        super().__init__(binary, star, text, files)

    def _start(self) -> Child:
        self.config.chmod(0o644)
        without = _ELSEWHERE if _may_raise_limits() else (*_ELSEWHERE, "PodmanArgs")
        words = [
            "run", "--rm", f"--name={self.container}", *quadlet.options(UNIT, *without),
            f"--network=ns:/run/netns/{self._network.appliance}",
            f"--volume={self.config}:/etc/pascaline/appliance.toml:ro",
            # Nothing here would run it: the test does.
            "--health-interval=disable",
            IMAGE,
        ]  # fmt: skip
        command = self._podman.command(*words)
        return Child("container", command, self._files, environment=self._podman.environment)

    def inside(self, script: str, code: int | None = 0) -> str:
        """What a script prints that runs beside the appliance, with its rights."""
        return self._podman("exec", self.container, "bash", "-c", script, code=code).text

    def status(self) -> dict[str, str]:
        """What the kernel says of the appliance, which is the container's first process."""
        lines = self.inside("cat /proc/1/status").splitlines()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
