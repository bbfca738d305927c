"""scripts/demo: the main job end to end, on real DPDK ports, on this machine alone.

Builds a network of namespaces, starts the appliance, pings it from every worker, lets the workers allreduce,
reads the appliance's metrics, ends everything and judges. Exit code 0 only if every allreduce was verified by
every worker, the appliance's accounts add up and it left in good order.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import build
import clients
import impairment
import inline
import iswitch
import neighbour
import netns
import olaf
import olaf_hops
import output
import report
import switchml
import two_level
from appliance import Appliance
from configuration import JOB, Settings, without_seals
from netns import Network
from options import Kind, Options, parse
from process import Failure, Interrupted, Stop, run, say
from rekey import Keys
from reload import Reloads
from stage import Stage
from verdict import Verdict
from workers import Load, Workers

# How far ranks may drift apart, in packets, at least.
_LEAST_WINDOW = 512
# In these, packets without a slot go to a parameter server; in the others the window must fit the pool.
_WITH_SERVER = ("dsa", "atp", "always", "coin")
_REMEDY = f"pascaline job reset {JOB}"
# The ranks of a halted job learn of it at once.
_TOLD_SECONDS = 20.0
# Of IPv4 and of IPv6, for use within an organisation, without a job's number.
_GROUPS = ("239.77.0.", "ff18::77:")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    stop = Stop(clients.BUILD_SECONDS)
    try:
        if options.cleanup:
            return _cleanup(arguments)
        # Updates are plotted by it, frames may be lost by it.
        with_lab = options.kind == Kind.OLAF or options.bad_network
        wanted = build.Wanted(
            demo=True,
            features=("switchml",) * (options.kind == Kind.SWITCHML),
            programs=("pascaline-lab",) * with_lab,
            tests=options.inline or options.client == "mpi",
        )
        binary = build.ready(stop, options.binary, wanted)
        libraries = _libraries(options, binary, stop)
        more = ["--libraries", str(libraries)] if libraries else []
        # A signal that arrived before it does not reach another process.
        stop.check()
        build.become_root(Path(__file__).resolve(), [*arguments, *more], binary)
        outcome = _show(options, binary, libraries, Stop(options.timeout, "--timeout"))
    except Interrupted as interrupted:
        say(f"demo: {interrupted}; everything is cleaned up")
        return interrupted.exit_code
    except (Failure, OSError) as failure:
        say(f"demo: {failure.whole if isinstance(failure, Failure) else failure}")
        if options.json:
            print(report.dump({"ok": False, "error": str(failure)}), flush=True)
        return failure.exit_code if isinstance(failure, Failure) else 1
    print(outcome.text(), file=sys.stderr if options.json else sys.stdout, flush=True)
    say("a demonstration on one machine's cores, and no benchmark: scripts/bench measures")
    for problem in outcome.problems:
        say(f"demo: {problem}")
    if options.json:
        print(report.dump(outcome.to_json()), flush=True)
    return 0 if outcome.good else 1


def _libraries(options: Options, binary: Path, stop: Stop) -> Path | None:
    """Those of scripts/clients, as optimised as the program is."""
    if options.client == "rust" or options.libraries:
        return options.libraries and options.libraries.resolve()
    optimised = binary.parent.name != "debug"
    return clients.libraries(stop, mpi=options.client == "mpi", optimised=optimised)


_SHOWS: dict[Kind, Callable[[Options, Path, Stop], Verdict]] = {
    Kind.OLAF: olaf.demonstrate,
    Kind.HOPS: olaf_hops.demonstrate,
    Kind.ISWITCH: iswitch.demonstrate,
    Kind.SWITCHML: switchml.demonstrate,
    Kind.INLINE: inline.demonstrate,
    Kind.TWO_LEVEL: two_level.demonstrate,
}


def _show(options: Options, binary: Path, libraries: Path | None, stop: Stop) -> Verdict:
    if libraries:
        return clients.demonstrate(options, binary, libraries, stop)
    if options.kind == Kind.NEIGHBOUR:
        street = neighbour.Street(options.workers, options.mtu)
        return neighbour.demonstrate(options, binary, stop, street, _settings(options, street))
    return _SHOWS.get(options.kind, demonstrate)(options, binary, stop)


def demonstrate(options: Options, binary: Path, stop: Stop) -> report.Outcome:
    network = Network(
        options.workers,
        options.mtu,
        middle=options.bad_network,
        ip6=options.ip6,
        routed=options.routed,
        bridged=options.multicast,
    )
    say(f"{options.workers} workers, each in a network namespace with a veth pair {_far(network)}")
    with Stage(binary, stop, network, keep=options.keep) as stage:
        bad = impairment.choose(stage, network, options)
        bad.start()
        keys = Keys(binary, stage.files, options.jobs) if options.security != "none" else None
        key = str(keys.ranks) if keys else ""
        appliance = stage.appliance(network, _settings(options, network, keys))
        at_first = appliance.configuration()
        say(f"appliance ready, {options.driver} ports; every worker pings it")
        pings = stage.ping()

        # Counts from before the first frame of a worker.
        sealed = keys if options.sealed else None
        reloads = Reloads(appliance, network, stop, sealed) if options.reload else None
        workers, load = stage.workers(network), replace(Load.of(options, network), key=key)
        workers.start(load)
        by_hand = {}
        if options.halt:
            say("the job is halted and reset by hand, and its workers begin again")
            by_hand = _halt_and_reset(binary, appliance, workers, load, stop)

        restarts = 0

        def check() -> None:
            nonlocal restarts
            bad.check()
            restarts += _meanwhile(options, appliance, workers, reloads, stop, restarts=restarts)

        wanted = options.allreduces * options.workers * options.jobs
        stage.watch(workers, wanted, check)
        results = workers.results()
        more: dict[str, Any] = {"restarts": restarts, "by_hand": by_hand}
        if reloads:
            reloads.count()
            more["reloaded"] = reloads.to_json()
        if key:
            if options.sealed:
                appliance.reload(without_seals(at_first), by_api=True)
            more["reference"] = _without_key(stage, workers, load, wanted)
        metrics = appliance.settled(stop)
        code = appliance.stop()
        outcome = report.Outcome(options, results, metrics, bad.report(), pings, code, **more)
        return stage.judged(outcome)


def _without_key(stage: Stage, workers: Workers, load: Load, wanted: int) -> list[dict[str, Any]]:
    """The results of the same workers with nothing that protects them."""
    say(f"the same without --security {load.security}, to compare")
    workers.start(replace(load, security="none", key=""))
    stage.watch(workers, wanted, stage.check)
    return workers.results()


def _meanwhile(
    options: Options,
    appliance: Appliance,
    workers: Workers,
    reloads: Reloads | None,
    stop: Stop,
    *,
    restarts: int,
) -> int:
    """Restarts and reloads while the workers sum; returns how often it was restarted just now."""
    appliance.check_running()
    if reloads:
        reloads.step()
    half = options.allreduces * options.workers * options.jobs // 2
    if not options.restart_appliance or restarts or workers.done() < half:
        return 0
    say("the appliance is killed and started again")
    appliance.kill_and_restart(stop)
    return 1


def _halt_and_reset(
    binary: Path, appliance: Appliance, workers: Workers, load: Load, stop: Stop
) -> dict[str, Any]:
    """Halts the first job once every worker has done an allreduce, and resets it once all have learnt of it.

    The workers are started again then. Returns how many named the remedy, and whether `explain` did.
    """

    def pascaline(*words: str) -> str:
        return run(str(binary), *words, "--admin", f"unix:{appliance.socket}").stdout

    if not stop.wait_for(lambda: workers.all_have_done(1), _TOLD_SECONDS):
        raise Failure("not every worker has done an allreduce")
    pascaline("job", "halt", str(JOB))
    if not stop.wait_for(workers.ended, _TOLD_SECONDS):
        raise Failure(f"workers of a halted job still run {_TOLD_SECONDS:.0f} s later")
    told = workers.who_said(_REMEDY)
    explained = _REMEDY in pascaline("explain", str(JOB))
    pascaline("job", "reset", str(JOB))
    workers.start(load)
    return {"told_of_halt": told, "explained": explained}


def _far(network: Network) -> str:
    if network.routers:
        return "to a router, which has one to the appliance's"
    if not network.racks:
        return "to the appliance's"
    return f"to the bridge of its rack, of which each of the appliance's {network.ports} ports has one"


def _settings(options: Options, network: Network, keys: Keys | None = None) -> Settings:
    window = max(_LEAST_WINDOW, options.in_flight)
    if options.policy not in _WITH_SERVER:
        window = min(window, options.pool_slots)
    # Losses on a busy machine must not look like losses of a reload, and a rack's frames arrive at one port.
    ring = 4096 if options.reload or network.racks else 0
    key = str(keys.appliances) if keys and options.sealed else ""
    more = {"group": _GROUPS[options.ip6] if options.multicast else "", "key_file": key}
    return Settings.of(options, window, ring=ring, **more)


def _cleanup(arguments: list[str]) -> int:
    build.become_root(Path(__file__).resolve(), arguments)
    removed = netns.remove_leftovers(also_kept=True)
    say(f"removed: {' '.join(removed)}" if removed else "nothing to remove")
    return 0


if __name__ == "__main__":
    output.end("demo", lambda: main(sys.argv[1:]))
