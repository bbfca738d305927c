//! Bursts by the fast path lead to what whole requests lead to, one by one.

use std::collections::BTreeMap;
use std::time::Duration;

use pascaline_aggregator::{ConflictPolicy, Key, Order, Policy, Pool, PoolConfig, Region, Terms};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapPool, SharedBuf};
use pascaline_wire::Element;
use proptest::prelude::*;

use crate::common::{self, Event, Parcel, Recorder, Rig, Who, add_burst, signature};

/// Longer than a tick of a set's directory.
const AGE_LIMIT: Duration = Duration::from_millis(4);
const RANKS: u16 = 5;

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

fn step(psns: u32) -> impl Strategy<Value = Step> {
    let rarely = || prop::bool::weighted(0.05);
    let after = prop_oneof![8 => 0u64..200_000, 1 => 0u64..3_000_000, 1 => 4_000_000u64..9_000_000];
    (0..psns, 1u16..3, 0..RANKS, after, rarely(), rarely(), rarely()).prop_map(
        |(psn, job, rank, after, again, overflow, longer)| {
            let psn = psn.wrapping_sub(3);
            Step { psn, job, rank, after, again, overflow, longer }
        },
    )
}

impl Step {
    /// The contribution, with a payload of this many values.
    fn parcel(&self, len: usize, policy: &Policy, now: u64) -> Parcel {
        let mut values = signature(self.rank, RANKS);
        values.resize(if self.longer { len + 3 } else { len }, 0);
        let key = Key::new(self.job, 255, self.psn);
        Parcel::add(key, self.rank, RANKS, &values).at(now).under(policy).with(|request| {
            request.again = self.again;
            request.overflow = self.overflow;
            request.priority = u16::from(self.longer);
        })
    }
}

/// How jobs use the pool: mostly without further questions.
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

fn offer<const WORDS: usize>(rig: &mut Rig<WORDS>, parcel: &Parcel, policy: &Policy) -> Vec<Event> {
    match policy.region {
        Some(region) => rig.offer_in(region, parcel),
        None => rig.offer(parcel),
    }
}

/// Events of each PSN, in order, without those that the fast path does silently.
fn by_psn(events: Vec<Event>) -> (BTreeMap<u64, Vec<Event>>, usize) {
    let (mut happened, mut added) = (BTreeMap::<u64, Vec<Event>>::new(), 0);
    for event in events {
        let key = match &event {
            Event::Added(_) => {
                added += 1;
                continue;
            }
            Event::Opened(who)
            | Event::Completed { who, .. }
            | Event::Replayed(who, _)
            | Event::Rejected(who, _) => who.key,
            other => panic!("{other:?}: there is room for all"),
        };
        happened.entry(key.to_bits()).or_default().push(event);
    }
    (happened, added)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// One by one, in a pool in which they evict each other.
    #[test]
    fn by_the_fast_path_and_in_full_the_same_events(
        steps in prop::collection::vec(step(24), 1..200), policies in [policies(), policies()],
    ) {
        let config =
            PoolConfig { slots: 8, reserved: 4, ways: 2, age_limit: AGE_LIMIT, ..PoolConfig::default() };
        let (mut fast, mut full) = (Rig::<1>::of(&config).by_way(true), Rig::<1>::of(&config));
        let mut now = 1;
        for step in steps {
            now += step.after;
            let policy = &policies[usize::from(step.job - 1)];
            let parcel = step.parcel(3, policy, now);
            let (left, right) = (offer(&mut fast, &parcel, policy), offer(&mut full, &parcel, policy));
            prop_assert_eq!(left, right, "{:?}", step);
        }
        prop_assert_eq!(fast.session.packets(), full.session.packets());
        fast.close();
        full.close();
    }

    /// Whole bursts of short and of long payloads, in a pool with room for all.
    #[test]
    fn whole_bursts_and_one_by_one_the_same_events(
        bursts in prop::collection::vec(prop::collection::vec(step(6), 1..33), 1..6),
        by_rank in any::<bool>(), long in any::<bool>(),
    ) {
        let config = PoolConfig { slots: 64, ..PoolConfig::default() };
        let order = if by_rank { Order::Rank } else { Order::Arrival };
        // The second job's.
        let policies = [Policy::default(), Policy { order, ..Policy::default() }];
        let (mut fast, mut full) = (Rig::<1>::of(&config), Rig::<1>::of(&config));
        for (number, burst) in (1..).zip(bursts) {
            let parcel = |step: &Step| {
                let policy = &policies[usize::from(step.job - 1)];
                step.parcel(if long { 603 } else { 3 }, policy, number * 1_000_000)
            };
            let parcels: Vec<Parcel> = burst.iter().map(parcel).collect();
            let brought = parcels.iter().map(|parcel| (parcel, None, parcel.packet(&fast.memory))).collect();
            add_burst(&mut fast.session, &mut fast.sink, brought);
            let silent = std::mem::take(&mut fast.sink.silent);
            let (left, added) = by_psn(fast.sink.take());
            let right = by_psn(parcels.iter().flat_map(|parcel| full.offer(parcel)).collect());
            prop_assert_eq!((left, added + silent), right);
        }
        prop_assert_eq!(fast.session.packets(), full.session.packets());
        fast.close();
        full.close();
    }
}

/// What a rank contributes: sums of these depend on the order in which they are made.
fn value(rank: u16) -> f32 {
    if rank.is_multiple_of(2) { 1e8 } else { f32::from(rank) - 1e8 }
}

