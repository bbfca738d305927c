"""The guest's disk: Debian by debootstrap, with what the package depends on, kept below target/.

What it is made of is in the name of its folder: another list of packages makes another image. The package
itself is no part of it; the guest installs that by apt.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from process import Stop, run, run_long, say

from ..bed import ROOT

_SUITE = "bookworm"
# Beyond what the package depends on: a system that boots, and what docs/operating.md has an operator install.
_PACKAGES = (
    "linux-image-amd64", "initramfs-tools", "systemd-sysv", "udev", "kmod", "procps", "iproute2",
    "python3-minimal", "dpdk", "driverctl", "pciutils",
)  # fmt: skip
# What the initial file system needs to find the disk; all else would only take time to unpack.
_MODULES = "virtio_pci\nvirtio_blk\next4\n"
# Jobs of a machine that stays: they would only take the guest's processors.
_MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer",
    "e2scrub_reap.service", "systemd-pstore.service", "dpkg-db-backup.timer", "getty-static.service",
    "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-update-utmp.service",
    # Binds what /etc/dpdk/interfaces names, which is another way than docs/operating.md's.
    "dpdk.service",
)  # fmt: skip
_AGENT = Path(__file__).with_name("agent.py")
_AGENT_PLACE = "/usr/local/sbin/pascaline-test-agent"
_UNIT = f"""\
[Unit]
Description=Agent of the test
[Service]
ExecStart=/usr/bin/python3 -u {_AGENT_PLACE}
Restart=always
StandardOutput=null
[Install]
WantedBy=multi-user.target
"""
_DISK_BYTES = 3 << 30
# A folder of another recipe is no use any more.
_STAMP = "complete"


@dataclass(frozen=True)
class Image:
    folder: Path

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.img"

    @property
    def disk(self) -> Path:
        return self.folder / "disk.ext4"

    @property
    def megabytes(self) -> int:
        """What it takes of the disk, without the holes."""
        return sum(file.stat().st_blocks for file in self.folder.iterdir()) * 512 >> 20


def ready(package: Path, cache: Path, stop: Stop) -> Image:
    """The image for a package: the one that is there, or a new one in the place of all others."""
    names = sorted({*_PACKAGES, *_depends(package)})
    recipe = "\n".join([_SUITE, *names, _MODULES, _UNIT, _AGENT.read_text(), Path(__file__).read_text()])
    image = Image(cache / hashlib.sha256(recipe.encode()).hexdigest()[:12])
    if (image.folder / _STAMP).exists():
        return image
    say("vm: making the guest's image by debootstrap: about five minutes, once")
    for old in cache.glob("*"):
        shutil.rmtree(old)
    image.folder.mkdir(parents=True)
    _make(image, names, stop)
    (image.folder / _STAMP).touch()
    say(f"vm: the image is {image.megabytes} MB, at {image.folder}")
    return image


def _depends(package: Path) -> list[str]:
    """The names of what a package depends on; of alternatives the first."""
    said = run("dpkg-deb", "--field", str(package), "Depends").stdout
    return [re.split(r"[\s(|:]", one.strip())[0] for one in said.split(",") if one.strip()]


def _make(image: Image, names: list[str], stop: Stop) -> None:
    tree = image.folder / "root"
    words = ["debootstrap", "--variant=minbase", _SUITE, str(tree), _shell("mirror").strip()]
    run_long(words, stop, "debootstrap failed")
    with _furnished(tree):
        _write(tree, "etc/initramfs-tools/conf.d/pascaline", "MODULES=list\n")
        _write(tree, "usr/share/initramfs-tools/modules.d/pascaline", _MODULES)
        _inside(tree, stop, "apt-get", "-qq", "update")
        _inside(tree, stop, "apt-get", "-qq", "-y", "install", "--no-install-recommends", *names)
        _inside(tree, stop, "apt-get", "clean")
        _settle(tree, stop)
    (tree / "usr/sbin/policy-rc.d").unlink()
    for name, place in (("vmlinuz", image.kernel), ("initrd.img", image.initrd)):
        # Links from / to what is in /boot.
        found = next((tree / "boot").glob(f"{name}-*"))
        shutil.move(found, place)
    with image.disk.open("wb") as disk:
        disk.truncate(_DISK_BYTES)
    run_long(["mke2fs", "-q", "-t", "ext4", "-d", str(tree), str(image.disk)], stop, "mke2fs failed")
    shutil.rmtree(tree)


def _settle(tree: Path, stop: Stop) -> None:
    """What a system needs that boots from this disk, and the agent."""
    _write(tree, "etc/hostname", "appliance\n")
    _write(tree, "etc/hosts", "127.0.0.1 localhost appliance\n::1 localhost\n")
    _write(tree, "etc/fstab", "/dev/vda / ext4 errors=remount-ro 0 1\n")
    _write(tree, _AGENT_PLACE.lstrip("/"), _AGENT.read_text())
    _write(tree, "etc/systemd/system/pascaline-test-agent.service", _UNIT)
    _inside(tree, stop, "systemctl", "-q", "enable", "pascaline-test-agent.service")
    _inside(tree, stop, "systemctl", "-q", "mask", *_MASKED)
    _inside(tree, stop, "systemctl", "-q", "set-default", "multi-user.target")
    shutil.rmtree(tree / "var/lib/apt/lists")
    (tree / "var/lib/apt/lists/partial").mkdir(parents=True)


@contextmanager
def _furnished(tree: Path) -> Iterator[None]:
    """Lets packages be installed in a tree, as scripts/package does."""
    _shell(f"furnish '{tree}'")
    try:
        yield
    finally:
        run("umount", str(tree / "proc"))


def _shell(command: str) -> str:
    """Runs a function of scripts/lib/common.sh."""
    return run("bash", "-c", f". '{ROOT}/scripts/lib/common.sh'; {command}").stdout


def _inside(tree: Path, stop: Stop, *words: str) -> None:
    place = (
        "env",
        "-i",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        "DEBIAN_FRONTEND=noninteractive",
        "LC_ALL=C.UTF-8",
    )
    run_long([*place, "chroot", str(tree), *words], stop, f"in the image: {' '.join(words[:3])} failed")


def _write(tree: Path, name: str, text: str) -> None:
    file = tree / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
