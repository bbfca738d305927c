//! Sets of slots, and the operations on them.

mod config;
mod contribution;
mod eviction;
mod fast_path;
mod kernels;
mod requests;

use core::marker::PhantomData;
use std::sync::Arc;

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine, InOrder, Kernels};

use crate::handed_off::HandedOff;
use crate::handoff::{self, Receiver, Sender};
use crate::owners::{Groups, Owners};
use crate::policy::Order;
use crate::request::{Request, Verb};
use crate::session::{Lane, Session};
use crate::set::{Limit, Set};
use crate::shard::{Memory, SetHead, Shard};
use crate::share::Shares;
use crate::sink::Sink;
use crate::slot::Slot;
use crate::sync::{AtomicU32, JOBS};
use kernels::Kernel;

pub use config::{PoolConfig, PoolConfigError};

/// The state shared by the sessions of a pool: its layout, and counts over all of them. The slots are theirs.
///
/// `WORDS` is the width of the contribution bitmap in units of 64 ranks.
pub struct Pool<B: PacketBuf, const WORDS: usize = 1> {
    pub(crate) config: PoolConfig,
    /// Sets of the shared part; regions come behind it.
    pub(crate) shared_sets: usize,
    age_limit: u64,
    /// The same in a directory's units.
    age_ticks: Limit,
    remind_interval: u32,
    /// Which session owns which set.
    pub(crate) owners: Owners,
    /// The sets of the shared part.
    pub(crate) groups: Groups,
    /// By element code.
    kernels: Box<[Kernel; 256]>,
    /// Partials of the jobs that have a quota, by job.
    held: Box<[AtomicU32]>,
    of: PhantomData<fn(B)>,
}

/// One lcore's rings to the others and back.
struct Ends<B: PacketBuf> {
    to: Vec<(usize, Sender<HandedOff<B>>)>,
    from: Vec<Receiver<HandedOff<B>>>,
}

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Lays out a pool for `lcores` users and gives each its session.
    ///
    /// # Errors [`PoolConfigError`] if slots or ways are not as [`PoolConfig`] requires.
    pub fn sessions(
        config: &PoolConfig,
        kernels: Kernels,
        lcores: usize,
    ) -> Result<Vec<Session<B, WORDS>>, PoolConfigError> {
        config.check()?;
        let &PoolConfig { slots, reserved, ways, age_limit, remind_interval } = config;
        let sets = slots / ways;
        let owners = Owners::new(lcores);
        let age_limit = u64::try_from(age_limit.as_nanos()).unwrap_or(u64::MAX);
        let pool = Arc::new(Self {
            config: *config,
            shared_sets: (slots - reserved) / ways,
            age_limit,
            age_ticks: Limit::of(age_limit),
            remind_interval: u32::try_from(remind_interval.as_micros()).unwrap_or(u32::MAX),
            owners,
            groups: Groups::new((slots - reserved) / ways, owners),
            kernels: kernels::table(&kernels),
            held: (0..JOBS).map(|_| AtomicU32::new(0)).collect(),
            of: PhantomData,
        });
        // The senders and receivers, by number.
        let mut ends: Vec<_> = (0..lcores).map(|_| Ends { to: Vec::new(), from: Vec::new() }).collect();
        for from in 0..lcores {
            for to in (0..lcores).filter(|&to| to != from) {
                let (sender, receiver) = handoff::ring(Self::ring_places(lcores));
                ends[from].to.push((to, sender));
                ends[to].from.push(receiver);
            }
        }
        let session = |(number, Ends { to, from })| {
            let memory = Memory::new(owners.sets(sets, number), ways);
            Session::new(Shard { pool: Arc::clone(&pool), memory, owner: number }, to, from)
        };
        Ok((0..).zip(ends).map(session).collect())
    }

    /// Packets that may be in flight from one of `lcores` to another: few in models, so that they fill it.
    const fn ring_places(lcores: usize) -> usize {
        match lcores {
            _ if cfg!(any(loom, shuttle)) => 4,
            0..=4 => 1024,
            5..=16 => 256,
            _ => 64,
        }
    }

    /// Bytes of this layout's sets and slots and of the rings between `lcores`, without packets; 0 if there
    /// are no ways.
    #[must_use]
    pub const fn memory_bytes(config: &PoolConfig, lcores: usize) -> usize {
        let rings = lcores * lcores.saturating_sub(1);
        let slots = config.slots;
        let Some(sets @ 1..) = slots.checked_div(config.ways) else { return 0 };
        sets.saturating_mul(size_of::<SetHead>())
            .saturating_add(slots.saturating_mul(size_of::<Slot<B, WORDS>>()))
            .saturating_add(JOBS * size_of::<AtomicU32>() + size_of::<[Kernel; 256]>())
            .saturating_add(lcores * size_of::<Shares>())
            .saturating_add(rings.saturating_mul(Lane::<HandedOff<B>>::bytes(Self::ring_places(lcores))))
    }

    /// Packets that `slots` hold at most for jobs of up to `fan_in` ranks: one each, or those of all ranks if
    /// contributions are kept until all are there (`kept`: the order of ranks, sums of 16-bit floats).
    #[must_use]
    pub const fn packets(slots: usize, fan_in: u16, kept: bool) -> usize {
        if kept && fan_in > 1 { slots.saturating_mul(fan_in as usize) } else { slots }
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

    /// True if contributions are kept until all can be added at once.
    #[inline(always)]
    pub(crate) fn keeps(&self, element: u8, order: Order) -> bool {
        let kernel = &self.kernels[usize::from(element)];
        order == Order::Rank || kernel.in_order.is_some() && kernel.combine.is_none()
    }

    /// Carries out a request.
    #[inline]
    pub(crate) fn apply<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        match request.verb {
            Verb::Add if request.inside != 0 => self.add_combined(set, request, packet, sink),
            Verb::Add => self.add(set, request, packet, sink),
            Verb::Remind => self.remind(set, request, packet, sink),
            Verb::Install => self.install(set, request, packet, sink),
            Verb::Fetch => self.fetch(set, request, packet, sink),
            Verb::Release => self.release_partial(set, request, packet, sink),
        }
    }
}
