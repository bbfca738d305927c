//! Sets of slots with ownership around them.

use core::cell::UnsafeCell;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine, Kernels};
use pascaline_wire::Element;

use crate::handoff::Owner;
use crate::rankset::RankSet;
use crate::request::{Request, Verb};
use crate::session::Session;
use crate::set::{Directory, Displacement, MAX_WAYS, Set};
use crate::sink::{Refusal, Reminded, Sink};
use crate::slot::{Hold, Slot, range};

/// How a pool is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolConfig {
    /// Slots in all; a power of two.
    pub slots: usize,
    /// Slots per set: 1 (the papers' direct mapping), 2, 4 or 8.
    pub ways: usize,
    /// How long a partial may keep other PSNs out. One that nobody has sent to or asked for in this time goes even
    /// before the kept results.
    pub age_limit: Duration,
    /// Least time between two reminders to the missing ranks of a PSN.
    pub remind_interval: Duration,
}

impl Default for PoolConfig {
    /// 4,096 slots in sets of 4.
    fn default() -> Self {
        Self {
            slots: 4096,
            ways: 4,
            age_limit: Duration::from_millis(500),
            remind_interval: Duration::from_millis(1),
        }
    }
}

impl PoolConfig {
    /// Checks that a pool can be laid out like this.
    ///
    /// # Errors
    /// [`PoolConfigError`] if slots or ways are not what the fields' documentation says.
    pub const fn check(&self) -> Result<(), PoolConfigError> {
        const MOST: usize = 1 << 28;
        if !self.ways.is_power_of_two() || self.ways > MAX_WAYS {
            return Err(PoolConfigError::Ways(self.ways));
        }
        if !self.slots.is_power_of_two() || self.slots < self.ways || self.slots > MOST {
            return Err(PoolConfigError::Slots(self.slots));
        }
        Ok(())
    }
}

/// Why a pool cannot be laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolConfigError {
    /// The number of slots is not a power of two, or not between `ways` and 2²⁸.
    Slots(usize),
    /// The number of ways is not 1, 2, 4 or 8.
    Ways(usize),
}

impl fmt::Display for PoolConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots(slots) => {
                write!(
                    f,
                    "{slots} slots: the number must be a power of two, at least `ways` and at most 2^28"
                )
            }
            Self::Ways(ways) => write!(f, "{ways} ways: the number must be 1, 2, 4 or 8"),
        }
    }
}

impl core::error::Error for PoolConfigError {}

/// The owner word and the directory of a set: one cache line.
#[repr(align(64))]
pub(crate) struct SetHead {
    pub(crate) owner: Owner,
    directory: UnsafeCell<Directory>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<SetHead>() == 64);

/// The memory of a pool. Used through [`Session`]s only.
///
/// `WORDS` is the width of the contribution bitmap in units of 64 ranks.
pub struct Pool<B: PacketBuf, const WORDS: usize = 1> {
    pub(crate) heads: Box<[SetHead]>,
    pub(crate) slots: Box<[UnsafeCell<Slot<B, WORDS>>]>,
    pub(crate) ways: usize,
    pub(crate) set_bits: u32,
    age_limit: u64,
    remind_interval: u32,
    /// Whether there is more than one session. A single one needs no ownership protocol and saves two atomic
    /// operations per packet.
    pub(crate) shared: bool,
    kernels: Kernels,
}

