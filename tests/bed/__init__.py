"""A bed for tests over real ports: network, processes, appliance, workers and what they report.

What scripts/demo has too (the appliance's configuration, the workers' options, what stops a run) is imported
from scripts/lib, which keeps to the standard library; here it gets the libraries of `scripts/setup --tests`.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LIB = str(ROOT / "scripts/lib")
if _LIB not in sys.path:
    sys.path.append(_LIB)
