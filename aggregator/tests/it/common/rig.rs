//! A pool with one user.

use std::time::Duration;

use pascaline_aggregator::{Key, Pool, PoolConfig, Region, Session, SweepAction};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool};

use super::recorder::who;
use super::{Event, Parcel, Recorder, TICK, add_burst, is_fast};

pub(crate) fn config(slots: usize, ways: usize) -> PoolConfig {
    PoolConfig {
        slots,
        reserved: 0,
        ways,
        age_limit: Duration::from_nanos(1000 * TICK),
        remind_interval: Duration::from_micros(10),
    }
}

/// The PSNs of job 1, generation 1, that fall into set 0 of this many sets.
pub(crate) fn keys_of_one_set(sets: usize) -> impl Iterator<Item = Key> {
    (0..).map(|psn| Key::new(1, 1, psn)).filter(move |key| key.place(sets) == 0)
}

/// A pool with one user, its packets and what came out of it.
pub(crate) struct Rig<const WORDS: usize = 1> {
    pub(crate) memory: HeapPool,
    pub(crate) session: Session<HeapBuf, WORDS>,
    pub(crate) sink: Recorder,
    /// Whatever the fast path recognises is brought in as a burst.
    pub(crate) fast: bool,
}

impl Rig<1> {
    pub(crate) fn new(slots: usize, ways: usize) -> Self {
        Self::of(&config(slots, ways))
    }
}

impl<const WORDS: usize> Rig<WORDS> {
    pub(crate) fn of(config: &PoolConfig) -> Self {
        Self::with(config, Kernels::scalar())
    }

    pub(crate) fn with(config: &PoolConfig, kernels: Kernels) -> Self {
        let mut sessions = Pool::sessions(config, kernels, 1).expect("a valid layout");
        Self {
            memory: HeapPool::new(),
            session: sessions.pop().expect("one session"),
            sink: Recorder::default(),
            fast: false,
        }
    }

    /// The same, brought in by way of the fast path if `fast`.
    pub(crate) fn by_way(self, fast: bool) -> Self {
        Self { fast, ..self }
    }

    /// Offers a packet and gives the events. What came with them stays in the sink until the next call.
    pub(crate) fn offer(&mut self, parcel: &Parcel) -> Vec<Event> {
        self.bring_in(parcel, None)
    }

    fn bring_in(&mut self, parcel: &Parcel, region: Option<Region>) -> Vec<Event> {
        self.sink.take();
        let packet = parcel.packet(&self.memory);
        if self.fast && is_fast(parcel, &packet) {
            add_burst(&mut self.session, &mut self.sink, vec![(parcel, region, packet)]);
            if std::mem::take(&mut self.sink.silent) > 0 {
                self.sink.events.push(Event::Added(who(&parcel.request)));
            }
        } else {
            self.session.offer(&parcel.request, region, packet, &mut self.sink);
        }
        std::mem::take(&mut self.sink.events)
    }

    /// The same for a request that must get exactly one event.
    #[track_caller]
    pub(crate) fn one(&mut self, parcel: &Parcel) -> Event {
        let mut events = self.offer(parcel);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// The same for a job with a region of its own.
    pub(crate) fn offer_in(&mut self, region: Region, parcel: &Parcel) -> Vec<Event> {
        self.bring_in(parcel, Some(region))
    }

    /// The same for a request that must get exactly one event.
    #[track_caller]
    pub(crate) fn one_in(&mut self, region: Region, parcel: &Parcel) -> Event {
        let mut events = self.offer_in(region, parcel);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(crate) fn sweep(&mut self, sets: usize, outdated: impl Fn(Key) -> bool) -> Vec<Event> {
        self.judge(sets, |key, _| if outdated(key) { SweepAction::Vacate } else { SweepAction::Keep })
    }

    /// Sweeps some sets; `judge` says what happens to each slot.
    pub(crate) fn judge(
        &mut self,
        sets: usize,
        judge: impl Fn(Key, Option<u64>) -> SweepAction,
    ) -> Vec<Event> {
        self.sink.take();
        self.session.sweep(sets, judge, &mut self.sink);
        std::mem::take(&mut self.sink.events)
    }

    /// Lets everything go, and proves that nothing was held elsewhere.
    #[track_caller]
    pub(crate) fn close(mut self) {
        self.sink.take();
        drop(self.session);
        assert_eq!(self.memory.live(), 0, "packets leaked");
    }
}
