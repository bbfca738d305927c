"""A job that is suspended half way, and healed by hand: `pascaline job halt`, `pascaline job reset`."""

from pathlib import Path
from typing import Any

from appliance import Appliance
from configuration import JOB
from process import Failure, Stop, run
from workers import Load, Workers

REMEDY = f"pascaline job reset {JOB}"
# The ranks of a halted job learn of it at once.
_TOLD_SECONDS = 20.0


def halt_and_reset(
    binary: Path, appliance: Appliance, workers: Workers, load: Load, stop: Stop
) -> dict[str, Any]:
    """Halts the first job once every worker has done an allreduce, and resets it once all know.

    The workers are started again then. Returns how many named the remedy, and whether `explain` did.
    """

    def pascaline(*words: str) -> str:
        return run(str(binary), *words, "--admin", f"unix:{appliance.socket}").stdout

    if not stop.wait_for(lambda: workers.all_have_done(1), _TOLD_SECONDS):
        raise Failure("not every worker has done an allreduce")
    pascaline("job", "halt", str(JOB))
    if not stop.wait_for(workers.ended, _TOLD_SECONDS):
        raise Failure(f"workers of a halted job still run {_TOLD_SECONDS:.0f} s later")
    told = workers.who_said(REMEDY)
    explained = REMEDY in pascaline("explain", str(JOB))
    pascaline("job", "reset", str(JOB))
    workers.start(load)
    return {"told_of_halt": told, "explained": explained}
