"""Keys and security of a job that the appliance and its ranks do not have alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance import JOB
from process import run

from .bed import RANKS, SOON, Bed, within

_ODD = RANKS - 1
_TAKES_NONE = rf"does not take the packets of rank {_ODD} in job {JOB}"
_REMEDY = "remedy:.*key"
# Without an answer it is a deadline that ends a worker.
_WAIT = "20s"


def _new(bed: Bed, name: str, *more: object) -> Path:
    file = bed.files / name
    run(str(bed.binary), "job", "key", "--new", str(file), *(str(word) for word in more))
    return file


def _of_rank(bed: Bed, rank: int) -> Path:
    return _new(bed, f"rank{rank}.key", "--of", _new(bed, "job.key"), "--job", JOB, "--rank", rank)


def _written(text: str, mode: int = 0o600) -> Callable[[Bed], Path]:
    def write(bed: Bed) -> Path:
        file = bed.files / "written.key"
        file.write_text(text)
        file.chmod(mode)
        return file

    return write


def _open(bed: Bed) -> Path:
    file = _new(bed, "job.key")
    file.chmod(0o640)
    return file


# Files that are no key of the job: what they are, how each is made, and what is said of it.
_FILES: dict[str, tuple[str, Callable[[Bed], Path], tuple[str, ...]]] = {
    "open": ("may be read by others than its owner", _open, (r"mode 0640", "chmod 600")),
    "short": ("has too few bytes", _written("c2hvcnQ=\n"), ("5 bytes, at least 32",)),
    "words": ("is not base64", _written("no key\n"), ("not base64",)),
    "missing": ("is missing", lambda bed: bed.files / "none", ("No such file",)),
    "folder": ("is a directory", lambda bed: bed.files, ("not a regular file",)),
}
_OF_A_RANK = (
    "is that of one rank",
    lambda bed: _of_rank(bed, 1),
    (rf"the key of one rank \(rank 1 of job {JOB}\)", "the job's key"),
)
_OF_ANOTHER = (
    "is that of another rank",
    lambda bed: _of_rank(bed, _ODD - 1),
    (rf"the key of rank {_ODD - 1} of job {JOB}, not of rank {_ODD}", "pascaline job key"),
)


def _keys(key: Path, security: str = "mac") -> str:
    """What a job of the appliance has."""
    return f'security = "{security}"\nkey_file = "{key}"\n'


@within(SOON)
@pytest.mark.parametrize(
    ("what", "file", "told"),
    [
        pytest.param(f"The appliance's key {what}.", file, told, id=f"appliance-key-{name}")
        for name, (what, file, told) in (_FILES | {"of-a-rank": _OF_A_RANK}).items()
    ],
)
def test_key_of_appliance(bed: Bed, file: Callable[[Bed], Path], told: tuple[str, ...]) -> None:
    """`check` names the file, the place of its name, and the remedy."""
    config = bed.files / "appliance.toml"
    config.write_text(bed.settings(_keys(file(bed))))
    bed.mark()
    said = bed.pascaline("check", "--elsewhere", str(config))
    bed.in_time("check")
    line = 1 + config.read_text().split("key_file")[0].count("\n")
    bed.says("check", said, rf"appliance\.toml:{line}:12:", "key file", *told, "remedy:")


_PARENT = 'parent = {address = "10.9.9.9", rank = 0, ranks = 2'


@within(SOON)
@pytest.mark.parametrize(
    ("what", "keys", "told"),
    [
        pytest.param(
            "A job has a key, and no security.",
            'key_file = "{key}"\n',
            ("not sealed", "set security"),
            id="only-key",
        ),
        pytest.param(
            "A job has security, and no key.",
            'security = "mac"\n',
            ("security without a key", "pascaline job key"),
            id="only-security",
        ),
        pytest.param(
            "A job whose packets are sealed has a parent, and seals nothing for it.",
            _keys(Path("{key}")) + _PARENT + "}\n",
            ("go to its parent unsealed", "set security and key_file in .jobs.parent."),
            id="sealed-below-a-plain-parent",
        ),
        pytest.param(
            "A parent has security, and no key.",
            _PARENT + ', security = "mac"}\n',
            ("security without a key", "job-[0-9]+.parent.key"),
            id="parent-without-a-key",
        ),
        pytest.param(
            "A parent has a key, and no security.",
            _PARENT + ', key_file = "{key}"}\n',
            ("not sealed", "set security"),
            id="parent-with-a-key-only",
        ),
    ],
)
def test_security_of_appliance(bed: Bed, keys: str, told: tuple[str, ...]) -> None:
    """What does not go together is refused, with its place."""
    config = bed.files / "appliance.toml"
    config.write_text(bed.settings(keys.replace("{key}", str(_new(bed, "job.key")))))
    bed.mark()
    said = bed.pascaline("check", "--elsewhere", str(config))
    bed.in_time("check")
    bed.says("check", said, r"appliance\.toml:\d+:\d+:", *told, "remedy:")


@within(SOON)
@pytest.mark.parametrize(
    ("what", "file", "told"),
    [
        pytest.param(f"A rank's key {what}.", file, told, id=f"rank-key-{name}")
        for name, (what, file, told) in (_FILES | {"of-another": _OF_ANOTHER}).items()
    ],
)
def test_key_of_rank(bed: Bed, file: Callable[[Bed], Path], told: tuple[str, ...]) -> None:
    """A rank says so before it sends anything."""
    bed.fails([bed.worker(_ODD, security="mac", key=file(bed))], "key file", *told, "remedy:")


@within(SOON)
@pytest.mark.parametrize(
    ("what", "at_appliance", "at_rank", "told"),
    [
        pytest.param(
            "A rank without security wants to join a job whose packets are sealed.",
            "mac",
            "none",
            ('has security = "mac"', 'this rank "none"', "`security` and key"),
            id="no-security",
        ),
        pytest.param(
            "A rank seals its packets, and the job's are to be encrypted.",
            "encrypt",
            "mac",
            ('has security = "encrypt"', 'this rank "mac"'),
            id="other-security",
        ),
        pytest.param(
            "A rank seals its packets, and the job's are not.",
            "none",
            "mac",
            ('has security = "none"', 'this rank "mac"'),
            id="security-of-one-side",
        ),
        pytest.param(
            "A rank has another key than the appliance.", "mac", "other", ("another key",), id="other-key"
        ),
    ],
)
def test_security(bed: Bed, at_appliance: str, at_rank: str, told: tuple[str, ...]) -> None:
    """One rank proves itself otherwise than the job demands."""
    key, other = _new(bed, "job.key"), _new(bed, "other.key")
    bed.appliance(_keys(key, at_appliance) if at_appliance != "none" else "")
    options: dict[str, Any] = {"security": at_rank, "key": key}
    options = {"none": {}, "other": {"security": at_appliance, "key": other}}.get(at_rank, options)
    odd = bed.worker(_ODD, join_deadline=_WAIT, **options)
    bed.fails([odd], _TAKES_NONE, *told, _REMEDY)


@within(SOON)
def test_ranks_of_two_keys(bed: Bed) -> None:
    """One rank has another key than the others: its error says so, and with the right one all works."""
    key, other = _new(bed, "job.key"), _new(bed, "other.key")
    bed.appliance(_keys(key, "encrypt"))
    sealed: dict[str, Any] = {"security": "encrypt", "iterations": 2}
    others = bed.workers(range(_ODD), key=key, **sealed)
    bed.until(lambda: bed.members() == _ODD, "the others have not joined")
    bed.fails(
        [bed.worker(_ODD, key=other, join_deadline=_WAIT, **sealed)], _TAKES_NONE, "another key", _REMEDY
    )
    bed.succeeds([*others, bed.worker(_ODD, key=key, **sealed)])


@within(SOON)
def test_ranks_with_their_own_keys(bed: Bed) -> None:
    """A rank has the key of another rank: its error says so, and with keys of their own all work."""
    key = _new(bed, "job.key")
    bed.appliance(_keys(key))
    own = [_new(bed, f"{at}.key", "--of", key, "--job", JOB, "--rank", at) for at in range(RANKS)]
    sealed: dict[str, Any] = {"security": "mac", "iterations": 2}
    bed.fails([bed.worker(_ODD, key=own[0], **sealed)], "key of rank 0", _REMEDY)
    bed.succeeds([bed.worker(rank, key=own[rank], **sealed) for rank in range(RANKS)])


@within(SOON)
def test_key_that_a_rank_does_not_get(bed: Bed) -> None:
    """The job's key changes, and a rank keeps the one before: it is named, and refused when the key is."""
    key = _new(bed, "job.key")
    bed.appliance(_keys(key, "encrypt"))
    own = [_copied(key, f"rank{rank}.key") for rank in range(RANKS)]
    sealed: dict[str, Any] = {"security": "encrypt", "deadline": "8s"}
    ranks = [bed.worker(rank, key=own[rank], **sealed) for rank in range(RANKS)]
    bed.await_work()
    _new(bed, "next.key").replace(key)
    rekey = ("job", "rekey", str(JOB), "--admin", bed.admin)
    bed.says("rekey", bed.pascaline(*rekey), "takes the one before until all ranks use this")
    for file in own[:_ODD]:
        _copied(key, f"{file.name}.new").replace(file)
    bed.mark()
    bed.appears("rekey again", lambda: bed.pascaline(*rekey), rf"; rank {_ODD} still uses the one before")
    bed.await_work()
    bed.mark()
    bed.says("at once", bed.pascaline(*rekey, "--now"), "only")
    bed.appears("the rank", ranks[_ODD].tail, _TAKES_NONE, "another key", _REMEDY)
    _copied(key, "late.key").replace(own[_ODD])
    bed.await_work()


def _copied(key: Path, name: str) -> Path:
    copy = key.with_name(name)
    shutil.copy(key, copy)
    return copy
