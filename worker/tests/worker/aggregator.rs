//! The simplest aggregator that keeps to the protocol. It may forget what it likes.

use std::collections::{BTreeMap, BTreeSet};

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Element, Flags, Header, Kind};

use crate::adversary::{Conditions, Random};

pub(crate) const EPOCH: u8 = 7;

enum Entry {
    Partial {
        ranks: BTreeSet<u16>,
        sum: Vec<u8>,
        flags: Flags,
    },
    /// The datagram.
    Done(Vec<u8>),
}

/// Adds two elements; the flag if that saturates.
fn add(element: Element, a: [u8; 4], b: [u8; 4]) -> ([u8; 4], Flags) {
    if element == Element::F32_SUM {
        return ((f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes(), Flags::NONE);
    }
    let (a, b) = (i32::from_le_bytes(a), i32::from_le_bytes(b));
    let flags = if a.checked_add(b).is_some() { Flags::NONE } else { Flags::OVERFLOW };
    (a.saturating_add(b).to_le_bytes(), flags)
}

pub(crate) struct Aggregator {
    pub(crate) job: u16,
    pub(crate) ranks: u16,
    pub(crate) spread: u16,
    entries: BTreeMap<u32, Entry>,
    joined: BTreeSet<u16>,
    left: BTreeSet<u16>,
}

/// A datagram for a rank.
pub(crate) type Out = (u16, Vec<u8>);

impl Aggregator {
    pub(crate) fn new(job: u16, ranks: u16, spread: u16) -> Self {
        Self { job, ranks, spread, entries: BTreeMap::new(), joined: BTreeSet::new(), left: BTreeSet::new() }
    }

    pub(crate) fn handle(
        &mut self,
        datagram: &[u8],
        conditions: &Conditions,
        random: &mut Random,
    ) -> Vec<Out> {
        let (header, body) = Header::parse(datagram).expect("workers send well-formed packets");
        assert_eq!(header.job, self.job);
        assert_eq!(header.fan_in, self.ranks);
        match header.kind {
            Kind::Control => return vec![self.control(&header, &Control::parse(body).expect("control"))],
            _ => assert_eq!(header.epoch, EPOCH),
        }
        match header.kind {
            Kind::Gradient => self.gradient(&header, body, conditions, random),
            Kind::Result => {
                assert_eq!(header.count, self.ranks);
                self.publish(&header, body, conditions, random)
            }
            Kind::Reminder => self.reminder(&header),
            kind => panic!("a worker sent {kind:?}"),
        }
    }

    fn gradient(
        &mut self,
        h: &Header,
        body: &[u8],
        conditions: &Conditions,
        random: &mut Random,
    ) -> Vec<Out> {
        assert_eq!(h.count, 1);
        let entry = self.entries.entry(h.psn).or_insert_with(|| Entry::Partial {
            ranks: BTreeSet::new(),
            sum: vec![0; body.len()],
            flags: Flags::NONE,
        });
        match entry {
            Entry::Done(result) => vec![(h.rank, result.clone())],
            Entry::Partial { ranks, sum, flags } => {
                if ranks.insert(h.rank) {
                    assert_eq!(sum.len(), body.len());
                    for (sum, value) in sum.chunks_exact_mut(4).zip(body.chunks_exact(4)) {
                        let (total, flag) =
                            add(h.element, (&*sum).try_into().unwrap(), value.try_into().unwrap());
                        sum.copy_from_slice(&total);
                        *flags = flags.with(flag);
                    }
                }
                if ranks.len() == usize::from(self.ranks) {
                    let head = Header { flags: *flags, count: self.ranks, ..*h };
                    let result = std::mem::take(sum);
                    return self.publish(&head, &result, conditions, random);
                }
                if random.chance(conditions.forget_partial) {
                    self.entries.remove(&h.psn);
                }
                Vec::new()
            }
        }
    }

    fn publish(
        &mut self,
        header: &Header,
        result: &[u8],
        conditions: &Conditions,
        random: &mut Random,
    ) -> Vec<Out> {
        let flags = header.flags.without(Flags::RETRANSMISSION);
        let bytes = packet(&Header { kind: Kind::Result, rank: u16::MAX, flags, ..*header }, result);
        if random.chance(conditions.forget_result) {
            self.entries.remove(&header.psn);
        } else {
            self.entries.insert(header.psn, Entry::Done(bytes.clone()));
        }
        (0..self.ranks).map(|rank| (rank, bytes.clone())).collect()
    }

    fn reminder(&self, header: &Header) -> Vec<Out> {
        let psn = header.psn;
        let reminder = packet(header, &[]);
        let everyone = 0..self.ranks;
        match self.entries.get(&psn) {
            Some(Entry::Done(result)) => vec![(header.rank, result.clone())],
            Some(Entry::Partial { ranks, .. }) => {
                everyone.filter(|rank| !ranks.contains(rank)).map(|rank| (rank, reminder.clone())).collect()
            }
            None => {
                everyone.filter(|&rank| rank != header.rank).map(|rank| (rank, reminder.clone())).collect()
            }
        }
    }

    fn control(&mut self, header: &Header, control: &Control) -> Out {
        let (members, sought) = match control.action {
            Action::Join => (&mut self.joined, usize::from(self.ranks)),
            Action::Leave => (&mut self.left, usize::from(self.ranks)),
            action => panic!("a worker sent {action:?}"),
        };
        members.insert(header.rank);
        let status = if members.len() == sought { Status::Ok } else { Status::Pending };
        let answer = Control {
            action: Action::Ack,
            status,
            answers: Some(control.action),
            session: control.session,
            payload: control.payload,
            window: self.spread,
            expected: 0,
            got: 0,
        };
        let joined = u16::try_from(self.joined.len()).unwrap();
        let head = Header { count: joined, fan_in: self.ranks, epoch: EPOCH, ..*header };
        (header.rank, packet(&head, &answer.to_bytes()))
    }
}

pub(crate) fn packet(header: &Header, body: &[u8]) -> Vec<u8> {
    [&header.to_bytes()[..], body].concat()
}
