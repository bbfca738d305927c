//! Several lcores: one owns the queue, the others hand over what they receive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pascaline_buffer::{HeapBuf, HeapPool};
use pascaline_pipelines::updates::{Fate, INBOX};
use pascaline_pipelines::{BURST, IdlePolicy, Io, Lcore};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::control::Action;

use super::{FromQueue, RANKS, SERVER_PORT, host, plan, queue, update, worker};
use crate::common::appliance::Appliance;
use crate::lcores::wait;
use pascaline_testkit::{Clock, Heard, MemoryIo, Worker, received};

/// The queue of the server's port belongs to this one.
const OWNER: usize = SERVER_PORT;
const OTHER: usize = 0;

fn joined<I: Io<Buf = HeapBuf>>(
    appliance: &mut Appliance<I>,
    mut ask: impl FnMut(&mut Appliance<I>, &Worker, Action),
) -> Vec<Worker> {
    let mut workers: Vec<Worker> = (0..RANKS).map(|rank| worker(0, rank)).collect();
    for worker in &workers {
        ask(appliance, worker, Action::Join);
    }
    ask(appliance, &host(), Action::Serve);
    let epoch = appliance.plane.membership().status()[0].epoch;
    workers.iter_mut().for_each(|worker| worker.epoch = epoch);
    workers
}

/// Two lcores that turn when they are told to.
fn stepped() -> (Appliance<MemoryIo>, Vec<Worker>, HeapPool, Clock) {
    let (pool, clock) = (HeapPool::new(), Clock::default());
    clock.advance(1_000_000_000);
    let ios = (0..2).map(|_| MemoryIo::new(2, &pool, &clock)).collect();
    let mut appliance = Appliance::new(&plan(queue(4)), ios);
    let workers = joined(&mut appliance, |appliance, worker, action| {
        appliance.lcores[OTHER].io().arrive(worker.port, &worker.control(action));
        appliance.turn();
    });
    for port in 0..2 {
        appliance.lcores[OTHER].io().ports[port].sent().for_each(drop);
    }
    (appliance, workers, pool, clock)
}

#[test]
fn an_update_is_handed_to_the_owner_and_leaves_from_there() {
    let (mut appliance, workers, pool, clock) = stepped();
    let now = clock.now();
    for (rank, lcore) in [OTHER, OWNER, OTHER].into_iter().enumerate() {
        let frame = update(&workers[rank], 0, &[10i32.pow(u32::try_from(rank).unwrap())], 0.0, now);
        appliance.lcores[lcore].io().arrive(0, &frame);
    }
    appliance.lcores[OTHER].turn();
    assert_eq!(appliance.reading().unaccounted(), 2, "under way between them");
    appliance.lcores[OWNER].io().ports[SERVER_PORT].room = 0;
    appliance.lcores[OWNER].turn();
    assert_eq!(appliance.reading().unaccounted(), 0);
    appliance.lcores[OWNER].io().ports[SERVER_PORT].room = usize::MAX;
    appliance.lcores[OWNER].turn();
    assert!(appliance.lcores[OTHER].io().sent(SERVER_PORT).is_empty());
    let sent = appliance.lcores[OWNER].io().sent(SERVER_PORT);
    let served: Vec<_> = sent.iter().map(|frame| FromQueue::parse(&Heard::parse(frame))).collect();
    let [one] = &served[..] else { panic!("{served:?}") };
    assert_eq!((one.header.count, &one.values), (3, &vec![111]));
    assert_eq!(appliance.get(Counter::HandedOff), 2);
    drop(appliance);
    assert_eq!(pool.live(), 0);
}

#[test]
fn any_lcore_stamps_answers_with_the_owners_state() {
    let (mut appliance, workers, _, clock) = stepped();
    appliance.lcores[OWNER].io().ports[SERVER_PORT].room = 0;
    for cluster_rank in [0, 1, 2] {
        let frame = update(&workers[cluster_rank], 7, &[1], 0.0, clock.now());
        appliance.lcores[OWNER].io().arrive(0, &frame);
        appliance.lcores[OWNER].turn();
    }
    let server = Worker { fan_in: RANKS, epoch: workers[0].epoch, ..host() };
    let header = pascaline_wire::Header { rank: 0, ..server.header(pascaline_wire::Kind::Ack, 7, 1) };
    appliance.lcores[OTHER].io().arrive(SERVER_PORT, &server.frame(&header, &[]));
    appliance.lcores[OTHER].turn();
    let sent = appliance.lcores[OTHER].io().sent(0);
    assert_eq!(sent.len(), 3);
    let heard = Heard::parse(&sent[0]);
    let state = heard.header.payload(&heard.body).unwrap().1.unwrap().queue.unwrap();
    // The first one waits for the port.
    assert_eq!((state.clusters, state.capacity, state.waiting), (1, 4, 1));
}

#[test]
fn what_finds_the_owners_inbox_full_is_dropped_and_counted() {
    let (mut appliance, workers, pool, clock) = stepped();
    for psn in 0..u32::try_from(INBOX + 5).unwrap() {
        let frame = update(&workers[0], psn, &[1], 0.0, clock.now());
        appliance.lcores[OTHER].io().arrive(0, &frame);
    }
    while appliance.lcores[OTHER].turn() > 0 {}
    assert_eq!(appliance.dropped(DropReason::HandoffFull), 5);
    for _ in 0..INBOX / BURST + 1 {
        appliance.lcores[OWNER].turn();
    }
    assert_eq!(appliance.reading().unaccounted(), 0);
    assert_eq!(appliance.queues[SERVER_PORT].read().received(), INBOX as u64 + 5);
    assert_eq!(appliance.queues[SERVER_PORT].read().handoff_full, 5);
    drop(appliance);
    assert_eq!(pool.live(), 0);
}

