//! A packet's request to the pool.

mod gradient;
mod rules;

use crate::key::Key;

pub(crate) use gradient::Opening;
pub use gradient::{Gradient, Shape, Terms};
pub use rules::Rules;

/// The action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// Add the payload as the contribution of a rank.
    Add = 0,
    /// The rank waits for the result: return it if it is there, otherwise the missing ranks.
    Remind = 1,
    /// The payload is the completed result, cached by a rank that has received it, or made by the parameter
    /// server.
    Install = 2,
    /// The parameter server fetches the partial of a PSN, which leaves its slot.
    Fetch = 3,
    /// The partial of a PSN is sent out as its result (iSwitch, section 3.2: FBcast).
    Release = 4,
}

impl Verb {
    /// All of them, by their numbers.
    pub const ALL: [Self; 5] = [Self::Add, Self::Remind, Self::Install, Self::Fetch, Self::Release];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remind => "remind",
            Self::Install => "install",
            Self::Fetch => "fetch",
            Self::Release => "release",
        }
    }
}

/// A packet's request to the pool; the packet itself travels beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The action.
    pub verb: Verb,
    /// Which PSN.
    pub key: Key,
    /// The packet's rank.
    pub rank: u16,
    /// Ranks of the job, as the packet says.
    pub fan_in: u16,
    /// Ranks of the job, as the job says.
    pub job_fan_in: u16,
    /// Contributions that complete the PSN: `job_fan_in`, or fewer.
    pub needed: u16,
    /// Contributions inside: 1 from a worker; in an installed result, all.
    pub count: u16,
    /// The ranks inside, a bit for each, where contributions were combined before they were handed off;
    /// `rank` is one of them. 0 from a worker.
    pub inside: u64,
    /// Element type and operation, as the header's code; with
    /// [`Element::LAST`](pascaline_wire::Element::LAST) if the packet is the last one of its operation.
    pub element: u8,
    /// The packet carries the overflow flag.
    pub overflow: bool,
    /// Its sender has sent it before.
    pub again: bool,
    /// It has met congestion on its way, which marks its sum as well (PANAMA, section 4.2.2).
    pub marked: bool,
    /// A trailer behind the payload names the ranks inside: the result lacks some.
    pub partial: bool,
    /// The packet's priority; higher is more important.
    pub priority: u16,
    /// How the job uses the pool.
    pub rules: Rules,
    /// Where the payload begins in the packet.
    pub offset: u16,
    /// Length of the payload.
    pub len: u16,
    /// Time of arrival, in nanoseconds of the caller's clock.
    pub now: u64,
}

/// The name of a contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    /// Which PSN.
    pub key: Key,
    /// Its rank.
    pub rank: u16,
    /// Time of arrival, in nanoseconds of the caller's clock.
    pub now: u64,
}

impl Request {
    /// The contribution that it brings.
    #[inline(always)]
    pub(crate) const fn contribution(&self) -> Contribution {
        Contribution { key: self.key, rank: self.rank, now: self.now }
    }

    /// The contribution in the fast path's form, if it is ordinary.
    #[inline(always)]
    pub(crate) const fn gradient(&self) -> Option<Gradient> {
        let noted = self.overflow || self.again || self.marked;
        let special = noted || self.partial || self.count != 1 || self.inside != 0;
        if special || !matches!(self.verb, Verb::Add) || self.fan_in != self.job_fan_in {
            return None;
        }
        Some(Gradient::new(self.name(), self.shape(), self.rank, self.needed))
    }

    /// The same of any contribution: a slot expects it until all ranks are inside, and if it is not of one
    /// rank, never. How many are needed by now is for the pool to know.
    pub(crate) const fn single(&self) -> Gradient {
        let needed = if self.count == 1 { u16::MAX } else { 0 };
        Gradient::new(self.name(), self.shape(), self.rank, needed)
    }

    /// The key and the element in one word.
    #[inline(always)]
    pub(crate) const fn name(&self) -> u64 {
        self.key.to_bits() | (self.element as u64) << 56
    }

    /// Fan-in and length of the payload.
    #[inline(always)]
    pub(crate) const fn shape(&self) -> Shape {
        Shape::new(self.fan_in, self.len)
    }
}
