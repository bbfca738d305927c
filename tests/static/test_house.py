"""The rules of the house that neither the compiler nor a linter knows.

Sizes of files and lines, the number of lines of Rust outside tests, the form of modules, which room may use
which (docs/architecture.md has the table), and who writes which field of a slot. Lengths of functions,
clocks, threads and sockets are clippy's: clippy.toml.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.runner.shell import ROOT, Shell, repository_files

_FILE_LINES = 400
_FUNCTION_LINES = 60
_COLUMNS = 110
_RUST_LINES = 58_000  # the target
_RUST_LINES_TODAY = 111_200  # the ratchet: the lines of today, rounded up to the next 100
# Rooms beside the data path have a number each, which does not count above.
_ROOMS_APART = {
    "fleet/planner": 5_000,
    "fleet/verifier": 4_000,
    "clients/python": 3_000,
    "fleet/controller": 4_100,
}
_SIZED = (".rs", ".py", ".sh", ".c", ".h", ".cpp", "")
_PROSE = (".rs", ".md", ".py", ".sh", ".toml", ".c", ".h", ".cpp", "")
# Longest first: a raw string may hold a quote, and a lifetime begins like a character.
_RUST_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^\\'])'""",
    re.DOTALL,
)
_RUST_FUNCTION = re.compile(r"\bfn\s+(\w+)")


