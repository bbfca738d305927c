//! What a packet wants of the pool.

use crate::key::{Key, Tag};
use crate::policy::{ConflictPolicy, Order, Policy, Region};

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// Add the payload as the contribution of a rank.
    Add = 0,
    /// The rank waits for the result: give it if it is there, else say who is missing.
    Remind = 1,
    /// The payload is the complete result, kept by a rank that has received it, or made by the parameter server.
    Install = 2,
    /// The parameter server wants what there is of a PSN: the partial leaves its slot.
    Fetch = 3,
    /// What there is of a PSN is to be sent out as its result (iSwitch, section 3.2: FBcast).
    Release = 4,
}

impl Verb {
    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Add,
            1 => Self::Remind,
            2 => Self::Install,
            3 => Self::Fetch,
            _ => Self::Release,
        }
    }
}

/// What a job's [`Policy`] says about one packet.
///
/// One word, so that a copy is one load and one store: pieces written one by one and read together would have to wait in the
/// processor's store buffer, behind the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules(u64);

impl Rules {
    const REGION: u64 = 1 << 48;
    const SERVER: u64 = 1 << 49;

    /// The rules of a policy.
    #[must_use]
    pub const fn of(policy: &Policy) -> Self {
        let &Policy { conflict, order, region, quota, server, .. } = policy;
        Self(
            quota as u64
                | (conflict as u64) << 32
                | (order as u64) << 40
                | if region.is_some() { Self::REGION } else { 0 }
                | if server { Self::SERVER } else { 0 },
        )
    }

    /// The same with another way of settling conflicts.
    #[must_use]
    pub const fn with_conflict(self, conflict: ConflictPolicy) -> Self {
        Self(self.0 & !(0xff << 32) | (conflict as u64) << 32)
    }

    /// [`Policy::quota`]
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low word")]
    pub const fn quota(self) -> u32 {
        self.0 as u32
    }

    /// True if a slot may be opened without further questions: in the shared part, and nobody counts the job's slots.
    #[inline(always)]
    pub(crate) const fn are_plain(self) -> bool {
        self.0 & (u32::MAX as u64 | Self::REGION) == 0
    }

    /// The same in the job's own region, where it takes a look at what else is in the set.
    #[inline(always)]
    pub(crate) const fn are_plain_in_region(self) -> bool {
        self.0 & (u32::MAX as u64 | Self::REGION) == Self::REGION
    }

    /// [`Policy::conflict`]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the byte at bit 32")]
    pub const fn conflict(self) -> ConflictPolicy {
        ConflictPolicy::from_code((self.0 >> 32) as u8)
    }

    /// [`Policy::order`]
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the byte at bit 40")]
    pub const fn order(self) -> Order {
        if (self.0 >> 40) as u8 == 0 { Order::Arrival } else { Order::Rank }
    }

    /// True if the key belongs to the job's own region.
    #[must_use]
    pub const fn region(self) -> bool {
        self.0 & Self::REGION != 0
    }

    /// [`Policy::server`]
    #[must_use]
    #[inline]
    pub const fn server(self) -> bool {
        self.0 & Self::SERVER != 0
    }
}

/// A packet's business with the pool; the packet itself travels beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub verb: Verb,
    /// Which PSN.
    pub key: Key,
    /// Whose packet it is.
    pub rank: u16,
    /// Ranks of the job, as the packet says.
    pub fan_in: u16,
    /// Ranks of the job, as the job says.
    pub job_fan_in: u16,
    /// Contributions that complete the PSN: `job_fan_in`, or fewer.
    pub needed: u16,
    /// Contributions inside: 1 from a worker; in an installed result, all.
    pub count: u16,
    /// The ranks whose contributions are inside, a bit for each, where some have been combined on their way to the lcore that is at home
    /// in the set; `rank` is one of them. 0 from a worker.
    pub inside: u64,
    /// Element type and operation, as the header's code.
    pub element: u8,
    /// True if the packet carries the overflow flag.
    pub overflow: bool,
    /// True if its sender has sent it before.
    pub again: bool,
    /// True if a trailer behind the payload says which ranks are inside: in a result that is not of all of them.
    pub partial: bool,
    /// How important the packet is; more is more.
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

/// Which contribution it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    /// Which PSN.
    pub key: Key,
    /// Whose.
    pub rank: u16,
    /// Time of arrival, in nanoseconds of the caller's clock.
    pub now: u64,
}

