"""The rules of the house that no compiler knows: `house.py [RULE...]` prints every place that breaks one.

Sizes of files, functions and lines, the number of lines of Rust outside tests, the form of modules, which
room may use which (docs/architecture.md has the table), who writes which field of a slot, and what takes the
time as an argument.

The number of lines has a ratchet: what there is today. What is above the target is printed.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_FILE_LINES = 400
_FUNCTION_LINES = 60
_COLUMNS = 110
_RUST_LINES = 58_000  # the target
_RUST_LINES_TODAY = 98_600  # the ratchet: what there is, rounded up to the next 100
# Rooms beside the data path have a number each, which does not count above.
_ROOMS_APART = {
    "fleet/planner": 5_000,
    "fleet/verifier": 4_000,
    "clients/python": 3_000,
    "fleet/controller": 4_000,
}
_PREFIX = "pascaline-"
_SIZED = (".rs", ".py", ".sh", ".c", ".h", ".cpp", "")
_PROSE = (".rs", ".md", ".py", ".sh", ".toml", ".c", ".h", ".cpp", "")
# Longest first: a raw string may hold a quote, and a lifetime begins like a character.
_RUST_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^\\'])'""",
    re.DOTALL,
)
# What docs/architecture.md calls sans-I/O, and what of it is not.
_SANS_IO = (
    *(f"{room}/src/" for room in ("packet/wire", "aggregator", "queue", "ps", "clients/worker")),
    "pipelines/src/membership",
    "pipelines/src/control_plane",
)
_DRIVERS = ("clients/worker/src/udp", "clients/worker/src/pipeline.rs", "clients/worker/src/narrow.rs")
_WORLD = re.compile(r"\b(?:Instant|SystemTime|(?:Udp|Tcp)(?:Socket|Stream|Listener)|thread::\w+)")
_RUST_FUNCTION = re.compile(r"\bfn\s+(\w+)")


