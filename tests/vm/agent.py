"""Runs inside the guest: does what comes over a virtual serial port, a JSON object a line both ways.

{"id", "shell", "seconds"} runs a command and is answered with {"id", "code", "out", "err"};
{"id", "url"} fetches a page: {"id", "code": its status, "out": its body}. No request waits for another.
When it starts it says {"id": 0, "out": what numbers this boot}.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PORT = Path("/dev/virtio-ports/pascaline.agent")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TIMED_OUT = 124
_PAGE_SECONDS = 10


def main() -> None:
    while not _PORT.exists():
        time.sleep(0.2)
    port = os.open(_PORT, os.O_RDWR)
    lock = threading.Lock()

    def answer(said: dict[str, Any]) -> None:
        line = (json.dumps(said) + "\n").encode()
        with lock:
            while line:
                line = line[os.write(port, line) :]

    answer({"id": 0, "out": _BOOT.read_text().strip()})
    rest = b""
    while True:
        some = os.read(port, 65536)
        if not some:
            # Nothing is at the other end.
            time.sleep(0.2)
        *lines, rest = (rest + some).split(b"\n")
        for line in lines:
            threading.Thread(target=_serve, args=(json.loads(line), answer), daemon=True).start()


def _serve(asked: dict[str, Any], answer: Callable[[dict[str, Any]], None]) -> None:
    done = _fetch(asked["url"]) if "url" in asked else _run(asked["shell"], asked["seconds"])
    answer({"id": asked["id"], **done})


def _run(command: str, seconds: float) -> dict[str, Any]:
    words, devnull, pipe = ["bash", "-c", command], subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(
        words, stdin=devnull, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as child:
        try:
            out, err = child.communicate(timeout=seconds)
            return {"code": child.returncode, "out": out, "err": err}
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            return {"code": _TIMED_OUT, "out": out, "err": f"{err}\nnot done after {seconds} s"}


def _fetch(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=_PAGE_SECONDS) as page:
            return {"code": page.status, "out": page.read().decode()}
    except urllib.error.HTTPError as error:
        return {"code": error.code, "out": error.read().decode()}
    except OSError as error:
        return {"code": 0, "out": "", "err": str(error)}


if __name__ == "__main__":
    main()
