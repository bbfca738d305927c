"""Keeps phrases out of texts and comments that readers stumble over; phrases.toml has them."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("phrases.toml")
PROSE = {".rs", ".md", ".py", ".sh", ".toml", ".c", ".h", ".cpp", ".html", ".js", ".yml", ".service", ""}
# A space of a pattern also matches a line's end, with the sign of a comment that the next line begins with.
GAP = r"\s+(?:(?://[/!]?|[#*>])\s+)?"


class Place(NamedTuple):
    """Where a phrase stands, and the advice."""

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


def _patterns() -> tuple[re.Pattern[str], list[str]]:
    """All phrases as one pattern with a group each, and the advice for each."""
    phrases = tomllib.loads(TABLE.read_text())["phrase"]
    groups = [f"(?P<p{at}>{phrase['pattern']})".replace(" ", GAP) for at, phrase in enumerate(phrases)]
    return re.compile("|".join(groups), re.IGNORECASE), [phrase["instead"] for phrase in phrases]


def places() -> list[Place]:
    pattern, instead = _patterns()
    found = []
    for file in _files():
        text = file.read_text(errors="replace")
        for hit in pattern.finditer(text):
            line = text.count("\n", 0, hit.start()) + 1
            advice = instead[int((hit.lastgroup or "p0")[1:])]
            found.append(Place(str(file.relative_to(ROOT)), line, " ".join(hit.group().split()), advice))
    return sorted(found)


def test_no_group_has_more_phrases_than_allowed() -> None:
    """The table of phrases.toml is the most that each group may have."""
    allowed = tomllib.loads(TABLE.read_text())["places"]
    found = places()
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
    pattern, _ = _patterns()
    for sample in ("a rank that nobody\n    /// waits for", "it is\n// told so", "it does not get on: why?"):
        assert pattern.search(sample), sample
    assert not pattern.search("get on the bus; else if (x)")


def _update(counts: dict[str, int]) -> None:
    head = TABLE.read_text().partition("[places]")[0]
    rows = "".join(f"{group} = {count}\n" for group, count in sorted(counts.items()))
    TABLE.write_text(f"{head}[places]\n{rows}")


if __name__ == "__main__":
    seen = places()
    if sys.argv[1:] == ["--update"]:
        _update(Counter(place.group for place in seen))
    else:
        for place in seen:
            print(f"{place.file}:{place.line}: {place.text!r}: {place.instead}")
