//! Sets of slots, and what is done to them.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::sync::Arc;

use core::sync::atomic::{AtomicU32, Ordering};

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine, InOrder, Kernels, Op, Type};
use pascaline_wire::trailer::Trailer;
use pascaline_wire::{self as wire, DType, Element};

use crate::handed::Handed;
use crate::handoff::{self, Receiver, Sender};
use crate::lanes::{Groups, Lanes};
use crate::part::{At, Part, SetHead};
use crate::policy::{Conflict, Order};
use crate::rankset::RankSet;
use crate::request::{Contribution, Opening, Request, Verb};
use crate::session::Session;
use crate::set::{Choice, Limit, MAX_WAYS, Set};
use crate::sink::{Cause, Displaced, Refusal, Reminded, Sink};
use crate::slot::{Contents, Hold, Slot};

/// How a pool is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolConfig {
    /// Slots in all; a power of two.
    pub slots: usize,
    /// How many of them, from the end, are the regions of jobs that have one; whole sets. The others are shared by hash.
    pub reserved: usize,
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
            reserved: 0,
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
        if !self.reserved.is_multiple_of(self.ways) || self.reserved > self.slots {
            return Err(PoolConfigError::Reserved(self.reserved));
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
    /// The reserved slots are not whole sets, or more than there are.
    Reserved(usize),
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
            Self::Reserved(slots) => {
                write!(
                    f,
                    "{slots} reserved slots: the number must be a multiple of `ways`, and at most that of all slots"
                )
            }
        }
    }
}

impl core::error::Error for PoolConfigError {}

/// What the sessions of a pool have in common: how it is laid out, and what is counted over all of them. The slots are theirs.
///
/// `WORDS` is the width of the contribution bitmap in units of 64 ranks.
pub struct Pool<B: PacketBuf, const WORDS: usize = 1> {
    pub(crate) config: PoolConfig,
    /// Sets of the shared part; regions come behind it.
    pub(crate) shared_sets: usize,
    age_limit: u64,
    /// The same, as directories have it.
    oldest: Limit,
    remind_interval: u32,
    /// Which session is at home in which set.
    pub(crate) lanes: Lanes,
    /// The sets of the shared part.
    pub(crate) groups: Groups,
    /// By element code.
    kernels: Box<[Kernel; 256]>,
    /// Partials of the jobs that have a quota, by job.
    held: Box<[AtomicU32]>,
    of: PhantomData<fn(B)>,
}

/// The ways of one lcore to the others and back.
struct Ends<B: PacketBuf> {
    to: Vec<(usize, Sender<Handed<B>>)>,
    from: Vec<Receiver<Handed<B>>>,
}

impl<B: PacketBuf> Default for Ends<B> {
    fn default() -> Self {
        Self { to: Vec::new(), from: Vec::new() }
    }
}

/// How elements of one code are combined.
#[derive(Clone, Copy)]
struct Kernel {
    /// One at a time; none where bits would be lost by that.
    combine: Option<Combine>,
    /// All at once; none if there is no such code.
    in_order: Option<InOrder>,
}

