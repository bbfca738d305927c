//! One incomplete PSN (DSA, section III.B: `JobID_PSN: ⟨tensor_value, bitmap, time⟩`).

use core::time::Duration;

use pascaline_wire::{Element, Flags, Header};

use crate::check;
use crate::combine::Combiner;
use crate::config::{JobParams, Order};
use crate::outcome::Refusal;
use crate::ranks::RankSet;

/// What header fields a result inherits from the packets in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    /// Flags that any of them had: congestion (PANAMA, section 4.2), saturation, the end of the job.
    pub(crate) flags: Flags,
    /// The least free memory that any of them saw (PANAMA, section 4.2).
    pub(crate) wnd_cap: u16,
    /// The tree of the first.
    pub(crate) tree: u8,
}

impl Marks {
    /// The marks of one packet.
    pub(crate) fn of(header: &Header) -> Self {
        const CARRIED: Flags = Flags::ECN_ECHO.with(Flags::OVERFLOW).with(Flags::FIN);
        let flags = Flags::from_bits(header.flags.bits() & CARRIED.bits()).unwrap_or_default();
        Self { flags, wnd_cap: header.wnd_cap, tree: header.tree }
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
    /// Bytes of one contribution.
    pub(crate) len: usize,
    /// Order of arrival: the accumulator. Order of ranks: the fan-in's places, each as long as a contribution.
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    /// The first contribution or partial of a PSN.
    pub(crate) fn new(
        params: &JobParams,
        header: &Header,
        ranks: RankSet,
        payload: &[u8],
        combiner: &Combiner,
    ) -> Self {
        let (element, marks, len) = (header.element, Marks::of(header), payload.len());
        match params.order {
            Order::Arrival => Self { element, ranks, marks, len, bytes: combiner.begin(payload) },
            Order::Rank => {
                let bytes = vec![0; params.entry_bytes(element, len)];
                let mut content = Self { element, ranks, marks, len, bytes };
                content.put(header.rank, payload);
                content
            }
        }
    }

    /// Whether a packet can be combined with what is there.
    pub(crate) fn check(&self, header: &Header, payload: &[u8]) -> Result<(), Refusal> {
        check::same_element(self.element, header.element)?;
        check::same_len(self.len, payload.len())
    }

    /// Takes a contribution or partial of which no rank is there yet.
    pub(crate) fn add(
        &mut self,
        order: Order,
        header: &Header,
        ranks: &RankSet,
        payload: &[u8],
        combiner: &Combiner,
    ) {
        match order {
            Order::Arrival => {
                let saturated = combiner.add(&mut self.bytes, payload);
                self.saturated(saturated);
            }
            Order::Rank => self.put(header.rank, payload),
        }
        self.ranks.merge(ranks);
        self.marks.merge(&Marks::of(header));
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

    /// Leaves nothing in `bytes` but the sum, in the form of a payload. In the order of ranks, the additions happen now,
    /// one rank after the other.
    pub(crate) fn seal(&mut self, order: Order, combiner: &Combiner) {
        match order {
            Order::Arrival => combiner.end(&mut self.bytes, self.len),
            Order::Rank => {
                let saturated = combiner.in_order(&mut self.bytes, self.len, self.ranks.iter());
                self.saturated(saturated);
            }
        }
    }
}

/// A round of asking that is under way: first the appliance, then one missing rank after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The entry's place in the job's queue.
    pub(crate) ticket: u64,
    /// Whether the fetch is still to be sent.
    pub(crate) fetch: bool,
    /// Ranks below have been asked.
    pub(crate) next_rank: u16,
}

/// An incomplete PSN.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `None` while nothing but a reminder has come.
    pub(crate) content: Option<Content>,
    pub(crate) tree: u8,
    pub(crate) opened: Duration,
    /// When the next timer fires.
    pub(crate) wake: Duration,
    /// When the last round of asking began, and how many there were.
    pub(crate) asked: Option<Duration>,
    pub(crate) tries: u32,
    pub(crate) ask: Option<Ask>,
    /// Something came because it was asked for, so the time to completion says nothing.
    pub(crate) helped: bool,
}

impl Entry {
    /// The ranks inside.
    pub(crate) fn ranks(&self) -> RankSet {
        self.content.as_ref().map_or(RankSet::EMPTY, |content| content.ranks)
    }
}
