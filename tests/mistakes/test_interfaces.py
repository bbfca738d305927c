"""An interface of the appliance's that is missing, deleted and made anew, renamed, or switched off."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from appliance import Settings
from configuration import Tables, device, dumps, port, whole
from metrics import RESULTS
from process import Failure

from ..bed.appliance import Appliance
from ..bed.network import Host
from .bed import OUTSIDE, RANKS, SOON, Bed, within

# With PASCALINE_ROUNDS=20 for longer.
_ROUNDS = int(os.environ.get("PASCALINE_ROUNDS", "3"))
# So few that all keep a result soon: then the packet buffers in use stay the same.
_SLOTS = 256
# Those that lcores have at hand.
_AT_HAND = 96
_MAC = "02:00:00:00:77:fe"
_BRIDGE, _UPLINK, _PORT = "switch", "uplink", "pas0x"


def _tables(bed: Bed, driver: str) -> Tables:
    settings = Settings(driver, _SLOTS, 128, fan_in=RANKS, name="mistakes")
    return whole(bed.network, settings, bed.files / "admin.sock")  # type: ignore[arg-type]


def _drivers(case: str) -> pytest.MarkDecorator:
    """Both drivers of ports that can be opened anew, as cases of this name."""
    drivers = ("kernel", "af_packet")
    return pytest.mark.parametrize(
        "driver", [pytest.param(name, id=f"{case}-{name.replace('_', '-')}") for name in drivers]
    )


def _in_line(bed: Bed, driver: str) -> str:
    """A configuration whose first two ports are a pair in line that passes link states."""
    tables = _tables(bed, driver)
    tables["dataplane"]["pass_link_state"] = True
    for at, peer in ((0, "p1"), (1, "p0")):
        tables["ports"][at]["peer"] = peer
    return dumps(tables)


class Switched:
    """An appliance with one port, beyond a switch in its namespace that leads to all workers."""

    def __init__(self, bed: Bed, driver: str) -> None:
        self.bed, self.driver = bed, driver
        here = self.here
        bed.undo(self._remove, _BRIDGE)
        here.bridge(_BRIDGE, *(f"pas{rank}" for rank in range(OUTSIDE + 1)))
        bed.undo(self._remove, _UPLINK)
        # Workers still have the MAC addresses of the case before, and the next one must not have these.
        for host in bed.hosts:
            host.forget()
            bed.undo(host.forget)

    @property
    def here(self) -> Host:
        """The appliance's namespace."""
        return self.bed.network.at_appliance

    def make(self) -> None:
        """Makes the port's interface, always the same to look at."""
        peer = {"ifname": _UPLINK}
        self.here.ip.link("add", ifname=_PORT, kind="veth", peer=peer, address=_MAC)
        self.here.set(_UPLINK, master=_BRIDGE)
        self.here.up(_UPLINK)
        self.here.up(_PORT)

    def delete(self) -> None:
        """Deletes it."""
        self.here.ip.link("del", index=self.here.index(_PORT))

    def _remove(self, name: str) -> None:
        with suppress(NetlinkError, Failure):
            self.here.ip.link("del", index=self.here.index(name))

    @property
    def settings(self) -> str:
        """The configuration."""
        mtu = self.bed.network.mtu
        name = device(self.driver, 0, mtu).replace("pas0", _PORT)
        return dumps(_tables(self.bed, self.driver) | {"ports": [port("p0", name, mtu)]})

    def at_work(self) -> Appliance:
        """Starts it, with all ranks, and returns once results have been sent."""
        self.make()
        appliance = self.bed.started(self.settings)
        self.bed.workers(iterations=100_000)
        self.bed.await_work(30)
        return appliance

    def port_up(self) -> str:
        """What the metrics say."""
        return str(self.bed.appliances[-1].scrape().values("pascaline_port_up"))

    def says_everywhere(self, *patterns: str) -> None:
        """Readiness, explain, log and metrics say so in time."""
        bed = self.bed
        for who, text in (
            ("/readyz", bed.readiness), ("explain", bed.explain), ("log", bed.appliances[-1].log),
        ):  # fmt: skip
            bed.appears(who, text, *patterns)
        bed.appears("port_up", self.port_up, r"\[0.0\]")

    def goes_on(self) -> None:
        """Sums are made again, in time, and nothing is reported any more."""
        bed, appliance = self.bed, self.bed.appliances[-1]
        before = appliance.scrape().total(RESULTS)
        if not bed.stop.wait_for(lambda: appliance.scrape().total(RESULTS) > before + 300, 10):
            bed.problem(f"no results after 10 s:\n{appliance.tail()}")
        bed.in_time("sums")
        bed.stop.wait_for(lambda: self.port_up() == "[1.0]", SOON)
        bed.says("port_up, later", self.port_up(), r"\[1.0\]")
        bed.says("/readyz, later", bed.readiness(), r"\Aready")


