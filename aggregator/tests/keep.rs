//! Contributions that are kept until all are there, several after one another.
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use common::{Event, Item, Recorder};
use pascaline_aggregator::{Kept, Opening, Order, Policy, Pool, PoolConfig, Rules, Session, Terms};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf, SharedBuf};
use pascaline_wire::Element;

const OFFSET: u16 = 5;
const NOW: u64 = 1_000_000;

struct Rig<const WORDS: usize> {
    session: Session<HeapBuf, WORDS>,
    memory: HeapPool,
    recorder: Recorder,
    fan_in: u16,
}

/// What a rank contributes: sums of these depend on the order in which they are made.
fn value(rank: u16) -> f32 {
    if rank.is_multiple_of(2) { 1e8 } else { f32::from(rank) - 1e8 }
}

impl<const WORDS: usize> Rig<WORDS> {
    fn new(fan_in: u16) -> Self {
        let config = PoolConfig { slots: 8, ways: 2, ..PoolConfig::default() };
        let session = Pool::sessions(&config, Kernels::detect(), 1).unwrap().remove(0);
        Self { session, memory: HeapPool::new(), recorder: Recorder::default(), fan_in }
    }

    fn item(&mut self, psn: u32, rank: u16) -> Item {
        let mut packet = vec![0xaa; usize::from(OFFSET)];
        packet.extend(value(rank).to_le_bytes());
        let terms = Terms::new(1, 1, rank, self.fan_in, self.fan_in, None);
        let brief = terms.brief(psn, Element::F32_SUM.code(), 4);
        let mut place = self.session.place_on(&terms, psn);
        self.session.foresee(&mut place);
        Item { brief, place, packet: Some(self.memory.alloc(&packet, 0)) }
    }

    fn open(&mut self, psn: u32, rank: u16) {
        let Item { brief, place, mut packet } = self.item(psn, rank);
        let rules = Rules::of(&Policy { order: Order::Rank, ..Policy::default() });
        let opening = Opening { brief: &brief, rules, priority: 0, offset: OFFSET, now: NOW };
        assert!(self.session.open_brief(place, &opening, &mut packet, &mut self.recorder));
        assert!(matches!(self.recorder.events.pop(), Some(Event::Opened(_))));
    }

    fn keep(&mut self, items: &mut [Item]) -> Kept {
        self.session.keep_brief(items, OFFSET, NOW, &mut self.recorder)
    }
}

/// All ranks, in an order that is none.
fn shuffled(fan_in: u16) -> Vec<u16> {
    (0..u32::from(fan_in)).map(|at| u16::try_from(at * 389 % u32::from(fan_in)).unwrap()).collect()
}

fn check<const WORDS: usize>(fan_in: u16) {
    let mut rig = Rig::<WORDS>::new(fan_in);
    let order = shuffled(fan_in);
    rig.open(7, order[0]);
    let mut items: Vec<Item> = order[1..].iter().map(|&rank| rig.item(7, rank)).collect();
    let kept = rig.keep(&mut items);
    assert_eq!(kept, Kept { taken: items.len(), concluded: 1 });
    assert!(items.iter().all(|item| item.packet.is_none()));
    assert!(matches!(rig.recorder.events[..], [Event::Completed { alone: false, .. }]));
    let sum = (1..fan_in).fold(value(0), |sum, rank| sum + value(rank));
    assert_eq!(rig.recorder.payloads[0].bytes(), sum.to_le_bytes());
    drop(rig.recorder.take());
    assert_eq!(rig.memory.live(), 1, "but for the result, all have come back");
}

#[test]
fn whatever_the_order_of_arrival_the_sum_is_that_of_the_ranks() {
    // Around the seven packets of which one's line tells, and its double; and as many as there can be.
    for fan_in in [2, 3, 7, 8, 9, 15, 16, 17, 25, 64] {
        check::<1>(fan_in);
        check::<16>(fan_in);
    }
    check::<16>(1024);
}

#[test]
fn the_first_that_is_not_expected_and_those_behind_it_are_left_alone() {
    let mut rig = Rig::<1>::new(20);
    rig.open(7, 0);
    let elsewhere = |rig: &mut Rig<1>| rig.item(8, 1);
    let twice = |rig: &mut Rig<1>| rig.item(7, 0);
    let short = |rig: &mut Rig<1>| {
        let packet = Some(rig.memory.alloc(&[0; 8], 0));
        Item { packet, ..rig.item(7, 12) }
    };
    let gone = |rig: &mut Rig<1>| Item { packet: None, ..rig.item(7, 12) };
    let odd: [&dyn Fn(&mut Rig<1>) -> Item; 4] = [&elsewhere, &twice, &short, &gone];
    for (number, odd) in (0..).zip(odd) {
        let ranks = [2 * number + 1, 2 * number + 2];
        let mut items = vec![rig.item(7, ranks[0]), rig.item(7, ranks[1]), odd(&mut rig), rig.item(7, 19)];
        let given = items[2].packet.is_some();
        assert_eq!(rig.keep(&mut items), Kept { taken: 2, concluded: 0 });
        let left: Vec<bool> = items.iter().map(|item| item.packet.is_some()).collect();
        assert_eq!(left, [false, false, given, true]);
        assert!(rig.recorder.events.is_empty());
    }
    assert_eq!(rig.session.packets(), 9);
}

#[test]
fn a_pool_that_goes_frees_what_it_has_kept() {
    for kept in [1, 7, 8, 9, 17] {
        let mut rig = Rig::<1>::new(20);
        rig.open(7, 0);
        let mut items: Vec<Item> = (1..kept).map(|rank| rig.item(7, rank)).collect();
        assert_eq!(rig.keep(&mut items).taken, usize::from(kept) - 1);
        assert_eq!(rig.memory.live(), usize::from(kept));
        drop(rig.session);
        assert_eq!(rig.memory.live(), 0);
    }
}

#[test]
fn what_another_pool_foresaw_is_not_kept() {
    let config = PoolConfig { slots: 8, ways: 2, ..PoolConfig::default() };
    let mut rig = Rig::<1>::new(3);
    rig.open(7, 0);
    let mut items = vec![rig.item(7, 1)];
    rig.session = Pool::sessions(&config, Kernels::scalar(), 2).unwrap().remove(0);
    assert_eq!(rig.keep(&mut items), Kept { taken: 0, concluded: 0 });
    assert!(items[0].packet.as_ref().is_some_and(|packet| packet.bytes().len() == 9));
}
