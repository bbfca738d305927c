//! One incomplete PSN (DSA, section III.B: `JobID_PSN: ⟨tensor_value, bitmap, time⟩`).

use core::time::Duration;

use pascaline_wire::{Element, Flags, Header, Kind, round};

use crate::check;
use crate::combine::Combiner;
use crate::config::{JobParams, Order};
use crate::outcome::Rejection;
use pascaline_wire::RankSet;

/// Header fields that a result inherits from the packets in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    /// Flags that any of them had: congestion (PANAMA, section 4.2), saturation, the end of the job.
    pub(crate) flags: Flags,
    /// The least free memory that any of them saw (PANAMA, section 4.2).
    pub(crate) wnd_cap: u16,
}

impl Marks {
    /// The marks of one packet.
    pub(crate) fn of(header: &Header) -> Self {
        const CARRIED: Flags = Flags::ECN_ECHO.with(Flags::OVERFLOW).with(Flags::FIN);
        let flags = Flags::from_bits(header.flags.bits() & CARRIED.bits()).unwrap_or_default();
        Self { flags, wnd_cap: header.own.wnd_cap() }
    }

    fn merge(&mut self, other: &Self) {
        self.flags = self.flags.with(other.flags);
        self.wnd_cap = self.wnd_cap.min(other.wnd_cap);
    }
}

/// The values collected so far.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) element: Element,
    pub(crate) ranks: RankSet,
    pub(crate) marks: Marks,
    /// A part of it was sent for the first time, before any result: so there is no other sum.
    pub(crate) fresh: bool,
    /// Bytes of one contribution.
    pub(crate) len: usize,
    /// Order of arrival: the accumulator. Order of ranks: the fan-in's places, each as long as a
    /// contribution.
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    /// The first contribution or partial of a PSN.
    pub(crate) fn new(
        params: &JobParams,
        header: &Header,
        ranks: RankSet,
        payload: &[u8],
        known: bool,
    ) -> Self {
        let (element, len) = (header.element, payload.len());
        match params.order_of(element) {
            Order::Arrival => Self::whole(header, ranks, payload, known),
            Order::Rank => {
                let bytes = vec![0; params.entry_bytes(element, len)];
                let mut content = Self { bytes, ..Self::whole(header, ranks, &[], known) };
                content.len = len;
                content.put(header.rank, payload);
                content
            }
        }
    }

    /// A sum as it arrived; `known` is true if its PSN has had no result so far.
    pub(crate) fn whole(header: &Header, ranks: RankSet, payload: &[u8], known: bool) -> Self {
        Self {
            element: header.element,
            ranks,
            marks: Marks::of(header),
            fresh: known && is_fresh(header),
            len: payload.len(),
            bytes: payload.to_vec(),
        }
    }

    /// Whether a packet can be combined with the values collected.
    pub(crate) fn check(&self, header: &Header, payload: &[u8]) -> Result<(), Rejection> {
        check::same_element(self.element, header.element)?;
        check::same_len(self.len, payload.len())?;
        check::same_end(self.marks.flags, header.flags, payload.len())
    }

    /// Takes a contribution or partial without a rank that is already inside.
    pub(crate) fn add(
        &mut self,
        order: Order,
        header: &Header,
        ranks: &RankSet,
        payload: &[u8],
        combiner: &Combiner,
        known: bool,
    ) {
        match order {
            Order::Arrival => {
                let saturated = combiner.add(&mut self.bytes, payload);
                self.saturated(saturated);
            }
            Order::Rank => self.put(header.rank, payload),
        }
        self.ranks = self.ranks | *ranks;
        self.marks.merge(&Marks::of(header));
        self.fresh |= known && is_fresh(header);
    }

    fn saturated(&mut self, saturated: bool) {
        if saturated {
            self.marks.flags = self.marks.flags.with(Flags::OVERFLOW);
        }
    }

    fn put(&mut self, rank: u16, payload: &[u8]) {
        let place = self.bytes.chunks_exact_mut(payload.len().max(1)).nth(usize::from(rank));
        if let Some(place) = place {
            place.copy_from_slice(payload);
        }
    }

    /// Leaves only the sum in `bytes`, in the form of a payload. In the order of ranks, the additions happen
    /// now, one rank after the other.
    pub(crate) fn seal(&mut self, order: Order, combiner: &Combiner) {
        match order {
            Order::Arrival => {}
            Order::Rank => {
                let saturated = combiner.in_order(&mut self.bytes, self.len, self.ranks.iter());
                self.saturated(saturated);
            }
        }
    }
}

/// True if some of the packet may have been sent for the first time. A result that comes from a slot is a sum
/// of such contributions, unless it was agreed upon.
fn is_fresh(header: &Header) -> bool {
    match header.kind {
        Kind::Result => header.own.round() == round::NONE,
        _ => !header.flags.has(Flags::RETRANSMISSION),
    }
}

/// Whether all ranks will take this server's sum, and no other.
#[derive(Debug)]
pub(crate) struct Vote {
    /// The number under which they are asked.
    pub(crate) round: u16,
    /// Ranks that have promised to take only a result of this round. A rank that has one answers with it
    /// instead, which ends the vote.
    pub(crate) promised: RankSet,
}

/// A round of asking in progress: first the appliance, then one missing rank after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The entry's place in the job's queue.
    pub(crate) ticket: u64,
    /// No request of it has been sent yet.
    pub(crate) new: bool,
    /// Whether the fetch is still to be sent.
    pub(crate) fetch: bool,
    /// Ranks below have been asked.
    pub(crate) next_rank: u16,
}

/// An incomplete PSN.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `None` while only a reminder has come.
    pub(crate) content: Option<Content>,
    pub(crate) opened: Duration,
    /// When the next timer fires.
    pub(crate) wake: Duration,
    /// When the last round of asking began, and the number of rounds.
    pub(crate) asked: Option<Duration>,
    pub(crate) tries: u32,
    pub(crate) ask: Option<Ask>,
    /// If there may be another sum, unknown to this server.
    pub(crate) vote: Option<Box<Vote>>,
    /// A packet came on request, so the time to completion is no sample.
    pub(crate) helped: bool,
}

impl Entry {
    /// The ranks inside.
    pub(crate) fn ranks(&self) -> RankSet {
        self.content.as_ref().map_or(RankSet::EMPTY, |content| content.ranks)
    }

    /// The next rank that has to be asked.
    pub(crate) fn next_to_ask(&self, from: u16, ranks: u16) -> Option<u16> {
        let fresh = self.content.as_ref().is_some_and(|content| content.fresh);
        let answered = match &self.vote {
            // A fresh contribution makes the vote unnecessary.
            Some(vote) if !fresh => vote.promised,
            _ => self.ranks(),
        };
        answered.missing(ranks).iter().find(|&rank| rank >= from)
    }
}
