"""Does the appliance's page show what happens, to everybody? This is scripts/browser.

Starts an appliance, workers that allreduce through it as in the demo, and a headless Chromium that looks at
the page. The page must show the job running and then finished, with as many sums as the workers have
verified; at two widths, dark and light; without an error in the console, without anything wider than the
window, and for a keyboard alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asynchronous
import build
import private
from appliance import Appliance, Settings
from netns import Network, in_namespace
from process import Failure, Interrupted, Stop, run, say
from workers import Load, Workers

if TYPE_CHECKING:
    from chromium import Browser

_PREFIX = "pasweb"
_WORKERS = 4
_MTU = 1500
_BUILD_SECONDS = 3600.0
_TIMEOUT_SECONDS = 120.0
_RUNNING_SECONDS, _FINISHED_SECONDS = 20.0, 60.0
_PAGE = ("127.0.0.1", 9464)
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


def main(arguments: list[str]) -> int:
    """Runs it and returns the exit code."""
    options = _parse(arguments)
    problems: list[str] = []
    try:
        binary = build.ready(Stop(_BUILD_SECONDS), options.binary)
        build.become_root(Path(__file__).resolve(), arguments, binary)
        options.screenshots.mkdir(parents=True, exist_ok=True)
        seen = _test(options, binary, Stop(options.timeout, "--timeout"), problems)
    except Interrupted as interrupted:
        say(f"browser: {interrupted}; everything is cleaned up")
        return interrupted.exit_code
    except Failure as failure:
        say(f"browser: {failure.whole}")
        if options.json:
            print(json.dumps({"ok": False, "error": str(failure)}))
        return 1
    report = sys.stderr if options.json else sys.stdout
    for problem in problems:
        print(f"✗ {problem}", file=report)
    if not problems:
        print(
            f"✓ the page showed the job finishing: {seen['sums']} sums, verified by {_WORKERS} workers",
            file=report,
        )
    print(f"screenshots: {', '.join(seen['screenshots'])}", file=report)
    if options.json:
        print(json.dumps({"ok": not problems, "problems": problems, **seen}))
    return 1 if problems else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/browser", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--binary", type=Path, help="use this pascaline instead of building it")
    directory = build.ROOT / "target/browser"
    add(
        "--screenshots",
        type=Path,
        default=directory,
        metavar="DIR",
        help="where they go (default: target/browser)",
    )
    add("--timeout", type=float, default=_TIMEOUT_SECONDS, metavar="S", help="give up after (120)")
    add("--json", action="store_true", help="one JSON object as the last line of standard output")
    return parser.parse_args(arguments)


def _test(options: argparse.Namespace, binary: Path, stop: Stop, problems: list[str]) -> dict[str, Any]:
    # Selenium is in an environment of its own, which --help does without.
    from chromium import Browser

    private.remove_leftovers(_PREFIX, "browser.py")
    network = Network(_WORKERS, _MTU, middle=False)
    private.rename(network, _PREFIX)
    files = private.directory(_PREFIX)
    with ExitStack() as cleanup:
        # Registered before they exist: whatever happens from here on, they are removed.
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(network.destroy)
        files.mkdir(mode=0o700)
        network.create()
        more = asynchronous.TABLES
        settings = Settings("af_packet", pool_slots=4096, window=512, policy="dsa", name=_NAME, more=more)
        appliance = Appliance(binary, network, settings, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        _check_headers(network.appliance, problems)
        browser = Browser(files, network.appliance)
        cleanup.callback(browser.stop)
        browser.open(stop)
        browser.go(f"http://{_PAGE[0]}:{_PAGE[1]}/")
        _await(stop, lambda: _text(browser, "#health") == "live", _RUNNING_SECONDS, "the page is not live")
        workers = Workers(binary, network, files)
        cleanup.callback(workers.stop)
        updates = asynchronous.Updates(binary, network, files)
        cleanup.callback(updates.stop)
        workers.start(_LOAD)
        _await(
            stop,
            lambda: _job(browser).get("state") == "running",
            _RUNNING_SECONDS,
            "the page shows no running job",
        )
        shots = _views(browser, options.screenshots, "running", problems)
        if _job(browser).get("state") != "running":
            problems.append("the job was over before the screenshots were: give it more allreduces")
        _check_top(binary, network.appliance, problems)
        _check_keyboard(browser, problems)
        finished = lambda: _job(browser).get("state") == "finished"  # noqa: E731
        _await(stop, finished, _FINISHED_SECONDS, "the page does not show the job finished")
        workers.wait(stop, appliance.check_running, lambda _: None)
        verified = [result["verified"] for result in workers.results()]
        if verified != [_LOAD.allreduces] * _WORKERS:
            problems.append(f"verified {verified}, not {_LOAD.allreduces} by each")
        shots += _views(browser, options.screenshots, "finished", problems)
        sums = _check_job(browser, problems)
        problems += [f"console: {entry}" for entry in dict.fromkeys(browser.console())]
        return {"sums": sums, "screenshots": [str(shot) for shot in shots]}


def _views(browser: Browser, directory: Path, when: str, problems: list[str]) -> list[Path]:
    """Screenshots of all views, each checked for what does not fit."""
    shots = []
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
        shots.append(directory / f"{width}-{scheme}-{when}.png")
        browser.screenshot(shots[-1])
    browser.look(*_VIEWS[0][:1], 900, "light")
    return shots


def _check_job(browser: Browser, problems: list[str]) -> int:
    """What the page says of the finished job; the number of sums."""
    job = _job(browser)
    if _NAME not in job["title"] or job["images"]:
        problems.append(f"the name of the job was not shown as it is: {job}")
    if job["rows"] != _WORKERS:
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
    return int(shown)


def _check_top(binary: Path, namespace: str, problems: list[str]) -> None:
    """`pascaline top` says the same, to scripts and to people."""
    top = ("ip", "netns", "exec", namespace, str(binary), "top", "--once")
    job = json.loads(run(*top, "--json").stdout)["jobs"][0]
    if (job["state"], job["name"], len(job["progress"])) != ("running", f"{_NAME}0", _WORKERS):
        problems.append(f"pascaline top --once --json says {job}")
    screen = run(*top).stdout
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
    # What is drawn anew while it is looked at would be gone.
    browser.run("document.getElementById('pause').click()")
    for selector in ("button", "summary", "[role=region]", "[role=img]", "section"):
        labels = browser.label(selector)
        if not labels or not all(labels):
            problems.append(f"{selector}: without a name for a screen reader: {labels}")
    browser.run("document.getElementById('pause').click()")


def _check_headers(namespace: str, problems: list[str]) -> None:
    def request() -> dict[str, str]:
        connection = http.client.HTTPConnection(*_PAGE, timeout=5)
        try:
            connection.request("GET", "/")
            return {key.lower(): value for key, value in connection.getresponse().getheaders()}
        finally:
            connection.close()

    policy = in_namespace(namespace, request).get("content-security-policy", "")
    if "default-src 'none'" not in policy or "unsafe" in policy:
        problems.append(f"the Content-Security-Policy is {policy!r}")


def _job(browser: Browser) -> dict[str, Any]:
    return browser.run(_JOB) or {}


def _text(browser: Browser, selector: str) -> str:
    return browser.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)


def _await(stop: Stop, condition: Any, seconds: float, otherwise: str) -> None:
    if not stop.wait_for(condition, seconds):
        raise Failure(f"{otherwise} after {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
