//! Packets that belong to another lcore's sets, step by step on one thread.

use pascaline_aggregator::{
    Cause, ConflictPolicy, Key, Order, Policy, Pool, PoolConfig, Rejection, Session, SweepAction,
};
use pascaline_buffer::HeapPool;
use pascaline_buffer::combine::Kernels;

use crate::common::{Event, Known, Parcel, Recorder, Who, config, sum_of};

/// Packets of other lcores that one turn handles at least, as the pool guarantees.
const BUDGET: usize = 128;
/// Packets that may be on their way from one of a few lcores to another.
const PLACES: usize = 1024;

/// Some lcores, each with the events of its sink.
struct Lcores {
    sessions: Vec<Session<pascaline_buffer::HeapBuf>>,
    told: Vec<Recorder>,
    memory: HeapPool,
}

impl Lcores {
    fn new(count: usize, config: &PoolConfig) -> Self {
        let sessions = Pool::sessions(config, Kernels::scalar(), count).unwrap();
        let told = (0..count).map(|_| Recorder::default()).collect();
        Self { sessions, told, memory: HeapPool::new() }
    }

    fn of(count: usize, slots: usize, ways: usize) -> Self {
        Self::new(count, &config(slots, ways))
    }

    fn offer(&mut self, lcore: usize, parcel: &Parcel) -> Vec<Event> {
        let packet = parcel.packet(&self.memory);
        self.sessions[lcore].offer(&parcel.request, None, packet, &mut self.told[lcore]);
        self.told[lcore].take()
    }

    fn resume(&mut self, lcore: usize) -> Vec<Event> {
        self.sessions[lcore].resume(&mut self.told[lcore]);
        self.told[lcore].take()
    }

    /// Lets everything go, and proves that nothing was held elsewhere.
    #[track_caller]
    fn close(self) {
        let Self { sessions, told, memory } = self;
        drop((sessions, told));
        assert_eq!(memory.live(), 0, "packets leaked");
    }
}

/// A PSN whose set this lcore owns, of this many lcores.
fn key_of(lcore: u32, of: u32) -> Key {
    Key::new(1, 1, 10 * of + lcore)
}

fn who(key: Key, rank: u16) -> Who {
    Who { key, rank }
}

#[test]
fn a_pool_with_fewer_sets_than_lcores_serves_all_of_them() {
    let mut lcores = Lcores::of(4, 2, 1);
    for psn in 0..8 {
        let key = Key::new(1, 1, psn);
        let said: Vec<Event> = (0..4)
            .flat_map(|from| {
                let rank = u16::try_from(from).unwrap();
                let mut said = lcores.offer(from, &Parcel::add(key, rank, 4, &[1 << rank]));
                said.extend((0..4).flat_map(|lcore| lcores.resume(lcore)));
                said.extend((0..4).flat_map(|lcore| lcores.resume(lcore)));
                said
            })
            .collect();
        let completed = said.iter().find(|event| matches!(event, Event::Completed { .. })).unwrap();
        assert_eq!(sum_of(completed).values, [15]);
    }
    lcores.close();
}

#[test]
fn a_packet_for_a_set_of_another_gets_there_when_both_have_had_their_turn() {
    let mut lcores = Lcores::of(2, 8, 1);
    let key = key_of(1, 2);
    assert_eq!(lcores.offer(0, &Parcel::add(key, 0, 2, &[1])), [Event::HandedOff]);
    assert!(lcores.resume(1).is_empty(), "it has not been sent");
    assert!(lcores.resume(0).is_empty());
    assert_eq!(lcores.resume(1), [Event::Opened(who(key, 0))]);
    let Lcores { sessions, told, .. } = &mut lcores;
    assert!(!sessions[0].resume(&mut told[0]) && !sessions[1].resume(&mut told[1]), "nothing waits");
    // The rest comes to whose it is.
    let said = lcores.offer(1, &Parcel::add(key, 1, 2, &[2]));
    assert_eq!(sum_of(&said[0]).values, [3]);
    assert_eq!((lcores.sessions[0].packets(), lcores.sessions[1].packets()), (0, 1));
    lcores.close();
}

/// Whether it would open a slot, be kept in one or be added.
#[test]
fn a_rank_that_there_cannot_be_is_rejected_by_the_owner() {
    for order in [Order::Arrival, Order::Rank] {
        let policy = Policy { order, ..Policy::default() };
        let mut lcores = Lcores::of(2, 8, 1);
        let key = key_of(1, 2);
        for rank in [5, 0, 5] {
            assert_eq!(lcores.offer(0, &Parcel::add(key, rank, 3, &[1]).under(&policy)), [Event::HandedOff]);
            lcores.resume(0);
            let told = match rank {
                0 => Event::Opened(who(key, 0)),
                rank => Event::Rejected(who(key, rank), Rejection::RankOutOfRange),
            };
            assert_eq!(lcores.resume(1), [told], "{order:?}");
        }
        lcores.close();
    }
}

