//! Defects of the network that no protocol can, or should, guard against.

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Flags, Header, header};

use super::Sabotage;
use crate::random::Random;
use crate::worker::Worker;

const KIND: usize = 1;
const JOB: core::ops::Range<usize> = 4..6;
const RANK: core::ops::Range<usize> = 6..8;
const LOW_PSN: usize = 11;
const FAN_IN: core::ops::Range<usize> = 12..14;
const COUNT: core::ops::Range<usize> = 14..16;
const EPOCH: core::ops::Range<usize> = 20..22;
const GRADIENT: u8 = 1;
const RESULT: u8 = 2;
const UPDATE: u8 = 4;
const CONTROL: u8 = 8;
/// In a control body.
const PAYLOAD: core::ops::Range<usize> = 24..26;
const EXPECTED: core::ops::Range<usize> = 32..36;
const LOW_GOT: usize = 39;

/// In a frame of SwitchML's: the slot with its set, and the first integer.
const PLACE: usize = 48;
const INTEGERS: usize = 52;

/// How often the network misbehaves, in millionths.
const OFTEN: u32 = 100_000;

/// A saboteur's memory.
#[derive(Debug, Default)]
pub(crate) struct Saboteur {
    pub(crate) what: Sabotage,
    /// Gradients of the first take of each worker.
    old: Vec<(usize, Vec<u8>)>,
}

/// The aggregation header and its body, in a frame.
fn split(frame: &mut [u8]) -> Option<(&mut [u8; header::LEN], &mut [u8])> {
    let at = if frame.get(12..14) == Some(&[0x86, 0xdd]) { 62 } else { 42 };
    frame.get_mut(at..)?.split_first_chunk_mut()
}

/// The lowest byte of the bitmap behind a payload, before the trailer's length.
fn bitmap(body: &mut [u8]) -> Option<&mut u8> {
    body.len().checked_sub(3).and_then(|at| body.get_mut(at))
}

/// A copy of an update, under the next number.
fn renumbered(frame: &[u8]) -> Option<Vec<u8>> {
    let mut copy = frame.to_vec();
    let (head, _) = split(&mut copy)?;
    head[LOW_PSN] = head[LOW_PSN].wrapping_add(1);
    (head[KIND] == UPDATE).then_some(copy)
}

impl Saboteur {
    pub(crate) fn new(what: Sabotage) -> Self {
        Self { what, old: Vec::new() }
    }

