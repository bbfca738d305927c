//! Results as SwitchML's clients expect them.

use pascaline_aggregator::Aggregate;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_telemetry::Counter;
use pascaline_wire::switchml::{HEADERS, Route, headers};

use super::Emitter;
use crate::io::Io;
use crate::jobs::Job;
use crate::switchml::SwitchMl;

impl<I: Io> Emitter<I> {
    /// Sends a result to some ranks of a job of SwitchML's clients.
    pub(super) fn send_foreign(
        &mut self,
        job: &Job,
        switchml: &SwitchMl,
        ranks: &[u16],
        result: &Aggregate<'_, <I::Buf as PacketBuf>::Shared>,
    ) {
        let terms = switchml.terms();
        let (body, udp_port) = switchml.result(result.key.psn());
        let from = (terms.mac, terms.address, terms.udp_port);
        for &rank in ranks {
            let Some((member, port)) = job.member(rank).zip(switchml.port(rank)) else { continue };
            let Some(address) = member.endpoint.address.as_v4() else { continue };
            let route = Route { to: (member.endpoint.mac, address, udp_port), from };
            let frame = self.foreign_frame(port, &headers(&route, body), result.payload);
            if let Some(frame) = frame {
                self.stage(port, frame);
                self.tally.add(Counter::ResultsSent, 1);
            }
        }
    }

    /// Headers, and behind them the payload: shared where the port can send several segments.
    fn foreign_frame(
        &mut self,
        port: usize,
        headers: &[u8; HEADERS],
        payload: &<I::Buf as PacketBuf>::Shared,
    ) -> Option<I::Buf> {
        let shared = self.io.multi_segment(port);
        let mut frame = if shared { self.header_buffer()? } else { self.frame_buffer()? };
        let copied = if shared { &[][..] } else { payload.bytes() };
        let room = frame.set_len(HEADERS + copied.len());
        let Some((head, rest)) = frame.bytes_mut().split_first_chunk_mut::<HEADERS>().filter(|_| room) else {
            self.recycle(frame);
            return None;
        };
        *head = *headers;
        rest.copy_from_slice(copied);
        if shared {
            frame.append_shared(payload.clone());
        } else {
            self.tally.add(Counter::PayloadCopies, 1);
        }
        Some(frame)
    }
}
