"""HTTP by httpx: over a Unix socket, and to an address inside a namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from netns import in_namespace

_SECONDS = 5.0


def over_unix(socket: Path) -> httpx.Client:
    """A client of the server at a Unix socket."""
    transport = httpx.HTTPTransport(uds=str(socket))
    return httpx.Client(transport=transport, base_url="http://localhost", timeout=_SECONDS)


def inside(namespace: str, url: str, *, method: str = "GET", **options: Any) -> httpx.Response:
    """The answer to one request that is made inside a namespace; options are those of `httpx.request`."""
    return in_namespace(namespace, lambda: httpx.request(method, url, **{"timeout": _SECONDS, **options}))
