"""The mistakes that are made with synchronous jobs."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from appliance import JOB, TELEMETRY, UDP_PORT, fetch
from mistakes_bed import MIB, OUTSIDE, RANKS, SOON, Bed, address_of, error_of, result_of, stalled_lcore
from netns import APPLIANCE_ADDRESS, in_namespace, worker_address
from process import run
from sender import Sender

# A rank that is silent for as long counts as dead, where a case need not have the default.
DEAD_AFTER = 2.0
_DEAD = f'dead_after = "{DEAD_AFTER:.0f}s"'
# What is told at a deadline comes this much later at most.
_LATE = 1.0


@dataclass(frozen=True)
class Case:
    """A mistake."""

    name: str
    what: str
    limit: float
    quick: bool
    run: Callable[[Bed], None]


CASES: list[Case] = []


def case(name: str, limit: float = SOON, *, quick: bool = True) -> Callable[[Callable[[Bed], None]], None]:
    """Registers a case; its documentation says what the mistake is."""

    def register(run: Callable[[Bed], None]) -> None:
        CASES.append(Case(name, (run.__doc__ or "").strip(), limit, quick, run))

    return register


# ---- ranks that disagree ----


def _disagree(bed: Bed, odd: dict[str, object], *patterns: str, keys: str = "") -> None:
    bed.appliance(keys)
    children = [bed.worker(rank, **(odd if rank == RANKS - 1 else {})) for rank in range(RANKS)]
    bed.fails(children, rf"rank {RANKS - 1}\b", *patterns)


@case("size")
def _size(bed: Bed) -> None:
    """One rank calls with four bytes more than the others."""
    _disagree(bed, {"bytes": MIB + 4}, str(MIB + 4), rf"{MIB}\b")


@case("type")
def _type(bed: Bed) -> None:
    """One rank sums i32, the others f32."""
    _disagree(bed, {"dtype": "i32"}, "i32", "f32")


@case("reduction", quick=False)
def _reduction(bed: Bed) -> None:
    """One rank wants the maximum, the others the sum."""
    _disagree(bed, {"op": "max"}, "max", "sum")


@case("mean", quick=False)
def _mean(bed: Bed) -> None:
    """One rank wants the mean, the others the sum."""
    _disagree(bed, {"op": "mean"}, "mean", "sum")


@case("payload")
def _payload(bed: Bed) -> None:
    """One rank has another payload length than the others."""
    bed.appliance()
    others = bed.workers(range(RANKS - 1), join_deadline="3s", payload=1024)
    bed.sleep(0.5)
    odd = bed.worker(RANKS - 1, payload=512)
    bed.fails([odd], "512", "1024")
    for child in others:
        child.kill()


@case("ranks")
def _ranks(bed: Bed) -> None:
    """One rank was started with another number of ranks."""
    bed.appliance()
    odd = bed.worker(0, ranks=RANKS + 1)
    bed.fails([odd], rf"\b{RANKS} ranks", rf"\b{RANKS + 1}\b")


@case("calls")
def _calls(bed: Bed) -> None:
    """One rank makes fewer calls and leaves in good order."""
    bed.appliance()
    others = bed.workers(range(RANKS - 1), bytes=64 << 10)
    bed.worker(RANKS - 1, bytes=64 << 10, iterations=2)
    bed.fails(others, rf"rank {RANKS - 1}\b", r"\bleft\b")


# ---- ranks that are not there ----


@case("never-joined", 3.0 + _LATE)
def _never_joined(bed: Bed) -> None:
    """One rank is never started; the next run, in which it is first, works."""
    bed.appliance()
    others = bed.workers(range(RANKS - 1), join_deadline="3s")
    bed.fails(others, rf"rank {RANKS - 1}\b", "never joined")
    first = bed.worker(RANKS - 1, iterations=2)
    bed.sleep(0.1)
    bed.succeeds([first, *bed.workers(range(RANKS - 1), iterations=2)], 15)


def _killed(bed: Bed, keys: str) -> None:
    bed.appliance(keys)
    children = bed.workers()
    bed.await_work()
    os.kill(children[-1].pid, signal.SIGKILL)
    bed.mark()
    bed.fails(children[:-1], rf"rank {RANKS - 1}\b", "died|silent", address_of(RANKS - 1))


@case("killed", DEAD_AFTER + _LATE)
def _killed_soon(bed: Bed) -> None:
    """One rank is killed."""
    _killed(bed, _DEAD)


@case("killed-defaults", 20.0 + _LATE, quick=False)
def _killed_defaults(bed: Bed) -> None:
    """One rank is killed, and neither the job nor the workers say how long to wait."""
    _killed(bed, "")


@case("frozen", 4.0 + _LATE)
def _frozen(bed: Bed) -> None:
    """One rank hangs, and the others' deadline is shorter than the time after which it counts as dead."""
    bed.appliance()
    children = bed.workers(deadline="4s")
    bed.await_work()
    os.kill(children[-1].pid, signal.SIGSTOP)
    bed.mark()
    bed.fails(children[:-1], rf"rank {RANKS - 1}\b", r"silent", address_of(RANKS - 1))


