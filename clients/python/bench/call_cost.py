"""The cost of a call from Python above one of libpascaline's: call_cost.py LIBRARY ADDRESS:PORT JOB.

Two jobs of one rank, JOB and the next, at an appliance that admits them. They sum in turns, so that a
disturbance affects both: 4 KiB, and 16 MiB. The library is called by ctypes, whose microsecond or two
count for it. Prints medians as a JSON object.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import time
from typing import Any

import numpy as np

import pascaline

# Elements, and how many turns count.
_SIZES = {"4kib": (1 << 10, 3000), "16mib": (4 << 20, 60)}
_F32, _SUM, _OK = 1, 0, 0


def main(library: str, appliance: str, job: int) -> None:
    """Measures and prints."""
    native = ctypes.CDLL(library)
    native.pascaline_init.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
    native.pascaline_allreduce.argtypes = [
        *[ctypes.c_void_p] * 3,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
    ]
    native.pascaline_finalize.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
    handle = ctypes.c_void_p()
    url = f"pascaline://{appliance}?job={job}&rank=0&ranks=1".encode()
    if native.pascaline_init(url, ctypes.byref(handle)) != _OK:
        sys.exit(f"job {job} cannot be joined")
    found = {}
    with pascaline.Worker(appliance, job + 1, 0, 1) as worker:
        for name, (elements, turns) in _SIZES.items():
            array = np.ones(elements, np.float32)
            at = array.ctypes.data

            def by_library(at: int = at, elements: int = elements) -> None:
                if native.pascaline_allreduce(handle, at, at, elements, _F32, _SUM) != _OK:
                    sys.exit("an allreduce of the library failed")

            def by_package(array: np.ndarray = array) -> None:
                worker.allreduce(array)

            took: dict[Any, list[float]] = {by_library: [], by_package: []}
            for turn in range(-turns // 10, turns):
                # The second one may find warm caches: the order alternates.
                for call in list(took)[:: 1 if turn % 2 else -1]:
                    start = time.perf_counter()
                    call()
                    if turn >= 0:
                        took[call].append(time.perf_counter() - start)
            library_took, python = (1e6 * statistics.median(times) for times in took.values())
            found |= {f"python_{name}_us": round(python, 2), f"c_{name}_us": round(library_took, 2)}
    native.pascaline_finalize(ctypes.byref(handle))
    found["python_call_us"] = round(found["python_4kib_us"] - found["c_4kib_us"], 2)
    found["python_16mib_pct"] = round(100 * (found["python_16mib_us"] / found["c_16mib_us"] - 1), 3)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
