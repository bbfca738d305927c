"""What both demos of asynchronous updates have: workers, a server that is asked, frames of one length."""

from __future__ import annotations

import http.client
from pathlib import Path

from appliance import UDP_PORT, fetch
from metrics import Metrics
from netns import APPLIANCE_ADDRESS
from options import OUTSTANDING, Options
from process import Child

FLOATS = 250
# Ethernet with preamble, checksum and gap, IPv4, UDP, Pascaline's header, floats, trailer.
FRAME_BITS = (14 + 24 + 20 + 8 + 22 + 4 * FLOATS + 16) * 8
SERVER_TELEMETRY = ("127.0.0.1", 9465)
JOIN_SECONDS = 30.0
EXIT_SECONDS = 6.0
DISCIPLINES = ("fifo", "olaf")
# What Olaf's mean age must be of the FIFO's, at the highest load, if the FIFO loses so much: where little
# waits, the disciplines are alike.
AGE_SHARE = 0.6
CONGESTED_PCT = 30.0
# From this load on, in multiples of the line's rate, the FIFO has to lose something: this part at least of
# what does not fit on the line. Else the load has not come about, and nothing was compared.
OVERLOAD = 1.5
LOST_PART = 0.5


def compare(
    load: float, fifo: tuple[float, float], olaf: tuple[float, float], part: tuple[float, str]
) -> list[str]:
    """What is wrong with Olaf's queue beside the FIFO; each is its loss in percent and its age in ms.

    `load` is what was offered, in multiples of the line's rate, and `part` what Olaf may lose of what the
    FIFO loses. Where little is offered, and that loses nothing, there is nothing to show.
    """
    share, name = part
    found = []
    if load >= OVERLOAD and fifo[0] < (least := 100 * LOST_PART * (1 - 1 / load)):
        found.append(
            f"FIFO lost {fifo[0]:.1f} % at {load:g} x, less than {least:.1f} %: nothing was congested"
        )
    if fifo[0] > 0 and olaf[0] >= fifo[0] * share:
        found.append(f"Olaf lost {olaf[0]:.1f} %, more than {name} of FIFO's {fifo[0]:.1f} %")
    if fifo[0] >= CONGESTED_PCT and olaf[1] >= fifo[1] * AGE_SHARE:
        found.append(f"Olaf's models are {olaf[1]:.0f} ms old, FIFO's {fifo[1]:.0f} ms")
    return found


def worker(
    binary: Path, options: Options, place: tuple[str, Path, str], rank: tuple[int, int, int], interval: float
) -> Child:
    """One that sends until it is ended, every `interval` seconds in the mean.

    `place` is its name, its files and its namespace; `rank` its cluster, its rank there, and how many are
    there.
    """
    name, files, namespace = place
    cluster, own, ranks = rank
    words: dict[str, object] = {
        "--appliance": f"{APPLIANCE_ADDRESS}:{UDP_PORT}",
        "--job": 1 + cluster,
        "--rank": own,
        "--ranks": ranks,
        "--floats": FLOATS,
        "--interval": f"{1000 * interval:.3f}ms",
        "--updates": int((options.seconds + JOIN_SECONDS) / interval) + 1,
        "--outstanding": OUTSTANDING,
        "--seed": options.seed,
    }
    command = [str(binary), "worker", "olaf", "--poisson", "--json"]
    command += [word for option, value in words.items() for word in (option, str(value))]
    return Child(name, command, files, namespace)


def scrape_server(namespace: str) -> Metrics:
    """What the parameter server tells."""
    return Metrics(fetch(namespace, SERVER_TELEMETRY, "/metrics")[1])


def clusters_heard(namespace: str) -> int:
    """Of how many clusters the server knows an age; none before it answers."""
    try:
        return len(scrape_server(namespace).values("pascaline_aom_seconds"))
    except (OSError, http.client.HTTPException):
        return 0
