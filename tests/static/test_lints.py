"""One form, and nothing that a linter sees: of Rust, Python and shell; and words that are spelt right."""

import re
from pathlib import Path

import pytest

from tests.runner.shell import ROOT, Shell, repository_files

_PYTHON = ("tests", "scripts", "clients/python", "clients/examples/train")
# Folders whose modules import each other, with where they look.
_TYPED = (
    ("tests", ".:scripts/lib:scripts/trex"),
    ("scripts/lib", "scripts/lib:scripts/bench.d"),
    ("scripts/bench.d", "scripts/bench.d:scripts/lib"),
    ("scripts/trex", "scripts/trex:scripts/lib"),
    ("clients/examples/python", "clients/examples/python"),
    ("clients/examples/train", "clients/examples/train"),
    ("clients/python/pascaline", "clients/python"),
    ("clients/python/tests", "clients/python:clients/python/tests"),
)


def test_rust_form(shell: Shell) -> None:
    shell("cargo", "fmt", "--all", "--check")


def test_python(shell: Shell) -> None:
    config = ("--config", "scripts/ruff.toml")
    shell("ruff", "check", *config, *_PYTHON)
    shell("ruff", "format", *config, "--check", *_PYTHON)


@pytest.mark.parametrize(("folder", "path"), _TYPED, ids=[folder for folder, _ in _TYPED])
def test_types(folder: str, path: str, shell: Shell, target: Path) -> None:
    files = [name for name in repository_files(folder) if name.endswith(".py")]
    if folder == "scripts/lib":
        files.append("scripts/instructions")
    cache = target / "tools/mypy-cache"
    options = ("--config-file", "scripts/mypy.ini", "--cache-dir", cache)
    shell("mypy", *options, *files, environment={"MYPYPATH": path})


def test_shell(shell: Shell) -> None:
    names = repository_files("scripts", ".ci", "lab/fuzz", "conf", "clients")
    first = {name: (ROOT / name).read_text(errors="replace").partition("\n")[0] for name in names}
    scripts = [name for name, line in first.items() if re.match(r"#!.*\b(ba)?sh$", line)]
    shell("shellcheck", "--external-sources", *scripts, *(ROOT / "scripts/lib").glob("*.sh"))


def test_spelling(shell: Shell) -> None:
    shell("typos", "--config", "scripts/typos.toml")
