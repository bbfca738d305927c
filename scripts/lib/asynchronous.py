"""A job that sends updates beside the job of the demo: a parameter server, and two workers without end."""

from pathlib import Path

from appliance import UDP_PORT
from netns import APPLIANCE_ADDRESS, Network, worker_address
from process import Child, Failure

JOB = 60000
_RANKS = 2
# The namespace of the demo's last worker is the server's as well.
_SERVER = 3
_EXIT_SECONDS = 6.0

# Further tables of the appliance's configuration.
TABLES = f"""\
[[jobs]]
id = {JOB}
name = "asynchronous"
fan_in = {_RANKS}
mode = "olaf"

[ps]
mode = "external"
address = "{worker_address(_SERVER)}"
"""


class Updates:
    """The server and the workers."""

    def __init__(self, binary: Path, network: Network, files: Path) -> None:
        server = [str(binary), "ps", "-c", str(files / "appliance.toml")]
        self._children = [Child("ps", server, files, network.workers[_SERVER])]
        for rank in range(_RANKS):
            words = {
                "--appliance": f"{APPLIANCE_ADDRESS}:{UDP_PORT}",
                "--job": JOB,
                "--rank": rank,
                "--ranks": _RANKS,
                "--floats": 250,
                "--interval": "20ms",
                "--updates": 1_000_000,
            }
            command = [str(binary), "worker", "olaf", *(str(word) for pair in words.items() for word in pair)]
            self._children.append(Child(f"olaf{rank}", command, files, network.workers[rank]))

    def check_running(self) -> None:
        for child in self._children:
            if child.exit_code() is not None:
                raise Failure(f"{child.name} ended too early", child.tail())

    def stop(self) -> None:
        """Ends them, the workers first."""
        for child in reversed(self._children):
            child.stop(_EXIT_SECONDS)
