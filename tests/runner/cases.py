"""Cases within one test: of Rust's tests, of pytest in another environment, or of a script of ours."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

CASES = "cases"
_LAST_LINE = re.compile(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?")
_LIBTEST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;", re.MULTILINE)
_LIBTEST_FAILED = re.compile(r"^test (.*) \.\.\. FAILED$", re.MULTILINE)


@dataclass
class Cases:
    """How many passed; which ones failed or were skipped, and why."""

    passed: int = 0
    failures: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """All of them."""
        return self.passed + len(self.failures) + len(self.skipped)

    def add_junit(self, file: Path) -> None:
        """Those of a report in JUnit's form, as nextest and pytest write it."""
        for case in ET.parse(file).iter("testcase"):
            name = f"{case.get('classname', '')} {case.get('name', '')}".strip()
            if case.find("failure") is not None or case.find("error") is not None:
                self.failures.append(name)
            elif (skipped := case.find("skipped")) is not None:
                self.skipped.append(f"{name}: {skipped.get('message', '')}")
            else:
                self.passed += 1

    def add_libtest(self, text: str) -> None:
        """Those that `cargo test` has printed."""
        self.passed += sum(int(good) for good, _ in _LIBTEST.findall(text))
        failed = sum(int(bad) for _, bad in _LIBTEST.findall(text))
        names = list(dict.fromkeys(_LIBTEST_FAILED.findall(text)))
        self.failures += names or [f"a test, {number}" for number in range(1, failed + 1)]

    def add_last_line(self, text: str) -> None:
        """Those of a program that ends with `N passed, N failed, N skipped`; `- skipped: …` are reasons."""
        lines = text.splitlines()
        found = _LAST_LINE.fullmatch(lines[-1]) if lines else None
        if not found:
            return
        self.passed += int(found[1])
        named = [line.removeprefix("✗ ").strip() for line in lines if line.startswith("✗ ")]
        self.failures += (named + ["a case"] * int(found[2]))[: int(found[2])]
        reasons = [line.removeprefix("- skipped: ") for line in lines if line.startswith("- skipped: ")]
        self.skipped += (reasons + ["a case"] * int(found[3] or 0))[: int(found[3] or 0)]

    def subtract_skipped(self, file: Path) -> None:
        """Takes tests of Rust that have said that they cannot run off the passed ones, and names them.

        Each line of the file: binary|test|reason. One without a reason has been run again and counted twice.
        """
        for line in file.read_text().splitlines():
            binary, test, reason = line.split("|", 2)
            self.passed -= 1
            if reason:
                self.skipped.append(f"{binary} {test}: {reason}")
