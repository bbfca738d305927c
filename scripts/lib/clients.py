"""scripts/demo --client c, c-streams, mpi: programs in C and unmodified ones of MPI, through the appliance.

The libraries are built by scripts/clients, the programs are those below clients/examples/. Every rank checks
every sum, and a run is good if all of them are right, the appliance has made at least as many results as the
sums take, and its accounts add up.

Processes of MPI also have a network of their own, as hosts have for management: the appliance is no way from
one worker to another.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openmpi
from build import ROOT
from configuration import JOB, UDP_PORT, Settings
from metrics import RESULTS, Accounting, Metrics
from netns import APPLIANCE_ADDRESS, Network
from options import Options
from process import Child, Stop, run, run_long, say
from rekey import Keys
from stage import Stage
from verdict import Verdict

# A build has its own clock.
BUILD_SECONDS = 3600.0
_RIGHT = re.compile(r"^rank (\d+): (\d+) of (\d+) sums are right$", re.MULTILINE)
_OVERTOOK = re.compile(r"^rank \d+: the urgent sum came first (\d+) of \d+ times$", re.MULTILINE)
_WAYS = re.compile(
    r"^pascaline-mpi: rank \d+: (\d+) calls with (\d+) bytes through the appliance, (\d+) by MPI",
    re.MULTILINE,
)
# Bytes of 32 elements of f32, by their type on the wire: blocks have a byte for their scale.
_NARROWED = {None: 128, "f16": 64, "bf16": 64, "mxfp8": 33, "mxint8": 33}
_MANAGEMENT = "eth1"
# Jobs for communicators that programs derive from MPI_COMM_WORLD.
DERIVED = (1000, 1063)
ADMISSION = f"""\
[admission]
jobs = "{DERIVED[0]}-{DERIVED[1]}"
from = ["10.77.0.0/24"]
max_jobs = 16
max_fan_in = 16
slots_per_job = 64
"""


def libraries(stop: Stop, *, mpi: bool, optimised: bool) -> Path:
    """Builds libpascaline, and with `mpi` the library for MPI; returns the directory."""
    command = [str(ROOT / "scripts/clients")]
    command += ([] if mpi else ["--no-mpi"]) + ([] if optimised else ["--dev"])
    said = run_long(command, stop, "scripts/clients failed")
    return Path(said.splitlines()[-1])


def compiled(source: str, libraries: Path, program: Path, *more: str) -> Path:
    """Compiles an example with the flags of pkg-config, as a user does."""
    where = f"PKG_CONFIG_PATH={libraries / 'lib/pkgconfig'}"
    flags = run("env", where, "pkg-config", "--cflags", "--libs", "pascaline").stdout
    words = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", *more, str(ROOT / source)]
    run("cc", *words, *shlex.split(flags), "-o", str(program), timeout=60)
    return program


class Managed(Network):
    """Workers that have a network of their own besides their links to the appliance."""

    def __init__(self, workers: int, mtu: int) -> None:
        super().__init__(workers, mtu)
        self.management = f"{self.prefix}-net"
        self.others = [self.management]

    def create(self) -> None:
        super().create()
        for rank, worker in enumerate(self.workers):
            self.pair(worker, _MANAGEMENT, self.management, f"m{rank}")
            self.own(worker, management_address(rank), _MANAGEMENT)
        self.join(self.management, *(f"m{rank}" for rank in range(len(self.workers))))


def management_address(rank: int) -> str:
    """A worker's address for the other processes of MPI."""
    return f"10.78.0.{rank + 1}"


