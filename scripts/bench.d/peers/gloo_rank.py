"""One rank of Gloo, through torch.distributed: sums tensors of several sizes and prints the times.

Runs in the environment that scripts/bench installs PyTorch into, not in that of scripts/bench.

    gloo_rank.py RANK RANKS ADDRESS:PORT INTERFACE BYTES:ITERATIONS...
"""

import json
import os
import sys
import time

rank, ranks, meeting, interface = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
os.environ["GLOO_SOCKET_IFNAME"] = interface

import torch  # noqa: E402  after the environment that it reads
import torch.distributed as dist  # noqa: E402

WARM_UP = 2

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://{meeting}", rank=rank, world_size=ranks)
for item in sys.argv[5:]:
    size, iterations = (int(word) for word in item.split(":"))
    tensor = torch.empty(size // 4, dtype=torch.float32)
    seconds = []
    right = True
    for _ in range(WARM_UP + iterations):
        tensor.fill_(rank + 1)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        seconds.append(time.perf_counter() - start)
        # The checks of ranks that have finished must not take the processor from the others.
        dist.barrier()
        expected = ranks * (ranks + 1) // 2
        right = right and bool((tensor == expected).all())
    print(json.dumps({"rank": rank, "bytes": size, "right": right, "seconds": seconds[WARM_UP:]}), flush=True)
dist.barrier()
dist.destroy_process_group()
