//! Deliberate defects. A harness that finds nothing proves nothing until it has been seen to find something: each of
//! these breaks one promise, and a run with it must be reported.

use pascaline_wire::header;

use crate::random::Random;
use crate::worker::Worker;

/// A defect to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sabotage {
    /// None: what the protocol says it stands.
    #[default]
    None,
    /// The network changes a bit of a gradient's payload, unseen by any checksum.
    AlterPayload,
    /// The network moves a gradient to the next PSN.
    MovePsn,
    /// The network passes a copy of a rank's gradient off as the next rank's.
    StealRank,
    /// The network replays gradients of a rank's earlier life, with epoch and source port of the present one.
    ReplayStaleEpoch,
    /// The network delivers a copy of each result to a worker of another job, rewritten to be one of that job's.
    CrossJobs,
    /// The network replaces results by bytes that the receiver has contributed.
    EchoAsResult,
    /// The appliance's port layer keeps spent packets.
    LeakPacket,
    /// The appliance's port counts a packet that it does not hand on.
    SwallowPacket,
    /// The appliance receives a packet more than it accounts for.
    Miscount,
    /// Workers are not woken when they want to be.
    LoseTimers,
    /// A link is cut for good, and nothing excuses it.
    CutLink,
    /// Something panics.
    Panic,
}

impl Sabotage {
    /// All defects.
    pub const ALL: &[Self] = &[
        Self::AlterPayload,
        Self::MovePsn,
        Self::StealRank,
        Self::ReplayStaleEpoch,
        Self::CrossJobs,
        Self::EchoAsResult,
        Self::LeakPacket,
        Self::SwallowPacket,
        Self::Miscount,
        Self::LoseTimers,
        Self::CutLink,
        Self::Panic,
    ];
}

const KIND: usize = 1;
const JOB: core::ops::Range<usize> = 4..6;
const RANK: core::ops::Range<usize> = 6..8;
const LOW_PSN: usize = 11;
const FAN_IN: core::ops::Range<usize> = 12..14;
const COUNT: core::ops::Range<usize> = 14..16;
const EPOCH: usize = 21;
const GRADIENT: u8 = 1;
const RESULT: u8 = 2;

/// How often the network misbehaves, in millionths.
const OFTEN: u32 = 100_000;

/// A saboteur's memory.
#[derive(Debug, Default)]
pub(crate) struct Saboteur {
    pub(crate) what: Sabotage,
    /// Gradients of the first life of each worker.
    old: Vec<(usize, Vec<u8>)>,
}

/// The aggregation header and what follows it, in a frame.
fn split(frame: &mut [u8]) -> Option<(&mut [u8; header::LEN], &mut [u8])> {
    let at = if frame.get(12..14) == Some(&[0x86, 0xdd]) { 62 } else { 42 };
    frame.get_mut(at..)?.split_first_chunk_mut()
}

impl Saboteur {
    pub(crate) fn new(what: Sabotage) -> Self {
        Self { what, old: Vec::new() }
    }

    /// Tampers with a frame that a worker sends. What it adds is sent as if by the worker with the number.
    pub(crate) fn tamper_up(
        &mut self,
        from: usize,
        frame: &mut [u8],
        workers: &[Worker],
        random: &mut Random,
    ) -> Option<(usize, Vec<u8>)> {
        if self.what == Sabotage::None {
            return None;
        }
        let (head, body) = split(frame)?;
        if head[KIND] != GRADIENT {
            return None;
        }
        let sender = workers.get(from)?;
        match self.what {
            Sabotage::AlterPayload if random.chance(OFTEN) => body[0] ^= 0x40,
            Sabotage::MovePsn if random.chance(OFTEN) => head[LOW_PSN] ^= 1,
            Sabotage::StealRank => {
                let other = workers.get(from + 1).filter(|other| other.job == sender.job)?;
                let mut stolen = *head;
                stolen[RANK].copy_from_slice(&other.rank.to_be_bytes());
                return Some((from + 1, other.host.send(&stolen, body)));
            }
            Sabotage::ReplayStaleEpoch if sender.life == 1 => self.old.push((from, [head, &*body].concat())),
            Sabotage::ReplayStaleEpoch => {
                let same = |(worker, old): &&(usize, Vec<u8>)| {
                    *worker == from && old.get(8..12) == Some(&head[8..12])
                };
                let (_, old) = self.old.iter().find(same)?;
                let (mut stale, payload) =
                    old.split_first_chunk::<{ header::LEN }>().map(|(h, p)| (*h, p))?;
                stale[EPOCH] = head[EPOCH];
                return Some((from, sender.host.send(&stale, payload)));
            }
            _ => {}
        }
        None
    }

    /// A forged copy of a frame on its way to a worker, and the worker that it is for.
    pub(crate) fn tamper_down(
        &self,
        to: usize,
        frame: &mut [u8],
        workers: &[Worker],
    ) -> Option<(usize, Vec<u8>)> {
        let receiver = workers.get(to)?;
        let (head, body) = match self.what {
            Sabotage::CrossJobs | Sabotage::EchoAsResult => split(frame)?,
            _ => return None,
        };
        if head[KIND] != RESULT {
            return None;
        }
        if self.what == Sabotage::EchoAsResult {
            // As if nobody else had contributed.
            let own = receiver.tensor.get(..body.len())?;
            body.copy_from_slice(own);
            return None;
        }
        let (at, other) = workers.iter().enumerate().find(|(_, one)| one.job != receiver.job)?;
        let membership = other.session.as_ref()?.membership();
        let (identity, mut forged) = (membership.identity, *head);
        forged[JOB].copy_from_slice(&identity.job.to_be_bytes());
        forged[FAN_IN].copy_from_slice(&identity.ranks.to_be_bytes());
        forged[COUNT].copy_from_slice(&identity.ranks.to_be_bytes());
        forged[EPOCH] = membership.epoch;
        Some((at, [&forged[..], body].concat()))
    }
}
