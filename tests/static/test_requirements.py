"""The requirements of docs/protocol.md, each by its id, and the tests that hold them.

A test that would fail if an implementation broke a requirement names it, in a comment or a doc comment:
"R9.1 of protocol.md". What only people can judge is listed here.
"""

import re
from collections import Counter
from collections.abc import Iterator

from tests.runner.shell import ROOT, repository_files

_DOCUMENT = ROOT / "docs/protocol.md"
# Ids that no test can hold, each with the reason.
_JUDGED: dict[str, str] = {}

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ID = re.compile(r'<a id="(R\d+\.\d+)">\[(R\d+\.\d+)\]</a>')
_NAMED = re.compile(r"\bR\d+\.\d+\b")
# Between two sentences, items, cells or paragraphs; `*Must*` speaks of the word.
_END = re.compile(r"""(?<=[.:;?!])[)*"`]*\s+(?=[A-Z0-9*"`<(])|\n\s*\n|\n\s*- |\|""")
_MUST = re.compile(r"(?<!\*)\bmust\b", re.IGNORECASE)


def _sentences(text: str) -> Iterator[str]:
    """Those of the prose and the tables; an id begins the sentence behind it."""
    text = _FENCE.sub("\n\n", text)
    for part in _END.split(text):
        yield from re.split(r"(?=<a id=)", " ".join(part.split()))


def _requirements() -> list[str]:
    return [found.group(1) for found in _ID.finditer(_DOCUMENT.read_text())]


def _named() -> dict[str, set[str]]:
    """The ids that tests name, and the files that do."""
    named: dict[str, set[str]] = {}
    for name in repository_files():
        path = ROOT / name
        test = "/tests/" in f"/{name}" or name.endswith("/tests.rs") or name.startswith("lab/sim/src/")
        if test and path.suffix in {".rs", ".py"} and path.name != "test_requirements.py":
            for found in _NAMED.findall(path.read_text()):
                named.setdefault(found, set()).add(name)
    return named


def _bare(text: str) -> list[str]:
    """The sentences that demand something and do not begin with an id."""
    return [sentence for sentence in _sentences(text) if _MUST.search(sentence) and not _ID.match(sentence)]


def test_each_requirement_has_an_id_of_its_own() -> None:
    text = _DOCUMENT.read_text()
    assert not _bare(text)
    assert not [found.group() for found in _ID.finditer(text) if found.group(1) != found.group(2)]
    assert not [found for found, times in Counter(_requirements()).items() if times > 1]


def test_ids_have_the_number_of_their_section() -> None:
    for section in re.split(r"^## ", _FENCE.sub("", _DOCUMENT.read_text()), flags=re.MULTILINE):
        number = section.partition(".")[0]
        assert not [found for found, _ in _ID.findall(section) if not found.startswith(f"R{number}.")]


def test_each_requirement_is_held_by_a_test() -> None:
    named, requirements = _named(), set(_requirements())
    unknown = {found: sorted(files) for found, files in named.items() if found not in requirements}
    assert not unknown, f"not in protocol.md: {unknown}"
    missing = requirements - named.keys() - _JUDGED.keys()
    assert not missing, f"no test names {sorted(missing)}"
    assert not _JUDGED.keys() & named.keys(), "a test names what only people can judge"
    assert requirements >= _JUDGED.keys()


def test_a_sentence_without_an_id_is_found() -> None:
    anchor = '<a id="R2.1">[R2.1]</a>'
    for text in (
        "It may. A worker must not (section 3.1) do so.",
        "| bits | must be 0 |",
        f"{anchor} A worker must wait. It must not speak.",
        f"- {anchor} This one must wait;\n- Must that one?",
        f"It must wait. {anchor} It must not speak.",
    ):
        assert len(_bare(text)) == 1, text
    assert not _bare(f"*Must* is a word. {anchor} **Who** must not\nspeak, must wait.\n\n```\nMust.\n```\n")
