"""How scripts/test counts and judges: what is skipped or fails must show, whatever comes after it."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

_SCRIPTS = Path(__file__).resolve().parents[1]


def _bash(text: str) -> subprocess.CompletedProcess[str]:
    command = ("bash", "-c", text)
    return subprocess.run(command, cwd=_SCRIPTS.parent, capture_output=True, text=True, check=False)


def _function(file: str, name: str) -> str:
    """A line that defines the function of a script, which is not run."""
    return f'eval "$(sed -n "/^{name}() {{/,/^}}/p" scripts/{file})"'


class Counts(unittest.TestCase):
    """Cases by functions of the scripts themselves."""

    def test_what_root_has_run_again_is_not_skipped(self) -> None:
        """A line without a reason only takes off what was counted twice."""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("dpdk|a_port|\ndpdk|a_socket|no AF_XDP\n")
            file.flush()
            counts = f"good=5 left=0 skipped=(); subtract_skipped {file.name}"
            shown = 'echo "$good $left ${skipped[*]}"'
            said = _bash(f"{_function('test', 'subtract_skipped')}; {counts}; {shown}").stdout
        assert said == "3 1 dpdk a_socket: no AF_XDP\n", said

    def test_what_the_sanitizer_skips_is_named(self) -> None:
        """`step` collects lines of this form."""
        said = _bash(f"skipped=0; {_function('asan', 'skip')}; skip 'no Miri'; echo $skipped").stdout
        assert said == "- skipped: no Miri\n1\n", said

    def test_each_run_of_a_step_counts(self) -> None:
        """A step ends with the first of its runs that fails; `step` runs it without `set -e`."""
        source = "root=. target=. logs=. quick=false; source scripts/lib/steps.sh"
        for name in ("demo_neighbour", "demo_from_outside", "demo_collectives", "demo_two_level"):
            runs = "runs=0; demo() { runs=$((runs + 1)); ((runs != 1)); }"
            done = _bash(f"{source}; {runs}; {name} && echo good; echo $runs")
            assert done.stdout == "1\n", (name, done)


if __name__ == "__main__":
    unittest.main()