    /// Tampers with a frame that a worker sends. Returns a frame to be sent in addition, as if by the worker
    /// with that number.
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
        if self.what == Sabotage::RenumberUpdates {
            return Some((from, renumbered(frame)?));
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
            Sabotage::RenumberResumed if sender.rank == 0 && sender.resumed > 0 => head[LOW_PSN] ^= 1,
            Sabotage::ReplayStaleEpoch if sender.take == 1 => self.old.push((from, [head, &*body].concat())),
            Sabotage::ReplayStaleEpoch => {
                let same = |(worker, old): &&(usize, Vec<u8>)| {
                    *worker == from && old.get(8..12) == Some(&head[8..12])
                };
                let (_, old) = self.old.iter().find(same)?;
                let (mut stale, payload) =
                    old.split_first_chunk::<{ header::LEN }>().map(|(h, p)| (*h, p))?;
                stale[EPOCH].copy_from_slice(&head[EPOCH]);
                return Some((from, sender.host.send(&stale, payload)));
            }
            _ => {}
        }
        None
    }

    /// Tampers with a frame between two appliances.
    pub(crate) fn tamper_across(&self, frame: &mut [u8], random: &mut Random) {
        let Some((head, body)) = split(frame).filter(|_| self.what != Sabotage::None) else { return };
        match (self.what, head[KIND]) {
            (Sabotage::AlterPayload, GRADIENT) if random.chance(OFTEN) => body[0] ^= 0x40,
            (Sabotage::MovePsn, GRADIENT) if random.chance(OFTEN) => head[LOW_PSN] ^= 1,
            _ => {}
        }
    }

    /// Tampers with a frame on its way to a worker. Returns a forged copy, if any, and the worker that it is
    /// for.
    pub(crate) fn tamper_down(
        &self,
        to: usize,
        frame: &mut [u8],
        workers: &[Worker],
    ) -> Option<(usize, Vec<u8>)> {
        if self.what == Sabotage::None {
            return None;
        }
        let receiver = workers.get(to)?;
        let (head, body) = split(frame)?;
        match head[KIND] {
            RESULT => self.tamper_with_result(receiver, head, body, workers),
            CONTROL => {
                self.tamper_with_ack(receiver, head, body);
                None
            }
            _ => None,
        }
    }

    /// Tampers with a frame of one of `SwitchML`'s clients.
    pub(crate) fn tamper_with_client(&self, frame: &mut [u8], random: &mut Random) {
        let place = frame.get_mut(PLACE).filter(|_| self.what == Sabotage::SwapSets && random.chance(OFTEN));
        place.into_iter().for_each(|place| *place ^= 0x80);
    }

    /// Tampers with a sum for one of them.
    pub(crate) fn tamper_with_sum(&self, frame: &mut [u8], random: &mut Random) {
        let alters = self.what == Sabotage::AlterClientSum && random.chance(OFTEN);
        frame.get_mut(INTEGERS).filter(|_| alters).into_iter().for_each(|byte| *byte ^= 1);
    }

    /// Tampers with a frame on its way to a member of a group.
    pub(crate) fn tamper_with_group(&self, frame: &mut [u8]) {
        let head = split(frame).map(|(head, _)| head).filter(|head| head[KIND] == RESULT);
        if let (Sabotage::MoveGroupPsn, Some(head)) = (self.what, head) {
            head[LOW_PSN] ^= 1;
        }
    }

    fn tamper_with_result(
        &self,
        receiver: &Worker,
        head: &mut [u8; header::LEN],
        body: &mut [u8],
        workers: &[Worker],
    ) -> Option<(usize, Vec<u8>)> {
        let (header, _) = Header::parse(head).ok()?;
        let partial = header.flags.has(Flags::TRAILER);
        match self.what {
            // As if no other rank had contributed.
            Sabotage::EchoAsResult => body.copy_from_slice(receiver.tensor.get(..body.len())?),
            // As if all were inside. No job here has more than eight ranks.
            Sabotage::HidePartial if partial => {
                head[COUNT].copy_from_slice(&header.fan_in.to_be_bytes());
                *bitmap(body)? = u8::MAX >> (8 - header.fan_in.min(8));
            }
            Sabotage::MisreportPartial if partial => {
                let ranks = bitmap(body)?;
                let (inside, outside) = (*ranks & ranks.wrapping_neg(), !*ranks & ranks.wrapping_add(1));
                *ranks ^= inside | outside;
            }
            Sabotage::CrossJobs => {
                let foreign = |(_, one): &(usize, &Worker)| one.job != receiver.job;
                let (at, other) = workers.iter().enumerate().find(foreign)?;
                let membership = other.session.as_ref()?.membership();
                let (identity, mut forged) = (membership.identity, *head);
                forged[JOB].copy_from_slice(&identity.job.to_be_bytes());
                forged[FAN_IN].copy_from_slice(&identity.ranks.to_be_bytes());
                forged[COUNT].copy_from_slice(&identity.ranks.to_be_bytes());
                forged[EPOCH].copy_from_slice(&membership.epoch.to_be_bytes());
                return Some((at, [&forged[..], body].concat()));
            }
            _ => {}
        }
        None
    }

    fn tamper_with_ack(&self, receiver: &Worker, head: &mut [u8; header::LEN], body: &mut [u8]) {
        let Some(Ok(control)) = body.get(..control::LEN).map(Control::parse) else { return };
        let epoch = receiver.session.as_ref().map(|session| session.membership().epoch);
        match (self.what, control.status, epoch) {
            (Sabotage::ClaimForever, Status::Ok, Some(epoch)) if control.expected == 0 => {
                body[EXPECTED].copy_from_slice(&control::generation(epoch).to_be_bytes());
                let payload =
                    receiver.session.as_ref().map_or(0, |session| session.membership().identity.payload);
                body[PAYLOAD].copy_from_slice(&payload.to_be_bytes());
            }
            (Sabotage::HideNeed, Status::Pending, _) if control.answers == Some(Action::Leave) => {
                body[EXPECTED].fill(0);
            }
            (Sabotage::MisnameLost, Status::RankLost, _) => body[LOW_GOT] ^= 1,
            (Sabotage::HideLower, _, Some(epoch))
                if Header::parse(head).is_ok_and(|(header, _)| header.epoch < epoch) =>
            {
                head[KIND] = 0;
            }
            // An undefined kind.
            (Sabotage::HideLoss, Status::RankLost, _) => head[KIND] = 0,
            _ => {}
        }
    }
}
