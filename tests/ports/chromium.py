"""A headless Chromium in a network namespace, driven by Selenium."""

import base64
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By

from netns import enter

# Now and then Chromium ends while it starts, for no reason that is known (SeleniumHQ/selenium#17265).
_STARTS = 3
_SWITCHES = (
    # Chromium refuses its sandbox to root; what it shows is this very appliance's page.
    *("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "mute-audio"),
    *("no-first-run", "disable-extensions"),
)
_T = TypeVar("_T")


class Browser:
    """One window. Its driver and connections belong to the namespace of the thread that makes them."""

    def __init__(self, files: Path, namespace: str) -> None:
        """Opens it; profile and log are among the files."""
        self._inside = ThreadPoolExecutor(1, initializer=enter, initargs=(namespace,))
        for start in range(1, _STARTS + 1):
            try:
                self._window = self._do(partial(_start, files / f"profile-{start}"))
                return
            except WebDriverException as error:
                print(f"start {start} of {_STARTS} of Chromium: {error}", file=sys.stderr)
                if start == _STARTS:
                    self._inside.shutdown()
                    raise

    def _do(self, action: Callable[[], _T]) -> _T:
        return self._inside.submit(action).result()

    def stop(self) -> None:
        self._do(self._window.quit)
        self._inside.shutdown()

    def go(self, url: str) -> None:
        self._do(lambda: self._window.get(url))

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function with this body returns."""
        return self._do(lambda: self._window.execute_script(script, *arguments))

    def press(self, key: str) -> None:
        """One key, by its WebDriver code or as a character."""
        self._do(lambda: webdriver.ActionChains(self._window).send_keys(key).perform())

    def label(self, selector: str) -> list[str]:
        """The names by which a screen reader calls the elements of a selector."""
        found = self._do(lambda: self._window.find_elements(By.CSS_SELECTOR, selector))
        return self._do(lambda: [element.accessible_name for element in found])

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
        entries: Any = self._do(lambda: self._window.execute("getLog", {"type": "browser"})["value"])
        bad = ("SEVERE", "WARNING")
        return [f"{entry['level']}: {entry['message']}" for entry in entries if entry["level"] in bad]

    def _chrome(self, command: str, **parameters: Any) -> Any:
        return self._do(lambda: self._window.execute_cdp_cmd(command, parameters))


def _start(profile: Path) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for switch in (*_SWITCHES, f"user-data-dir={profile}"):
        options.add_argument(f"--{switch}")
    options.add_experimental_option("excludeSwitches", ["enable-logging"])
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # The browser keeps its caches in the run's own directory; it has no other home.
    environment = {**os.environ, "HOME": str(profile.parent)}
    log = str(profile.with_suffix(".log"))
    # Debian's driver: Selenium would look for another one.
    service = webdriver.ChromeService("/usr/bin/chromedriver", log_output=log, env=environment)
    return webdriver.Chrome(options, service)
