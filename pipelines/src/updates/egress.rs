//! A port's queue, and how fast it is drained.

use core::time::Duration;

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_queue::{
    ConfigError, Departure, EnqueueOutcome, Enqueued, Shaper, Update, UpdateQueue, UpdateRejection,
};
use pascaline_seal::LONGER;
use pascaline_telemetry::{Counter, DropReason, JobEvent};
use pascaline_wire::control::Status;
use pascaline_wire::header::{Header, Kind, Own};
use pascaline_wire::trailer::{self, QueueState, Trailer};

use super::counts::{Fate, FateCounts, QueueCounts};
use super::{PortQueue, Refused, is_present};
use crate::classify::Objection;
use crate::emit::{Emitter, flags};
use crate::io::{BURST, Io};
use crate::jobs::{Job, JobTable, Onward, origin};

/// What a shaper saves up at most: longer than any lcore naps, so that naps do not slow it down.
const SAVED: Duration = Duration::from_millis(1);

/// What Ethernet adds to a frame on the wire, in bytes: preamble, check sequence, gap.
const WIRE: usize = 8 + 4 + 12;

/// A queue and what drains it: the shaper, if there is one, and the port.
pub(super) struct Egress<B> {
    queue: UpdateQueue<B>,
    shaper: Option<Shaper>,
    /// Updates that may leave in one turn: few after the port has refused some, so that they wait here, where
    /// they can be combined, and not in its stage.
    batch: usize,
    tally: FateCounts,
    /// The lcore that drains it.
    owner: usize,
}

impl<B> Egress<B> {
    pub(super) fn new(port: &PortQueue, kernels: &Kernels, owner: usize) -> Result<Self, ConfigError> {
        Ok(Self {
            owner,
            queue: UpdateQueue::new(&port.queue, kernels)?,
            shaper: port.rate.map(|rate| Shaper::new(rate, SAVED)),
            batch: 1,
            tally: FateCounts::default(),
        })
    }

    pub(super) const fn queue(&self) -> &UpdateQueue<B> {
        &self.queue
    }

    pub(super) fn state(&mut self, unix_ns: u64) -> QueueState {
        self.queue.state(unix_ns)
    }

    /// Makes known what has been counted.
    pub(super) fn publish(&mut self, counts: &QueueCounts, state: QueueState) {
        counts.publish(&mut self.tally, self.queue.counters(), state);
    }
}

impl<B: PacketBuf> Egress<B> {
    /// Offers an update to the queue, and accounts for its packet. Says what its worker should know.
    #[inline]
    pub(super) fn enqueue<I: Io<Buf = B>>(
        &mut self,
        emitter: &mut Emitter<I>,
        unix_ns: u64,
        update: Update,
        packet: B,
    ) -> Option<Refused> {
        let Enqueued { outcome, recycled } = self.queue.enqueue(unix_ns, update, packet);
        self.tally.add(Fate::of(outcome));
        match dropped(outcome) {
            None => emitter.tally.add(Counter::Absorbed, 1),
            Some(reason) => emitter.tally.drop_one(reason),
        }
        if let Some(recycled) = recycled {
            emitter.recycle(recycled);
        }
        objection(outcome, &update).map(|why| Refused { update, why })
    }

    /// Sends off what the shaper and the port let go. True if anything left.
    pub(super) fn depart<I: Io<Buf = B>>(
        &mut self,
        emitter: &mut Emitter<I>,
        port: usize,
        table: &JobTable,
        now: u64,
    ) -> bool {
        if emitter.backlog(port) > 0 {
            self.batch = 1;
            return false;
        }
        for sent in 0..self.batch {
            let Some(head) = self.queue.head() else { return sent > 0 };
            let to = u16::try_from(head.cluster).ok().and_then(|id| table.get(id));
            let to = to.filter(|_| is_present(table, &head));
            let Some((job, onward)) = to.and_then(|job| Some((job, job.onward()?))) else {
                // Its generation is over, or its server is gone.
                if let Some(packet) = self.queue.discard() {
                    emitter.recycle(packet);
                }
                self.tally.add(Fate::Stale);
                continue;
            };
            let debt = self.shaper.as_mut().map(|shaper| shaper.take(now, bits(job, &onward, &head)));
            if let Some(Err(_)) = debt {
                return sent > 0;
            }
            let Some(departure) = self.queue.dequeue() else { return sent > 0 };
            let aggregations = departure.aggregations;
            if send(emitter, job, &onward, departure) {
                self.tally.depart(aggregations);
                if onward.above.is_some() {
                    emitter.tally.add(Counter::SentUp, 1);
                    job.cells.count(self.owner, JobEvent::SentUp, 1);
                } else {
                    emitter.tally.add(Counter::ServerSent, 1);
                }
            } else {
                self.tally.add(Fate::Unsent);
            }
        }
        self.batch = (2 * self.batch).min(BURST);
        true
    }
}

/// What an update's trailer says.
fn about(update: &Update) -> Trailer {
    let about = trailer::Update { reward: update.reward, generated_ns: update.generated_ns };
    Trailer { update: Some(about), ..Trailer::default() }
}

