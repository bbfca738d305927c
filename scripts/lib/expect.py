"""Holds a JSON object against expectations: `expect.py FILE 'verified == 10' 'impairment["lost"] > 0'`.

The object is the last line of the file. An expectation is a Python expression over the object's keys; true,
false and null are Python's. Names what does not hold, and what the values are.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any


def violations(found: dict[str, Any], expectations: list[str]) -> list[str]:
    """The expectations that do not hold, each with the values it speaks of."""
    bad = []
    for expectation in expectations:
        names = [
            node.id for node in ast.walk(ast.parse(expectation, mode="eval")) if isinstance(node, ast.Name)
        ]
        missing = [name for name in names if name not in found]
        # Expressions come from scripts/test, not from outside.
        if missing or not eval(expectation, {"__builtins__": {}}, found):
            values = ", ".join(f"{name} = {found.get(name, 'missing')}" for name in names)
            bad.append(f"{expectation}  ({values})")
    return bad


def main(file: str, *expectations: str) -> int:
    """Exit code 0 if all hold."""
    lines = Path(file).read_text().splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        print(f"the last line of {file} is no JSON: {error}")
        return 1
    bad = violations(found, list(expectations))
    for line in bad:
        print(f"does not hold: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
