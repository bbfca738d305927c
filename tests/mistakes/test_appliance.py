"""An appliance, or a parameter server, that is disturbed, killed, limited, or cannot start."""

from __future__ import annotations

import signal
import socket
from functools import partial

import httpx
import pytest

from appliance import JOB, TELEMETRY
from netns import APPLIANCE_ADDRESS, worker_address

from .bed import OUTSIDE, RANKS, SHORT, SOON, Bed, error_of, stalled_lcore, within
from .test_ranks import DEAD, DEAD_AFTER, LATE

_AT = rf"{APPLIANCE_ADDRESS}:16420"
_OTHER = JOB + 16
_RATE = 30_000
# After so long a neighbour has sent enough to be worth a word.
_WORTH = 3.0


@within(30.0)
def test_paused(bed: Bed) -> None:
    """The appliance is stopped for longer than a silent rank lives: no rank is to blame."""
    appliance = bed.appliance(DEAD)
    children = bed.at_work(iterations=60, no_verify=True)
    bed.kill(appliance.pid, signal.SIGSTOP)
    bed.sleep(DEAD_AFTER + 0.5)
    bed.kill(appliance.pid, signal.SIGCONT)
    bed.succeeds(children)
    bed.in_time("all")


@within(SOON)
def test_lcore_stalled(bed: Bed) -> None:
    """An lcore hangs for longer than a silent rank lives: it is said everywhere, and no rank is to blame."""
    appliance = bed.appliance(DEAD)
    children = bed.at_work(iterations=60, no_verify=True)
    resume = stalled_lcore(appliance.pid)
    bed.mark()
    for who, text in (("/readyz", bed.readiness), ("explain", bed.explain), ("log", appliance.log)):
        bed.appears(who, text, "lcore 0 has not turned for")
    bed.sleep(DEAD_AFTER + 0.5)
    resume()
    bed.succeeds(children)
    bed.says("log, later", appliance.log(), "turns again")
    bed.says("/readyz, later", bed.readiness(), r"\Aready")


@within(SOON)
def test_half_requests(bed: Bed) -> None:
    """256 requests to the telemetry port are sent by half."""
    appliance = bed.appliance()

    def opened() -> list[socket.socket]:
        made = [socket.create_connection(TELEMETRY, timeout=2) for _ in range(256)]
        for one in made:
            one.send(b"GET /healthz HTTP/1.1\r\nHost: ")
        return made

    for one in bed.network.at_appliance.inside(opened):
        bed.undo(one.close)
    bed.mark()
    try:
        answer = appliance.get("/healthz")
        bed.says("/healthz", f"{answer.status_code} {answer.text}", "200")
    except httpx.HTTPError as error:
        bed.problem(f"/healthz: {error}")
    bed.in_time("/healthz")


@within(5.0 + LATE, quick=False)
def test_appliance_killed(bed: Bed) -> None:
    """The appliance is killed for good while the workers are at work."""
    appliance = bed.appliance()
    children = bed.at_work(deadline="5s", **SHORT)
    bed.kill(appliance.pid)
    bed.fails(children, _AT, "not answered|no answer|silent", "running")


@within(SOON)
def test_host_refuses(bed: Bed) -> None:
    """The appliance dies while the workers are at work, and its host says by ICMP that nothing listens."""
    appliance = bed.appliance()
    children = bed.at_work(iterations=100_000)
    here = bed.network.at_appliance
    here.run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0")
    bed.kill(appliance.pid)
    # From now on the address is the kernel's.
    for rank in range(RANKS):
        link = here.index(f"pas{rank}")
        bed.undo(partial(here.ip.flush_addr, index=link, family=socket.AF_INET))
        here.address(f"pas{rank}", f"{APPLIANCE_ADDRESS}/32")
        here.ip.route("add", dst=f"{worker_address(rank)}/32", oif=link)
    bed.mark()
    bed.fails(children, _AT, "nothing listens", "running")


@within(10.0)
def test_no_root(bed: Bed) -> None:
    """The appliance is started by a user who may not open raw sockets."""
    config = bed.files / "no-root.toml"
    config.write_text(bed.settings())
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    child = bed.child(
        "appliance", [*without, str(bed.binary), "run", "-c", str(config)], bed.network.at_appliance
    )
    bed.mark()
    bed.ended([child])
    bed.in_time("appliance")
    bed.says("appliance", error_of(child) or child.tail(), "CAP_NET_RAW")


@within(SOON)
def test_server_gone(bed: Bed) -> None:
    """The parameter server is killed for good: it is said everywhere, and the job continues."""
    server = f'[ps]\nmode = "external"\naddress = "{worker_address(OUTSIDE)}"\n'
    appliance = bed.appliance(more=server, policy="dsa")
    ps = bed.server()
    children = bed.at_work(iterations=80, no_verify=True)
    bed.kill(ps.pid)
    bed.appears("/readyz", bed.readiness, "parameter.server")
    bed.appears("explain", bed.explain, "The parameter server")
    bed.appears("log", appliance.log, "parameter server")
    bed.succeeds(children)


@within(_WORTH)
@pytest.mark.parametrize(
    ("what", "keys", "slots", "beside", "job", "told"),
    [
        pytest.param(
            "A job holds all the slots that its quota allows: `explain` names the limit and the remedy.",
            "shared = { quota = 64 }",
            4096,
            False,
            _OTHER,
            (r"Quota: \d+ contributions came .* 64 slots", "quota"),
            id="limited",
        ),
        pytest.param(
            "A job has borrowed slots, and their owner wants them: `explain` names its share.",
            "",
            256,
            True,
            _OTHER,
            (
                r"(Given back|Slot share): \d+ (partials|contributions) .* share, 1 \(50 %\)",
                "raise the job's share",
            ),
            id="limited-share",
        ),
        pytest.param(
            "A neighbour sends what never completes: `explain` names it to the job that is slowed.",
            "",
            4096,
            True,
            JOB,
            (
                rf'Slowed by job {_OTHER} "neighbour": of its \d+ packets \d+ ',
                rf"pascaline explain {_OTHER}",
            ),
            id="slowed-by-a-neighbour",
        ),
    ],
)
def test_neighbour(bed: Bed, keys: str, slots: int, beside: bool, job: int, told: tuple[str, ...]) -> None:
    """Two jobs share the pool, one never completes anything: `explain` names limit or neighbour."""
    table = f'[[jobs]]\nid = {_OTHER}\nname = "neighbour"\nfan_in = 2\nwindow = 512\nkind = "dsa"\n{keys}\n'
    bed.appliance(more=table, policy="dsa", slots=slots)
    bed.flood(_OTHER, _RATE)
    bed.mark()
    if beside:
        bed.workers()
    bed.appears("explain", lambda: bed.explain(job), *told)
