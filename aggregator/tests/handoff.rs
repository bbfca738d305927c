//! Hand-off between lcores, step by step on one thread: while one lcore is inside a set, its sink lets the other
//! lcores offer packets, which is exactly what can happen to it between entering and leaving.
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use common::{Event, Parcel, Recorder, Who, config, keys_of_one_set, sum_of};
use pascaline_aggregator::{
    Aggregate, Cause, Displaced, Key, Pool, Refusal, Reminded, Request, Session, Sink,
};
use pascaline_aggregator::{Contribution, Verdict};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, HeapShared};

const KEY: Key = Key::new(1, 1, 5);

/// Packets that another lcore offers, a few per event of this one.
#[derive(Default)]
struct Others {
    sessions: Vec<Session<HeapBuf>>,
    /// The packets still to come, and how many at a time.
    to_come: Vec<Vec<Parcel>>,
    recorder: Recorder,
    /// What the others' sinks said.
    said: Vec<Event>,
    memory: HeapPool,
}

impl Others {
    fn act(&mut self) {
        if self.to_come.is_empty() {
            return;
        }
        for (n, parcel) in self.to_come.remove(0).into_iter().enumerate() {
            let other = n % self.sessions.len();
            let mut recorder = Recorder::default();
            let packet = parcel.packet(&self.memory);
            self.sessions[other].offer(&parcel.request, packet, &mut recorder);
            self.said.extend(recorder.take());
        }
    }
}

impl Sink<HeapBuf> for Others {
    fn opened(&mut self, of: &Contribution) {
        Sink::<HeapBuf>::opened(&mut self.recorder, of);
        self.act();
    }
    fn added(&mut self, of: &Contribution) {
        Sink::<HeapBuf>::added(&mut self.recorder, of);
        self.act();
    }
    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, HeapShared>) {
        Sink::<HeapBuf>::completed(&mut self.recorder, of, alone, result);
        self.act();
    }
    fn replayed(&mut self, request: &Request, packet: HeapBuf, result: Aggregate<'_, HeapShared>) {
        Sink::<HeapBuf>::replayed(&mut self.recorder, request, packet, result);
        self.act();
    }
    fn installed(&mut self, request: &Request, result: Aggregate<'_, HeapShared>) {
        Sink::<HeapBuf>::installed(&mut self.recorder, request, result);
        self.act();
    }
    fn passed_on(&mut self, request: &Request, result: Aggregate<'_, HeapShared>) {
        Sink::<HeapBuf>::passed_on(&mut self.recorder, request, result);
        self.act();
    }
    fn reminded(&mut self, request: &Request, packet: HeapBuf, state: Reminded<'_, HeapShared, 1>) {
        self.recorder.reminded(request, packet, state);
        self.act();
    }
    fn refused(&mut self, request: &Request, packet: HeapBuf, why: Refusal) {
        Sink::<HeapBuf>::refused(&mut self.recorder, request, packet, why);
        self.act();
    }
    fn handed_off(&mut self) {
        Sink::<HeapBuf>::handed_off(&mut self.recorder);
    }
    fn spent(&mut self, packet: HeapBuf) {
        Sink::<HeapBuf>::spent(&mut self.recorder, packet);
    }
    fn released(&mut self, result: Aggregate<'_, HeapShared>) {
        Sink::<HeapBuf>::released(&mut self.recorder, result);
    }
    fn fetched(&mut self, request: &Request, packet: HeapBuf, result: Option<Aggregate<'_, HeapShared>>) {
        Sink::<HeapBuf>::fetched(&mut self.recorder, request, packet, result);
        self.act();
    }
    fn obeyed(&mut self, request: &Request, packet: HeapBuf) {
        Sink::<HeapBuf>::obeyed(&mut self.recorder, request, packet);
        self.act();
    }
    fn displaced(&mut self, key: Key, what: Displaced<HeapBuf>, cause: Cause) {
        Sink::<HeapBuf>::displaced(&mut self.recorder, key, what, cause);
        self.act();
    }
}

/// The lcore under test, and the others.
fn lcores(slots: usize, ways: usize, others: usize) -> (Session<HeapBuf>, Others) {
    let mut sessions = Pool::sessions(&config(slots, ways), Kernels::scalar(), 1 + others).unwrap();
    let session = sessions.pop().unwrap();
    (session, Others { sessions, ..Others::default() })
}