def main(arguments: list[str]) -> int:
    """Checks the rules named, or all; exit code 1 if one is broken."""
    parser = argparse.ArgumentParser(prog="house.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("rules", nargs="*", metavar="RULE", help=f"of {', '.join(RULES)} (default: all)")
    wanted = parser.parse_args(arguments).rules or list(RULES)
    if unknown := set(wanted) - RULES.keys():
        parser.error(f"no such rule: {', '.join(sorted(unknown))}")
    broken = False
    for name in wanted:
        places = list(RULES[name]())
        print(*places, sep="\n", end="\n" if places else "")
        print(f"{name}: {'FAILED: ' if places else ''}{len(places)} places", flush=True)
        broken |= bool(places)
    return 1 if broken else 0


@cache
def _files() -> list[str]:
    """What is in the repository and still there; a script has no suffix and begins with `#!`."""
    listed = subprocess.run(
        ("git", "ls-files", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def _texts(suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in _files():
        path = ROOT / name
        if path.suffix in suffixes:
            text = path.read_text(errors="replace")
            if path.suffix or text.startswith("#!"):
                yield name, text


def _is_test(name: str) -> bool:
    return name.endswith("/tests.rs") or "/tests/" in name


def file_sizes() -> Iterator[str]:
    """No source file is longer than one person keeps in mind."""
    for name, text in _texts(_SIZED):
        if (lines := text.count("\n")) > _FILE_LINES:
            yield f"{name}: {lines} lines, at most {_FILE_LINES}"


def function_sizes() -> Iterator[str]:
    """No function either."""
    for name, text in _texts((".rs", ".py")):
        found = _rust_functions(text) if name.endswith(".rs") else _python_functions(text)
        for function, line, lines in found:
            if lines > _FUNCTION_LINES:
                yield f"{name}:{line}: {function} has {lines} lines, at most {_FUNCTION_LINES}"


def _python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def _rust_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, line and number of lines, from `fn` to the closing brace."""
    code = _RUST_TOKENS.sub(lambda found: "\n" * found.group().count("\n"), text)
    for function in _RUST_FUNCTION.finditer(code):
        end = _end_of_body(code, function.end())
        if end is not None:
            line = code.count("\n", 0, function.start()) + 1
            yield function.group(1), line, code.count("\n", function.start(), end) + 1


def _end_of_body(code: str, at: int) -> int | None:
    """Where the first pair of braces behind `at` ends; none for a signature without a body."""
    depth = brackets = 0
    for place in range(at, len(code)):
        match code[place]:
            case "(" | "[":
                brackets += 1
            case ")" | "]":
                brackets -= 1
            case ";" if depth == 0 and brackets == 0:
                return None
            case "{":
                depth += 1
            case "}":
                depth -= 1
                if depth <= 0:
                    return place
    return None


def line_lengths() -> Iterator[str]:
    """Comments and prose keep the width that rustfmt keeps for code.

    Rows of tables and lone words cannot; test vectors have a form that programs read.
    """
    for name, text in _texts(_PROSE):
        vector = False
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("```"):
                vector = line == "```vector"
            table = name.endswith(".md") and (vector or line.lstrip("> ").startswith("|"))
            if len(line) > _COLUMNS and not table and len(line.split()) > 1:
                yield f"{name}:{number}: {len(line)} columns, at most {_COLUMNS}"


def rust_lines() -> Iterator[str]:
    """The workspace does not grow without somebody deciding it."""
    sizes: dict[str, int] = {}
    for name, text in _texts((".rs",)):
        room, source, _ = name.partition("/src/")
        if source and not _is_test(name):
            sizes[room] = sizes.get(room, 0) + text.count("\n")
    print(
        ", ".join(f"{room} {lines}" for room, lines in sizes.items()),
        f"= {sum(sizes.values())} lines of Rust outside tests",
    )
    for room, most in _ROOMS_APART.items():
        if (lines := sizes.pop(room, 0)) > most:
            yield f"{room}: {lines} lines of Rust outside tests, at most {most}"
    total = sum(sizes.values())
    print(f"target {_RUST_LINES}: {max(total - _RUST_LINES, 0)} above it")
    if total > _RUST_LINES_TODAY:
        yield f"{total} lines of Rust outside tests, at most {_RUST_LINES_TODAY}"
    elif (rounded := -(-total // 100) * 100) < _RUST_LINES_TODAY:
        print(f"lower the ratchet from {_RUST_LINES_TODAY} to {rounded}")


def module_form() -> Iterator[str]:
    """Modules are `foo.rs` beside `foo/`; tests of a module are a file of their own."""
    for name, text in _texts((".rs",)):
        if "/src/" in name and name.endswith("/mod.rs"):
            yield f"{name}: write {name.removesuffix('/mod.rs')}.rs"
        if "/src/" in name and re.search(r"^ *mod tests \{", text, re.MULTILINE):
            yield f"{name}: tests go to {name.removesuffix('.rs')}/tests.rs"


def dependencies() -> Iterator[str]:
    """A room uses what its row in docs/architecture.md says, and no crate ships with the test kit."""
    allowed = _allowed()
    for room, manifest in _manifests().items():
        if room not in allowed:
            yield f"docs/architecture.md: no row for `{room}`"
            continue
        used = _used(manifest)
        for other in sorted(used - allowed[room]):
            yield f"{room}/Cargo.toml: uses {other}, which its row in docs/architecture.md does not allow"
        for other in sorted(allowed[room] - used):
            yield f"docs/architecture.md: `{room}` may use `{other}`, and does not"
        if "testkit" in used:
            yield f"{room}/Cargo.toml: testkit is for [dev-dependencies]"
    for room in sorted(allowed.keys() - _manifests().keys()):
        yield f"docs/architecture.md: a row for `{room}`, which is no crate"


def _used(manifest: dict[str, Any]) -> set[str]:
    """The rooms that a crate ships with, on whatever target."""
    tables = (manifest, *manifest.get("target", {}).values())
    keys = ("dependencies", "build-dependencies")
    names = [name for table in tables for key in keys for name in table.get(key, {})]
    return {name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)}


def _manifests() -> dict[str, dict[str, Any]]:
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    return {room: tomllib.loads((ROOT / room / "Cargo.toml").read_text()) for room in members}


def _allowed() -> dict[str, set[str]]:
    """The table whose last column is `may use`: for each room the rooms that it names."""
    rows: dict[str, str] = {}
    inside = False
    for line in (ROOT / "docs/architecture.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        inside = line.startswith("|") and (inside or cells[-1] == "may use")
        if inside and (room := re.fullmatch(r"`([\w-]+)/?`", cells[0])):
            rows[room.group(1)] = cells[-1]
    return {room: set(re.findall(r"`([\w-]+)`", cell)) for room, cell in rows.items()}


def slot_fields() -> Iterator[str]:
    """The comment of each field of a slot names the functions that write it: those, and no others."""
    path = "aggregator/src/slot.rs"
    texts = [text for name, text in _texts((".rs",)) if name.startswith(("aggregator/src/slot/", path))]
    struct = re.search(r"struct Slot<.*?\{\n(.*?)\n\}", (ROOT / path).read_text(), re.DOTALL)
    fields = re.findall(r"((?: +///.*\n)+) +(\w+):", struct.group(1) if struct else "")
    if not fields:
        yield f"{path}: no fields of `Slot` found"
    for comment, field in fields:
        told = re.search(r"Written by (.*?)[.;]", comment.replace("///", ""), re.DOTALL)
        named = set(re.findall(r"`(\w+)`", told.group(1))) if told else set()
        writers = {writer for text in texts for writer in _writers(text, field)}
        for function in sorted(named ^ writers):
            has = "writes it, which its comment does not say" if function in writers else "does not write it"
            yield f"{path}: {field}: `{function}` {has}"


def _writers(text: str, field: str) -> Iterator[str]:
    """The functions that assign the field of `self`, change it by a method or lend it out for writing."""
    code = _RUST_TOKENS.sub("", text)
    changes = rf"self\.{field}(?:\s*[-+*/|&^]?=(?!=)|\.(?:insert|replace|take)\w*\()|&mut self\.{field}\b"
    for change in re.finditer(changes, code):
        yield _RUST_FUNCTION.findall(code, 0, change.start())[-1]


def sans_io() -> Iterator[str]:
    """State machines get the time and their bytes from whoever drives them."""
    for name, text in _texts((".rs",)):
        if name.startswith(_SANS_IO) and not name.startswith(_DRIVERS) and not _is_test(name):
            for found in _WORLD.finditer(_RUST_TOKENS.sub("", text)):
                yield f"{name}: {found.group()}: no clock, thread or socket belongs here"


RULES: dict[str, Callable[[], Iterator[str]]] = {
    "file-sizes": file_sizes,
    "function-sizes": function_sizes,
    "line-lengths": line_lengths,
    "rust-lines": rust_lines,
    "module-form": module_form,
    "dependencies": dependencies,
    "slot-fields": slot_fields,
    "sans-io": sans_io,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
