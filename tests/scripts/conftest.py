"""Lets the tests of scripts find their modules: no namespace is made here."""

import sys
from pathlib import Path

_SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
for folder in ("lib", "bench.d"):
    if str(_SCRIPTS / folder) not in sys.path:
        sys.path.append(str(_SCRIPTS / folder))