impl Kernel {
    const NONE: Self = Self { combine: None, in_order: None };
}

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
        let &PoolConfig { slots, reserved, ways, age_limit, remind_interval } = config;
        let sets = slots / ways;
        let lanes = Lanes::new(lcores);
        let age_limit = u64::try_from(age_limit.as_nanos()).unwrap_or(u64::MAX);
        let pool = Arc::new(Self {
            config: *config,
            shared_sets: (slots - reserved) / ways,
            age_limit,
            oldest: Limit::of(age_limit),
            remind_interval: u32::try_from(remind_interval.as_micros()).unwrap_or(u32::MAX),
            lanes,
            groups: Groups::new((slots - reserved) / ways, lanes),
            kernels: table(&kernels),
            held: (0..=u16::MAX).map(|_| AtomicU32::new(0)).collect(),
            of: PhantomData,
        });
        // Who puts in and who takes out, by number.
        let mut ends: Vec<Ends<B>> = (0..lcores).map(|_| Ends::default()).collect();
        for from in 0..lcores {
            for to in (0..lcores).filter(|&to| to != from) {
                let (sender, receiver) = handoff::ring(Self::ring_places(lcores));
                ends[from].to.push((to, sender));
                ends[to].from.push(receiver);
            }
        }
        let session = |(number, Ends { to, from })| {
            let part = Part::new(lanes.sets(sets, number), ways);
            Session::new(Arc::clone(&pool), number, part, to, from)
        };
        Ok((0..).zip(ends).map(session).collect())
    }

    /// Packets that may be on their way from one of so many lcores to another.
    const fn ring_places(lcores: usize) -> usize {
        match lcores {
            0..=4 => 1024,
            5..=16 => 256,
            _ => 64,
        }
    }

    /// Bytes that the sets and slots of this layout take, and the rings between so many lcores, packets not included; 0 if there are
    /// no ways.
    #[must_use]
    pub const fn memory_bytes(config: &PoolConfig, lcores: usize) -> usize {
        let rings = lcores * lcores.saturating_sub(1);
        let slots = config.slots;
        let Some(sets @ 1..) = slots.checked_div(config.ways) else { return 0 };
        sets.saturating_mul(size_of::<SetHead>())
            .saturating_add(slots.saturating_mul(size_of::<Slot<B, WORDS>>()))
            .saturating_add((1 << 16) * size_of::<AtomicU32>() + size_of::<[Kernel; 256]>())
            .saturating_add(rings.saturating_mul(Self::ring_places(lcores) * size_of::<Handed<B>>()))
    }

    /// Packets that so many slots hold at most, for jobs of up to so many ranks: where contributions are kept until all are
    /// there (`whole`: the order of ranks, sums of 16-bit floats), those of all ranks; else one.
    #[must_use]
    pub const fn packets(slots: usize, fan_in: u16, whole: bool) -> usize {
        if whole && fan_in > 1 { slots.saturating_mul(fan_in as usize) } else { slots }
    }

    /// Sets in all.
    #[inline]
    pub(crate) const fn sets(&self) -> usize {
        self.config.slots / self.config.ways
    }

    #[inline]
    pub(crate) fn kernel(&self, element: u8) -> Option<InOrder> {
        self.kernels[usize::from(element)].in_order
    }

    #[inline(always)]
    pub(crate) fn combine(&self, element: u8) -> Option<Combine> {
        self.kernels[usize::from(element)].combine
    }

    /// True if all contributions are to be kept until they can be added at once.
    #[inline(always)]
    pub(crate) fn keeps(&self, element: u8, order: Order) -> bool {
        let kernel = &self.kernels[usize::from(element)];
        order == Order::Rank || kernel.in_order.is_some() && kernel.combine.is_none()
    }
}

