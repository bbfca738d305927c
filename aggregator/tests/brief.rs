//! Contributions in brief lead to what whole requests lead to.
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::time::Duration;

use common::{Event, Item, Parcel, Recorder, signature};
use pascaline_aggregator::{
    Brevity, ConflictPolicy, Key, Order, Policy, Pool, PoolConfig, Region, Session, Terms,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use proptest::prelude::*;

/// Longer than a tick of a set's directory.
const AGE_LIMIT: Duration = Duration::from_millis(4);
const RANKS: u16 = 3;

/// One contribution, and what is special about it.
#[derive(Debug, Clone, Copy)]
struct Step {
    psn: u32,
    job: u16,
    rank: u16,
    /// Nanoseconds since the one before.
    after: u64,
    again: bool,
    overflow: bool,
    longer: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rarely = || prop::bool::weighted(0.05);
    let after = prop_oneof![8 => 0u64..200_000, 1 => 0u64..3_000_000, 1 => 4_000_000u64..9_000_000];
    let step = (0u32..24, 1u16..3, 0..RANKS, after, rarely(), rarely(), rarely()).prop_map(
        |(psn, job, rank, after, again, overflow, longer)| Step {
            psn,
            job,
            rank,
            after,
            again,
            overflow,
            longer,
        },
    );
    prop::collection::vec(step, 1..200)
}

/// How jobs use the pool: mostly in the plain way.
fn policies() -> impl Strategy<Value = Policy> {
    let region = Some(Region { first: 2, sets: 2 });
    prop_oneof![
        4 => Just(Policy::default()),
        2 => Just(Policy { server: true, conflict: ConflictPolicy::Preempt, ..Policy::default() }),
        1 => Just(Policy { quota: 2, ..Policy::default() }),
        2 => Just(Policy { order: Order::Rank, ..Policy::default() }),
        1 => Just(Policy { region, ..Policy::default() }),
    ]
}

struct Rig {
    session: Session<HeapBuf>,
    memory: HeapPool,
    recorder: Recorder,
}

impl Rig {
    fn new() -> Self {
        let config =
            PoolConfig { slots: 8, reserved: 4, ways: 2, age_limit: AGE_LIMIT, ..PoolConfig::default() };
        let session = Pool::sessions(&config, Kernels::scalar(), 1).unwrap().remove(0);
        Self { session, memory: HeapPool::new(), recorder: Recorder::default() }
    }

    fn in_full(&mut self, parcel: &Parcel, policy: &Policy) -> Vec<Event> {
        let place = match policy.region {
            Some(region) => self.session.place_in(region, parcel.request.key),
            None => self.session.place(parcel.request.key),
        };
        self.session.offer_at(place, &parcel.request, parcel.packet(&self.memory), &mut self.recorder);
        self.recorder.take()
    }

    fn in_brief(&mut self, parcel: &Parcel, policy: &Policy) -> Vec<Event> {
        let request = &parcel.request;
        let (key, now, offset) = (request.key, request.now, request.offset);
        let terms = Terms::new(key.job(), key.epoch(), request.rank, RANKS, RANKS, policy.region);
        let mut brief = terms.brief(key.psn(), request.element, request.len);
        if request.again || request.overflow {
            brief = brief.noteworthy();
        }
        let mut place = self.session.place_on(&terms, key.psn());
        self.session.foresee(&mut place);
        let (packet, sink) = (parcel.packet(&self.memory), &mut self.recorder);
        match self.session.add_brief(place, &brief, offset, now, packet.bytes(), sink) {
            // The one event that is left out.
            Brevity::Added => return vec![Event::Added(common::Who { key, rank: request.rank })],
            Brevity::Concluded => {}
            Brevity::Absent | Brevity::Unsuited => {
                let mut item = Item { brief, place, packet: Some(packet) };
                if item.bring_in(&mut self.session, request, sink) {
                    return vec![Event::Added(common::Who { key, rank: request.rank })];
                }
            }
        }
        self.recorder.take()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn in_brief_and_in_full_the_same_events(steps in steps(), policies in [policies(), policies()]) {
        let (mut brief, mut full) = (Rig::new(), Rig::new());
        let mut now = 1;
        for step in steps {
            now += step.after;
            let policy = &policies[usize::from(step.job - 1)];
            let mut values = signature(step.rank, RANKS);
            values.resize(if step.longer { 3 } else { 2 }, 0);
            let key = Key::new(step.job, 1, step.psn);
            let parcel = Parcel::add(key, step.rank, RANKS, &values).at(now).under(policy).with(|request| {
                request.again = step.again;
                request.overflow = step.overflow;
                request.priority = u16::from(step.longer);
            });
            let (left, right) = (brief.in_brief(&parcel, policy), full.in_full(&parcel, policy));
            prop_assert_eq!(left, right, "{:?}", step);
        }
        prop_assert_eq!(brief.session.packets(), full.session.packets());
        drop((brief.session, full.session));
        prop_assert_eq!((brief.memory.live(), full.memory.live()), (0, 0));
    }
}

/// What the packet path puts together itself says the same.
#[test]
fn parts_of_words_make_the_same_contribution() {
    let terms = Terms::new(0x1234, 0x56, 2, RANKS, RANKS, None);
    for (psn, element, len) in [(0, 0, 0), (7, 0xff, 1024), (u32::MAX, 0x81, u16::MAX)] {
        let (code, bytes) = (u64::from(element) << 56, u32::from(len) << 16);
        let brief = terms.brief(psn, element, len);
        assert_eq!(terms.brief_of(psn, code, bytes, u32::MAX), brief);
        assert_eq!(terms.brief_of(psn, code, bytes, u32::MAX >> 16), brief.noteworthy());
        assert_eq!((brief.key(), brief.element(), brief.rank()), (Key::new(0x1234, 0x56, psn), element, 2));
        assert_eq!((brief.shape().fan_in(), brief.shape().payload_len()), (RANKS, len));
    }
}