@case("continue", 30.0)
def _continue(bed: Bed) -> None:
    """One rank dies in a job that goes on without it; the workers are as they come."""
    bed.appliance(f'{_DEAD}\non_death = "continue"')
    children = bed.workers(iterations=60, no_verify=True)
    bed.await_work()
    os.kill(children[-1].pid, signal.SIGKILL)
    bed.mark()
    bed.succeeds(children[:-1], 25)
    bed.in_time("the others", bed.elapsed())
    for child in children[:-1]:
        missing = result_of(child).get("missing_ranks") if child.exit_code() == 0 else None
        bed.says(child.name, f"missing_ranks {missing}", rf"\[{RANKS - 1}\]")


# ---- an appliance that is disturbed ----


@case("paused", 30.0)
def _paused(bed: Bed) -> None:
    """The appliance is stopped for longer than a silent rank lives: nobody is to blame."""
    appliance = bed.appliance(_DEAD)
    children = bed.workers(iterations=60, no_verify=True)
    bed.await_work()
    os.kill(appliance.pid, signal.SIGSTOP)
    bed.sleep(DEAD_AFTER + 0.5)
    os.kill(appliance.pid, signal.SIGCONT)
    bed.mark()
    bed.succeeds(children, 25)
    bed.in_time("all", bed.elapsed())


@case("lcore-stalled")
def _lcore_stalled(bed: Bed) -> None:
    """An lcore hangs for longer than a silent rank lives: it is said everywhere, and nobody is to blame."""
    appliance = bed.appliance(_DEAD)
    children = bed.workers(iterations=60, no_verify=True)
    bed.await_work()
    go_on = stalled_lcore(appliance.pid)
    bed.mark()

    def ready() -> str:
        return fetch(bed.network.appliance, TELEMETRY, "/readyz")[1]

    told = "lcore 0 has not turned for"
    for who, text in (("/readyz", ready), ("explain", bed.explain), ("log", appliance.log)):
        bed.appears(who, text, told)
    bed.sleep(DEAD_AFTER + 0.5)
    go_on()
    bed.succeeds(children, 25)
    bed.says("log, later", appliance.log(), "turns again")
    bed.says("/readyz, later", ready(), r"\Aready")


@case("half-requests")
def _half_requests(bed: Bed) -> None:
    """256 requests to the telemetry port are sent by half."""
    bed.appliance()

    def opened() -> list[socket.socket]:
        made = [socket.create_connection(TELEMETRY, timeout=2) for _ in range(256)]
        for one in made:
            one.send(b"GET /healthz HTTP/1.1\r\nHost: ")
        return made

    connections = in_namespace(bed.network.appliance, opened)
    bed.mark()
    try:
        status, body = fetch(bed.network.appliance, TELEMETRY, "/healthz")
        bed.says("/healthz", f"{status} {body}", "200")
    except OSError as error:
        bed.problem(f"/healthz: {error}")
    bed.in_time("/healthz", bed.elapsed())
    for one in connections:
        one.close()