fn offer(session: &mut Session<HeapBuf>, parcel: &Parcel, sink: &mut Others) {
    let packet = parcel.packet(&sink.memory);
    session.offer(&parcel.request, packet, sink);
}

/// `count` packets of a rank that is inside already: each is refused, and tells its place by its time.
fn duplicates(key: Key, count: u64, from: u64) -> Vec<Parcel> {
    (from..from + count).map(|now| Parcel::add(key, 0, 3, &[1]).at(now)).collect()
}

#[test]
fn what_is_left_with_the_owner_is_worked_off_oldest_first_before_it_leaves() {
    let (mut session, mut sink) = lcores(1, 1, 2);
    sink.to_come = vec![(1..10).map(|rank| Parcel::add(KEY, rank, 10, &[1 << rank])).collect()];
    offer(&mut session, &Parcel::add(KEY, 0, 10, &[1]), &mut sink);
    assert_eq!(sink.said, vec![Event::HandedOff; 9], "the others keep nothing and wait for nothing");
    let ranks: Vec<u16> = sink
        .recorder
        .events
        .iter()
        .map(|event| match event {
            Event::Opened(who) | Event::Added(who) | Event::Completed { who, .. } => who.rank,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ranks, (0..10).collect::<Vec<_>>());
    assert_eq!(sum_of(sink.recorder.events.last().unwrap()).values, [1023]);
    assert!(!session.has_parked());

    // The set is free again: another lcore enters it.
    sink.to_come = vec![vec![Parcel::remind(KEY, 3, 10)]];
    sink.said.clear();
    sink.act();
    assert!(matches!(sink.said.as_slice(), [Event::Reminded(..)]), "{:?}", sink.said);
}

#[test]
fn what_arrives_while_the_owner_works_off_is_worked_off_too() {
    let (mut session, mut sink) = lcores(1, 1, 1);
    sink.to_come = (1..10).map(|rank| vec![Parcel::add(KEY, rank, 10, &[1 << rank])]).collect();
    offer(&mut session, &Parcel::add(KEY, 0, 10, &[1]), &mut sink);
    assert_eq!(sum_of(sink.recorder.events.last().unwrap()).values, [1023]);
}

#[test]
fn every_field_of_a_request_survives_the_journey() {
    let (mut session, mut sink) = lcores(1, 1, 1);
    let last = Parcel::add(KEY, 1, 2, &[2]).at(77).with(|r| {
        r.overflow = true;
        r.offset = 91;
    });
    let late = Parcel::remind(KEY, 1, 2).at(78);
    let forged = Parcel::install(KEY, 0, 2, &[9]).at(79);
    sink.to_come = vec![vec![last, late, forged]];
    offer(&mut session, &Parcel::add(KEY, 0, 2, &[1]).at(70), &mut sink);
    let [_, completed, reminded, refused] = sink.recorder.events.as_slice() else { panic!() };
    let sum = sum_of(completed);
    assert_eq!((sum.values.as_slice(), sum.overflow, sum.first), ([3].as_slice(), true, 70));
    assert_eq!(sum_of(reminded), sum);
    assert_eq!(*refused, Event::Refused(Who { key: KEY, rank: 0 }, Refusal::Duplicate));
}

/// Leaves `session` with the set of `key` parked; `after` packets wait there.
fn park(session: &mut Session<HeapBuf>, sink: &mut Others, key: Key, after: u64) {
    // The first lot exhausts what one turn works off; the second arrives while the first is worked off.
    sink.to_come = vec![duplicates(key, 300, 0), duplicates(key, after, 300)];
    offer(session, &Parcel::add(key, 0, 3, &[1]), sink);
    assert!(session.has_parked());
}

#[test]
fn more_than_a_turns_work_is_postponed_and_resumed() {
    let (mut session, mut sink) = lcores(1, 1, 1);
    park(&mut session, &mut sink, KEY, 40);
    assert_eq!(sink.recorder.events.len(), 301, "the second lot waits");

    // The set is still owned: everybody leaves packets there, the owner itself included.
    offer(&mut session, &Parcel::add(KEY, 1, 3, &[2]), &mut sink);
    assert_eq!(sink.recorder.events.pop(), Some(Event::HandedOff));
    sink.to_come = vec![vec![Parcel::add(KEY, 2, 3, &[4])]];
    sink.act();
    assert_eq!(sink.said.last(), Some(&Event::HandedOff));

    sink.recorder.events.clear();
    session.resume(&mut sink);
    assert!(!session.has_parked());
    assert_eq!(sink.recorder.events.len(), 42);
    assert_eq!(sum_of(sink.recorder.events.last().unwrap()).values, [7]);
    sink.recorder.events.clear();
    session.resume(&mut sink);
    assert!(sink.recorder.events.is_empty(), "once");
}

#[test]
fn a_long_list_with_nothing_behind_it_is_no_reason_to_postpone() {
    let (mut session, mut sink) = lcores(1, 1, 1);
    sink.to_come = vec![duplicates(KEY, 300, 0)];
    offer(&mut session, &Parcel::add(KEY, 0, 3, &[1]), &mut sink);
    assert_eq!(sink.recorder.events.len(), 301);
    assert!(!session.has_parked());
}

#[test]
fn a_set_that_stays_busy_does_not_keep_the_others_parked() {
    let (mut session, mut sink) = lcores(2, 1, 1);
    let busy = keys_of_one_set(2).next().unwrap();
    let quiet = (0..).map(|psn| Key::new(1, 1, psn)).find(|key| key.place(2) == 1).unwrap();
    park(&mut session, &mut sink, quiet, 5);
    park(&mut session, &mut sink, busy, 5);
    // Whatever is done for the busy set, as much again arrives.
    sink.recorder.events.clear();
    sink.to_come = (0..2000).map(|n| duplicates(busy, 2, n)).collect();
    session.resume(&mut sink);
    let of =
        |key| sink.recorder.events.iter().filter(move |e| matches!(e, Event::Refused(w, _) if w.key == key));
    assert_eq!(of(quiet).count(), 5, "the quiet set had its turn");
    assert!(of(busy).count() < 1000, "and the busy one no more than its own");
    assert!(session.has_parked());
}

#[test]
fn a_sweep_passes_over_sets_that_somebody_owns() {
    let (mut session, mut sink) = lcores(1, 1, 1);
    park(&mut session, &mut sink, KEY, 1);
    let mut recorder = Recorder::default();
    sink.sessions[0].sweep(1, |_, _| Verdict::Vacate, &mut recorder);
    session.sweep(1, |_, _| Verdict::Vacate, &mut recorder);
    assert!(recorder.events.is_empty());
    session.resume(&mut sink);
    sink.sessions[0].sweep(1, |_, _| Verdict::Vacate, &mut recorder);
    assert_eq!(recorder.take(), [Event::DisplacedPartial(KEY)]);
}

#[test]
fn a_sweep_works_off_what_is_left_with_it() {
    let (mut session, mut sink) = lcores(1, 1, 1);
    offer(&mut session, &Parcel::add(KEY, 0, 2, &[1]), &mut sink);
    sink.to_come = vec![vec![Parcel::add(KEY, 1, 2, &[2])]];
    sink.recorder.events.clear();
    session.sweep(1, |_, _| Verdict::Vacate, &mut sink);
    let who = Who { key: KEY, rank: 1 };
    assert_eq!(sink.recorder.events, [Event::DisplacedPartial(KEY), Event::Opened(who)]);
}

#[test]
fn a_session_that_goes_frees_what_waits_with_it_and_lets_go() {
    let (mut session, mut sink) = lcores(1, 1, 1);
    park(&mut session, &mut sink, KEY, 40);
    sink.recorder.take();
    assert_eq!(sink.memory.live(), 41, "the partial and what waits");
    drop(session);
    assert_eq!(sink.memory.live(), 1);
    sink.said.clear();
    sink.to_come = vec![vec![Parcel::remind(KEY, 0, 3)]];
    sink.act();
    assert!(matches!(sink.said.as_slice(), [Event::Reminded(..)]), "the set is free");
    sink.sessions.clear();
    assert_eq!(sink.memory.live(), 0);
}
