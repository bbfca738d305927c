"""The report: Markdown for people, JSON for programs, a picture per section."""

import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import picture
from figure import Figure, Section
from process import run

_MARKS = {True: "✓", False: "✗", None: ""}


def machine() -> dict[str, Any]:
    return {
        "cpu": _value("/proc/cpuinfo", "model name") or platform.processor(),
        "vectors": vectors(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
    }


def vectors() -> str:
    """The widest vector instructions that Pascaline has kernels for and the processor offers, if any."""
    flags = (_value("/proc/cpuinfo", "flags") or _value("/proc/cpuinfo", "Features")).split()
    names = {"avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}
    return next((name for flag, name in names.items() if flag in flags), "")


def _value(path: str, key: str) -> str:
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), "")


def commit(root: Path) -> str:
    """The state of the tree that was measured, as git names it; empty outside of one."""
    words = ("-C", str(root), "-c", "safe.directory=*", "describe", "--always", "--dirty")
    done = run("git", *words, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def write(
    directory: Path, sections: Sequence[Section], *, quick: bool, root: Path, started: float
) -> dict[str, Any]:
    """Writes everything into the directory; returns what the JSON says."""
    directory.mkdir(parents=True, exist_ok=True)
    judged = [figure.met for section in sections for figure in section.figures if figure.met is not None]
    said = {
        "schema": 1,
        "commit": commit(root),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 1),
        "quick": quick,
        "machine": machine(),
        "goals_met": sum(judged),
        "goals_missed": len(judged) - sum(judged),
        "failures": [f"{section.name}: {failure}" for section in sections for failure in section.failures],
        "sections": [section.to_json() for section in sections],
    }
    (directory / "report.json").write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    (directory / "report.md").write_text(markdown(said, sections))
    for section in sections:
        if any(figure.group for figure in section.figures):
            (directory / f"{section.name}.svg").write_text(picture.svg(section))
    return said


def markdown(said: dict[str, Any], sections: Sequence[Section]) -> str:
    where = said["machine"]
    lines = [
        "# What it does, measured",
        "",
        f"{said['started']}, commit {said['commit'] or 'unknown'}, in {said['seconds']:.0f} s"
        + (", quick: fewer cases and shorter measurements" if said["quick"] else ""),
        "",
        f"{where['cpu']}, {where['vectors'] or 'no vectors'}, {where['cores']} cores, {where['memory_gib']} "
        f"GiB, {where['system']}, Linux {where['kernel']}",
        "",
        "Each figure stands beside its limit or a peer from this same run: a ratio of both says something "
        "even where absolute times swing with what else the machine does. Where there are two ways to form a "
        "ratio it is the one that the goal is about.",
        "",
        f"**{said['goals_met']} goals reached, {said['goals_missed']} missed.**",
        "",
    ]
    missed = [figure for section in sections for figure in section.figures if figure.met is False]
    lines += [f"- ✗ {figure.name}: {_ratio(figure)}, goal {figure.goal}" for figure in missed]
    lines += [""] if missed else []
    for section in sections:
        lines += _section(section)
    return "\n".join(lines) + "\n"


def _section(section: Section) -> list[str]:
    lines = [f"## {section.title}", ""]
    for note in section.notes:
        lines += [note, ""]
    for failure in section.failures:
        lines += [f"**Not measured:** {failure}", ""]
    if section.figures:
        lines += ["| | measured | beside it | ratio | goal | |", "|---|---|---|---|---|---|"]
        lines += [_row(figure) for figure in section.figures]
        lines.append("")
    if any(figure.group for figure in section.figures):
        lines += [f"![{section.title}]({section.name}.svg)", ""]
    stolen = f"other machines took {section.stolen:.0%} of the wanted time of the cores"
    around = f"load average before: {section.load:.1f}; {stolen}"
    lines += [f"*{section.seconds:.0f} s; {around}.*", ""]
    return lines


def _row(figure: Figure) -> str:
    beside = f"{figure.beside.name}: {_measured(figure, figure.beside.value)}" if figure.beside else ""
    goal = str(figure.goal or "")
    cells = (figure.name, _measured(figure, figure.value), beside, _ratio(figure), goal, _MARKS[figure.met])
    return f"| {' | '.join(cells)} |"


def _measured(figure: Figure, value: float) -> str:
    return f"{picture.number(value)} {figure.unit}"


def _ratio(figure: Figure) -> str:
    if figure.ratio is None:
        return ""
    return f"{figure.ratio:.3f}" if figure.ratio < 10 else f"{figure.ratio:.1f}"


def text(sections: Sequence[Section], said: dict[str, Any]) -> str:
    judged = [
        (f"{section.name}: {figure.name}", figure)
        for section in sections
        for figure in section.figures
        if figure.met is not None
    ]
    width = max((len(name) for name, _ in judged), default=0)
    lines = [
        f"{_MARKS[it.met]} {name:<{width}}  {_measured(it, it.value):>14}  {_ratio(it):>7}  goal {it.goal}"
        for name, it in judged
    ]
    lines += [f"- not measured: {failure}" for failure in said["failures"]]
    met, missed, failed = said["goals_met"], said["goals_missed"], len(said["failures"])
    return "\n".join([*lines, f"{met} goals reached, {missed} missed, {failed} not measured"])
