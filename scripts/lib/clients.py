"""scripts/demo --client c, c-streams, mpi: programs in C and unmodified ones of MPI, through the appliance.

The libraries are built by scripts/clients, the programs are those below clients/examples/. Every rank checks every
sum, and a run is good if all of them are right, the appliance has made at least as many results as the sums
take, and its accounts add up.

Processes of MPI also have a network of their own, as hosts have for management: the appliance is no way from
one worker to another.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import netns
from appliance import JOB, UDP_PORT, Appliance, Settings
from build import ROOT
from metrics import RESULTS, Accounting, Metrics
from netns import APPLIANCE_ADDRESS, Network
from option_checks import full_payload
from options import Options
from process import Child, Failure, Stop, run, run_long, say

_EXIT_SECONDS = 6.0
_BUILD_SECONDS = 3600.0
_RIGHT = re.compile(r"^rank (\d+): (\d+) of (\d+) sums are right$", re.MULTILINE)
_OVERTOOK = re.compile(r"^rank \d+: the urgent sum came first (\d+) of \d+ times$", re.MULTILINE)
_WAYS = re.compile(
    r"^pascaline-mpi: rank \d+: (\d+) calls with (\d+) bytes through the appliance, (\d+) by MPI",
    re.MULTILINE,
)
_AGENT = ROOT / "scripts/bench.d/peers/mpi_agent"
# What 32 elements of f32 take, by what they travel as: blocks have a byte for their scale.
_NARROWED = {None: 128, "f16": 64, "bf16": 64, "mxfp8": 33, "mxint8": 33}
_BRIDGE, _MANAGEMENT = "bridge", "eth1"
# Jobs for communicators that programs derive from their world.
DERIVED = (1000, 1063)
ADMISSION = f"""\
[admission]
jobs = "{DERIVED[0]}-{DERIVED[1]}"
from = ["10.77.0.0/24"]
max_jobs = 16
max_fan_in = 16
slots_per_job = 64
"""


def libraries(*, mpi: bool, optimised: bool = True, stop: Stop | None = None) -> Path:
    """Builds libpascaline, and with `mpi` the library for MPI; returns the directory."""
    command = [str(ROOT / "scripts/clients")]
    command += ([] if mpi else ["--no-mpi"]) + ([] if optimised else ["--dev"])
    said = run_long(command, stop or Stop(_BUILD_SECONDS), "scripts/clients failed")
    return Path(said.splitlines()[-1])


def compiled(source: str, libraries: Path, program: Path, *more: str) -> Path:
    """Compiles an example with what pkg-config says, as a user does."""
    where = f"PKG_CONFIG_PATH={libraries / 'lib/pkgconfig'}"
    flags = run("env", where, "pkg-config", "--cflags", "--libs", "pascaline").stdout
    words = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", *more, str(ROOT / source)]
    run("cc", *words, *shlex.split(flags), "-o", str(program), timeout=60)
    return program


class Managed(Network):
    """Workers that have a network of their own besides their links to the appliance."""

    def __init__(self, workers: int, mtu: int) -> None:
        super().__init__(workers, mtu, middle=False)
        self.management = self.appliance.replace("-app", "-net")

    @property
    def namespaces(self) -> list[str]:
        """All names, with that of the management network's switch."""
        return [*super().namespaces, self.management]

    def create(self) -> None:
        """As without it, and a switch with a link to each worker."""
        super().create()
        run("ip", "-n", self.management, "link", "add", "name", _BRIDGE, "type", "bridge")
        run("ip", "-n", self.management, "link", "set", _BRIDGE, "up")
        for rank, worker in enumerate(self.workers):
            self.pair(worker, _MANAGEMENT, self.management, f"m{rank}")
            run("ip", "-n", self.management, "link", "set", f"m{rank}", "master", _BRIDGE)
            run("ip", "-n", worker, "addr", "add", f"{management_address(rank)}/24", "dev", _MANAGEMENT)


def management_address(rank: int) -> str:
    """Where the other processes of MPI reach a worker."""
    return f"10.78.0.{rank + 1}"


