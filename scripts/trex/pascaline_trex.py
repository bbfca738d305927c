"""From a stream of ours to one of TRex's.

TRex is not needed to import this: only what makes TRex streams asks for its Python API.
"""

from __future__ import annotations

import argparse
import importlib
from types import ModuleType
from typing import Any

import pascaline_tunables as tunables
from pascaline_streams import Stream

# As TRex v3 calls it, and as releases before v2.60 and its shims do.
_APIS = ("trex.stl.api", "trex_stl_lib.api")
# STLStreamDstMAC_PKT, which not every release exports.
_MAC_FROM_PACKET = 1


class TRexMissing(ImportError):
    """TRex's Python API cannot be imported; the message says what to do."""


def api() -> ModuleType:
    for name in _APIS:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            # Its own imports failing is another matter, which must not be hidden.
            if error.name is None or not name.startswith(error.name):
                raise
    raise TRexMissing(
        "TRex's Python API is not here. On a TRex machine put it into the path: PYTHONPATH=TREX/automation/"
        "trex_control_plane/interactive with TREX the directory of the release (Python 3.10 to 3.12). "
        "To try the streams without TRex: scripts/trex/run --interface"
    )


def to_trex(streams: list[Stream]) -> list[object]:
    """The same as TRex streams, each for one core so that PSNs follow each other (the runner's core mask)."""
    stl = api()
    return [_stream(stl, stream) for stream in streams]


def _stream(stl: ModuleType, stream: Stream) -> object:
    if stream.count is None:
        mode = stl.STLTXCont(pps=stream.pps)
    else:
        mode = stl.STLTXSingleBurst(pps=stream.pps, total_pkts=stream.count)
    packet = stl.STLPktBuilder(pkt_buffer=stream.template, vm=_engine(stl, stream))
    return stl.STLStream(
        name=stream.name,
        packet=packet,
        mode=mode,
        isg=stream.delay_us,
        # By default, TRex replaces both MACs of a packet given as bytes.
        mac_src_override_by_pkt=stream.own_source_mac,
        mac_dst_override_mode=_MAC_FROM_PACKET if stream.own_destination_mac else None,
    )


def _engine(stl: ModuleType, stream: Stream) -> object:
    vm = stl.STLVM()
    sizes = {}
    for variable in stream.variables:
        vm.var(
            name=variable.name,
            min_value=variable.low,
            max_value=variable.high,
            size=variable.size,
            step=variable.step,
            op="inc",
        )
        sizes[variable.name] = variable.size
    for write in stream.writes:
        if write.plain and sizes[write.variable] == write.size:
            vm.write(fv_name=write.variable, pkt_offset=write.offset)
        else:
            # Not `vm.write_mask`: old releases have the instruction and not the method.
            mask = (1 << 8 * write.size) - 1 if write.mask is None else write.mask
            vm.add_cmd(
                stl.STLVmWrMaskFlowVar(
                    fv_name=write.variable,
                    pkt_offset=write.offset,
                    pkt_cast_size=write.size,
                    mask=mask,
                    shift=-write.shift,
                )
            )
    if stream.fix_ip:
        vm.fix_chksum(offset=14)
    return vm


class Profile:
    """A profile as TRex loads it: its options are TRex's tunables (`-t --ranks 8 --jobs 1-4`)."""

    def __init__(self, name: str, kind: tunables.Kind, about: str | None) -> None:
        self._name, self._kind, self._about = name, kind, about

    def options(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=f"{self._name}.py", description=self._about)
        sending = [] if self._kind is tunables.CONTROL else [tunables.add_sending]
        self._kind.add(parser, *sending, tunables.add_epochs)
        return parser

    def streams(self, options: argparse.Namespace) -> list[Stream]:
        return self._kind.streams(options, tunables.load(options))

    def get_streams(self, direction: int, tunables: list[str], **_: object) -> list[Any]:
        """TRex's entry point. Only even ports send: the appliance answers to where packets came from."""
        options = self.options().parse_args(tunables)
        return [] if direction else to_trex(self.streams(options))
