"""Pascaline for Python: sums of tensors over all ranks of a job, made in the network.

    import pascaline

    with pascaline.Worker("10.77.0.254", job=1, rank=0, ranks=4) as worker:
        worker.allreduce(gradient)  # NumPy or PyTorch, in place

`pascaline.Streams` runs several operations at once, of which an urgent one overtakes,
`pascaline.AsyncWorker` trains without waiting for other ranks, `pascaline.rl` trains a policy that way,
`pascaline.Appliance` starts an appliance on this machine, `pascaline.explain` asks one why a job is summed in
the network or not, `pascaline.torch` is a backend of torch.distributed, and `pascaline.errors` has what can
go wrong. docs/training.md is the user's page.
"""

from importlib.metadata import version

from . import errors
from ._admin import Explanation, explain
from ._appliance import Appliance
from ._asynchronous import AsyncWorker
from ._core import Feedback, Report
from ._streams import Streams
from ._worker import Handle, Worker
from .errors import PascalineError

__all__ = [
    "Appliance",
    "AsyncWorker",
    "Explanation",
    "Feedback",
    "Handle",
    "PascalineError",
    "Report",
    "Streams",
    "Worker",
    "errors",
    "explain",
]
__version__ = version("pascaline")
