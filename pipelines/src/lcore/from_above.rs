//! Packets of the appliance above: results of the whole job, and reminders.

use pascaline_aggregator::{Request, Verb};
use pascaline_buffer::PacketBuf as _;
use pascaline_telemetry::{Counter, DropReason, JobEvent};
use pascaline_wire::header::{Flags, Header, Kind, Own};
use pascaline_wire::{Datagram, round};

use super::Lcore;
use crate::classify::Classifier;
use crate::io::Io;
use crate::jobs::{ABOVE, Job, Mode};

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// A packet of a job's parent. It counts whatever it says only if it is about this generation, and about
    /// the parent's job as this appliance knows it.
    pub(super) fn take_from_above(&mut self, by: &Classifier<'_>, datagram: &Datagram, mut packet: I::Buf) {
        let &Datagram { header, payload, .. } = datagram;
        let Some((job, above)) = by.table.get(header.job).and_then(|job| Some((job, job.parent.as_ref()?)))
        else {
            return self.emitter.discard(packet, DropReason::UnknownJob);
        };
        let whole = header.count == above.ranks && payload.total == payload.len;
        let objection = if job.mode == Mode::Olaf {
            // All that a parent says of updates is in Acks.
            Some(DropReason::UnhandledKind)
        } else if header.epoch != job.epoch {
            Some(DropReason::WrongEpoch)
        } else if header.fan_in != above.ranks {
            Some(DropReason::FanInMismatch)
        } else if payload.len > job.payload {
            Some(DropReason::PayloadLength)
        } else if !job.window.has(header.psn) {
            Some(DropReason::OutsideWindow)
        } else {
            match header.kind {
                _ if header.flags.has(Flags::BYPASS) => Some(DropReason::UnhandledKind),
                Kind::Result if !whole => Some(DropReason::BadCount),
                Kind::Result | Kind::Reminder => None,
                _ => Some(DropReason::UnhandledKind),
            }
        };
        if let Some(reason) = objection {
            job.cells.dropped(self.number, reason);
            return self.emitter.discard(packet, reason);
        }
        if header.kind == Kind::Result {
            job.window.note_room_above(header.own.wnd_cap());
        }
        self.emitter.tally.add(Counter::FromAbove, 1);
        job.cells.count(self.number, JobEvent::FromAbove, 1);
        packet.truncate(payload.end());
        let request = match header.kind {
            // As though one of the ranks here had kept it.
            Kind::Result => {
                let fan_in = job.fan_in;
                let own = Own::vote(round::TAKEN, header.own.wnd_cap());
                let header = Header { rank: 0, fan_in, count: fan_in, own, ..header };
                let request = by.to_pool(Verb::Install, job, &Datagram { header, ..*datagram });
                Request { again: true, rules: request.rules.superseding(), ..request }
            }
            _ => {
                let header = Header { rank: ABOVE, own: Own::FREE, ..header };
                by.to_pool(Verb::Remind, job, &Datagram { header, ..*datagram })
            }
        };
        self.offer(by.table, &request, packet);
    }
}

/// What a member asks of the pool, where the job has a parent: a result that it has kept is that of the whole
/// job, and news to the parent.
pub(super) fn below(job: &Job, request: Request) -> Request {
    if job.parent.is_none() || request.verb != Verb::Install {
        return request;
    }
    Request { again: false, priority: round::TAKEN, rules: request.rules.superseding(), ..request }
}