@dataclass
class Outcome:
    """What the ranks said, and what the appliance counted."""

    options: Options
    right: dict[int, tuple[int, int]]
    metrics: Metrics
    # Calls and bytes through the appliance, and calls through MPI, of all ranks.
    ways: tuple[int, int, int] | None
    # How often an urgent sum came before a large one that was begun earlier, at all ranks.
    overtook: int | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether it went as it should."""
        return not self.problems

    @property
    def least_results(self) -> int:
        """Packets that the sums take."""
        size = self.options.bytes * _NARROWED[self.options.wire] // 128
        return self.options.allreduces * -(-size // full_payload(self.options))

    @property
    def verified(self) -> int:
        """Of the allreduces, those that every rank found right. A program of MPI checks more than them."""
        least = min((right for right, _ in self.right.values()), default=0)
        return min(least, self.options.allreduces)

    def judge(self, exit_codes: list[int | None], appliance: int) -> None:
        """Says what is wrong."""
        accounts = Accounting.of(self.metrics)
        results = self.metrics.total(RESULTS)
        wrong = [rank for rank, (right, of) in self.right.items() if right != of]
        checks = [
            (len(self.right) == self.options.workers, f"only ranks {sorted(self.right)} came to an end"),
            (not wrong, f"ranks {wrong} have found wrong sums"),
            (not any(exit_codes), f"the programs ended with exit codes {exit_codes}"),
            (results >= self.least_results, f"only {results} results of {self.least_results}"),
            (accounts.holds, f"the appliance's accounts do not add up: {accounts}"),
            (appliance == 0, f"the appliance ended with exit code {appliance}"),
            (self.ways is None or self.ways[0] > 0, "no call of MPI went through the appliance"),
        ]
        self.problems += [problem for holds, problem in checks if not holds]

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

    def to_json(self) -> dict[str, Any]:
        """The object of --json."""
        accounts = Accounting.of(self.metrics)
        found: dict[str, Any] = {
            "ok": self.good,
            "client": self.options.client,
            "workers": self.options.workers,
            "allreduces": self.options.allreduces,
            "verified": self.verified,
            "mismatches": sum(of - right for right, of in self.right.values()),
            "checks": sum(of for _, of in self.right.values()),
            "bytes": self.options.bytes,
            "results": self.metrics.total(RESULTS),
            "results_needed": self.least_results,
            "received": accounts.received,
            "identity_holds": accounts.holds,
            "problems": self.problems,
        }
        if self.overtook is not None:
            found["overtook"] = self.overtook
        if self.ways:
            names = ("calls_by_appliance", "bytes_by_appliance", "calls_by_mpi")
            found |= dict(zip(names, self.ways, strict=True))
        return found


def demonstrate(options: Options, binary: Path, libraries: Path, stop: Stop) -> Outcome:
    """One run, from nothing to nothing."""
    for name in netns.remove_leftovers():
        say(f"demo: removed {name}, which an earlier run left behind")
    mpi = options.client == "mpi"
    workers, mtu = options.workers, options.mtu
    network = Managed(workers, mtu) if mpi else Network(workers, mtu, middle=False)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(netns.remove, [network], files, keep=options.keep)
        files.mkdir(mode=0o700)
        network.create()
        streams = options.client == "c-streams"
        settings = Settings(
            options.driver,
            options.pool_slots,
            min(512, options.pool_slots),
            options.policy,
            jobs=2 if streams else 1,
            more=ADMISSION if mpi else "",
            udp_ports=options.udp_ports,
            lcores=options.lcores,
        )
        appliance = Appliance(binary, network, settings, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        say(f"{options.workers} programs of {'MPI' if mpi else 'C'}, each in a network namespace of its own")
        start = _start_mpi if mpi else _start_c
        children = start(options, network, libraries, files)
        for child in children:
            cleanup.callback(child.stop, _EXIT_SECONDS)

        def ended() -> bool:
            appliance.check_running()
            return all(child.exit_code() is not None for child in children)

        if not stop.wait_for(ended, options.timeout):
            raise Failure("the programs do not come to an end", children[0].tail() + "\n" + appliance.tail())
        said = "".join(child.out.read_text(errors="replace") for child in children)
        errors = "".join(child.err.read_text(errors="replace") for child in children)
        right = {int(rank): (int(good), int(of)) for rank, good, of in _RIGHT.findall(said)}
        outcome = Outcome(options, right, appliance.settled(stop), _ways(errors) if mpi else None)
        if streams:
            outcome.overtook = sum(map(int, _OVERTOOK.findall(said)))
        outcome.judge([child.exit_code() for child in children], appliance.stop())
        if not outcome.good:
            say(errors)
        return outcome


def _start_c(options: Options, network: Network, libraries: Path, files: Path) -> list[Child]:
    """One program in each worker's namespace; those of odd ranks are built with sanitizers."""
    name = "streams" if options.client == "c-streams" else "allreduce"
    source = f"clients/examples/c/{name}.c"
    plain = compiled(source, libraries, files / name)
    checked = compiled(source, libraries, files / f"{name}_checked", "-fsanitize=address,undefined")
    keys = _keys(options)
    more = [str(options.workers), str(options.bytes // 4), str(options.allreduces), keys]
    place = f"{APPLIANCE_ADDRESS}:{UDP_PORT}"
    environment = ["env", f"LD_LIBRARY_PATH={libraries / 'lib'}"]
    programs = [str(checked if rank % 2 else plain) for rank in range(options.workers)]
    return [
        Child(f"c{rank}", [*environment, programs[rank], place, str(rank), *more], files, namespace)
        for rank, namespace in enumerate(network.workers)
    ]


def _keys(options: Options) -> str:
    """What all ranks' URLs have in common."""
    keys = f"payload={options.payload}&in_flight={options.in_flight}&udp_ports={options.udp_ports}"
    keys += f"&timeout={options.timeout:.0f}"
    # What float sums travel as.
    return f"{keys}&wire={options.wire}" if options.wire else keys


def _start_mpi(options: Options, network: Network, libraries: Path, files: Path) -> list[Child]:
    """mpirun, which starts the others."""
    program = files / "mpi_allreduce"
    source = ROOT / "clients/examples/mpi/allreduce.c"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1")
    run("mpicc", *flags, str(source), "-o", str(program), timeout=60)
    size = [str(options.bytes // 4), str(options.allreduces)]
    variables = {
        "LD_PRELOAD": str(libraries / "lib/libpascaline-mpi.so"),
        "PASCALINE_URL": f"pascaline://{APPLIANCE_ADDRESS}:{UDP_PORT}?job={JOB}&{_keys(options)}",
        "PASCALINE_JOBS": f"{DERIVED[0]}-{DERIVED[1]}",
        "PASCALINE_STATS": "1",
    }
    command = mpirun(network, files, variables, [str(program), *size])
    return [Child("mpirun", command, files, network.workers[0])]


def mpirun(network: Network, files: Path, variables: dict[str, str], program: list[str]) -> list[str]:
    """The command that runs a program of MPI with a rank in each worker's namespace."""
    hosts = [management_address(rank) for rank in range(len(network.workers))]
    names = " ".join(f"{host}={name}" for host, name in zip(hosts, network.workers, strict=True))
    # Real hosts do not share the files of their daemons. In namespaces all hosts have the same name, after
    # which these files are called.
    for host in hosts:
        (files / host).mkdir(exist_ok=True)
    settings = {
        "plm_rsh_agent": str(_AGENT),
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": _MANAGEMENT,
        "btl_tcp_if_include": _MANAGEMENT,
        "pml": "ob1",
        "btl": "tcp,self",
        # There are more ranks than cores: who waits must let the others work.
        "mpi_yield_when_idle": "1",
    }
    environment = [f"PASBENCH_HOSTS={names}", f"PASBENCH_FILES={files}", f"TMPDIR={files / hosts[0]}"]
    slots = ",".join(f"{host}:1" for host in hosts)
    command = ["env", *environment, "mpirun", "--allow-run-as-root", "-np", str(len(hosts)), "--host", slots]
    command += ["--bind-to", "none"]
    command += [word for name, value in settings.items() for word in ("--mca", name, value)]
    # By env: a variable's value may have what mpirun takes for its own.
    return [*command, "env", *(f"{name}={value}" for name, value in variables.items()), *program]


def _ways(errors: str) -> tuple[int, int, int]:
    """What the ranks' lines of statistics add up to."""
    found = [tuple(map(int, line)) for line in _WAYS.findall(errors)]
    calls, size, others = (sum(column) for column in zip(*found, strict=True)) if found else (0, 0, 0)
    return calls, size, others
