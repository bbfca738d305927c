//! A contribution in the fast path's form: two words to compare with a slot, and its rank.

use crate::key::{Key, Tag};
use crate::policy::Region;
use crate::request::{Contribution, Request, Rules, Verb};

/// The common part of all contributions of one rank: computed once per member, so that a packet adds only its
/// PSN, element and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The key of PSN 0.
    name: u64,
    pub(crate) spread_job: u32,
    ranks: Ranks,
    fan_in: u16,
    pub(crate) region: Region,
}

impl Terms {
    /// The terms of `rank` in this generation of a job of `fan_in` ranks, where `needed` of them complete a
    /// PSN, in the job's own region of the pool if it has one.
    #[must_use]
    pub const fn new(
        job: u16,
        epoch: u16,
        rank: u16,
        fan_in: u16,
        needed: u16,
        region: Option<Region>,
    ) -> Self {
        let key = Key::new(job, epoch, 0);
        let region = match region {
            Some(region) => region,
            None => Region { first: 0, sets: 0 },
        };
        let (name, spread_job) = (key.to_bits(), key.spread_job());
        Self { name, spread_job, ranks: Ranks::new(rank, fan_in, needed), fan_in, region }
    }

    /// A contribution to this PSN, with this byte for its element and of `len` bytes.
    #[must_use]
    #[inline(always)]
    pub const fn gradient(&self, psn: u32, element: u8, len: u16) -> Gradient {
        self.gradient_of(psn, (element as u64) << 56, (len as u32) << 16, u32::MAX)
    }

    /// The same from prepared words: the element's byte in the highest one, the length in the upper half, and
    /// all ones unless the contribution is [noteworthy](Gradient::noteworthy), which leaves the lower half.
    #[must_use]
    #[inline(always)]
    pub const fn gradient_of(&self, psn: u32, element: u64, len: u32, ordinary: u32) -> Gradient {
        Gradient {
            name: self.name | psn as u64 | element,
            shape: Shape(self.fan_in as u32 | len),
            ranks: Ranks(self.ranks.0 & ordinary),
        }
    }

    /// The short form of the key of a PSN.
    #[inline(always)]
    pub(crate) const fn tag(&self, psn: u32) -> Tag {
        Tag::new(self.spread_job, psn)
    }
}

/// A contribution's rank, and the number that must be there; none if there can be no such rank, which the
/// pool says of the whole request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ranks(u32);

impl Ranks {
    const fn new(rank: u16, fan_in: u16, needed: u16) -> Self {
        let needed = if rank < fan_in { needed } else { 0 };
        Self(rank as u32 | (needed as u32) << 16)
    }
}

/// An ordinary contribution: all that is needed to add it to a slot that expects it.
///
/// Sixteen bytes, compared with a slot by two words. Nearly every packet is added with this alone; the others
/// need a whole [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gradient {
    pub(crate) name: u64,
    pub(crate) shape: Shape,
    ranks: Ranks,
}

impl Gradient {
    #[inline(always)]
    pub(crate) const fn new(name: u64, shape: Shape, rank: u16, needed: u16) -> Self {
        Self { name, shape, ranks: Ranks::new(rank, shape.fan_in(), needed) }
    }

    /// The same for a contribution with something to note: it needs the whole request.
    #[must_use]
    #[inline(always)]
    pub const fn noteworthy(self) -> Self {
        Self { ranks: Ranks::new(self.rank(), 0, 0), ..self }
    }

    /// Which PSN.
    #[must_use]
    #[inline(always)]
    pub const fn key(&self) -> Key {
        Key::from_bits(self.name & (u64::MAX >> 8))
    }

    /// The [key](Self::key), and the [element](Self::element) in the byte above it.
    #[must_use]
    #[inline(always)]
    pub const fn name(&self) -> u64 {
        self.name
    }

    /// Element type and operation, as [in a request](Request::element).
    #[must_use]
    #[inline(always)]
    pub const fn element(&self) -> u8 {
        self.name.to_be_bytes()[0]
    }

    /// Its rank.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn rank(&self) -> u16 {
        self.ranks.0 as u16
    }

    /// How many complete the PSN; 0 if it needs the whole request.
    #[inline(always)]
    pub(crate) const fn needed(&self) -> u16 {
        (self.ranks.0 >> 16) as u16
    }

    /// The contribution's name, with this time of arrival.
    #[inline(always)]
    pub(crate) const fn contribution(&self, now: u64) -> Contribution {
        Contribution { key: self.key(), rank: self.rank(), now }
    }

    /// Fan-in and length of the payload.
    #[must_use]
    #[inline(always)]
    pub const fn shape(&self) -> Shape {
        self.shape
    }
}

/// A contribution without a slot, with the fields needed to open one.
#[derive(Clone, Copy)]
pub(crate) struct Opening<'a> {
    pub(crate) gradient: &'a Gradient,
    pub(crate) rules: Rules,
    pub(crate) priority: u16,
    /// Where the payload begins in the packet.
    pub(crate) offset: u16,
    /// Time of arrival, in nanoseconds of the caller's clock.
    pub(crate) now: u64,
}

impl<'a> Opening<'a> {
    /// What a request says besides its contribution.
    #[inline(always)]
    pub(crate) const fn of(request: &Request, gradient: &'a Gradient) -> Self {
        let &Request { rules, priority, offset, now, .. } = request;
        Self { gradient, rules, priority, offset, now }
    }

    /// The whole request, if the contribution is ordinary.
    #[inline]
    pub(crate) fn request(&self) -> Option<Request> {
        let &Opening { gradient, rules, priority, offset, now } = self;
        let (fan_in, needed) = (gradient.shape.fan_in(), gradient.needed());
        (needed > 0).then(|| Request {
            verb: Verb::Add,
            key: gradient.key(),
            rank: gradient.rank(),
            fan_in,
            job_fan_in: fan_in,
            needed,
            count: 1,
            inside: 0,
            element: gradient.element(),
            overflow: false,
            again: false,
            marked: false,
            partial: false,
            priority,
            rules,
            offset,
            len: gradient.shape.payload_len(),
            now,
        })
    }
}

/// The common shape of the contributions to a PSN: the number of ranks and the length of the payload, in one
/// word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape(u32);

impl Shape {
    /// The shape of payloads of `len` bytes from `fan_in` ranks.
    #[must_use]
    #[inline(always)]
    pub const fn new(fan_in: u16, len: u16) -> Self {
        Self(fan_in as u32 | (len as u32) << 16)
    }

    /// Ranks of the job.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn fan_in(self) -> u16 {
        self.0 as u16
    }

    /// Bytes of the payload.
    #[must_use]
    #[inline(always)]
    pub const fn payload_len(self) -> u16 {
        (self.0 >> 16) as u16
    }
}
