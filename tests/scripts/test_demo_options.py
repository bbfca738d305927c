"""The options of scripts/demo: a run refuses options that do not apply to it."""

import pytest

from options import EXAMPLES, parse

_REFUSED = {
    "--mode iswitch": "--loss 1,--policy dsa,--jobs 2,--reload,--halt,--allreduces 3,--neighbour",
    "--mode olaf": "--workers 3,--workers 4,--loss 1,--reload,--halt,--jobs 2,--bytes 4KiB",
    "--mode olaf --topology two-level": "--workers 6,--picture a.svg,--leaves 3",
    "--client c": "--duplicate 1,--multicast,--order rank,--seed 3,--loss 1,--dtype i32,--halt",
    "--client mpi": "--multicast,--order rank,--jobs 2,--mode olaf,--inline,--ip6",
    "--neighbour": "--loss 1,--restart-appliance,--halt,--multicast,--reload,--security masked,--wire f16",
    "--protocol switchml": "--security masked,--security mac,--wire f16,--policy dsa,--loss 1,--udp-ports 2",
    "--topology two-level": "--lcores 2,--loss 1,--mode iswitch,--neighbour",
    "--inline": "--security encrypt,--order rank,--lcores 2,--neighbour,--topology two-level",
}


def _refused(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        parse(words.split())
    assert ended.value.code == 2, words
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("kind", "option"), [(kind, option) for kind, words in _REFUSED.items() for option in words.split(",")]
)
def test_what_a_run_does_not_obey_is_refused(
    kind: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the name of an option, and of the runs that obey it."""
    said = _refused(f"{kind} {option}", capsys)
    assert " is not for " in said, said
    assert ": it is for " in said, said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--staleness 2", "--staleness is not for plain allreduces: it is for --mode iswitch"),
        ("--leaves 3", "--leaves is not for plain allreduces: it is for --topology two-level"),
        ("--libraries /nowhere", "--libraries is not for plain allreduces: it is for --client c"),
    ],
)
def test_what_belongs_to_another_run_is_told(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in _refused(words, capsys)


@pytest.mark.parametrize(
    "words",
    [
        "--mode iswitch --staleness 5 --workers 3 --keep",
        "--mode olaf --loads 0.5 --keep",
        "--mode olaf --topology two-level --seconds 3 --keep",
        "--client c --policy dsa --lcores 2 --udp-ports 2 --wire f16 --keep",
        "--neighbour --policy dsa --lcores 2 --neighbour-rounds 1 --order rank --keep",
        "--protocol switchml --payload 256 --mtu 500 --lcores 2 --keep",
        "--topology two-level --leaves 3 --restart-appliance --ip6",
        "--inline --workers 2 --mtu 500",
        "--policy dsa --jobs 2 --loss 1 --restart-appliance --order rank",
        "--multicast --ip6 --jobs 2 --reload",
        "--mode sync --client rust --protocol pascaline --topology one",
        "--security mac --order rank --wire f16 --jobs 2 --ip6 --restart-appliance --loss 1",
        "--security mac --policy dsa --multicast",
        "--topology two-level --security encrypt --restart-appliance",
        "--mode olaf --topology two-level --security mac --mtu 1104",
        "--security encrypt --policy switchml --halt --payload 1416 --lcores 2 --udp-ports 2 --routed",
    ],
)
def test_what_a_run_obeys_is_accepted(words: str) -> None:
    """Among it, what leaves the namespaces."""
    parse(words.split())


def test_the_examples_of_the_help_are_accepted() -> None:
    lines = [line for line in EXAMPLES.splitlines() if line.startswith("  scripts/demo")]
    examples = [line.split("  ")[1] for line in lines]
    assert len(examples) > 20
    for example in examples:
        parse(example.split(" | ")[0].split()[1:])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--protocol switchml --mtu 500", "an --mtu of 1062"),
        ("--protocol switchml --mtu 1061", "an --mtu of 1062"),
        ("--mode olaf --mtu 500", "an --mtu of 1076"),
        ("--ip6 --mtu 500", "an --mtu of 1280"),
    ],
)
def test_packets_that_no_link_takes_are_refused(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """SwitchML's and Olaf's have one length; IPv6 has a least MTU."""
    assert told in _refused(words, capsys)
    parse(["--protocol", "switchml", "--mtu", "1062"])


def test_training_without_a_server_takes_two(capsys: pytest.CaptureFixture[str]) -> None:
    """A run without missing gradients proves nothing."""
    assert "two --workers" in _refused("--mode iswitch --workers 1", capsys)


@pytest.mark.parametrize(
    "words",
    [
        "--payload 12", "--bytes 6", "--bytes 0", "--payload 1456", "--workers 40 --jobs 2", "--root 4",
        "--binary /nowhere", "--reload --loss 1", "--halt --allreduces 1", "--ip6 --workers 32",
        "--wire f16 --dtype i32", "--multicast --routed", "--routed --reorder 1", "--client c --wire bf16",
        "--client c-streams --wire f16", "--inline --workers 17", "--topology two-level --workers 1",
        "--protocol switchml --payload 512", "--protocol switchml --dtype u32", "--udp-ports 3",
        "--security masked --wire f16", "--security masked --order rank", "--loss 101", "--loads 0,1",
        "--topology two-level --security masked", "--mode olaf --security masked",
        "--client mpi --security masked",
        "--mode olaf --security mac --mtu 1080", "--security encrypt --payload 1424", "--security tls",
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each other, or anything."""
    assert "error: " in _refused(words, capsys)
