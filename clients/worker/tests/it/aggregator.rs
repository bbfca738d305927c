//! The packet path of the tests' appliance: the simplest one that follows the protocol. It may forget.

use std::collections::BTreeMap;

use fastrand::Rng;
use pascaline_buffer::combine::Kernels;
use pascaline_wire::control::{self, Control};
use pascaline_wire::trailer::Bitmap;
use pascaline_wire::{Element, Flags, Header, Kind, Own, Trailer, header};

use crate::adversary::{Conditions, chance};
use crate::job::{Job, OnDeath};

pub(crate) const EPOCH: u16 = 7;

enum Entry {
    /// The contributions, by rank.
    Partial(BTreeMap<u16, Vec<u8>>),
    /// The datagram.
    Done(Vec<u8>),
}

pub(crate) struct Aggregator {
    pub(crate) job: Job,
    /// How many contributions complete a PSN, if not all that are present.
    pub(crate) threshold: Option<usize>,
    entries: BTreeMap<u32, Entry>,
    /// Originals that workers have sent on request.
    pub(crate) originals: u64,
}

/// A datagram for a rank.
pub(crate) type Out = (u16, Vec<u8>);

impl Aggregator {
    pub(crate) fn new(job: u16, ranks: u16, spread: u16) -> Self {
        Self {
            job: Job::new(job, ranks, spread, EPOCH),
            threshold: None,
            entries: BTreeMap::new(),
            originals: 0,
        }
    }

    /// A process that is started anew knows nothing.
    pub(crate) fn restart(&mut self, epoch: u16) {
        self.job = self.job.restarted(epoch);
        self.entries.clear();
    }

    /// A rank is found to be dead.
    pub(crate) fn lose(&mut self, rank: u16, on_death: OnDeath) {
        self.job.lose(rank, on_death);
        self.entries.clear();
    }

    pub(crate) fn handle(&mut self, datagram: &[u8], conditions: &Conditions, random: &mut Rng) -> Vec<Out> {
        let (header, body) = Header::parse(datagram).expect("workers send well-formed packets");
        assert_eq!(header.job, self.job.id);
        assert_eq!(header.fan_in, self.job.ranks);
        let epoch = self.job.epoch;
        if header.kind == Kind::Control {
            let (rank, mut answer) = self.job.control(&header, &Control::parse(body).expect("control"));
            // An answer without a trailer is as long as what was asked.
            if answer.len() == header::LEN + control::LEN {
                answer.resize(datagram.len(), 0);
            }
            if self.job.epoch != epoch {
                self.entries.clear();
            }
            return vec![(rank, answer)];
        }
        if let Some(refusal) = self.job.refusal(&header) {
            return vec![refusal];
        }
        let (payload, trailer) = header.payload(body).expect("a whole payload");
        match header.kind {
            Kind::Gradient => self.gradient(&header, payload, conditions, random),
            Kind::Result => {
                let inside = trailer.and_then(|trailer| trailer.bitmap).map(|bitmap| bitmap.count());
                assert_eq!(header.count, inside.unwrap_or(self.job.ranks));
                self.publish(&header, body, conditions, random)
            }
            Kind::Reminder => self.reminder(&header, conditions, random),
            kind => panic!("a worker sent {kind:?}"),
        }
    }

    fn gradient(
        &mut self,
        h: &Header,
        payload: &[u8],
        conditions: &Conditions,
        random: &mut Rng,
    ) -> Vec<Out> {
        assert_eq!(h.count, 1);
        let asked = h.flags.has(Flags::BYPASS);
        assert!(asked || h.own.priority() > 0, "0 means not used");
        self.originals += u64::from(h.flags.has(Flags::BYPASS));
        let needed = self.threshold.unwrap_or(self.job.present());
        let ranks = self.job.ranks;
        match self.entries.entry(h.psn).or_insert_with(|| Entry::Partial(BTreeMap::new())) {
            Entry::Done(result) => vec![(h.rank, result.clone())],
            Entry::Partial(there) => {
                let before = there.insert(h.rank, payload.to_vec());
                assert!(before.is_none_or(|before| before == payload), "a worker's contribution has changed");
                assert!(there.values().all(|other| other.len() == payload.len()));
                if self.job.is_complete() && there.len() >= needed {
                    let (flags, body) = combine(h.element, there, ranks);
                    let flags = if h.flags.has(Flags::FIN) { flags.with(Flags::FIN) } else { flags };
                    let head = Header { flags, count: u16::try_from(there.len()).unwrap(), ..*h };
                    return self.publish(&head, &body, conditions, random);
                }
                if chance(random, conditions.forget_partial) {
                    self.entries.remove(&h.psn);
                }
                Vec::new()
            }
        }
    }

    fn publish(
        &mut self,
        header: &Header,
        body: &[u8],
        conditions: &Conditions,
        random: &mut Rng,
    ) -> Vec<Out> {
        let flags = header.flags.without(Flags::RETRANSMISSION.with(Flags::BYPASS));
        let bytes =
            packet(&Header { kind: Kind::Result, rank: u16::MAX, flags, own: Own::NONE, ..*header }, body);
        if chance(random, conditions.forget_result) {
            self.entries.remove(&header.psn);
        } else {
            self.entries.insert(header.psn, Entry::Done(bytes.clone()));
        }
        self.job.members().map(|rank| (rank, bytes.clone())).collect()
    }

    /// Asks who can help, as an appliance does or as a parameter server does.
    fn reminder(&self, header: &Header, conditions: &Conditions, random: &mut Rng) -> Vec<Out> {
        let bypass = if chance(random, conditions.server) { Flags::BYPASS } else { Flags::NONE };
        let others = |skip: &dyn Fn(u16) -> bool| {
            let reminder = |rank| packet(&Header { flags: bypass, rank, ..*header }, &[]);
            self.job.members().filter(|&rank| !skip(rank)).map(|rank| (rank, reminder(rank))).collect()
        };
        match self.entries.get(&header.psn) {
            Some(Entry::Done(result)) => vec![(header.rank, result.clone())],
            Some(Entry::Partial(there)) => others(&|rank| there.contains_key(&rank)),
            None => others(&|rank| rank == header.rank && bypass == Flags::NONE),
        }
    }
}

/// The result of these contributions, in the order of ranks: flags and body.
fn combine(element: Element, there: &BTreeMap<u16, Vec<u8>>, ranks: u16) -> (Flags, Vec<u8>) {
    let Element { dtype, op } = element;
    let mut contributions = there.values().map(Vec::as_slice);
    let mut body = contributions.next().unwrap().to_vec();
    let saturated = Kernels::scalar().in_order(dtype, op)(&mut body, &contributions.collect::<Vec<_>>());
    let mut flags = if saturated { Flags::OVERFLOW } else { Flags::NONE };
    if there.len() < usize::from(ranks) {
        flags = flags.with(Flags::TRAILER);
        body.extend(bitmap_trailer(ranks, there.keys().copied()));
    }
    (flags, body)
}

pub(crate) fn bitmap_trailer(ranks: u16, inside: impl IntoIterator<Item = u16>) -> Vec<u8> {
    let mut bitmap = Bitmap::new(ranks).unwrap();
    assert!(inside.into_iter().all(|rank| bitmap.insert(rank)));
    let trailer = Trailer { bitmap: Some(bitmap), ..Trailer::default() };
    let mut bytes = vec![0; trailer.emitted_len()];
    trailer.emit(&mut bytes).unwrap();
    bytes
}

pub(crate) fn packet(header: &Header, body: &[u8]) -> Vec<u8> {
    [&header.to_bytes()[..], body].concat()
}