@case("flood-of-jobs", 10.0, quick=False)
def _flood_of_jobs(bed: Bed) -> None:
    """A host forms as many jobs of one rank as it can: another's job is admitted all the same."""
    bed.appliance(more='[admission]\njobs = "1000-1999"\nfrom = ["10.77.0.0/24"]\nmax_jobs = 16\n')
    refused = 0
    for job in range(16):
        sender = Sender(bed.network.workers[OUTSIDE], UDP_PORT, 1000 + job, 0, 1)
        bed.undo(sender.close)
        refused += sender.join() != 0
    bed.says("the flooder", f"{refused} of 16 jobs refused", r"[1-9]\d* of 16")
    bed.succeeds(bed.workers(job=1900, iterations=2), 10)
    bed.in_time("the others", bed.elapsed())


@case("halted")
def _halted(bed: Bed) -> None:
    """A member halts the job: the others and those who come later are told, and what ends it."""
    bed.appliance()
    others = bed.workers([rank for rank in range(RANKS) if rank != 1])
    bed.mark()
    commander = bed.command(1, "halt")
    bed.fails(others, "suspended|halted", "pascaline job reset")
    bed.succeeds([commander], 5)
    bed.mark()
    bed.fails([bed.worker(0, join_deadline="3s")], "suspended|halted", "pascaline job reset")
    admin = f"unix:{bed.files / 'admin.sock'}"
    bed.says("pascaline job reset", bed.pascaline("job", "reset", str(JOB), "--admin", admin), "reset|anew")
    bed.succeeds(bed.workers(iterations=2), 15)


# ---- ways that do not lead there ----


@case("no-such-host", 6.0, quick=False)
def _no_such_host(bed: Bed) -> None:
    """The workers have an address that nobody has."""
    bed.appliance()
    child = bed.worker(0, appliance="10.77.0.200:16420", join_deadline="5s")
    bed.fails([child], r"10\.77\.0\.200:16420", "address", "running|started")


@case("other-host")
def _other_host(bed: Bed) -> None:
    """The workers have the address of a host that is no appliance, which says so by ICMP."""
    bed.appliance()
    child = bed.worker(0, appliance=f"{worker_address(0)}:16420")
    bed.fails([child], rf"{address_of(0)}:16420", "refuse|nothing listens|unreachable", "port")


@case("other-port", 4.0)
def _other_port(bed: Bed) -> None:
    """The workers have the right address and another port."""
    bed.appliance()
    child = bed.worker(0, appliance=f"{APPLIANCE_ADDRESS}:16500", join_deadline="3s")
    bed.fails([child], rf"{APPLIANCE_ADDRESS}:16500", "port")


@case("appliance-killed", 5.0 + _LATE, quick=False)
def _appliance_killed(bed: Bed) -> None:
    """The appliance is killed for good while the workers are at it."""
    appliance = bed.appliance()
    children = bed.workers(deadline="5s")
    bed.await_work()
    os.kill(appliance.pid, signal.SIGKILL)
    bed.mark()
    bed.fails(children, rf"{APPLIANCE_ADDRESS}:16420", "not answered|no answer|silent", "running")


def _drop_long(bed: Bed, rank: int, direction: str) -> None:
    """From now on a rank's long packets go nowhere, in one direction: its heartbeats get through."""
    namespace = bed.network.workers[rank]
    enter = ("ip", "netns", "exec", namespace, "tc")
    bed.ip(namespace, "link", "add", "hole", "type", "veth", "peer", "name", "ground")
    bed.undo(lambda: run("ip", "-n", namespace, "link", "del", "hole", check=False))
    bed.undo(lambda: run(*enter, "qdisc", "del", "dev", "eth0", "clsact", check=False))
    run(*enter, "qdisc", "add", "dev", "eth0", "clsact")
    match = ("u32", "match", "u16", "0x0400", "0xfc00", "at", "2")
    drop = ("action", "mirred", "egress", "redirect", "dev", "hole")
    run(*enter, "filter", "add", "dev", "eth0", direction, "protocol", "ip", "prio", "1", *match, *drop)