fn by_rank(rank: u16, fan_in: u16) -> Parcel {
    let policy = Policy { order: Order::Rank, ..Policy::default() };
    let bits = i32::from_le_bytes(value(rank).to_le_bytes());
    Parcel::add(Key::new(1, 1, 7), rank, fan_in, &[bits]).of(Element::F32_SUM).under(&policy)
}

fn check_order<const WORDS: usize>(fan_in: u16) {
    let mut rig = Rig::<WORDS>::of(&common::config(8, 2));
    // All ranks, in an order that is none.
    let shuffled = (0..u32::from(fan_in)).map(|at| u16::try_from(at * 389 % u32::from(fan_in)).unwrap());
    let parcels: Vec<Parcel> = shuffled.map(|rank| by_rank(rank, fan_in)).collect();
    for burst in parcels.chunks(32) {
        let brought = burst.iter().map(|parcel| (parcel, None, parcel.packet(&rig.memory))).collect();
        add_burst(&mut rig.session, &mut rig.sink, brought);
    }
    assert!(matches!(rig.sink.events[..], [Event::Opened(_), Event::Completed { alone: false, .. }]));
    assert_eq!(rig.sink.silent, usize::from(fan_in) - 2);
    let sum = (1..fan_in).fold(value(0), |sum, rank| sum + value(rank));
    assert_eq!(rig.sink.payloads[0].bytes(), sum.to_le_bytes());
    drop(rig.sink.take());
    assert_eq!(rig.memory.live(), 1, "but for the result, all have come back");
    rig.close();
}

#[test]
fn whatever_the_order_of_arrival_the_sum_is_that_of_the_ranks() {
    // One line tells of seven packets: counts around seven, around fourteen, and the most there can be.
    for fan_in in [2, 3, 7, 8, 9, 15, 16, 17, 25, 64] {
        check_order::<1>(fan_in);
        check_order::<16>(fan_in);
    }
    check_order::<16>(1024);
}

#[test]
fn a_pool_that_goes_frees_what_it_has_kept() {
    for kept in [1, 7, 8, 9, 17] {
        let mut rig = Rig::<1>::of(&common::config(8, 2)).by_way(true);
        for rank in 0..kept {
            rig.offer(&by_rank(rank, 20));
        }
        assert_eq!(rig.session.packets(), usize::from(kept));
        rig.close();
    }
}

/// All ranks of some PSNs in one burst of long payloads.
#[test]
fn a_burst_of_whole_psns_completes_them() {
    let mut rig = Rig::<1>::of(&PoolConfig { slots: 64, ..PoolConfig::default() });
    let all = (0..RANKS).flat_map(|rank| (0..6).map(move |psn| (psn, rank)));
    let parcels: Vec<Parcel> =
        all.map(|(psn, rank)| Parcel::add(Key::new(1, 1, psn), rank, RANKS, &[1; 600])).collect();
    let brought = parcels.iter().map(|parcel| (parcel, None, parcel.packet(&rig.memory))).collect();
    add_burst(&mut rig.session, &mut rig.sink, brought);
    let sums: Vec<_> =
        rig.sink.events.iter().filter(|event| matches!(event, Event::Completed { .. })).collect();
    assert_eq!((sums.len(), rig.sink.silent), (6, 6 * 3));
    assert!(sums.iter().all(|event| common::sum_of(event).values == [i32::from(RANKS); 600]));
    rig.close();
}

/// Gradients for another owner are handed off, and those of one PSN combined before.
#[test]
fn a_burst_for_another_owner_is_combined_and_handed_off() {
    let mut sessions = Pool::<_, 1>::sessions(&common::config(8, 1), Kernels::detect(), 2).unwrap();
    let (memory, mut sink) = (HeapPool::new(), Recorder::default());
    let key = Key::new(1, 1, 6);
    let parcels: Vec<Parcel> = (0..4).map(|rank| Parcel::add(key, rank, 4, &signature(rank, 4))).collect();
    let brought = parcels.iter().map(|parcel| (parcel, None, parcel.packet(&memory))).collect();
    add_burst(&mut sessions[1], &mut sink, brought);
    let added = |rank| Event::Added(Who { key, rank });
    assert_eq!(sink.take(), [Event::HandedOff, added(1), added(2), added(3)]);
    assert!(sessions[1].resume(&mut sink) && sessions[0].resume(&mut sink));
    let [Event::Completed { alone: true, sum, .. }] = sink.events.as_slice() else { panic!("{sink:?}") };
    assert_eq!(sum.values, common::full_signature(4));
    drop((sink.take(), sessions));
    assert_eq!(memory.live(), 0);
}

/// What the packet path puts together itself says the same.
#[test]
fn parts_of_words_make_the_same_gradient() {
    let terms = Terms::new(0x1234, 0x56, 2, RANKS, RANKS, None);
    for (psn, element, len) in [(0, 0, 0), (7, 0xff, 1024), (u32::MAX, 0x81, u16::MAX)] {
        let (code, bytes) = (u64::from(element) << 56, u32::from(len) << 16);
        let gradient = terms.gradient(psn, element, len);
        assert_eq!(terms.gradient_of(psn, code, bytes, u32::MAX), gradient);
        assert_eq!(terms.gradient_of(psn, code, bytes, u32::MAX >> 16), gradient.noteworthy());
        let key = Key::new(0x1234, 0x56, psn);
        assert_eq!((gradient.key(), gradient.element(), gradient.rank()), (key, element, 2));
        assert_eq!((gradient.shape().fan_in(), gradient.shape().payload_len()), (RANKS, len));
    }
}
