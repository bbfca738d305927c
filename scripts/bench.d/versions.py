"""The program of another commit, built in a worktree below the target directory and kept there."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import build
from process import Failure, Stop, run, run_long, say

# A first build needs this much; only the program and reusable build outputs are kept.
_BYTES = 6 << 30
# Stands for `release` until there is one: the commit with the fastest packet path so far.
_BEFORE_RELEASES = "dda3fb03e76f5a9b893f2a1bcd2549d1459b06c3"
# Packages with the benches, the newest first: formerly they were part of the appliance's program.
_PACKAGES = ("pascaline-lab", "pascaline")
_METADATA = ("metadata", "--no-deps", "--format-version", "1", "--locked")


def git(*words: str) -> str:
    """The output of git in this repository; a Failure if it fails."""
    return run("git", "-C", str(build.ROOT), *words, timeout=60).stdout.rstrip()


def commit(name: str) -> str:
    """The whole name of a commit; `release` is the last one that has a tag."""
    if name == "release":
        tags = git("tag", "--sort=-creatordate", "--merged", "HEAD").splitlines()
        name = tags[0] if tags else _BEFORE_RELEASES
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except Failure as failure:
        raise Failure(
            f"{name!r} is neither a commit of this repository nor a program: name a commit, a tag, a branch, "
            "or the path of a pascaline-lab",
            failure.log,
        ) from failure


def clean() -> None:
    """Raises if the tree has changes that are not committed."""
    changed = git("status", "--porcelain").splitlines()
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        names = ", ".join(line[3:] for line in changed[:3])
        raise Failure(
            f"the tree has changes that are not committed ({names}{more}): commit them, or name a program "
            "with --binary"
        )


def program(name: str, target: Path, stop: Stop) -> Path:
    """The program with the benches of a commit: one that was built before, or a new one."""
    whole = commit(name)
    built = target / "programs" / whole
    if not built.is_file():
        built.parent.mkdir(parents=True, exist_ok=True)
        _room(target)
        _build(whole, target, built, stop)
    _has_benches(built, name)
    return built


def _room(target: Path) -> None:
    free = shutil.disk_usage(target).free
    if free < _BYTES:
        raise Failure(
            f"{target} has {free / 2**30:.1f} GiB free, and building a commit takes {_BYTES >> 30}: "
            "make room, or set CARGO_TARGET_DIR"
        )


def _build(whole: str, target: Path, built: Path, stop: Stop) -> None:
    tree = target / "trees" / whole[:12]
    # Leftovers of an interrupted run.
    _remove(tree)
    git("worktree", "add", "--force", "--detach", str(tree), whole)
    try:
        say(f"bench: building {whole[:12]} ...")
        # In the tree, so that its own settings of cargo and rustup hold.
        cargo = ["env", f"CARGO_TARGET_DIR={target / 'build'}", build.cargo()]
        failure = f"{whole[:12]} could not be built: cargo failed"
        package = _package(run_long([*cargo, *_METADATA], stop, failure, place=tree), whole[:12])
        command = [*cargo, "build", "--release", "--locked", "--package", package]
        found = build.cargo_made(package, command, stop, failure, tree)
        temporary = built.with_suffix(".new")
        shutil.copy2(found, temporary)
        temporary.rename(built)
    finally:
        _remove(tree)


def _package(metadata: str, name: str) -> str:
    """The package with the benches, wherever it lies in the tree of the commit of this name."""
    names = {package["name"] for package in json.loads(metadata)["packages"]}
    for package in _PACKAGES:
        if package in names:
            return package
    raise Failure(f"there is no package with benches in {name}: it needs {' or '.join(_PACKAGES)}")


def _remove(tree: Path) -> None:
    if tree.exists():
        shutil.rmtree(tree, ignore_errors=True)
    git("worktree", "prune")


def _has_benches(built: Path, name: str) -> None:
    if not os.access(built, os.X_OK):
        raise Failure(f"{built} cannot be run")
    for bench in ("pool", "pipeline"):
        asked = subprocess.run(
            [built, "bench", bench, "--help"], capture_output=True, timeout=30, check=False
        )
        if asked.returncode != 0:
            raise Failure(f"{name} has no `bench {bench}`: it is from before the benches, or another program")


def given(name: str) -> Path | None:
    """The program itself, if a file is named instead of a commit."""
    path = Path(name)
    if "/" not in name or not path.is_file():
        return None
    _has_benches(path, name)
    return path.resolve()


def of_binary(binary: Path) -> Path:
    """The program with the benches that goes with one that has been built."""
    found = build.lab(binary.resolve()) if binary.name == "pascaline" else binary.resolve()
    _has_benches(found, str(binary))
    return found
