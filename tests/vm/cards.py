"""The cards that QEMU emulates, and what each of them can and cannot do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Model:
    """How QEMU makes it, and what is known of it."""

    device: str
    # DPDK's driver.
    driver: str
    # It tells of bad UDP checksums, and the appliance drops those packets.
    verifies: bool = False
    # Its driver offers to verify them, whether the card does or not.
    offers: bool = False
    # Its driver offers to spread packets over queues, and all come to the first one.
    offers_to_spread: bool = False


class Card(Enum):
    E1000E = "e1000e"
    E1000 = "e1000"
    VMXNET3 = "vmxnet3"
    VIRTIO = "virtio-net"

    @property
    def model(self) -> Model:
        return _MODELS[self]

    @property
    def address(self) -> str:
        """Where the guest sees it: behind a port of its own."""
        return f"0000:{list(Card).index(self) + 1:02x}:00.0"

    @property
    def id(self) -> str:
        """QEMU's name of it."""
        return f"card{list(Card).index(self)}"

    def __str__(self) -> str:
        return self.value

    def backend(self, tap: str) -> list[str]:
        """Its place on the bus and its end of the wire, as QEMU's command line has them."""
        number = list(Card).index(self)
        slot = f"chassis={number + 1},slot={number + 1},addr={number + 8:#x}"
        port = f"pcie-root-port,id=port{number},bus=pcie.0,{slot}"
        wire = f"tap,id=wire{number},ifname={tap},script=no,downscript=no"
        return ["-device", port, "-netdev", wire]

    def properties(self) -> dict[str, str]:
        """Of the device, as QEMU's command line and its monitor take them."""
        number = list(Card).index(self)
        device, *options = self.model.device.split(",")
        own = {"driver": device, "id": self.id, "netdev": f"wire{number}", "bus": f"port{number}"}
        own |= {"mac": f"52:54:00:77:00:{number + 1:02x}"}
        return own | dict(option.split("=", 1) for option in options)

    def frontend(self) -> list[str]:
        properties = self.properties()
        driver = properties.pop("driver")
        return ["-device", ",".join([driver, *(f"{key}={value}" for key, value in properties.items())])]


_MODELS = {
    Card.E1000E: Model("e1000e", "net_e1000_em", verifies=True, offers=True),
    Card.E1000: Model("e1000", "net_e1000_em", offers=True),
    Card.VMXNET3: Model("vmxnet3", "net_vmxnet3", offers_to_spread=True),
    # By the host's IOMMU, as a card of a board; QEMU's own spreading hangs.
    Card.VIRTIO: Model("virtio-net-pci,iommu_platform=on,disable-legacy=on,rss=off", "net_virtio"),
}