def _firewall(bed: Bed, direction: str, others: str, *patterns: str) -> None:
    bed.appliance()
    children = bed.workers(deadline="5s")
    bed.await_work()
    _drop_long(bed, RANKS - 1, direction)
    bed.mark()
    bed.fails(children[:-1], rf"rank {RANKS - 1}\b", others)
    bed.fails(children[-1:], *patterns)


@case("results-filtered", 5.0 + _LATE)
def _results_filtered(bed: Bed) -> None:
    """Something drops the results on their way to one rank."""
    _firewall(bed, "ingress", "behind", "result", "firewall|MTU")


@case("gradients-filtered", 5.0 + _LATE)
def _gradients_filtered(bed: Bed) -> None:
    """Something drops one rank's long packets on their way to the appliance."""
    _firewall(bed, "egress", "left", r"\b1408\b", "firewall|MTU")


@case("filtered-from-the-start")
def _filtered_from_the_start(bed: Bed) -> None:
    """Something drops the long packets to one rank, and those from another, before they join."""
    bed.appliance()
    _drop_long(bed, 0, "egress")
    _drop_long(bed, RANKS - 1, "ingress")
    bed.succeeds(children := bed.workers(iterations=3))
    for child in (children[0], children[-1]):
        bed.says(child.name, child.err.read_text(), r"\b1448 payload bytes do not get through", r"with 512\b")


@case("mtu")
def _mtu(bed: Bed) -> None:
    """The MTU of a rank's interface becomes smaller than its packets."""
    bed.appliance()
    children = bed.workers()
    bed.await_work()
    bed.undo(lambda: bed.ip(bed.network.workers[RANKS - 1], "link", "set", "eth0", "mtu", "1500"))
    bed.ip(bed.network.workers[RANKS - 1], "link", "set", "eth0", "mtu", "1000")
    bed.mark()
    bed.fails(children[-1:], r"\b1000\b", r"\b944\b|payload")
    bed.fails(children[:-1], rf"rank {RANKS - 1}\b")


@case("mtu-of-the-path", 5.0 + _LATE, quick=False)
def _mtu_of_the_path(bed: Bed) -> None:
    """The MTU at the other end of a rank's link becomes smaller than its packets, and nobody says so."""
    bed.appliance()
    children = bed.workers(deadline="5s")
    bed.await_work()
    far = f"pas{RANKS - 1}"
    bed.undo(lambda: bed.ip(bed.network.appliance, "link", "set", far, "mtu", "1500"))
    bed.ip(bed.network.appliance, "link", "set", far, "mtu", "1000")
    bed.mark()
    bed.fails(children[-1:], r"MTU", r"payload")


@case("no-root", 10.0)
def _no_root(bed: Bed) -> None:
    """The appliance is started by a user who may not open raw sockets."""
    config = Path(bed.files / "no-root.toml")
    config.write_text(bed.settings())
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", str(bed.binary), "run", "-c", str(config)]
    child = bed.child("appliance", command, bed.network.appliance)
    bed.mark()
    bed.stop.wait_for(lambda: child.exit_code() is not None, 10)
    bed.in_time("appliance", bed.elapsed())
    bed.says("appliance", error_of(child) or child.tail(), "CAP_NET_RAW")


@case("server-gone")
def _server_gone(bed: Bed) -> None:
    """The parameter server is killed for good: it is said everywhere, and the job goes on."""
    server = f'[ps]\nmode = "external"\naddress = "{worker_address(OUTSIDE)}"\n'
    appliance = bed.appliance(more=server, policy="dsa")
    command = [str(bed.binary), "ps", "-c", str(bed.files / "appliance.toml")]
    ps = bed.child("ps", command, bed.network.workers[OUTSIDE])
    children = bed.workers(iterations=80, no_verify=True)
    bed.await_work()
    os.kill(ps.pid, signal.SIGKILL)
    bed.mark()
    bed.appears("/readyz", lambda: fetch(bed.network.appliance, TELEMETRY, "/readyz")[1], "parameter.server")
    bed.appears("explain", bed.explain, "The parameter server")
    bed.appears("log", appliance.log, "parameter server")
    bed.succeeds(children, 25)