/// What all contributions of one rank have in common, as far as the pool needs to know: worked out once per member, so that a
/// packet adds only its PSN, element and length.
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
    /// What `rank` sends in this generation of a job with so many ranks, where `needed` of them complete a PSN, in the job's own
    /// region of the pool if it has one.
    #[must_use]
    pub const fn new(
        job: u16,
        epoch: u8,
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
        Self {
            name: key.to_bits(),
            spread_job: key.spread_job(),
            ranks: Ranks::new(rank, needed),
            fan_in,
            region,
        }
    }

    /// A contribution to this PSN, of this element type and operation and so many bytes.
    #[must_use]
    #[inline(always)]
    pub const fn brief(&self, psn: u32, element: u8, len: u16) -> Brief {
        self.brief_of(psn, (element as u64) << 56, (len as u32) << 16, u32::MAX)
    }

    /// The same, told where it lies in a contribution in brief: the element in the highest byte of a word, the bytes in the upper half of one, and
    /// all ones unless it is [noteworthy](Brief::noteworthy), which leaves the lower half.
    #[must_use]
    #[inline(always)]
    pub const fn brief_of(&self, psn: u32, element: u64, len: u32, ordinary: u32) -> Brief {
        Brief {
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

/// Whose a contribution is, and how many there must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ranks(u32);

impl Ranks {
    const fn new(rank: u16, needed: u16) -> Self {
        Self(rank as u32 | (needed as u32) << 16)
    }
}

/// A contribution of one rank in brief, with nothing special about it: all that it takes to add it to a slot that expects it.
///
/// Sixteen bytes, compared with a slot by two words: nearly every packet is added by this alone, and only the others need a
/// whole [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brief {
    pub(crate) name: u64,
    pub(crate) shape: Shape,
    ranks: Ranks,
}

impl Brief {
    /// The same, but something about it has to be noted in the slot: it takes the whole request.
    #[must_use]
    #[inline(always)]
    pub const fn noteworthy(self) -> Self {
        Self { ranks: Ranks::new(self.rank(), 0), ..self }
    }

    /// Which PSN.
    #[must_use]
    #[inline(always)]
    pub const fn key(&self) -> Key {
        Key::from_bits(self.name & (u64::MAX >> 8))
    }

    /// Element type and operation, as the header's code.
    #[must_use]
    #[inline(always)]
    pub const fn element(&self) -> u8 {
        self.name.to_be_bytes()[0]
    }

    /// Whose it is.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn rank(&self) -> u16 {
        self.ranks.0 as u16
    }

    /// How many complete the PSN; 0 if it takes the whole request.
    #[inline(always)]
    pub(crate) const fn needed(&self) -> u16 {
        (self.ranks.0 >> 16) as u16
    }

    /// Which contribution it is, arrived at this time.
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

/// A contribution in brief that finds no slot, with what it takes to open one.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The contribution.
    pub brief: &'a Brief,
    /// How its job uses the pool.
    pub rules: Rules,
    /// How important the packet is; more is more.
    pub priority: u16,
    /// Where the payload begins in the packet.
    pub offset: u16,
    /// Time of arrival, in nanoseconds of the caller's clock.
    pub now: u64,
}

impl Opening<'_> {
    /// The whole request, if there is nothing special about the contribution.
    #[inline]
    pub(crate) fn request(&self) -> Option<Request> {
        let &Opening { brief, rules, priority, offset, now } = self;
        let (fan_in, needed) = (brief.shape.fan_in(), brief.needed());
        (needed > 0).then(|| Request {
            verb: Verb::Add,
            key: brief.key(),
            rank: brief.rank(),
            fan_in,
            job_fan_in: fan_in,
            needed,
            count: 1,
            inside: 0,
            element: brief.element(),
            overflow: false,
            again: false,
            partial: false,
            priority,
            rules,
            offset,
            len: brief.shape.payload_len(),
            now,
        })
    }
}

/// What the contributions to a PSN have in common: the number of ranks and the length of the payload, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape(u32);

impl Shape {
    /// So many ranks and bytes.
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

/// The key and the element in one word.
#[inline(always)]
pub(crate) const fn name(key: Key, element: u8) -> u64 {
    key.to_bits() | (element as u64) << 56
}

/// In the fourth word of a request on its way: an element has saturated.
pub(crate) const OVERFLOW: u64 = 1 << 40;
/// There: it brings the contributions of several ranks, and the third word says which.
pub(crate) const SEVERAL: u64 = 1 << 43;
/// Words of a request on its way.
pub(crate) const PACKED: usize = 6;

impl Request {
    /// Which contribution it brings.
    #[inline(always)]
    pub(crate) const fn contribution(&self) -> Contribution {
        Contribution { key: self.key, rank: self.rank, now: self.now }
    }