#[test]
fn what_is_left_is_worked_off_oldest_first() {
    let mut lcores = Lcores::of(2, 8, 1);
    let key = key_of(0, 2);
    for rank in 0..10 {
        // Sent again, and so not combined.
        let parcel = Parcel::add(key, rank, 10, &[1 << rank]).with(|r| r.again = true);
        assert_eq!(lcores.offer(1, &parcel), [Event::HandedOff]);
    }
    lcores.resume(1);
    let said = lcores.resume(0);
    let ranks: Vec<u16> = said
        .iter()
        .map(|event| match event {
            Event::Opened(who) | Event::Added(who) | Event::Completed { who, .. } => who.rank,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ranks, (0..10).collect::<Vec<_>>());
    assert_eq!(sum_of(said.last().unwrap()).values, [1023]);
    lcores.close();
}

#[test]
fn every_field_of_a_request_survives_the_journey() {
    let mut lcores = Lcores::of(2, 8, 1);
    let key = key_of(1, 2);
    lcores.offer(1, &Parcel::add(key, 0, 2, &[1]).at(70));
    let last = Parcel::add(key, 1, 2, &[2]).at(77).with(|r| {
        r.overflow = true;
        r.offset = 91;
    });
    for parcel in [last, Parcel::remind(key, 1, 2).at(78), Parcel::install(key, 0, 2, &[9]).at(79)] {
        assert_eq!(lcores.offer(0, &parcel), [Event::HandedOff]);
    }
    lcores.resume(0);
    let said = lcores.resume(1);
    let [completed, reminded, refused] = said.as_slice() else { panic!("{said:?}") };
    let sum = sum_of(completed);
    assert_eq!((sum.values.as_slice(), sum.overflow, sum.first), ([3].as_slice(), true, 70));
    assert_eq!(sum_of(reminded), sum);
    assert_eq!(*refused, Event::Rejected(who(key, 0), Rejection::Duplicate));
    lcores.close();
}

/// As it is where the sender owns the set, whether it opens the slot or takes it from another.
#[test]
fn what_is_handed_off_contends_with_its_own_priority() {
    let mut lcores = Lcores::of(2, 2, 1);
    let policy = Policy { conflict: ConflictPolicy::Preempt, server: true, ..Policy::default() };
    // Lcore 1 has a single slot, for all odd PSNs.
    let [holder, worse, better] = [(1, 5), (3, 4), (5, 7)].map(|(psn, priority)| {
        let parcel = Parcel::add(Key::new(1, 1, psn), 0, 2, &[1]).under(&policy).priority(priority);
        assert_eq!(lcores.offer(0, &parcel), [Event::HandedOff]);
        parcel.request.key
    });
    lcores.resume(0);
    let said = lcores.resume(1);
    let [opened, refused, Event::Evicted { cause, priority, sum, .. }, taken] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!([opened, taken], [&Event::Opened(who(holder, 0)), &Event::Opened(who(better, 0))]);
    assert_eq!(*refused, Event::Rejected(who(worse, 0), Rejection::Conflict));
    // The holder's is halved by each one that it has kept out.
    assert_eq!((*cause, *priority, sum.key), (Cause::Preempted, 2, holder));
    lcores.close();
}

#[test]
fn contributions_that_are_kept_until_all_are_there_may_come_from_anywhere() {
    let mut lcores = Lcores::of(3, 16, 1);
    let policy = Policy { order: Order::Rank, ..Policy::default() };
    let key = key_of(2, 3);
    let mut said = Vec::new();
    for (from, rank) in [(0, 2), (1, 0), (2, 3), (0, 1)] {
        let value = 1 << rank;
        said.extend(lcores.offer(from, &Parcel::add(key, rank, 4, &[value]).under(&policy)));
        (0..3).for_each(|lcore| said.extend(lcores.resume(lcore)));
    }
    said.retain(|event| *event != Event::HandedOff);
    assert_eq!(said.len(), 4);
    assert_eq!(sum_of(said.last().unwrap()).values, [15]);
    lcores.close();
}

#[test]
fn one_turn_works_off_no_more_than_its_budget() {
    let mut lcores = Lcores::of(2, 8, 1);
    let key = key_of(0, 2);
    for now in 0..300 {
        lcores.offer(1, &Parcel::add(key, 0, 3, &[1]).at(now));
    }
    lcores.resume(1);
    let lots: Vec<usize> = (0..4).map(|_| lcores.resume(0).len()).collect();
    assert_eq!(lots, [BUDGET, BUDGET, 300 - 2 * BUDGET, 0]);
    assert!(lcores.resume(0).is_empty());
    lcores.close();
}

#[test]
fn an_lcore_that_leaves_much_does_not_keep_the_others_waiting() {
    let mut lcores = Lcores::of(3, 8, 1);
    let key = key_of(0, 3);
    for now in 0..PLACES as u64 {
        lcores.offer(1, &Parcel::add(key, 1, 4, &[1]).at(now));
    }
    for now in 0..5 {
        lcores.offer(2, &Parcel::add(key, 2, 4, &[1]).at(now));
    }
    lcores.resume(1);
    lcores.resume(2);
    // Each has its turn to be first.
    let said = [lcores.resume(0), lcores.resume(0)].concat();
    let of_two = |event: &&Event| match event {
        Event::Opened(who) | Event::Added(who) | Event::Rejected(who, _) => who.rank == 2,
        _ => false,
    };
    assert_eq!(said.len(), 2 * BUDGET);
    assert_eq!(said.iter().filter(of_two).count(), 5);
    lcores.close();
}

#[test]
fn what_finds_no_room_comes_back_and_the_rest_is_as_it_was() {
    let mut lcores = Lcores::of(2, 8, 1);
    let key = key_of(0, 2);
    // One job leaves as much room as it takes.
    for now in 0..PLACES as u64 / 2 {
        assert_eq!(lcores.offer(1, &Parcel::add(key, 0, 2, &[1]).at(now)), [Event::HandedOff]);
    }
    lcores.resume(1);
    let last = Parcel::add(key, 1, 2, &[2]);
    let packet = last.packet(&lcores.memory);
    let Lcores { sessions, told, .. } = &mut lcores;
    sessions[1].offer(&last.request, None, packet, &mut told[1]);
    assert_eq!(told[1].events, [Event::Rejected(who(key, 1), Rejection::Contention)]);
    assert_eq!(told[1].returned.len(), 1, "and the packet with it");
    told[1].take();
    let own = key_of(1, 2);
    assert_eq!(lcores.offer(1, &Parcel::add(own, 0, 2, &[1])), [Event::Opened(who(own, 0))]);
    // There is room again as soon as a packet has been handled.
    assert_eq!(lcores.resume(0).len(), BUDGET);
    assert_eq!(lcores.offer(1, &last), [Event::HandedOff]);
    lcores.resume(1);
    let said: Vec<Event> = (0..PLACES / 2 / BUDGET).flat_map(|_| lcores.resume(0)).collect();
    assert_eq!(sum_of(said.last().unwrap()).values, [3]);
    lcores.close();
}

#[test]
fn each_sweeps_its_own_sets() {
    let mut lcores = Lcores::of(3, 16, 1);
    for psn in 0..9 {
        let at = usize::try_from(psn % 3).unwrap();
        lcores.offer(at, &Parcel::add(Key::new(1, 1, psn), 0, 2, &[1]));
    }
    let held: Vec<usize> = lcores.sessions.iter().map(Session::packets).collect();
    assert!(held.iter().all(|held| (1..=3).contains(held)), "{held:?}");
    let sets: Vec<usize> = lcores.sessions.iter().map(Session::sets).collect();
    assert_eq!(sets, [6, 5, 5]);
    for at in 0..3 {
        // More than there are: each once.
        let mut visited = Vec::new();
        let Lcores { sessions, told, .. } = &mut lcores;
        sessions[at].sweep(
            100,
            |key, _| {
                visited.push(key);
                SweepAction::Vacate
            },
            &mut told[at],
        );
        assert_eq!(visited.len(), held[at]);
        assert!(visited.iter().all(|key| key.psn() as usize % 3 == at));
        assert_eq!(told[at].take().len(), held[at]);
        assert_eq!(sessions[at].packets(), 0);
    }
    lcores.close();
}

#[test]
fn what_an_lcore_has_left_is_worked_off_also_when_it_has_gone() {
    let mut lcores = Lcores::of(2, 8, 1);
    let key = key_of(0, 2);
    lcores.offer(1, &Parcel::add(key, 0, 2, &[1]));
    assert!(!lcores.sessions[0].is_alone());
    lcores.sessions.pop();
    assert!(!lcores.sessions[0].is_alone(), "something waits");
    assert_eq!(lcores.resume(0), [Event::Opened(who(key, 0))]);
    assert!(lcores.sessions[0].is_alone());
    lcores.close();
}

#[test]
fn a_session_that_is_closed_says_so_once_all_it_left_is_worked_off() {
    let mut lcores = Lcores::of(2, 8, 1);
    let key = key_of(0, 2);
    lcores.offer(1, &Parcel::remind(key, 0, 2));
    lcores.sessions[1].close();
    assert!(!lcores.sessions[0].is_alone());
    assert_eq!(lcores.resume(0), [Event::Reminded(who(key, 0), Known::Unknown)]);
    assert!(lcores.sessions[0].is_alone());
    assert!(!lcores.sessions[1].is_alone(), "the other one has not said so");
    lcores.sessions[0].close();
    assert!(lcores.sessions[1].is_alone());
    lcores.close();
}

#[test]
fn what_nobody_has_worked_off_is_freed_in_the_end() {
    let mut lcores = Lcores::of(2, 8, 1);
    for now in 0..40 {
        lcores.offer(1, &Parcel::add(key_of(0, 2), 0, 2, &[1]).at(now));
    }
    lcores.resume(1);
    lcores.offer(1, &Parcel::add(key_of(0, 2), 1, 2, &[1]));
    assert_eq!(lcores.memory.live(), 41);
    lcores.sessions.remove(0);
    assert_eq!(lcores.memory.live(), 41, "the other one may still look at the way");
    lcores.close();
}
