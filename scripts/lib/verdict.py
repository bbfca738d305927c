"""The verdict on a run."""

from dataclasses import dataclass, field
from typing import Any

from metrics import Accounting


@dataclass
class Verdict:
    """The common part of the outcomes of runs: the errors, if any."""

    problems: list[str] = field(default_factory=list, kw_only=True)

    @property
    def good(self) -> bool:
        """Whether there are no errors."""
        return not self.problems

    def require(self, *conditions: tuple[object, str]) -> None:
        """Adds the message of each condition that does not hold."""
        self.problems += [otherwise for holds, otherwise in conditions if not holds]

    def require_sums(self, verified: int, wanted: int, mismatches: int) -> None:
        self.require(
            (verified == wanted, f"{verified} of {wanted} allreduces verified by all workers"),
            (not mismatches, f"{mismatches} mismatches"),
        )

    def require_order(self, accounting: Accounting, exit_code: int) -> None:
        """Requires that the appliance has accounted for every packet and ended in good order."""
        self.require(
            (accounting.holds, f"the appliance's accounts do not add up: {accounting}"),
            (not exit_code, f"the appliance's exit code after SIGTERM is {exit_code}"),
        )

    def text(self) -> str:
        """The report for people."""
        raise NotImplementedError

    def told(self) -> dict[str, Any]:
        """The object for --json, which scripts rely on."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.good, **self.told(), "problems": self.problems}