    /// The same in brief, if it is a contribution with nothing special about it.
    #[inline(always)]
    pub(crate) const fn brief(&self) -> Option<Brief> {
        let special = self.overflow || self.again || self.partial || self.count != 1 || self.inside != 0;
        if special || !matches!(self.verb, Verb::Add) || self.fan_in != self.job_fan_in {
            return None;
        }
        Some(Brief {
            name: name(self.key, self.element),
            shape: Shape::new(self.fan_in, self.len),
            ranks: Ranks::new(self.rank, self.needed),
        })
    }

    /// The request in the form in which it travels with a packet from one lcore to another.
    pub(crate) fn pack(&self) -> [u64; PACKED] {
        let several = self.inside != 0;
        let ranks = u64::from(self.rank)
            | u64::from(self.fan_in) << 16
            | u64::from(self.job_fan_in) << 32
            | u64::from(self.count) << 48;
        let payload = u64::from(self.offset)
            | u64::from(self.len) << 16
            | u64::from(self.element) << 32
            | if self.overflow { OVERFLOW } else { 0 }
            | u64::from(self.partial) << 41
            | u64::from(self.again) << 42
            | if several { SEVERAL } else { 0 }
            | (self.verb as u64) << 48;
        let terms = u64::from(self.needed) | u64::from(self.priority) << 16;
        if several {
            // Of all ranks as many as there are, and the fan-in is the job's: where it is not, nothing is combined.
            let terms = terms | u64::from(self.fan_in) << 32 | u64::from(self.rank) << 48;
            return [self.key.to_bits(), self.now, self.inside, payload, terms, self.rules.0];
        }
        [self.key.to_bits(), self.now, ranks, payload, terms, self.rules.0]
    }

    #[expect(clippy::cast_possible_truncation, reason = "each field is cut out at its own width")]
    pub(crate) fn unpack(words: [u64; PACKED]) -> Self {
        let [key, now, ranks, payload, terms, rules] = words;
        let inside = if payload & SEVERAL == 0 { 0 } else { ranks };
        let ranks = match inside {
            0 => ranks,
            _ => {
                let fan_in = terms >> 32 & 0xffff;
                terms >> 48 | fan_in << 16 | fan_in << 32 | u64::from(inside.count_ones()) << 48
            }
        };
        Self {
            inside,
            verb: Verb::from_code((payload >> 48) as u8),
            key: Key::from_bits(key),
            rank: ranks as u16,
            fan_in: (ranks >> 16) as u16,
            job_fan_in: (ranks >> 32) as u16,
            needed: terms as u16,
            count: (ranks >> 48) as u16,
            element: (payload >> 32) as u8,
            overflow: payload & OVERFLOW != 0,
            partial: (payload >> 41) & 1 != 0,
            again: (payload >> 42) & 1 != 0,
            priority: (terms >> 16) as u16,
            rules: Rules(rules),
            offset: payload as u16,
            len: (payload >> 16) as u16,
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Region;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpack_undoes_pack(
            verb in 0u8..5, key in 0u64..1 << 56, ranks in any::<(u16, u16, u16, u16, u16, u16)>(),
            element in any::<u8>(), flags in any::<(bool, bool, bool, bool, bool)>(), offset in any::<u16>(), len in any::<u16>(),
            inside in 0u64..8, now in any::<u64>(), quota in any::<u32>(),
            conflict in prop::sample::select(&ConflictPolicy::ALL), order in prop::sample::select(&Order::ALL),
        ) {
            let request = Request {
                verb: Verb::from_code(verb),
                key: Key::from_bits(key),
                rank: ranks.0, fan_in: ranks.1,
                job_fan_in: if inside == 0 { ranks.2 } else { ranks.1 },
                count: if inside == 0 { ranks.3 } else { u16::try_from(inside.count_ones()).unwrap() },
                inside, needed: ranks.4, priority: ranks.5,
                element, overflow: flags.0, partial: flags.1, again: flags.4, offset, len, now,
                rules: Rules::of(&Policy {
                    quota,
                    conflict,
                    order,
                    region: flags.2.then_some(Region { first: 0, sets: 1 }),
                    partial_after: 0,
                    server: flags.3,
                }),
            };
            let unpacked = Request::unpack(request.pack());
            prop_assert_eq!(unpacked, request);
            let rules = unpacked.rules;
            prop_assert_eq!((rules.quota(), rules.conflict()), (quota, conflict));
            prop_assert_eq!((rules.order(), rules.region(), rules.server()), (order, flags.2, flags.3));
            prop_assert_eq!(rules.with_conflict(ConflictPolicy::Coin).conflict(), ConflictPolicy::Coin);
            prop_assert_eq!(rules.with_conflict(conflict), rules);
        }
    }
}