// SAFETY: a set's directory and slots are touched only by the lcore that owns the set (see `handoff`); where the
// protocol is skipped, there is only one session, and sessions can be neither cloned nor used from two threads.
// Packets and shared payloads are Send.
unsafe impl<B: PacketBuf, const WORDS: usize> Sync for Pool<B, WORDS> {}
// SAFETY: all members may move between threads; the cells hold packets, which are Send.
unsafe impl<B: PacketBuf, const WORDS: usize> Send for Pool<B, WORDS> {}

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Lays out a pool for `lcores` users and gives each its session.
    ///
    /// # Errors
    /// [`PoolConfigError`] if slots or ways are not what [`PoolConfig`] says.
    pub fn sessions(
        config: &PoolConfig,
        kernels: Kernels,
        lcores: usize,
    ) -> Result<Vec<Session<B, WORDS>>, PoolConfigError> {
        config.check()?;
        let &PoolConfig { slots, ways, age_limit, remind_interval } = config;
        let sets = slots / ways;
        let pool = Arc::new(Self {
            heads: (0..sets)
                .map(|_| SetHead { owner: Owner::new(), directory: UnsafeCell::new(Directory::new()) })
                .collect(),
            slots: (0..slots).map(|_| UnsafeCell::new(Slot::new())).collect(),
            ways,
            set_bits: sets.trailing_zeros(),
            age_limit: u64::try_from(age_limit.as_nanos()).unwrap_or(u64::MAX),
            remind_interval: u32::try_from(remind_interval.as_micros()).unwrap_or(u32::MAX),
            shared: lcores > 1,
            kernels,
        });
        Ok((0..lcores).map(|_| Session::new(Arc::clone(&pool), sets)).collect())
    }

    /// Bytes that the sets and slots of this layout take, packets not included; 0 if there are no ways.
    #[must_use]
    pub const fn memory_bytes(config: &PoolConfig) -> usize {
        let Some(sets) = config.slots.checked_div(config.ways) else { return 0 };
        sets.saturating_mul(size_of::<SetHead>())
            .saturating_add(config.slots.saturating_mul(size_of::<Slot<B, WORDS>>()))
    }

    #[inline]
    pub(crate) fn kernel(&self, element: u8) -> Option<Combine> {
        const F32: u8 = Element::F32_SUM.code();
        const I32: u8 = Element::I32_SUM.code();
        match element {
            F32 => Some(self.kernels.f32_sum),
            I32 => Some(self.kernels.i32_sum),
            _ => None,
        }
    }
}

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// The contents of a set.
    ///
    /// # Safety
    /// The calling lcore owns the set, or the pool has only one session, and no other result of this call for the
    /// same set is alive.
    pub(crate) unsafe fn set(&self, set: usize) -> Set<'_, B, WORDS> {
        let cells = &self.slots[set * self.ways..(set + 1) * self.ways];
        // SAFETY: by contract nobody else touches the directory or the slots of this set; `UnsafeCell<T>` has the
        // layout of `T`, and all slots of the slice belong to the set.
        unsafe {
            Set {
                directory: &mut *self.heads[set].directory.get(),
                slots: core::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), cells.len()),
            }
        }
    }

    /// Does what a request asks for. The caller owns the set.
    #[inline]
    pub(crate) fn apply<S: Sink<B, WORDS>>(&self, set: usize, request: &Request, packet: B, sink: &mut S) {
        // SAFETY: `apply` is called by the owner of the set only, and does not call itself.
        let mut set = unsafe { self.set(set) };
        match request.verb {
            Verb::Add => self.add(&mut set, request, packet, sink),
            Verb::Remind => self.remind(&mut set, request, packet, sink),
            Verb::Install => self.install(&mut set, request, packet, sink),
        }
    }

    fn add<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else { return self.open(set, request, packet, sink) };
        if let Some(packet) = self.add_to(&mut set.slots[way], request, packet, sink) {
            self.add_last(set, way, request, packet, sink);
        }
    }

    /// Adds a contribution that agrees in every respect with what is inside, which needs no further questions, and that
    /// is not the last one. Gives back any other.
    #[inline(always)]
    pub(crate) fn add_to<S: Sink<B, WORDS>>(
        &self,
        slot: &mut Slot<B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) -> Option<B> {
        if !self.sum(slot, request, &packet, false) {
            return Some(packet);
        }
        sink.added(request, packet);
        None
    }

    /// Adds a contribution, if it is as the slot expects it, and is or is not the last one.
    #[inline(always)]
    fn sum(&self, slot: &mut Slot<B, WORDS>, request: &Request, packet: &B, last: bool) -> bool {
        if let Some(into) = slot.expects(request, last)
            && let Some(combine) = self.kernel(request.element)
            && let Some(from) = packet.bytes().get(range(request.offset, request.len))
        {
            let overflow = combine(into, from);
            slot.added(request, overflow);
            return true;
        }
        false
    }

    /// Adds the last contribution; any other finds out what is wrong with it.
    #[inline(never)]
    fn add_last<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if !self.sum(&mut set.slots[way], request, &packet, true) {
            return self.add_doubtful(set, way, request, packet, sink);
        }
        set.directory.use_result(way);
        match set.slots[way].complete() {
            Some(result) => sink.completed(request, Some(packet), result),
            None => sink.refused(request, packet, Refusal::LengthChanged),
        }
    }

    #[inline(never)]
    fn open<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection(request, &packet) {
            return sink.refused(request, packet, why);
        }
        if request.fan_in != request.job_fan_in {
            return sink.refused(request, packet, Refusal::FanInMismatch);
        }
        let Some((way, displaced)) = set.claim(request.key, self.displacement(request)) else {
            return sink.refused(request, packet, Refusal::Conflict);
        };
        if let Some((key, what)) = displaced {
            sink.displaced(key, what);
        }
        match set.slots[way].open(request, packet) {
            None => sink.opened(request),
            Some(result) => {
                set.directory.use_result(way);
                sink.completed(request, None, result);
            }
        }
    }

    /// A contribution to a PSN that is known, which the slot did not expect like this: finds out why.
    #[cold]
    fn add_doubtful<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection(request, &packet) {
            return sink.refused(request, packet, why);
        }
        if let Hold::Done(_) = set.slots[way].hold {
            return match set.kept(way, request.now) {
                Some(result) => sink.replayed(request, packet, result),
                None => sink.refused(request, packet, Refusal::Duplicate),
            };
        }
        let slot = &mut set.slots[way];
        let why = slot.disagrees(request).unwrap_or_else(|| {
            // A rank that sends again still waits for the result.
            slot.touch(request.now);
            Refusal::Duplicate
        });
        sink.refused(request, packet, why);
    }

    /// What can be said against a contribution without looking at a slot.
    fn objection(&self, request: &Request, packet: &B) -> Option<Refusal> {
        if request.rank >= request.job_fan_in || request.rank >= RankSet::<WORDS>::CAPACITY {
            Some(Refusal::RankOutOfRange)
        } else if request.count != 1 {
            Some(Refusal::BadCount)
        } else {
            self.objection_to_payload(request, packet)
        }
    }

    /// What can be said against an installed result without looking at a slot.
    fn objection_to_result(&self, request: &Request, packet: &B) -> Option<Refusal> {
        if request.rank >= request.job_fan_in {
            Some(Refusal::RankOutOfRange)
        } else if request.count == 0 || request.count != request.fan_in {
            Some(Refusal::BadCount)
        } else if request.fan_in != request.job_fan_in {
            Some(Refusal::FanInMismatch)
        } else {
            self.objection_to_payload(request, packet)
        }
    }

    fn objection_to_payload(&self, request: &Request, packet: &B) -> Option<Refusal> {
        if packet.bytes().len() < usize::from(request.offset) + usize::from(request.len) {
            Some(Refusal::LengthChanged)
        } else if self.kernel(request.element).is_none() {
            Some(Refusal::ElementUnsupported)
        } else {
            None
        }
    }

    fn remind<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let state = match set.find(request.key) {
            None => Reminded::Unknown,
            Some(way) if matches!(set.slots[way].hold, Hold::Done(_)) => {
                set.kept(way, request.now).map_or(Reminded::Unknown, Reminded::Kept)
            }
            Some(way) => set.slots[way]
                .remind(request.now, self.remind_interval)
                .map_or(Reminded::Recently, Reminded::Partial),
        };
        sink.reminded(request, packet, state);
    }

    fn install<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection_to_result(request, &packet) {
            return sink.refused(request, packet, why);
        }
        let way = match set.find(request.key) {
            Some(way) => {
                let slot = &set.slots[way];
                if let Hold::Done(_) = slot.hold {
                    return sink.refused(request, packet, Refusal::Duplicate);
                }
                if let Some(why) = slot.disagrees(request) {
                    return sink.refused(request, packet, why);
                }
                way
            }
            None => match set.claim(request.key, self.displacement(request)) {
                None => return Self::pass_on(request, packet, sink),
                Some((way, displaced)) => {
                    if let Some((key, what)) = displaced {
                        sink.displaced(key, what);
                    }
                    way
                }
            },
        };
        match set.slots[way].install(request, packet) {
            Ok(partial) => {
                set.directory.use_result(way);
                if let Some(result) = set.slots[way].aggregate() {
                    sink.installed(request, partial, result);
                }
            }
            Err(packet) => sink.refused(request, packet, Refusal::LengthChanged),
        }
    }

    /// A result that finds no slot is given out all the same: to keep it is a favour, to send it on is not. Otherwise two
    /// jobs could wait for ever, each in the slots that the other's results would have to pass through.
    fn pass_on<S: Sink<B, WORDS>>(request: &Request, packet: B, sink: &mut S) {
        let mut slot = Slot::<B, WORDS>::new();
        match slot.install(request, packet) {
            Ok(_) => {
                if let Some(result) = slot.aggregate() {
                    sink.passed_on(request, result);
                }
            }
            Err(packet) => sink.refused(request, packet, Refusal::LengthChanged),
        }
    }

    fn displacement(&self, request: &Request) -> Displacement {
        Displacement { now: request.now, age_limit: self.age_limit }
    }
}
