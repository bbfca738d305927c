"""Sealed packets against plain ones, the cipher of seals against others, and masked sums."""

import statistics

import drivers
import shaped
from appliance_shaped import DEVICE
from context import Context
from figure import Beside, Goal, Section
from process import run

TITLE = "Security: seals on the pool, ciphers, and masked sums"

_SECONDS = 120
# A packet of the pool with seals, over a plain one.
_POOL = {"mac": Goal(at_most=2.0), "encrypt": Goal(at_most=2.5)}
_SEALING = Goal(at_most=1.3)
_OURS = "AEGIS-128X4"
# The figures of the last line; beside them `goodput`, by mode.
KEYS = ("mac_pool", "encrypt_pool", "tag_ns_1k", "masked_ns_per_element")
# Of a worker's link, and what of the plain goodput is left there.
_MBIT = 1000
_GOODPUT = {"mac": 0.98, "encrypt": 0.98, "masked": 0.95}


def measure(context: Context, section: Section) -> None:
    section.notes.append(
        "The pool: ns per packet of 1 KiB of f32, fan-in 8, everything in L2; sealed: each contribution is "
        "opened before it is parsed, each result is sealed once. Ciphers and seals: one packet after the "
        "other, each with a nonce of its own, behind a header of 22 bytes; in L2. Masked sums: masking and "
        "unmasking at rank 0, without the exchange. Medians of turns in one run."
    )
    words = f"bench security --rounds {context.pick(4000, 1000)} --turns {context.pick(301, 51)}"
    found = context.ask_lab("security", words, _SECONDS)
    section.raw["security"] = found
    section.raw["last line"] = {key: found[key] for key in KEYS}
    with context.attempt(section, f"a worker's link of {_MBIT} Mbit/s"):
        section.raw["last line"]["goodput"] = _goodput(context, section)
    pool = found["pool_ns"]
    for kind, goal in _POOL.items():
        section.figure(
            f"pool, 1 KiB, fan-in 8, cache: {kind}", pool[kind], "ns/packet", Beside("plain", pool["plain"]),
            goal=goal, group="pool", label=kind,
        )  # fmt: skip
    tag = found["tag_ns_1k"]
    section.figure("a tag over 1 KiB, the cipher alone", tag, "ns")
    section.figure(
        "sealing and opening 1 KiB, mac", found["seal_and_open_over_tags"] * 2 * tag, "ns",
        Beside("two tags of the cipher alone", 2 * tag), goal=_SEALING, group="seals", label="mac",
    )  # fmt: skip
    section.figure("masked sums of f32", found["masked_ns_per_element"], "ns/element")
    ours = {row["bytes"]: row for row in found["ciphers"] if row["cipher"] == _OURS}
    for row in found["ciphers"]:
        for work in ("tag", "encrypt"):
            case = f"{row['bytes']} B, {work}"
            beside = Beside(_OURS, ours[row["bytes"]][f"{work}_ns"]) if row["cipher"] != _OURS else None
            section.figure(
                f"{case}: {row['cipher']}", row[f"{work}_ns"], "ns", beside, group=case, label=row["cipher"]
            )


def _goodput(context: Context, section: Section) -> dict[str, float]:
    """Each mode's goodput over the plain one, of one worker, in turns."""
    section.notes.append(
        f"Goodput: one worker of {drivers.BYTES >> 20} MiB behind a link of {_MBIT} Mbit/s, with the payload "
        "that it and the appliance agree on; modes in turns, medians of ratios."
    )
    key = context.files / "job.key"
    key.unlink(missing_ok=True)
    run(str(context.binary), "job", "key", "--new", str(key))
    modes = ("none", *_GOODPUT)
    turns: dict[str, list[float]] = {mode: [] for mode in modes}
    with shaped.Shaped(1, _MBIT) as network:
        for _ in range(context.pick(5, 1)):
            for mode in modes:
                sealed = {"security": mode, "key_file": str(key)} if mode in ("mac", "encrypt") else None
                more = ["--security", mode, "--key", str(key)] if mode != "none" else []
                report = drivers.worker(context, network, DEVICE, 0, more, sealed)
                turns[mode].append(8 * report["bytes"] / statistics.median(report["seconds"]) / 1e6)
    section.raw["goodput, Mbit/s"] = turns
    ratios = {
        mode: statistics.median(own / plain for own, plain in zip(turns[mode], turns["none"], strict=True))
        for mode in _GOODPUT
    }
    for mode, least in _GOODPUT.items():
        section.figure(
            f"goodput at {_MBIT} Mbit/s: {mode}", statistics.median(turns[mode]), "Mbit/s",
            Beside("plain", statistics.median(turns["none"])), inverse=False, goal=Goal(at_least=least),
            group="goodput", label=mode, of_turns=ratios[mode],
        )  # fmt: skip
    return {mode: round(ratio, 4) for mode, ratio in ratios.items()}
