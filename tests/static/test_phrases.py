"""Keeps phrases out of texts and comments that readers stumble over; phrases.toml has them."""

import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("phrases.toml")
# Of phrases.toml: what counts anywhere, and what counts in comments alone.
TABLES = ("places", "comments")
PROSE = {".rs", ".md", ".py", ".sh", ".toml", ".c", ".h", ".cpp", ".html", ".js", ".yml", ".service", ""}
# A space of a pattern also matches a line's end, with the sign of a comment that the next line begins with.
GAP = r"\s+(?:(?://[/!]?|[#*>])\s+)?"
# A comment of Rust, to the end of its line.
RUST_COMMENT = re.compile(r"(?:^|(?<=\s))//[/!]?(?:\s.*)?$", re.MULTILINE)


class Place(NamedTuple):
    """Where a phrase stands, and the advice; `table` is the one that counts it."""

    table: str
    file: str
    line: int
    text: str
    instead: str

    @property
    def group(self) -> str:
        """The folder at the top; `docs` for README.md and its neighbours."""
        top, _, below = self.file.partition("/")
        return top if below else "docs"


def _files() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    others = {TABLE, Path(__file__).resolve(), ROOT / "LICENSE"}
    return [file for file in files if file.suffix in PROSE and file.is_file() and file not in others]


def _kept(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """These parts of the text, in the same lines."""
    parts: list[str] = []
    last = 0
    for start, end in spans:
        parts += ["\n" * text.count("\n", last, start), text[start:end]]
        last = end
    return "".join(parts)


def _comments(file: Path, text: str) -> str:
    """The comments of Rust or Python, docstrings included; of other files none."""
    if file.suffix == ".rs":
        return _kept(text, (hit.span() for hit in RUST_COMMENT.finditer(text)))
    if file.suffix != ".py" and "python3" not in text.partition("\n")[0]:
        return ""
    begins = [0, *(hit.end() for hit in re.finditer("\n", text))]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return _kept(
        text,
        (
            (begins[token.start[0] - 1] + token.start[1], begins[token.end[0] - 1] + token.end[1])
            for token in tokens
            if token.type == tokenize.COMMENT or token.string.startswith('"""')
        ),
    )


def _patterns(table: str) -> tuple[re.Pattern[str], list[str]]:
    """The phrases that a table counts as one pattern with a group each, and the advice for each."""
    phrases = [
        phrase
        for phrase in tomllib.loads(TABLE.read_text())["phrase"]
        if phrase.get("table", TABLES[0]) == table
    ]
    groups = [f"(?P<p{at}>{phrase['pattern']})".replace(" ", GAP) for at, phrase in enumerate(phrases)]
    return re.compile("|".join(groups), re.IGNORECASE), [phrase["instead"] for phrase in phrases]


@cache
def places() -> list[Place]:
    patterns = {table: _patterns(table) for table in TABLES}
    found = []
    for file in _files():
        text = file.read_text(errors="replace")
        for table, (pattern, instead) in patterns.items():
            searched = text if table == TABLES[0] else _comments(file, text)
            for hit in pattern.finditer(searched):
                line = text.count("\n", 0, hit.start()) + 1
                advice = instead[int((hit.lastgroup or "p0")[1:])]
                phrase = " ".join(hit.group().split())
                found.append(Place(table, str(file.relative_to(ROOT)), line, phrase, advice))
    return sorted(found)


@pytest.mark.parametrize("table", TABLES)
def test_no_group_has_more_phrases_than_allowed(table: str) -> None:
    """The tables of phrases.toml have the most that each group may have."""
    allowed = tomllib.loads(TABLE.read_text())[table]
    found = [place for place in places() if place.table == table]
    counts = Counter(place.group for place in found)
    more = {group for group, count in counts.items() if count > allowed.get(group, 0)}
    report = [
        f"{place.file}:{place.line}: {place.text!r}: {place.instead}"
        for place in found
        if place.group in more
    ]
    assert not more, "\n".join([f"allowed: {allowed}, found: {dict(counts)}", *report])


def test_patterns_find_what_they_name() -> None:
    """Across the end of a line too, and not in a sentence that only looks alike."""
    pattern, _ = _patterns("places")
    for sample in ("a rank that nobody\n    /// waits for", "it is\n// told so", "it does not get on: why?"):
        assert pattern.search(sample), sample
    assert not pattern.search("get on the bus; else if (x)")


def test_comments_are_told_from_code() -> None:
    """Phrases of the second table count in comments and docstrings alone, in their line."""
    pattern, _ = _patterns("comments")
    rust = 'let everybody = "// under way"; // It is under\n// way. What is left waits. What is it?\n'
    python = 'def f() -> str:\n    """Under way."""\n    return "as ever"  # What was sent.\n'
    found = []
    for name, text in (("a.rs", rust), ("a.py", python), ("a.md", "under way")):
        comments = _comments(Path(name), text)
        found += [" ".join(hit.group().split()) for hit in pattern.finditer(comments)]
    assert found == ["under // way", "What is", "Under way", "What was"]


def _update(found: list[Place]) -> None:
    text = TABLE.read_text().partition(f"[{TABLES[0]}]")[0]
    for table in TABLES:
        counts = Counter(place.group for place in found if place.table == table)
        text += f"[{table}]\n" + "".join(f"{group} = {count}\n" for group, count in sorted(counts.items()))
        text += "\n"
    TABLE.write_text(text.rstrip("\n") + "\n")


if __name__ == "__main__":
    seen = places()
    if sys.argv[1:] == ["--update"]:
        _update(seen)
    else:
        for place in seen:
            print(f"{place.file}:{place.line}: {place.text!r}: {place.instead}")
