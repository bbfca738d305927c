"""A virtual machine with emulated cards: Debian, the package, and the lines of docs/operating.md.

QEMU emulates four cards and an IOMMU, without KVM. For each card the guest runs what the chapter on physical
NICs says, as it stands there; workers of this machine sum over the card, whose cable is pulled and which is
taken out meanwhile. Then two cards in line, reboots with what comes late, and a machine without an IOMMU.
"""
