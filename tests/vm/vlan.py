"""An interface in a VLAN, by two taps and a thread between: not every kernel has 802.1Q."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import threading

from ..bed.network import Host

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x2, 0x1000
_ETHERTYPE = b"\x81\x00"
# Both addresses.
_BEFORE_TAG, _TAG = 12, 4
_LONGEST = 16_384
_WAIT_SECONDS = 0.2


class Tagged:
    """`name` in `host` is in the VLAN; `far` in `switch` has the tagged frames. `close` removes both."""

    def __init__(self, host: Host, name: str, switch: Host, far: str, number: int) -> None:
        self._tag = _ETHERTYPE + number.to_bytes(2)
        self._plain, self._tagged = _tap(host, name), _tap(switch, far)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        os.close(self._plain)
        os.close(self._tagged)

    def _relay(self) -> None:
        while not self._over.is_set():
            ready, _, _ = select.select((self._plain, self._tagged), (), (), _WAIT_SECONDS)
            for source in ready:
                frame = os.read(source, _LONGEST)
                head, rest = frame[:_BEFORE_TAG], frame[_BEFORE_TAG:]
                if source == self._plain:
                    os.write(self._tagged, head + self._tag + rest)
                elif rest.startswith(self._tag):
                    os.write(self._plain, head + rest[_TAG:])


def _tap(host: Host, name: str) -> int:
    """Makes a tap of this name, up; it goes when its descriptor is closed."""

    def make() -> int:
        descriptor = os.open("/dev/net/tun", os.O_RDWR)
        wanted = struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI)
        fcntl.ioctl(descriptor, _TUNSETIFF, wanted)
        return descriptor

    descriptor = host.inside(make)
    host.up(name)
    return descriptor