/// The kernels by element code.
fn table(kernels: &Kernels) -> Box<[Kernel; 256]> {
    let mut table = Box::new([Kernel::NONE; 256]);
    for (code, place) in (0..=u8::MAX).zip(table.iter_mut()) {
        let Some(Element { dtype, op }) = Element::from_code(code) else { continue };
        let of = match dtype {
            DType::F32 => Type::F32,
            DType::I32 => Type::I32,
            DType::F16 => Type::F16,
            DType::Bf16 => Type::Bf16,
            DType::F64 => Type::F64,
        };
        let by = match op {
            wire::Op::Sum => Op::Sum,
            wire::Op::Min => Op::Min,
            wire::Op::Max => Op::Max,
        };
        *place = Kernel { combine: kernels.combine(of, by), in_order: Some(kernels.in_order(of, by)) };
    }
    table
}

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Does what a request asks for.
    #[inline]
    pub(crate) fn apply<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        match request.verb {
            Verb::Add if request.inside != 0 => self.add_several(set, request, packet, sink),
            Verb::Add => self.add(set, request, packet, sink),
            Verb::Remind => self.remind(set, request, packet, sink),
            Verb::Install => self.install(set, request, packet, sink),
            Verb::Fetch => self.fetch(set, request, packet, sink),
            Verb::Release => self.obey(set, request, packet, sink),
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

    /// Adds what several ranks have contributed, which another lcore has combined. It is added as a whole or not at all: if one of them
    /// is inside already, the others send again, each for itself.
    #[inline(never)]
    fn add_several<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection_to_several(request, &packet) {
            return sink.refused(request, packet, why);
        }
        let Some(way) = set.find(request.key) else { return self.open_several(set, request, packet, sink) };
        let slot = &mut set.slots[way];
        if let Some(why) = slot.disagrees(request) {
            return sink.refused(request, packet, why);
        }
        let Some(combine) = self.combine(request.element) else {
            return sink.refused(request, packet, Refusal::ElementUnsupported);
        };
        if !slot.add_several(request, &packet, combine) {
            slot.touch(request.now);
            return sink.refused(request, packet, Refusal::Duplicate);
        }
        sink.spent(packet);
        if !set.slots[way].suffices(request) {
            return sink.added(&request.contribution());
        }
        self.conclude(set, way, &request.contribution(), sink);
    }

    /// Opens a slot with what several ranks have contributed; if there is none, it goes to the parameter server as a partial.
    fn open_several<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let quota = request.rules.quota();
        let held = &self.held[usize::from(request.key.job())];
        let choice = if quota > 0 && held.load(Ordering::Relaxed) >= quota {
            Choice::None(Refusal::Quota)
        } else {
            set.choose(request, self.age_limit)
        };
        let (way, cause) = match choice {
            Choice::Way(way, cause) => (way, cause),
            Choice::None(_) if request.rules.server() => return Self::turn_away(request, packet, sink),
            Choice::None(why) => return sink.refused(request, packet, why),
        };
        self.vacate(set, way, cause, sink);
        set.occupy(way, request.key, request.now);
        if quota > 0 {
            held.fetch_add(1, Ordering::Relaxed);
        }
        set.slots[way].open_several(request, packet, quota > 0);
        if set.slots[way].suffices(request)
            && !self.refer(set, way, sink)
            && self.complete(set, way, sink)
            && let Some(result) = set.slots[way].aggregate()
        {
            return sink.completed(&request.contribution(), true, result);
        }
        sink.opened(&request.contribution());
    }

    /// What several ranks have contributed leaves for the parameter server at once.
    fn turn_away<S: Sink<B, WORDS>>(request: &Request, packet: B, sink: &mut S) {
        let mut slot = Slot::<B, WORDS>::new();
        slot.open_several(request, packet, false);
        sink.opened(&request.contribution());
        let what = match slot.take(true, &mut |packet| sink.spent(packet)) {
            Contents::Partial(evicted) => Displaced::Partial(evicted),
            _ => Displaced::GivenUp,
        };
        sink.displaced(request.key, what, Cause::NoRoom);
    }

    /// What can be said against what several ranks have contributed, without looking at a slot.
    fn objection_to_several(&self, request: &Request, packet: &B) -> Option<Refusal> {
        let inside = RankSet::<WORDS>::of_word(request.inside);
        if u32::from(request.count) != inside.count() || inside.below(request.job_fan_in) != inside.count() {
            Some(Refusal::BadCount)
        } else if request.fan_in != request.job_fan_in {
            Some(Refusal::FanInMismatch)
        } else {
            self.objection_to_payload(request, packet)
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
        if let Some(combine) = self.combine(request.element)
            && slot.expects(request, false)
            && slot.add(request, &packet, combine)
        {
            sink.added(&request.contribution());
            sink.spent(packet);
            return None;
        }
        Some(packet)
    }

    /// Adds the last contribution, or one of those that are kept until all are there; any other finds out what is wrong
    /// with it.
    #[inline(never)]
    fn add_last<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let slot = &mut set.slots[way];
        if let Some(combine) = self.combine(request.element)
            && slot.expects(request, true)
            && slot.add(request, &packet, combine)
        {
            sink.spent(packet);
        } else if slot.collects(request) {
            if let Err(packet) = slot.collect(request, packet) {
                return self.add_doubtful(set, way, request, packet, sink);
            }
        } else {
            return self.add_doubtful(set, way, request, packet, sink);
        }
        if !slot.suffices(request) {
            return sink.added(&request.contribution());
        }
        self.conclude(set, way, &request.contribution(), sink);
    }

    /// What the contribution that was missing leads to, now that it is inside.
    #[inline(always)]
    pub(crate) fn conclude<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        last: &Contribution,
        sink: &mut S,
    ) {
        if self.refer(set, way, sink) {
            return sink.added(last);
        }
        if self.complete(set, way, sink)
            && let Some(result) = set.slots[way].aggregate()
        {
            return sink.completed(last, false, result);
        }
        sink.added(last);
    }

    /// Leaves a complete partial to the parameter server if there may be another result already. True if so.
    #[inline(always)]
    fn refer<S: Sink<B, WORDS>>(&self, set: &mut Set<'_, B, WORDS>, way: usize, sink: &mut S) -> bool {
        let doubtful = set.slots[way].is_doubtful();
        if doubtful {
            self.vacate(set, way, Cause::Referred, sink);
        }
        doubtful
    }

    /// Makes a partial the result. False, and the slot is empty, if there is no room for saying who is inside.
    #[inline]
    fn complete<S: Sink<B, WORDS>>(&self, set: &mut Set<'_, B, WORDS>, way: usize, sink: &mut S) -> bool {
        let slot = &mut set.slots[way];
        let Some(kernel) = self.kernel(slot.element()) else { return false };
        let done = slot.complete(kernel, &mut |packet| sink.spent(packet));
        self.closed(slot);
        if done {
            set.directory.use_result(way);
        } else {
            let key = slot.key();
            set.vacated(way);
            sink.displaced(key, Displaced::GivenUp, Cause::Superseded);
        }
        done
    }

    /// The partial of a slot is one no longer.
    #[inline]
    fn closed(&self, slot: &mut Slot<B, WORDS>) {
        if slot.uncount() {
            self.held[usize::from(slot.key().job())].fetch_sub(1, Ordering::Relaxed);
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
        let quota = request.rules.quota();
        let held = &self.held[usize::from(request.key.job())];
        // Two lcores may both take the last one: a quota is exceeded by fewer than there are lcores.
        if quota > 0 && held.load(Ordering::Relaxed) >= quota {
            return sink.refused(request, packet, Refusal::Quota);
        }
        let way = match set.choose(request, self.age_limit) {
            Choice::Way(way, cause) => {
                self.vacate(set, way, cause, sink);
                way
            }
            Choice::None(why) => return sink.refused(request, packet, why),
        };
        set.occupy(way, request.key, request.now);
        if quota > 0 {
            held.fetch_add(1, Ordering::Relaxed);
        }
        set.slots[way].open(request, packet, self.keeps(request.element, request.rules.order()), quota > 0);
        if request.needed <= 1
            && self.complete(set, way, sink)
            && let Some(result) = set.slots[way].aggregate()
        {
            return sink.completed(&request.contribution(), true, result);
        }
        sink.opened(&request.contribution());
    }

    /// Opens a slot with a contribution in brief, of a job with plain rules, where nothing has to be asked: its key is not here, and
    /// what the slot holds is nobody's loss. The packet is taken out then; if not, nothing is done.
    #[inline(always)]
    pub(crate) fn open_brief<S: Sink<B, WORDS>>(
        &self,
        at: At<'_, B, WORDS>,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        let At { directory, slot, way } = at;
        let &Opening { brief, rules, offset, now, .. } = opening;
        let tag = brief.key().tag();
        let kernel = self.kernels[usize::from(brief.element())];
        let whole = kernel.combine.is_none() || rules.order() == Order::Rank;
        let plain = kernel.in_order.is_some()
            && brief.needed() > 1
            && brief.rank() < RankSet::<WORDS>::CAPACITY
            && directory.is_free_for(tag, way, now, self.oldest);
        let (offset, len) = (usize::from(offset), usize::from(brief.shape().payload_len()));
        let Some(packet) = packet.take_if(|packet| plain && packet.trim(offset, len)) else { return false };
        if let Some((before, spent)) = slot.give_up_result() {
            if let Some(packet) = spent {
                sink.spent(packet);
            }
            sink.displaced(before, Displaced::Result, Cause::Age);
        }
        slot.open_brief(opening, packet, whole);
        directory.occupy(tag, way, now);
        sink.opened(&brief.contribution(now));
        true
    }

    /// As [`open_brief`](Self::open_brief), in the job's own region and where contributions are added as they come: the way is the
    /// oldest PSN's, whose result must be there.
    #[inline(always)]
    pub(crate) fn open_in_region<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        let &Opening { brief, rules, offset, now, .. } = opening;
        let key = brief.key();
        let plain = self.combine(brief.element()).is_some()
            && rules.order() == Order::Arrival
            && brief.needed() > 1
            && brief.rank() < RankSet::<WORDS>::CAPACITY
            && set.directory.misses(key.tag());
        if !plain {
            return false;
        }
        let Choice::Way(way, _) = set.choose_in_region(key, now, self.age_limit) else { return false };
        let (offset, len) = (usize::from(offset), usize::from(brief.shape().payload_len()));
        let Some(slot) = set.slots.get_mut(way).filter(|slot| !slot.is_partial()) else { return false };
        let Some(packet) = packet.take_if(|packet| packet.trim(offset, len)) else { return false };
        if let Some((before, spent)) = slot.give_up_result() {
            if let Some(packet) = spent {
                sink.spent(packet);
            }
            sink.displaced(before, Displaced::Result, Cause::Age);
        }
        slot.open_brief(opening, packet, false);
        set.directory.occupy(key.tag(), way, now);
        sink.opened(&brief.contribution(now));
        true
    }

    /// Empties a way, if there is something in it.
    pub(crate) fn vacate<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        cause: Cause,
        sink: &mut S,
    ) {
        let Some(slot) = set.slots.get_mut(way) else { return };
        let (key, partial) = (slot.key(), slot.is_partial());
        let wanted = slot.has_server()
            && matches!(cause, Cause::Age | Cause::Preempted | Cause::Fetched | Cause::Referred);
        let what = match slot.take(wanted, &mut |packet| sink.spent(packet)) {
            Contents::Nothing if partial => Displaced::GivenUp,
            Contents::Nothing => return,
            Contents::Result => Displaced::Result,
            Contents::Partial(evicted) => Displaced::Partial(evicted),
            Contents::Originals(originals) => Displaced::Originals(originals),
        };
        self.closed(slot);
        set.vacated(way);
        sink.displaced(key, what, cause);
    }

    /// Empties a way if it holds an abandoned partial.
    pub(crate) fn expire<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        now: u64,
        sink: &mut S,
    ) {
        let expired = |slot: &Slot<B, WORDS>| slot.is_partial() && slot.is_abandoned(now, self.age_limit);
        if set.slots.get(way).is_some_and(expired) {
            self.vacate(set, way, Cause::Age, sink);
        }
    }

    /// Makes a partial the result as it is, if there is one in the way. True if there was.
    pub(crate) fn release<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        sink: &mut S,
    ) -> bool {
        if !set.slots.get(way).is_some_and(Slot::is_partial) {
            return false;
        }
        if !self.refer(set, way, sink)
            && self.complete(set, way, sink)
            && let Some(result) = set.slots[way].aggregate()
        {
            sink.released(result);
        }
        true
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
        // Perhaps fewer are needed now than when the others came.
        if why == Refusal::Duplicate && slot.suffices(request) {
            self.release(set, way, sink);
        }
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
        } else if request.count == 0
            || request.count > request.fan_in
            || request.partial != (request.count < request.fan_in)
            || request.partial && !Self::says_who(request, packet)
        {
            Some(Refusal::BadCount)
        } else if request.fan_in != request.job_fan_in {
            Some(Refusal::FanInMismatch)
        } else {
            self.objection_to_payload(request, packet)
        }
    }

    /// True if a trailer names as many ranks, all of them the job's, as the count says.
    fn says_who(request: &Request, packet: &B) -> bool {
        let body = packet.bytes().get(usize::from(request.offset)..).unwrap_or_default();
        let Ok((payload, trailer)) = Trailer::split(body) else { return false };
        let inside = trailer.bitmap.as_ref().and_then(RankSet::<WORDS>::of);
        payload.len() == usize::from(request.len)
            && inside.is_some_and(|inside| {
                inside.count() == u32::from(request.count) && inside.below(request.fan_in) == inside.count()
            })
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
        let Some(way) = set.find(request.key) else {
            return sink.reminded(request, packet, Reminded::Unknown);
        };
        if set.slots[way].suffices(request) {
            self.release(set, way, sink);
        }
        let state = if set.slots[way].is_partial() {
            let partial = set.slots[way].remind(request.now, self.remind_interval);
            partial.map_or(Reminded::Recently, Reminded::Partial)
        } else if set.slots[way].serves(request.priority) {
            set.kept(way, request.now).map_or(Reminded::Unknown, Reminded::Kept)
        } else {
            Reminded::Unknown
        };
        sink.reminded(request, packet, state);
    }

    fn fetch<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else { return sink.fetched(request, packet, None) };
        if set.slots[way].is_partial() {
            self.vacate(set, way, Cause::Fetched, sink);
            return sink.fetched(request, packet, None);
        }
        sink.fetched(request, packet, set.kept(way, request.now));
    }

    /// Sends out what there is.
    fn obey<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else {
            return sink.refused(request, packet, Refusal::UnknownPsn);
        };
        if self.release(set, way, sink) {
            return sink.obeyed(request, packet);
        }
        match set.kept(way, request.now) {
            Some(result) => sink.replayed(request, packet, result),
            None => sink.refused(request, packet, Refusal::UnknownPsn),
        }
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
            Some(way) if set.slots[way].is_partial() => {
                if let Some(why) = set.slots[way].disagrees(request) {
                    return sink.refused(request, packet, why);
                }
                self.vacate(set, way, Cause::Superseded, sink);
                way
            }
            Some(way) if request.rules.server() && set.slots[way].yields_to(request.priority) => {
                self.vacate(set, way, Cause::Superseded, sink);
                way
            }
            Some(_) => return sink.refused(request, packet, Refusal::Duplicate),
            None => match set.choose(
                &Request { rules: request.rules.with_conflict(Conflict::FirstCome), ..*request },
                self.age_limit,
            ) {
                Choice::None(_) => return Self::pass_on(request, packet, sink),
                Choice::Way(way, cause) => {
                    self.vacate(set, way, cause, sink);
                    way
                }
            },
        };
        match set.slots[way].install(request, packet) {
            Ok(()) => {
                set.occupy(way, request.key, request.now);
                set.directory.use_result(way);
                if let Some(result) = set.slots[way].aggregate() {
                    sink.installed(request, result);
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
            Ok(()) => {
                if let Some(result) = slot.aggregate() {
                    sink.passed_on(request, result);
                }
            }
            Err(packet) => sink.refused(request, packet, Refusal::LengthChanged),
        }
    }
}
