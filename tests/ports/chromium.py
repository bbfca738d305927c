"""A headless Chromium in a network namespace, driven by Selenium."""

from __future__ import annotations

import base64
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.remote_connection import ChromeRemoteConnection
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.client_config import ClientConfig

from netns import enter
from process import LOG_TAIL_LINES, Failure
from tests.bed import api
from tests.bed.process import Processes, wait_for

_PORT = 9515
_URL = f"http://127.0.0.1:{_PORT}"
_READY_SECONDS = 20.0
_ANSWER_SECONDS = 30
_EXIT_SECONDS = 5.0
# Now and then Chromium ends while it starts, for no reason that is known (SeleniumHQ/selenium#17265).
_STARTS = 3
_PAUSE_SECONDS = 1.0
_T = TypeVar("_T")


class Browser:
    """One ChromeDriver with one window, in a network namespace."""

    def __init__(self, files: Path, namespace: str) -> None:
        self._files = files
        self._namespace = namespace
        # The browser keeps its profile and caches in the run's own directory; it has no other home.
        home = files / "home"
        home.mkdir()
        # ChromeDriver passes on what Chromium writes, and so why it would not start, only if it is verbose.
        command = ("env", f"HOME={home}", "chromedriver", f"--port={_PORT}", "--verbose")
        self._processes = Processes(files)
        self._child = self._processes.start("chromedriver", command, namespace)
        # Selenium's connections belong to the namespace of the thread that makes them.
        self._inside = ThreadPoolExecutor(1, initializer=enter, initargs=(namespace,))
        self._driver: webdriver.Remote | None = None

    def open(self) -> None:
        """Returns once there is a window."""
        wait_for(self._ready, _READY_SECONDS, "ChromeDriver is not ready", self._child.tail())
        for start in range(1, _STARTS + 1):
            profile = self._files / f"profile-{start}"
            try:
                self._driver = self._call(partial(_start, profile))
                return
            except Failure as failure:
                if start == _STARTS:
                    raise Failure(f"Chromium does not start: {failure}", self._said()) from failure
                print(f"start {start} of {_STARTS} of Chromium: {failure}\n{self._said()}", file=sys.stderr)
            time.sleep(_PAUSE_SECONDS)

    def stop(self) -> None:
        """Ends browser and driver."""
        self._inside.shutdown(wait=False, cancel_futures=True)
        # ChromeDriver ends its browser when it is asked to end.
        self._processes.close(_EXIT_SECONDS)

    def go(self, url: str) -> None:
        """Opens a page."""
        self._call(lambda: self._window.get(url))

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function with this body returns."""
        return self._call(lambda: self._window.execute_script(script, *arguments))

    def press(self, key: str) -> None:
        """One key, by its WebDriver code or as a character."""
        self._call(lambda: webdriver.ActionChains(self._window).send_keys(key).perform())

    def label(self, selector: str) -> list[str]:
        """The names by which a screen reader calls the elements of a selector."""

        def names() -> list[str]:
            return [
                element.accessible_name for element in self._window.find_elements(By.CSS_SELECTOR, selector)
            ]

        return self._call(names)

    def look(self, width: int, height: int, scheme: str) -> None:
        """A window of this width, for a person who prefers light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self._chrome("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._chrome("Emulation.setEmulatedMedia", media="screen", features=features)

    def screenshot(self, file: Path) -> None:
        """The whole page, as far as it can be scrolled."""
        shot = self._chrome("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def console(self) -> list[str]:
        """Warnings and errors since the last call."""
        entries = self._call(lambda: self._window.execute("getLog", {"type": "browser"})["value"])
        bad = ("SEVERE", "WARNING")
        return [f"{entry['level']}: {entry['message']}" for entry in entries if entry["level"] in bad]

    @property
    def _window(self) -> webdriver.Remote:
        if not self._driver:
            raise Failure("the browser is not open")
        return self._driver

    def _chrome(self, command: str, **parameters: Any) -> Any:
        return self._call(lambda: self._window.execute_cdp_cmd(command, parameters))

    def _ready(self) -> bool:
        if self._child.exit_code() is not None:
            raise Failure("ChromeDriver ended by itself", self._child.tail())
        try:
            return '"ready":true' in api.inside(self._namespace, f"{_URL}/status").text
        except httpx.TransportError:
            return False

    def _call(self, action: Callable[[], _T]) -> _T:
        try:
            return self._inside.submit(action).result()
        except WebDriverException as error:
            raise Failure(f"the browser: {(error.msg or repr(error)).splitlines()[0]}") from error

    def _said(self) -> str:
        """What Chromium wrote at its last start: lines without a time, which ChromeDriver's begin with."""
        log = self._child.err.read_text(errors="replace").rpartition("Launching chrome:")[2]
        lines = [line for line in log.splitlines()[1:] if not re.match(r"\[\d+\.\d+\]\[", line)]
        return "\n".join(lines[:LOG_TAIL_LINES]) or "it wrote nothing"


def _start(profile: Path) -> webdriver.Remote:
    options = webdriver.ChromeOptions()
    # Chromium refuses its sandbox to root; what it shows is this very appliance's page.
    for switch in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "mute-audio"):
        options.add_argument(f"--{switch}")
    for switch in (f"user-data-dir={profile}", "no-first-run", "disable-extensions"):
        options.add_argument(f"--{switch}")
    options.add_experimental_option("excludeSwitches", ["enable-logging"])
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    config = ClientConfig(remote_server_addr=_URL, timeout=_ANSWER_SECONDS)
    executor = ChromeRemoteConnection(remote_server_addr=_URL, ignore_proxy=True, client_config=config)
    return webdriver.Remote(command_executor=executor, options=options)