/// Bits that an update takes on the wire. With its trailer it is longer than the shortest frame.
fn bits(job: &Job, onward: &Onward<'_>, update: &Update) -> u32 {
    let sealed = onward.above.map_or(job.seals.is_some(), |above| above.seals.is_some());
    // In the trailer that it has anyway.
    let seal = if sealed { LONGER - 2 } else { 0 };
    let frame = onward.template.len() + usize::from(update.len) + about(update).emitted_len() + seal;
    u32::try_from((frame + WIRE) * 8).unwrap_or(u32::MAX)
}

/// Sends an update to its job's server or parent, in the packet that it is in. False, and the packet is given
/// back, if it has no room.
fn send<I: Io>(
    emitter: &mut Emitter<I>,
    job: &Job,
    onward: &Onward<'_>,
    departure: Departure<I::Buf>,
) -> bool {
    let Departure { update, mut packet, .. } = departure;
    let (len, trailer) = (usize::from(update.len), about(&update));
    let written = packet.advance(usize::from(update.offset))
        && packet.set_len(len + trailer.emitted_len())
        && packet.bytes_mut().get_mut(len..).is_some_and(|behind| trailer.emit(behind).is_ok());
    if !written {
        emitter.tally.add(Counter::NoBuffer, 1);
        emitter.recycle(packet);
        return false;
    }
    let header = Header {
        flags: flags(0, update.overflow, true),
        rank: update.worker,
        psn: update.psn,
        fan_in: job.fan_in,
        count: update.count,
        ..Header::about(Kind::Update, update.element, job.id, update.epoch)
    };
    let sealed = match onward.above {
        Some(above) => {
            let header = Header { own: Own::update(origin(&update, job.fan_in)), ..above.upward(header) };
            emitter.sealed_above(above, &header, packet)
        }
        None => emitter.sealed_in_place(job, &header, packet),
    };
    match sealed {
        Some((header, packet)) => emitter.send_in_place(onward.port, onward.template, &header, packet),
        None => {
            emitter.tally.add(Counter::NoBuffer, 1);
            false
        }
    }
}

/// What a worker should know of an update that was offered: mistakes, and a reward too low; not what is
/// ordinary in a queue that is full.
fn objection(outcome: EnqueueOutcome, update: &Update) -> Option<Objection> {
    let (status, got) = match outcome {
        EnqueueOutcome::LowReward => (Status::LowReward, 0),
        EnqueueOutcome::Rejected(rejection) => match rejection {
            UpdateRejection::RewardNotFinite => (Status::NotFinite, 0),
            UpdateRejection::FromTheFuture => (Status::FromTheFuture, 0),
            UpdateRejection::TooLong | UpdateRejection::BadLength | UpdateRejection::LengthChanged => {
                (Status::PayloadMismatch, u32::from(update.len))
            }
            UpdateRejection::ElementUnsupported | UpdateRejection::ElementChanged => {
                (Status::ElementMismatch, u32::from(update.element.code()))
            }
            UpdateRejection::ClusterOutOfRange
            | UpdateRejection::CountZero
            | UpdateRejection::CountOverflow
            | UpdateRejection::NoRoom => {
                return None;
            }
        },
        EnqueueOutcome::Appended
        | EnqueueOutcome::Aggregated
        | EnqueueOutcome::Replaced
        | EnqueueOutcome::Renewed
        | EnqueueOutcome::Preferred
        | EnqueueOutcome::Outdated
        | EnqueueOutcome::Full => return None,
    };
    Some(Objection { status, expected: 0, got })
}

/// Why an update that was offered is counted as dropped; none if it went into the queue.
fn dropped(outcome: EnqueueOutcome) -> Option<DropReason> {
    match outcome {
        EnqueueOutcome::Appended
        | EnqueueOutcome::Aggregated
        | EnqueueOutcome::Replaced
        | EnqueueOutcome::Renewed
        | EnqueueOutcome::Preferred => None,
        EnqueueOutcome::Outdated => Some(DropReason::Outdated),
        EnqueueOutcome::LowReward => Some(DropReason::LowReward),
        EnqueueOutcome::Full => Some(DropReason::UpdateQueueFull),
        EnqueueOutcome::Rejected(rejection) => Some(match rejection {
            UpdateRejection::ClusterOutOfRange => DropReason::UnknownJob,
            UpdateRejection::CountZero | UpdateRejection::CountOverflow => DropReason::BadCount,
            UpdateRejection::RewardNotFinite => DropReason::RewardNotFinite,
            UpdateRejection::FromTheFuture => DropReason::FromTheFuture,
            UpdateRejection::TooLong => DropReason::UpdateTooLong,
            UpdateRejection::BadLength => DropReason::PayloadLength,
            UpdateRejection::ElementUnsupported => DropReason::DType,
            UpdateRejection::LengthChanged => DropReason::LengthChanged,
            UpdateRejection::ElementChanged => DropReason::ElementChanged,
            UpdateRejection::NoRoom => DropReason::NoRoom,
        }),
    }
}
