"""Counts the cases of scripts/mistakes and scripts/hostile for scripts/test.

What is known to be open is told with its reason and counts as skipped, whether it went well this time or not;
any other case that did not go well has failed. Last line: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

# What is open today: what is missing, and what follows from that. docs/testing.md says more.
_OPEN: dict[str, dict[str, str]] = {
    "mistakes": {},
    "hostile": {},
}


def main(arguments: list[str]) -> int:
    """Prints the count and returns the exit code."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("suite", choices=_OPEN)
    parser.add_argument("key", help="true in a case that went well")
    parser.add_argument("file", type=Path, help="what the script printed with --json")
    options = parser.parse_args(arguments)
    said = json.loads(options.file.read_text().splitlines()[-1])
    known = _OPEN[options.suite]
    passed, failed, skipped = 0, 0, 0
    for case in said["details"]:
        name, good = case["name"], case[options.key]
        if name in known:
            skipped += 1
            print(f"- skipped: {name}: {known[name]} ({options.key} this time: {str(good).lower()})")
        elif good:
            passed += 1
        else:
            failed += 1
            print(f"failed: {name}: {'; '.join(case['problems'])}")
    if "error" in said:
        failed += 1
        print(f"failed: it has ended early: {said['error']}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
