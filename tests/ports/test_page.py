"""The appliance's page shows the present state to all its readers.

An appliance, workers that allreduce through it, and a headless Chromium: the page shows the job running and
then finished, with as many sums as the workers have verified; at two widths, dark and light; without an error
in the console, without anything wider than the window, and for a keyboard alone.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.bed.appliance import Appliance, Settings
from tests.bed.network import Star
from tests.bed.process import Deadline, wait_for
from tests.bed.workers import Load, Workers
from tests.ports.chromium import Browser
from tests.ports.conftest import WORKERS, update_tables, updating
from tests.runner.shell import Shell

pytestmark = [pytest.mark.root, pytest.mark.all]
_RUNNING_SECONDS, _FINISHED_SECONDS = 20.0, 60.0
_PAGE = "http://127.0.0.1:9464/"
_VIEWS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
_TAB, _ENTER, _SPACE = "\ue004", "\ue007", " "
# As close to markup as a name may be; `pascaline check` refuses the rest.
_NAME = "img src=x onerror=alert(1)"
_LOAD = Load(allreduces=100, bytes=1 << 20, dtype="f32", payload=1024, in_flight=64, seed=1, deadline=100)

_JOB = """
const job = document.querySelector('#job-list details');
return job && {state: job.querySelector('.badge').textContent, title: job.querySelector('.title').textContent,
               rows: job.querySelectorAll('tbody tr').length,
               images: document.querySelectorAll('#job-list img').length};
"""
_FOCUS = """
const at = document.activeElement, style = getComputedStyle(at);
return {what: at.id || at.tagName + '.' + at.className,
        outline: style.outlineStyle !== 'none' && at.matches(':focus-visible')};
"""
_OVERFLOW = """
const width = document.documentElement.clientWidth;
const hides = (e) => e && (e.matches('.scroll, .visually-hidden') || hides(e.parentElement));
const sticks = (e) => e.getBoundingClientRect().right > width + 0.5;
const shown = (e) => !hides(e.parentElement) && !e.matches('.skip');
const wide = [...document.body.querySelectorAll('*')].filter((e) => shown(e) && sticks(e));
return {scrolls: document.documentElement.scrollWidth - width,
        wide: wide.map((e) => e.id || e.tagName + '.' + e.className)};
