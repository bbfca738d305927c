"""A backend of torch.distributed: sums in the network, and everything else over Gloo in the same group.

    import pascaline.torch
    import torch.distributed as dist

    dist.init_process_group("pascaline")

The environment says where the appliance is: PASCALINE_URL=pascaline://10.77.0.254:16420?job=1.
docs/training.md has all of it. `hooks` has communication hooks for DistributedDataParallel.
"""

from . import hooks
from ._group import Group, group_of
from ._settings import Settings, configure

__all__ = ["Group", "Settings", "configure", "group_of", "hooks"]