def _texts(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Names and texts; a script has no suffix and begins with `#!`."""
    for name in repository_files():
        path = ROOT / name
        if path.suffix in suffixes:
            text = path.read_text(errors="replace")
            if path.suffix or text.startswith("#!"):
                yield name, text


def _is_test(name: str) -> bool:
    return name.endswith("/tests.rs") or "/tests/" in name


def _none(places: Iterable[str]) -> None:
    """Fails with every place, one a line."""
    found = list(places)
    assert not found, "\n".join(found)


def test_files_are_short() -> None:
    lengths = {name: text.count("\n") for name, text in _texts(*_SIZED)}
    assert lengths
    _none(f"{name}: {lines} lines" for name, lines in lengths.items() if lines > _FILE_LINES)


def test_python_functions_are_short() -> None:
    """As clippy holds those of Rust."""
    _none(
        f"{name}:{node.lineno}: {node.name} has {lines} lines"
        for name, text in _texts(".py")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > _FUNCTION_LINES
    )


def test_lines_are_short() -> None:
    """Comments and prose keep the width that rustfmt keeps for code.

    Rows of tables and lone words cannot; test vectors have a form that programs read.
    """
    _none(place for name, text in _texts(*_PROSE) for place in _long_lines(name, text))


def _long_lines(name: str, text: str) -> Iterator[str]:
    vector = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            vector = line == "```vector"
        table = name.endswith(".md") and (vector or line.lstrip("> ").startswith("|"))
        if len(line) > _COLUMNS and not table and len(line.split()) > 1:
            yield f"{name}:{number}: {len(line)} columns"


def test_rust_does_not_grow() -> None:
    """The workspace does not grow unless a commit raises the number here."""
    sizes: dict[str, int] = {}
    for name, text in _texts(".rs"):
        room, source, _ = name.partition("/src/")
        if source and not _is_test(name):
            sizes[room] = sizes.get(room, 0) + text.count("\n")
    print(sizes)
    apart = {room: sizes.pop(room, 0) for room in _ROOMS_APART}
    assert not {room: lines for room, lines in apart.items() if lines > _ROOMS_APART[room]}
    total = sum(sizes.values())
    print(f"{total} lines; target {_RUST_LINES}: {max(total - _RUST_LINES, 0)} above it")
    assert total <= _RUST_LINES_TODAY
    assert total > _RUST_LINES_TODAY - 1000, f"lower the ratchet to {-(-total // 100) * 100}"


def test_modules_have_one_form() -> None:
    sources = [(name, text) for name, text in _texts(".rs") if "/src/" in name]
    assert sources
    assert not [name for name, _ in sources if name.endswith("/mod.rs")], "write foo.rs beside foo/"
    within = [name for name, text in sources if re.search(r"^ *mod tests \{", text, re.MULTILINE)]
    assert not within, "tests go to foo/tests.rs"


def test_programs_print_in_one_place() -> None:
    """app/shared/src/output.rs handles a full or closed output."""
    print_macro = re.compile(r"(?<![\w:])(e?print(?:ln)?)!")
    stream = re.compile(r"io::std(?:out|err)\(\)(?!\.is_terminal)")
    for name, text in _texts(".rs"):
        room = name.startswith(("app/", "fleet/app/", "lab/app/"))
        if not room or _is_test(name) or name == "app/shared/src/output.rs":
            continue
        code = _RUST_TOKENS.sub("", text)
        imported = " ".join(re.findall(r"use pascaline_shared::(?:output::)?([^;]*);", code))
        macros = set(print_macro.findall(code)) - set(re.findall(r"\w+", imported))
        assert not macros, f"{name}: use pascaline_shared::{{{', '.join(sorted(macros))}}}"
        assert not stream.search(code), f"{name}: write to pascaline_shared::output::Stdout"


def test_rooms_use_what_their_row_says(shell: Shell) -> None:
    """Every crate has a row in docs/architecture.md, and uses what it names: no more and no less."""
    metadata = json.loads(shell("cargo", "metadata", "--format-version=1", "--no-deps", "--locked").out)
    used = {_room(package["name"]): _used(package) for package in metadata["packages"]}
    assert "testkit" in used
    assert not [room for room, others in used.items() if "testkit" in others], "it is for dev-dependencies"
    assert used == _allowed()


def _room(package: str) -> str:
    return package.removeprefix("pascaline-") if package != "pascaline" else "app"


def _used(package: dict[str, Any]) -> set[str]:
    """The rooms that a crate ships with, on whatever target."""
    names = [found["name"] for found in package["dependencies"] if found["kind"] != "dev"]
    return {_room(name) for name in names if name.startswith("pascaline")}


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


@pytest.mark.parametrize("kind", ["normal", "build"])
def test_dependencies_of_every_kind_count(kind: str) -> None:
    """Those of tests do not."""
    dependency = {"name": "pascaline-wire", "kind": None if kind == "normal" else kind}
    package = {
        "dependencies": [
            dependency,
            {"name": "pascaline-queue", "kind": "dev"},
            {"name": "serde", "kind": None},
        ]
    }
    assert _used(package) == {"wire"}


def test_comments_name_who_writes_a_slots_fields() -> None:
    """The comment of each field of a slot names the functions that write it: those, and no others."""
    path = "aggregator/src/slot.rs"
    texts = [text for name, text in _texts(".rs") if name.startswith(("aggregator/src/slot/", path))]
    struct = re.search(r"struct Slot<.*?\{\n(.*?)\n\}", (ROOT / path).read_text(), re.DOTALL)
    fields = re.findall(r"((?: +///.*\n)+) +(\w+):", struct.group(1) if struct else "")
    assert fields
    for comment, field in fields:
        told = re.search(r"Written by (.*?)[.;]", comment.replace("///", ""), re.DOTALL)
        named = set(re.findall(r"`(\w+)`", told.group(1))) if told else set()
        writers = {writer for text in texts for writer in _writers(text, field)}
        assert named == writers, f"{path}: {field}"


def _writers(text: str, field: str) -> Iterator[str]:
    """The functions that assign the field of `self`, change it by a method or lend it out for writing."""
    code = _RUST_TOKENS.sub("", text)
    changes = rf"self\.{field}(?:\s*[-+*/|&^]?=(?!=)|\.(?:insert|replace|take)\w*\()|&mut self\.{field}\b"
    for change in re.finditer(changes, code):
        yield _RUST_FUNCTION.findall(code, 0, change.start())[-1]