#[test]
fn an_update_whose_generation_ends_in_the_inbox_is_dropped() {
    let (mut appliance, workers, pool, clock) = stepped();
    let frame = update(&workers[0], 0, &[1], 0.0, clock.now());
    appliance.lcores[OTHER].io().arrive(0, &frame);
    appliance.lcores[OTHER].turn();
    appliance.lcores[OTHER].io().arrive(0, &Worker { session: 2000, ..workers[1] }.control(Action::Join));
    appliance.lcores[OTHER].turn();
    appliance.control();
    assert_eq!(appliance.dropped(DropReason::WrongEpoch), 1);
    assert_eq!(appliance.reading().unaccounted(), 0);
    drop(appliance);
    assert_eq!(pool.live(), 0);
}

/// Takes what leaves through the server's port until all is `done`, and counts the contributions inside.
fn serve(wires: &[MemoryIo], done: &AtomicBool) -> u64 {
    let mut counts = 0;
    loop {
        let ended = done.load(Ordering::Acquire);
        let mut any = false;
        for frame in wires.iter().flat_map(|wire| wire.ports[SERVER_PORT].sent()) {
            let got = FromQueue::parse(&Heard::parse(&frame.to_vec()));
            assert_eq!(got.values, [i32::from(got.header.count); 4], "sum and count go together");
            counts += u64::from(got.header.count);
            any = true;
        }
        if ended && !any {
            return counts;
        }
        thread::yield_now();
    }
}

/// Ends the lcores and the server of a test that fails, too: its scope waits for them.
struct Ends<'a, I: Io<Buf = HeapBuf>>(&'a Appliance<I>, &'a AtomicBool);

impl<I: Io<Buf = HeapBuf>> Drop for Ends<'_, I> {
    fn drop(&mut self) {
        self.0.plane.stop();
        self.1.store(true, Ordering::Release);
    }
}

/// On threads, and stopped while updates are under way between lcores, whichever ends first: whatever was
/// received is accounted for, and what was sent stands for all that was taken in and not given up.
#[test]
fn nothing_is_lost_between_lcores_that_are_stopped_at_any_time() {
    for round in 0..8 {
        let (pool, clock) = (HeapPool::new(), Clock::default());
        clock.advance(1_000_000_000);
        // The server's port takes little at a time, so that updates meet.
        let wires: Vec<_> = (0..3).map(|_| MemoryIo::narrow(2, 4, &pool, &clock)).collect();
        let mut appliance = Appliance::new(&plan(queue(2)), wires.clone());
        let workers = joined(&mut appliance, |appliance, worker, action| {
            wires[0].arrive(worker.port, &worker.control(action));
            appliance.turn();
        });
        while wires[0].ports.iter().any(|port| port.tx.pop().is_some()) {}
        let before = appliance.get(Counter::Received);
        let lcores: Vec<Lcore<MemoryIo>> = appliance.lcores.drain(..).collect();
        let done = AtomicBool::new(false);
        let mut contributions = 0;
        thread::scope(|scope| {
            for mut lcore in lcores {
                scope.spawn(move || lcore.run(IdlePolicy::Spin));
            }
            let server = scope.spawn(|| serve(&wires, &done));
            let _ends = Ends(&appliance, &done);
            for psn in 0..4000u32 {
                if psn == 2000 {
                    wait("a packet taken in", || (appliance.get(Counter::Received) > before).then_some(()));
                }
                let worker = &workers[psn as usize % workers.len()];
                let frame = update(worker, psn, &[1; 4], 0.0, clock.now());
                // To each lcore in turn; a full ring is the network's loss.
                let _ = wires[psn as usize % 3].ports[0].rx.push(received(&pool, &frame));
            }
            appliance.plane.stop();
            // The scope joins the lcores, too late: the server must see the last of what they have sent.
            let alone = |counters| Arc::strong_count(counters) == 1;
            wait("the lcores' end", || appliance.counters.iter().all(alone).then_some(()));
            done.store(true, Ordering::Release);
            contributions = server.join().unwrap();
        });
        let reading = appliance.reading();
        assert_eq!(reading.unaccounted(), 0, "round {round}");
        let queue = appliance.queues[SERVER_PORT].read();
        assert_eq!(queue.get(Fate::Unsent) + queue.get(Fate::Stale), 0);
        let [accepted, departed, given_up @ ..] = queue.contributions().map(|(_, count)| count);
        let waiting = accepted - departed - given_up.iter().sum::<u64>();
        assert!(waiting >= queue.waiting && (waiting > 0) == (queue.waiting > 0), "round {round}: {queue:?}");
        // Of what departed, the port may not have taken the last.
        let unsent = reading.get(Counter::TransmitDropped);
        assert!(contributions <= departed && (contributions == departed || unsent > 0));
        drop((appliance, wires));
        assert_eq!(pool.live(), 0);
    }
}
