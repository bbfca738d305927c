"""Checks that readers can type and follow what README, docs/ and help texts say.

Every command in a code block has to be accepted by its program: the line is run with `--help` at its end, so
that the program reads the rest and does nothing. Commands within a sentence, which may have placeholders,
name programs, commands and options that exist. So do the examples of each `--help`. The targets of links
and their anchors exist.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.runner.shell import ROOT

_PROGRAMS = ("pascaline", "pascaline-fleet", "pascaline-lab")
_FENCE = re.compile(r"^ *(```+|~~~+)(\w*)[^\n]*\n(.*?)^ *\1 *$", re.MULTILINE | re.DOTALL)
_SHELL = {"", "sh", "bash", "console", "shell", "text"}
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"(?:\./)?(?:target/release/)?(pascaline(?:-fleet|-lab)?|scripts/[\w/.-]+)")
_BEFORE = re.compile(r"^(?:\$ |# |sudo |(?:[A-Z_]+=\S+ ))+")
_EXAMPLES = re.compile(r"^examples?:\s*\n((?:[ \t]+\S.*\n|\n)+)", re.MULTILINE | re.IGNORECASE)
_SUBCOMMANDS = re.compile(r"^Commands:\n((?:  .*\n)+)", re.MULTILINE)
_OPERATORS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "(", ")"}
_PLACEHOLDER = re.compile(r"…|\.\.\.|<[^>]*>|\[.*\]")
_SECONDS = 60


@dataclass(frozen=True)
class Line:
    """A command for the reader to type, and its place."""

    place: str
    words: tuple[str, ...]
    exact: bool


class _Wrong(Exception):
    """A command that does not work as written."""


def _pages() -> list[Path]:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    return list(dict.fromkeys(sorted(pages, key=str)))


def test_commands(debug_programs: Path) -> None:
    """Commands in code blocks and in the examples of `--help` are accepted; others name what exists."""
    lines = [line for page in _pages() for line in _lines(page)] + list(_examples(debug_programs))
    exact = sum(line.exact for line in lines)
    print(f"{exact} commands in blocks and examples, {len(lines) - exact} in sentences")
    # A parser that finds no commands would find no errors.
    assert exact >= 20
    wrong = [f"{line.place}: {problem}" for line in lines if (problem := _problem(line, debug_programs))]
    assert not wrong, "\n".join(wrong)


def test_links() -> None:
    """Their targets exist, headings too."""
    links = [link for page in _pages() for link in _links(page)]
    assert links
    broken = [f"{place}: {problem}" for place, page, link in links if (problem := _broken(page, link))]
    assert not broken, "\n".join(broken)


def _lines(page: Path) -> Iterator[Line]:
    text = page.read_text()
    name = str(page.relative_to(ROOT))
    for block in _FENCE.finditer(text):
        if block.group(2) in _SHELL:
            first = text.count("\n", 0, block.start(3)) + 1
            yield from _block(name, first, block.group(3))
    prose = _FENCE.sub(lambda block: "\n" * block.group().count("\n"), text)
    for span in _INLINE.finditer(prose):
        if words := _words(span.group(1)):
            yield Line(f"{name}:{prose.count(chr(10), 0, span.start()) + 1}", words, exact=False)


def _block(name: str, first: int, text: str) -> Iterator[Line]:
    joined = re.sub(r"\\\n\s*", lambda _: " ", text)
    number = first
    for line in joined.splitlines():
        if words := _words(line.strip()):
            yield Line(f"{name}:{number}", words, exact=True)
        number += 1


def _words(text: str) -> tuple[str, ...]:
    """The words of a command of ours up to an operator of the shell; none if it is no such command."""
    text = _BEFORE.sub("", text)
    if not _COMMAND.match(text):
        return ()
    reader = shlex.shlex(text, posix=True, punctuation_chars="|&;()<>")
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:
        words = text.split()
    end = next((place for place, word in enumerate(words) if word in _OPERATORS), len(words))
    command = _COMMAND.fullmatch(words[0]) if words else None
    return (command.group(1), *words[1:end]) if command else ()


def _examples(binaries: Path) -> Iterator[Line]:
    """What the help texts show, of each script and of each command of the programs."""
    commands: list[tuple[str, ...]] = [(name,) for name in _PROGRAMS]
    scripts = [path for path in (ROOT / "scripts").glob("*") if path.is_file() and os.access(path, os.X_OK)]
    scripts += [ROOT / "scripts/trex/check", ROOT / "scripts/trex/run"]
    commands += [(str(path.relative_to(ROOT)),) for path in sorted(scripts)]
    while commands:
        command = commands.pop()
        text = _help(command, binaries)
        commands += [(*command, name) for name in _subcommands(text)]
        for block in _EXAMPLES.finditer(text):
            yield from _block(f"{' '.join(command)} --help", 1, block.group(1))


def _subcommands(text: str) -> list[str]:
    found = _SUBCOMMANDS.search(text)
    names = re.findall(r"^  ([a-z][\w-]*)", found.group(1), re.MULTILINE) if found else []
    # Not the one that prints this help; `pascaline job` has a command of its own of that name.
    return [name for name in names if name != "help" or "Print this message or the help of" not in text]


@cache
def _help(command: tuple[str, ...], binaries: Path) -> str:
    done = _run((*command, "--help"), binaries)
    if done.returncode != 0:
        raise _Wrong(f"{' '.join(command)} --help: {(done.stderr or done.stdout).strip()[:300]}")
    return done.stdout


def _run(command: tuple[str, ...], binaries: Path) -> subprocess.CompletedProcess[str]:
    name, *rest = command
    program = binaries / name if name in _PROGRAMS else ROOT / name
    if not program.is_file():
        raise _Wrong(f"there is no {name}")
    prefix = [sys.executable, "-B"] if program.suffix == ".py" else []
    return subprocess.run(
        [*prefix, str(program), *rest],
        cwd=ROOT,
        # scripts/trex/run starts where Python has Scapy.
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def _problem(line: Line, binaries: Path) -> str | None:
    try:
        _check(line, binaries)
    except _Wrong as wrong:
        return f"`{' '.join(line.words)}`: {wrong}"
    return None


def _check(line: Line, binaries: Path) -> None:
    name, *rest = line.words
    if name not in _PROGRAMS and (not (ROOT / name).exists() or (ROOT / name).is_dir()):
        if (ROOT / name).is_dir() and not rest:
            return
        raise _Wrong(f"there is no {name}")
    if name == "scripts/test":
        _check_steps(rest)
    words = [word for word in rest if not _PLACEHOLDER.search(word)]
    if lost := [word for word in words if _is_of_the_tree(word) and not (ROOT / word).exists()]:
        raise _Wrong(f"there is no {lost[0]}")
    if name not in _PROGRAMS and not rest:
        return
    text = _check_subcommands(name, words, binaries)
    options = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    for option in options:
        if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text):
            raise _Wrong(f"its help knows no {option}")
    # Clap reads values too before it comes to --help. Placeholders it would not understand.
    if line.exact and name in _PROGRAMS and len(words) == len(rest):
        done = _run((name, *words, "--help"), binaries)
        if done.returncode != 0:
            raise _Wrong(
                done.stderr.strip().splitlines()[0] if done.stderr else f"exit code {done.returncode}"
            )


def _is_of_the_tree(word: str) -> bool:
    """A path below a folder of the repository, other than one that a build makes."""
    top, slash, _ = word.partition("/")
    return (
        bool(slash)
        and top not in ("", "..", "target")
        and (ROOT / top).is_dir()
        and not set(word) & set("*{$")
    )


def _check_subcommands(name: str, words: list[str], binaries: Path) -> str:
    """The help of the command and of all above it."""
    command: tuple[str, ...] = (name,)
    text = last = _help(command, binaries)
    for word in words:
        known = _subcommands(last) or ([] if name in _PROGRAMS else _choices(last))
        if word in known:
            command = (*command, word)
            last = _help(command, binaries) if name in _PROGRAMS else _help((name, word), binaries)
            text += last
        elif name in _PROGRAMS and known and not word.startswith("-"):
            raise _Wrong(f"{' '.join(command)} has no command {word}")
    return text


def _choices(text: str) -> list[str]:
    """The subcommands of a script, in braces or in a list."""
    braces = re.search(r"\{([\w,-]+)\}", text)
    return braces.group(1).split(",") if braces else re.findall(r"^    ([a-z]\w+)  +", text, re.MULTILINE)


@cache
def _steps() -> str:
    return _run(("scripts/test", "--list", "--all"), ROOT).stdout


def test_steps_of_the_table_exist() -> None:
    """The steps that docs/testing.md names can be given to scripts/test."""
    steps = _run(("scripts/test", "--list", "--all"), ROOT).stdout
    named = set()
    for table in re.findall(
        r"^\| step \|.*\n((?:\|.*\n)+)", (ROOT / "docs/testing.md").read_text(), re.MULTILINE
    ):
        cells = [row.split("|")[1] for row in table.splitlines()[1:]]
        named |= {
            name.strip() for cell in cells for name in re.split("[;,]", re.sub(r"\(.*?\)|\*", "", cell))
        }
    assert len(named) > 40
    assert not {name for name in named if name not in steps}


def _check_steps(words: list[str]) -> None:
    for word in words:
        named = not word.startswith("-") and not _PLACEHOLDER.search(word) and word != "WORD"
        if named and word not in _steps():
            raise _Wrong(f"no step's name contains {word}")


def _links(page: Path) -> Iterator[tuple[str, Path, str]]:
    text = _FENCE.sub(lambda block: "\n" * block.group().count("\n"), page.read_text())
    text = _INLINE.sub(lambda span: " " * len(span.group()), text)
    for link in _LINK.finditer(text):
        target = link.group(1) or link.group(2)
        if not re.match(r"[a-z]+:", target):
            place = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, link.start()) + 1}"
            yield place, page, target


def _broken(page: Path, link: str) -> str | None:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"({link}): there is no {path}"
    if anchor and target.suffix == ".md" and anchor not in _anchors(target):
        return f"({link}): {target.name} has no heading #{anchor}"
    return None


@cache
def _anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text())
    found: set[str] = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        found.add(words.strip().replace(" ", "-"))
    return found
