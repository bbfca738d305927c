//! Contributions of a burst that are added together lead to what they lead to one after the other.
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::collections::BTreeMap;

use common::{Event, Item, Parcel, Recorder, Who};
use pascaline_aggregator::{Brevity, Key, Order, Policy, Pool, PoolConfig, Session, Terms, Together};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use proptest::prelude::*;

const RANKS: u16 = 5;
/// So many PSNs of two jobs that none has to make room for another.
const PSNS: u32 = 6;
const SLOTS: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Step {
    job: u16,
    psn: u32,
    rank: u16,
    value: i32,
    /// What makes it one that is not expected, or not like this.
    odd: Odd,
}

#[derive(Debug, Clone, Copy)]
enum Odd {
    Nothing,
    Again,
    Overflow,
    Longer,
}

/// Bursts of up to 32 contributions; sums of these saturate, so that it shows in which order they are made.
fn bursts() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let odd = prop_oneof![
        40 => Just(Odd::Nothing), 1 => Just(Odd::Again), 1 => Just(Odd::Overflow), 1 => Just(Odd::Longer),
    ];
    let value = prop_oneof![Just(i32::MAX - 1), Just(i32::MIN + 1), Just(1 << 30), -5i32..5];
    let step = (1u16..3, 0..PSNS, 0..RANKS, value, odd).prop_map(|(job, psn, rank, value, odd)| Step {
        job,
        psn,
        rank,
        value,
        odd,
    });
    prop::collection::vec(prop::collection::vec(step, 1..33), 1..6)
}

/// A burst: contributions in brief, and what each of them is in full.
struct Burst {
    items: Vec<Item>,
    parcels: Vec<Parcel>,
}

struct Rig {
    session: Session<HeapBuf>,
    memory: HeapPool,
    recorder: Recorder,
    /// Contributions that were added with one before them.
    with_another: usize,
}

impl Rig {
    fn new() -> Self {
        let config = PoolConfig { slots: SLOTS, ..PoolConfig::default() };
        let session = Pool::sessions(&config, Kernels::detect(), 1).unwrap().remove(0);
        Self { session, memory: HeapPool::new(), recorder: Recorder::default(), with_another: 0 }
    }

    fn item(&mut self, step: &Step, policy: &Policy, now: u64) -> (Item, Parcel) {
        let Step { job, psn, rank, value, odd } = *step;
        let key = Key::new(job, 1, psn);
        // Long enough for whole registers and a rest.
        let values = vec![value; if matches!(odd, Odd::Longer) { 150 } else { 147 }];
        let parcel = Parcel::add(key, rank, RANKS, &values).at(now).under(policy).with(|request| {
            request.again = matches!(odd, Odd::Again);
            request.overflow = matches!(odd, Odd::Overflow);
        });
        let terms = Terms::new(job, 1, rank, RANKS, RANKS, None);
        let mut brief = terms.brief(psn, parcel.request.element, parcel.request.len);
        if matches!(odd, Odd::Again | Odd::Overflow) {
            brief = brief.noteworthy();
        }
        let place = self.session.place_on(&terms, psn);
        let packet = Some(parcel.packet(&self.memory));
        (Item { brief, place, packet }, parcel)
    }

    /// A contribution that cannot be added in brief.
    fn in_full(&mut self, item: &mut Item, parcel: &Parcel) {
        let request = &parcel.request;
        if item.bring_in(&mut self.session, request, &mut self.recorder) {
            self.added(request.key, request.rank);
        }
    }

    /// The one event that the pool leaves to its caller.
    fn added(&mut self, key: Key, rank: u16) {
        self.recorder.events.push(Event::Added(Who { key, rank }));
    }

