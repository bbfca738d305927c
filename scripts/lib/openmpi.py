"""Starts Open MPI in namespaces, with a rank in each."""

from collections.abc import Mapping
from pathlib import Path

from build import ROOT

_AGENT = ROOT / "scripts/bench.d/peers/mpi_agent"


def command(hosts: Mapping[str, str], interface: str, files: Path) -> list[str]:
    """`mpirun`, to which a program is added. `hosts`: the namespace behind each address of an interface."""
    # Real hosts do not share the files of their daemons. In namespaces all hosts have the same name, after
    # which these files are called: where they were shared, one job in twenty never began.
    for host in hosts:
        (files / host).mkdir(parents=True, exist_ok=True)
    settings = {
        "plm_rsh_agent": str(_AGENT),
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": interface,
        "btl_tcp_if_include": interface,
        "pml": "ob1",
        "btl": "tcp,self",
        # There are more ranks than cores: one that waits must let the others work.
        "mpi_yield_when_idle": "1",
    }
    names = " ".join(f"{host}={name}" for host, name in hosts.items())
    words = [
        "env",
        f"PASBENCH_HOSTS={names}",
        f"PASBENCH_FILES={files}",
        f"TMPDIR={files / next(iter(hosts))}",
    ]
    words += ["mpirun", "--allow-run-as-root", "-np", str(len(hosts)), "--bind-to", "none"]
    words += ["--host", ",".join(f"{host}:1" for host in hosts)]
    return words + [word for name, value in settings.items() for word in ("--mca", name, value)]