@within(3.0)
@_drivers("interface-made-anew")
def test_interface_made_anew(bed: Bed, driver: str) -> None:
    """The appliance's interface is deleted and made anew under load: sums go on within 3 s each time."""
    site = Switched(bed, driver)
    appliance = site.at_work()

    def in_use() -> float:
        return appliance.scrape().total("pascaline_packet_buffers_in_use")

    bed.stop.wait_for(lambda: appliance.scrape().total(RESULTS) > 10 * _SLOTS, 10)
    buffers = in_use()
    for _ in range(_ROUNDS):
        site.delete()
        bed.mark()
        site.says_everywhere(rf"port p0: interface {_PORT} does not exist any more")
        site.make()
        bed.mark()
        site.goes_on()
        # At this moment some are between interface and pool.
        if not bed.stop.wait_for(lambda: in_use() <= buffers + _AT_HAND, 5):
            bed.problem(f"{in_use():.0f} packet buffers are in use, and {buffers:.0f} at the beginning")
    bed.says("log, later", appliance.log(), "the port is open on the new one")
    made = appliance.log().count("the port is open on the new one")
    if made != _ROUNDS:
        bed.problem(f"made anew {_ROUNDS} times, and said {made} times")


@within(3.0)
@_drivers("interface-off")
def test_interface_off(bed: Bed, driver: str) -> None:
    """The appliance's interface is switched off, then loses its link: both are said, and pass."""
    site = Switched(bed, driver)
    appliance = site.at_work()
    for name, text in ((_PORT, "is switched off"), (_UPLINK, "has no link")):
        site.here.set(name, state="down")
        bed.mark()
        site.says_everywhere(rf"port p0: interface {_PORT} {text}")
        site.here.up(name)
        bed.mark()
        site.goes_on()
        said = appliance.log().count(text)
        if said != 1:
            bed.problem(f"the log says {text!r} {said} times")


@within(3.0)
def test_interface_renamed(bed: Bed) -> None:
    """The appliance's interface is given another name: sums go on, and the log says it."""
    site = Switched(bed, "kernel")
    appliance = site.at_work()
    index = site.here.index(_PORT)
    site.here.ip.link("set", index=index, state="down")
    site.here.ip.link("set", index=index, ifname="other")
    site.here.ip.link("set", index=index, state="up")
    bed.mark()
    site.goes_on()
    bed.appears("log", appliance.log, "given another name.*now=.?other")


@within(SOON)
@_drivers("interface-to-come")
def test_interface_to_come(bed: Bed, driver: str) -> None:
    """The appliance starts before its interface is there: a later start may succeed (1, not 2), and does."""
    site = Switched(bed, driver)
    config = bed.files / "to-come.toml"
    config.write_text(site.settings)
    command = [str(bed.binary), "run", "-c", str(config)]
    child = bed.child("appliance", command, site.here)
    bed.mark()
    bed.ended([child])
    bed.in_time("run")
    bed.says("run", child.tail(), rf"to-come.toml:\d+:\d+: .*no network interface.*{_PORT}", "remedy")
    if child.exit_code() != 1:
        bed.problem(f"run ends with exit code {child.exit_code()}")
    site.at_work()


@within(SOON)
def test_link_state_passed(bed: Bed) -> None:
    """`pass_link_state`: a port is held down while its peer has no link; both are said, and pass."""
    bed.started(_in_line(bed, "kernel"))
    host = bed.hosts[0]
    bed.undo(host.up, "eth0")
    host.set("eth0", state="down")
    bed.mark()
    bed.appears("/readyz", bed.readiness, "port p0: interface pas0 has no link", "port p1 is held down")
    host.up("eth0")
    bed.mark()
    bed.appears("/readyz, later", bed.readiness, r"\Aready")


@within(SOON)
def test_link_state_not_passed(bed: Bed) -> None:
    """`pass_link_state` with a driver that cannot: the log says so at the start."""
    appliance = bed.started(_in_line(bed, "af_packet"))
    bed.mark()
    bed.appears("log", appliance.log, "pass_link_state: the link cannot follow.*p0", "ready")


@within(SOON)
def test_link_missing_at_start(bed: Bed) -> None:
    """The appliance starts with an interface that has no link: the log and /readyz say so from the start."""
    site = Switched(bed, "kernel")
    site.make()
    site.here.set(_UPLINK, state="down")
    appliance = bed.started(site.settings)
    bed.mark()
    bed.appears("log", appliance.log, rf"port p0: interface {_PORT} has no link")
    bed.appears("/readyz", bed.readiness, "not ready: port p0")
    site.here.up(_UPLINK)
    bed.appears("/readyz, later", bed.readiness, r"\Aready")
