"""A headless Chromium, driven over the WebDriver protocol (W3C) and Chrome's own commands, with the standard library."""

from __future__ import annotations

import base64
import http.client
import json
import re
import sys
from pathlib import Path
from typing import Any

from netns import in_namespace
from process import LOG_TAIL_LINES, Child, Failure, Stop

_ADDRESS = ("127.0.0.1", 9515)
_READY_SECONDS = 20.0
_ANSWER_SECONDS = 30.0
_EXIT_SECONDS = 5.0
# Now and then Chromium ends while it starts, for no reason that is known (SeleniumHQ/selenium#17265).
_STARTS = 3
_PAUSE_SECONDS = 1.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One ChromeDriver with one window, in a network namespace."""

    def __init__(self, files: Path, namespace: str) -> None:
        self._files = files
        self._namespace = namespace
        # The browser keeps its profile and caches in the run's own directory; it has no other home.
        home = files / "home"
        home.mkdir()
        # Unless it is verbose, ChromeDriver drops what Chromium writes, and with it why Chromium would not start.
        command = ["env", f"HOME={home}", "chromedriver", f"--port={_ADDRESS[1]}", "--verbose"]
        self._child = Child("chromedriver", command, files, namespace)
        self._session = ""

    def open(self, stop: Stop) -> None:
        """Returns once there is a window."""
        if not stop.wait_for(self._ready, _READY_SECONDS):
            raise Failure(f"ChromeDriver is not ready after {_READY_SECONDS:.0f} s", self._child.tail())
        for start in range(1, _STARTS + 1):
            try:
                self._session = self._start(self._files / f"profile-{start}")
                return
            except (Failure, OSError, http.client.HTTPException) as failure:
                if start == _STARTS:
                    raise Failure(f"Chromium does not start: {failure}", self._said()) from failure
                print(f"start {start} of {_STARTS} of Chromium: {failure}\n{self._said()}", file=sys.stderr)
            stop.sleep(_PAUSE_SECONDS)

    def _start(self, profile: Path) -> str:
        """Starts Chromium; the name of the session."""
        # Chromium refuses its sandbox to root; what it shows is this very appliance's page.
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--mute-audio",
        ]
        arguments += [f"--user-data-dir={profile}", "--no-first-run", "--disable-extensions"]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "excludeSwitches": ["enable-logging"]},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer: dict[str, str] = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        return answer["sessionId"]

    def _said(self) -> str:
        """What Chromium wrote when it was last started: the lines that do not begin with a time, as ChromeDriver's do."""
        log = self._child.err.read_text(errors="replace").rpartition("Launching chrome:")[2]
        lines = [line for line in log.splitlines()[1:] if not re.match(r"\[\d+\.\d+\]\[", line)]
        return "\n".join(lines[:LOG_TAIL_LINES]) or "it wrote nothing"

    def stop(self) -> None:
        """Ends browser and driver."""
        if self._session and self._child.exit_code() is None:
            try:
                self._call("DELETE", f"/session/{self._session}")
            except (Failure, OSError, http.client.HTTPException):
                pass  # It is ended below in any case.
        self._child.stop(_EXIT_SECONDS)

    def go(self, url: str) -> None:
        """Opens a page."""
        self._post("/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function with this body returns."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, key: str) -> None:
        """One key, by its WebDriver code or as a character."""
        strokes = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def label(self, selector: str) -> list[str]:
        """The names by which a screen reader calls the elements of a selector."""
        found = self._post("/elements", {"using": "css selector", "value": selector})
        path = f"/session/{self._session}/element"
        return [self._call("GET", f"{path}/{element[_ELEMENT]}/computedlabel") for element in found]

    def look(self, width: int, height: int, scheme: str) -> None:
        """A window of this width, for a person who prefers light or dark."""
        self._chrome(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 700,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._chrome("Emulation.setEmulatedMedia", media="screen", features=features)

    def screenshot(self, file: Path) -> None:
        """The whole page, as far as it can be scrolled."""
        shot = self._chrome("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def console(self) -> list[str]:
        """Warnings and errors since the last call."""
        entries = self._post("/se/log", {"type": "browser"})
        return [
            f"{entry['level']}: {entry['message']}"
            for entry in entries
            if entry["level"] in ("SEVERE", "WARNING")
        ]

    def _chrome(self, command: str, **parameters: Any) -> Any:
        return self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._call("POST", f"/session/{self._session}{path}", body)

    def _ready(self) -> bool:
        if self._child.exit_code() is not None:
            raise Failure("ChromeDriver ended by itself", self._child.tail())
        try:
            return bool(self._call("GET", "/status")["ready"])
        except OSError:
            return False

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        def request() -> bytes:
            connection = http.client.HTTPConnection(*_ADDRESS, timeout=_ANSWER_SECONDS)
            try:
                text = None if body is None else json.dumps(body)
                connection.request(method, path, text, {"Content-Type": "application/json"})
                return connection.getresponse().read()
            finally:
                connection.close()

        value = json.loads(in_namespace(self._namespace, request))["value"]
        if isinstance(value, dict) and "error" in value:
            raise Failure(f"the browser: {value['error']}: {value['message'].splitlines()[0]}")
        return value