"""


@pytest.fixture
def scene(pascaline: Path, star: Star, tmp_path: Path, shell: Shell) -> Iterator[tuple[Appliance, Browser]]:
    """An appliance, and a browser in its namespace."""
    shell("scripts/setup", "--browser")
    with ExitStack() as cleanup:
        more = update_tables(star)
        settings = Settings("af_packet", pool_slots=4096, window=512, policy="dsa", name=_NAME, more=more)
        appliance = cleanup.enter_context(Appliance(pascaline, star, settings, tmp_path))
        appliance.wait_ready(Deadline(60))
        browser = Browser(tmp_path, star.appliance)
        cleanup.callback(browser.stop)
        yield appliance, browser


def test_page(
    scene: tuple[Appliance, Browser], pascaline: Path, star: Star, tmp_path: Path, target: Path
) -> None:
    """From the first look to the end of the job; target/browser has the screenshots."""
    appliance, browser = scene
    shots = target / "browser"
    shots.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    policy = appliance.get("/").headers.get("content-security-policy", "")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    browser.go(_PAGE)
    wait_for(lambda: _text(browser, "#health") == "live", _RUNNING_SECONDS, "the page is not live")
    with ExitStack() as cleanup:
        workers = Workers(pascaline, star, tmp_path)  # type: ignore[arg-type] # it has what workers need
        cleanup.callback(workers.stop)
        cleanup.enter_context(updating(pascaline, star, tmp_path))
        workers.start(_LOAD)
        running = "the page shows no running job"
        wait_for(lambda: _job(browser).get("state") == "running", _RUNNING_SECONDS, running)
        _views(browser, shots, "running", problems)
        if _job(browser).get("state") != "running":
            problems.append("the job was over before the screenshots were: give it more allreduces")
        _check_top(pascaline, star, problems)
        _check_keyboard(browser, problems)
        finished = "the page does not show the job finished"
        wait_for(lambda: _job(browser).get("state") == "finished", _FINISHED_SECONDS, finished)
        workers.wait(Deadline(120), appliance.check_running, lambda _: None)
        verified = [result["verified"] for result in workers.results()]
        assert verified == [_LOAD.allreduces] * WORKERS
        _views(browser, shots, "finished", problems)
        _check_job(browser, problems)
        problems += [f"console: {entry}" for entry in dict.fromkeys(browser.console())]
    assert not problems, "\n".join(problems)


def _views(browser: Browser, directory: Path, when: str, problems: list[str]) -> None:
    """Screenshots of all views, each checked for what does not fit."""
    for width, scheme in _VIEWS:
        browser.look(width, 900, scheme)
        fits = browser.run(_OVERFLOW)
        if fits["scrolls"] > 0 or fits["wide"]:
            problems.append(f"at {width} pixels, {when}, something is too wide: {fits}")
        ground = browser.run(
            "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        )
        if (sum(ground[:3]) < 384) != (scheme == "dark"):
            problems.append(f"{scheme} is not {scheme}: the ground is {ground}")
        browser.screenshot(directory / f"{width}-{scheme}-{when}.png")
    browser.look(*_VIEWS[0][:1], 900, "light")


def _check_job(browser: Browser, problems: list[str]) -> None:
    job = _job(browser)
    if _NAME not in job["title"] or job["images"]:
        problems.append(f"the name of the job was not shown as it is: {job}")
    if job["rows"] != WORKERS:
        problems.append(f"{job['rows']} ranks are shown")
    shown = browser.run(
        "return document.querySelector('#job-list .facts b').textContent.replaceAll('\\u202f', '')"
    )
    expected = _LOAD.allreduces * _LOAD.bytes // _LOAD.payload
    if int(shown) < expected:
        problems.append(f"the page shows {shown} sums; there were {expected}")
    cells = browser.run("return document.querySelectorAll('#heat i').length")
    if not 1 <= cells <= 256:
        problems.append(f"the map of the pool has {cells} cells")


def _check_top(binary: Path, star: Star, problems: list[str]) -> None:
    """`pascaline top` says the same, to scripts and to people."""
    top = (str(binary), "top", "--once")
    job = json.loads(star.at_appliance.run(*top, "--json"))["jobs"][0]
    if (job["state"], job["name"], len(job["progress"])) != ("running", f"{_NAME}0", WORKERS):
        problems.append(f"pascaline top --once --json says {job}")
    screen = star.at_appliance.run(*top)
    if "running" not in screen or "Ranks of job 1" not in screen:
        problems.append(f"pascaline top --once shows\n{screen}")


def _check_keyboard(browser: Browser, problems: list[str]) -> None:
    """Everything that can be used is reached by Tab, in order, visibly; and does what it says."""
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    reached = []
    for _ in range(5):
        browser.press(_TAB)
        focus = browser.run(_FOCUS)
        reached.append(focus["what"])
        if not focus["outline"]:
            problems.append(f"the focus on {focus['what']} cannot be seen")
        if focus["what"] == "pause":
            browser.press(_SPACE)
            paused = browser.run("return document.getElementById('pause').getAttribute('aria-pressed')")
            browser.press(_SPACE)
            if paused != "true":
                problems.append("the space bar does not pause the page")
        if focus["what"] == "theme":
            before = browser.run("return document.documentElement.dataset.theme || 'auto'")
            for _ in range(3):
                browser.press(_ENTER)
            browser.press(_ENTER)
            after = browser.run("return document.documentElement.dataset.theme || 'auto'")
            if before == after:
                problems.append("Enter does not change the theme")
            browser.press(_ENTER)
            browser.press(_ENTER)
    if not {"pause", "theme"} <= set(reached) or not any("skip" in what for what in reached):
        problems.append(f"Tab reaches only {reached}")
    # An element that is drawn anew during the check would be gone.
    browser.run("document.getElementById('pause').click()")
    for selector in ("button", "summary", "[role=region]", "[role=img]", "section"):
        labels = browser.label(selector)
        if not labels or not all(labels):
            problems.append(f"{selector}: without a name for a screen reader: {labels}")
    browser.run("document.getElementById('pause').click()")


def _job(browser: Browser) -> dict[str, Any]:
    return browser.run(_JOB) or {}


def _text(browser: Browser, selector: str) -> str:
    return str(browser.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector))