@dataclass
class Outcome(Verdict):
    """The output of the ranks, and the counters of the appliance."""

    options: Options
    right: dict[int, tuple[int, int]]
    metrics: Metrics
    # Calls and bytes through the appliance, and calls through MPI, of all ranks.
    ways: tuple[int, ...] | None
    # How often an urgent sum came before a large one that was begun earlier, at all ranks.
    overtook: int | None

    @property
    def least_results(self) -> int:
        """The least number of packets for the sums."""
        size = self.options.bytes * _NARROWED[self.options.wire] // 128
        return self.options.allreduces * -(-size // self.options.full_payload)

    @property
    def verified(self) -> int:
        """Of the allreduces, those that every rank found right. A program of MPI checks more than them."""
        least = min((right for right, _ in self.right.values()), default=0)
        return min(least, self.options.allreduces)

    def judge(self, exit_codes: list[int | None], appliance: int) -> Outcome:
        results = self.metrics.total(RESULTS)
        wrong = [rank for rank, (right, of) in self.right.items() if right != of]
        self.require(
            (len(self.right) == self.options.workers, f"only ranks {sorted(self.right)} came to an end"),
            (not wrong, f"ranks {wrong} have found wrong sums"),
            (not any(exit_codes), f"the programs ended with exit codes {exit_codes}"),
            (results >= self.least_results, f"only {results} results of {self.least_results}"),
            (self.ways is None or self.ways[0], "no call of MPI went through the appliance"),
        )
        self.require_order(Accounting.of(self.metrics), appliance)
        return self

    def text(self) -> str:
        """A line for each rank, and what went through the appliance."""
        ranks = sorted(self.right.items())
        lines = [f"rank {rank}: {right} of {of} sums right" for rank, (right, of) in ranks]
        accounts = Accounting.of(self.metrics)
        results, needed = self.metrics.total(RESULTS), self.least_results
        lines.append(
            f"the appliance received {accounts.received} packets and made {results} results;"
            f" {self.options.allreduces} allreduces of {self.options.bytes} bytes take {needed}"
        )
        if self.ways:
            calls, size, others = self.ways
            lines.append(f"{calls} calls with {size} bytes went through the appliance, {others} by MPI")
        if self.overtook is not None:
            lines.append(f"a small sum overtook the large one {self.overtook} times")
        return "\n".join(lines)

    def told(self) -> dict[str, Any]:
        accounts = Accounting.of(self.metrics)
        found: dict[str, Any] = {
            **self.options.named("client", "workers", "allreduces", "bytes"),
            "verified": self.verified,
            "mismatches": sum(of - right for right, of in self.right.values()),
            "checks": sum(of for _, of in self.right.values()),
            "results": self.metrics.total(RESULTS),
            "results_needed": self.least_results,
            "received": accounts.received,
            "identity_holds": accounts.holds,
        }
        if self.overtook is not None:
            found["overtook"] = self.overtook
        if self.ways:
            names = ("calls_by_appliance", "bytes_by_appliance", "calls_by_mpi")
            found |= dict(zip(names, self.ways, strict=True))
        return found


def demonstrate(options: Options, binary: Path, libraries: Path, stop: Stop) -> Outcome:
    mpi, streams = options.client == "mpi", options.client == "c-streams"
    workers, mtu = options.workers, options.mtu
    network = Managed(workers, mtu) if mpi else Network(workers, mtu)
    window, jobs = min(512, options.pool_slots), 2 if streams else 1
    # Jobs that are formed by their ranks have no key.
    more = ADMISSION if mpi and not options.sealed else ""
    with Stage(binary, stop, network, keep=options.keep) as stage:
        keys = Keys(binary, stage.files, jobs) if options.security != "none" else None
        key_file = str(keys.appliances) if keys and options.sealed else ""
        settings = Settings.of(options, window, jobs=jobs, more=more, key_file=key_file)
        appliance = stage.appliance(network, settings)
        say(f"{workers} programs of {'MPI' if mpi else 'C'}, each in a network namespace of its own")
        url = _keys(options) + (f"&security={options.security}&key={keys.ranks}" if keys else "")
        children = (_start_mpi if mpi else _start_c)(options, stage, network, libraries, url)
        stage.wait(children, options.timeout, "the programs")
        said = "".join(child.out.read_text(errors="replace") for child in children)
        errors = "".join(child.err.read_text(errors="replace") for child in children)
        right = {int(rank): (int(good), int(of)) for rank, good, of in _RIGHT.findall(said)}
        overtook = sum(map(int, _OVERTOOK.findall(said))) if streams else None
        ways = _ways(errors) if mpi else None
        outcome = Outcome(options, right, appliance.settled(stop), ways, overtook)
        outcome.judge([child.exit_code() for child in children], appliance.stop())
        if not outcome.good:
            say(errors)
        return stage.judged(outcome)


def _start_c(options: Options, stage: Stage, network: Network, libraries: Path, url: str) -> list[Child]:
    """One program in each worker's namespace; those of odd ranks are built with sanitizers."""
    name = "streams" if options.client == "c-streams" else "allreduce"
    source, place = f"clients/examples/c/{name}.c", f"{APPLIANCE_ADDRESS}:{UDP_PORT}"
    plain = compiled(source, libraries, stage.files / name)
    checked = compiled(source, libraries, stage.files / f"{name}_checked", "-fsanitize=address,undefined")
    more = [options.workers, options.bytes // 4, options.allreduces, url]
    environment = ["env", f"LD_LIBRARY_PATH={libraries / 'lib'}"]
    return [
        stage.child(f"c{rank}", [*environment, checked if rank % 2 else plain, place, rank, *more], namespace)
        for rank, namespace in enumerate(network.workers)
    ]


def _keys(options: Options) -> str:
    """The part that all ranks' URLs have in common."""
    keys = f"payload={options.payload}&in_flight={options.in_flight}&udp_ports={options.udp_ports}"
    keys += f"&timeout={options.timeout:.0f}"
    # The wire type of float sums.
    return f"{keys}&wire={options.wire}" if options.wire else keys


def _start_mpi(options: Options, stage: Stage, network: Network, libraries: Path, url: str) -> list[Child]:
    program = stage.files / "mpi_allreduce"
    source = ROOT / "clients/examples/mpi/allreduce.c"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1")
    run("mpicc", *flags, str(source), "-o", str(program), timeout=60)
    size = [str(options.bytes // 4), str(options.allreduces)]
    variables = {
        "LD_PRELOAD": str(libraries / "lib/libpascaline-mpi.so"),
        "PASCALINE_URL": f"pascaline://{APPLIANCE_ADDRESS}:{UDP_PORT}?job={JOB}&{url}",
        **({} if options.sealed else {"PASCALINE_JOBS": f"{DERIVED[0]}-{DERIVED[1]}"}),
        "PASCALINE_STATS": "1",
    }
    command = mpirun(network, stage.files, variables, [str(program), *size])
    return [stage.child("mpirun", command, network.workers[0])]


def mpirun(network: Network, files: Path, variables: dict[str, str], program: list[str]) -> list[str]:
    """The command that runs a program of MPI with a rank in each worker's namespace."""
    hosts = [management_address(rank) for rank in range(len(network.workers))]
    command = openmpi.command(dict(zip(hosts, network.workers, strict=True)), _MANAGEMENT, files)
    # By env: a variable's value may have characters that are special to mpirun.
    return [*command, "env", *(f"{name}={value}" for name, value in variables.items()), *program]


def _ways(errors: str) -> tuple[int, ...]:
    """The sum of the ranks' lines of statistics."""
    found = [tuple(map(int, line)) for line in _WAYS.findall(errors)]
    return tuple(map(sum, zip(*found, strict=True))) or (0, 0, 0)