    /// Brings in a burst; `together` or one after the other. What has happened to each PSN, in order.
    fn burst(&mut self, burst: Burst, together: bool) -> BTreeMap<(u16, u32), Vec<Event>> {
        let Burst { mut items, parcels } = burst;
        self.session.foresee_all(items.iter_mut().map(|item| &mut item.place));
        let mut chains = Together::of(items.iter().map(|item| item.place));
        let mut happened = BTreeMap::<_, Vec<Event>>::new();
        for at in 0..items.len() {
            if chains.is_inside(at) {
                continue;
            }
            let Parcel { request, .. } = &parcels[at];
            let (key, offset, now) = (request.key, request.offset, request.now);
            let brevity = if together {
                self.session.add_together(&mut chains, at, &items, offset, now, &mut self.recorder)
            } else {
                let Item { brief, place, packet, .. } = &items[at];
                let bytes = packet.as_ref().unwrap().bytes();
                self.session.add_brief(*place, brief, offset, now, bytes, &mut self.recorder)
            };
            // Only the last one leads to an event, and the pool says nothing of those before it.
            let conclusion = self.recorder.take();
            if matches!(brevity, Brevity::Absent | Brevity::Unsuited) {
                self.in_full(&mut items[at], &parcels[at]);
            } else {
                let added = |(behind, item): (usize, &mut Item)| {
                    let inside = behind == at || chains.is_inside(behind);
                    inside.then(|| item.packet.take()).flatten().map(|_| item.brief.rank())
                };
                let ranks: Vec<_> = items.iter_mut().enumerate().skip(at).filter_map(added).collect();
                self.with_another += ranks.len() - 1;
                let silent = ranks.len() - usize::from(brevity == Brevity::Concluded);
                ranks.iter().take(silent).for_each(|&rank| self.added(key, rank));
                self.recorder.events.extend(conclusion);
            }
            let events = self.recorder.take();
            happened.entry((key.job(), key.psn())).or_default().extend(events);
        }
        happened
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn together_and_one_by_one_the_same_events(bursts in bursts(), by_rank in any::<bool>()) {
        let order = if by_rank { Order::Rank } else { Order::Arrival };
        // The second job's.
        let policies = [Policy::default(), Policy { order, ..Policy::default() }];
        let (mut left, mut right) = (Rig::new(), Rig::new());
        for (number, burst) in (1..).zip(bursts) {
            let prepared = |rig: &mut Rig| {
                let policy = |step: &Step| &policies[usize::from(step.job - 1)];
                let (items, parcels) =
                    burst.iter().map(|step| rig.item(step, policy(step), number * 1_000_000)).unzip();
                Burst { items, parcels }
            };
            let (together, singly) = (prepared(&mut left), prepared(&mut right));
            prop_assert_eq!(left.burst(together, true), right.burst(singly, false));
        }
        prop_assert_eq!(left.session.packets(), right.session.packets());
        drop((left.session, right.session));
        prop_assert_eq!((left.memory.live(), right.memory.live()), (0, 0));
    }
}

/// All ranks of some PSNs in one burst: each sum is made in one go, but for the contribution that opens it.
#[test]
fn a_burst_is_added_in_one_go() {
    let mut rig = Rig::new();
    let step = |at: u32| Step {
        job: 1,
        psn: at % PSNS,
        rank: u16::try_from(at / PSNS).unwrap(),
        value: 1,
        odd: Odd::Nothing,
    };
    let (items, parcels) =
        (0..PSNS * u32::from(RANKS)).map(|at| rig.item(&step(at), &Policy::default(), 1_000_000)).unzip();
    let happened = rig.burst(Burst { items, parcels }, true);
    assert_eq!(happened.len(), PSNS as usize);
    for events in happened.values() {
        let [
            Event::Opened(_),
            Event::Added(_),
            Event::Added(_),
            Event::Added(_),
            Event::Completed { sum, .. },
        ] = events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert!(sum.values.iter().all(|&value| value == i32::from(RANKS)));
    }
    // Of five one opens, one begins, three follow.
    assert_eq!(rig.with_another, PSNS as usize * 3);
}

/// A place beyond the burst is nobody's.
#[test]
fn what_is_not_there_is_not_added() {
    let mut rig = Rig::new();
    let none: [Item; 0] = [];
    let mut chains = Together::of(std::iter::empty());
    assert!(!chains.is_inside(0) && !chains.is_inside(64));
    let brevity = rig.session.add_together(&mut chains, 7, &none, 0, 0, &mut rig.recorder);
    assert_eq!(brevity, Brevity::Unsuited);
}
