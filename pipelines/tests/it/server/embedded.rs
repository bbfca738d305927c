//! What a server in the appliance gets.

use pascaline_aggregator::{ConflictPolicy, Order, Policy};
use pascaline_pipelines::membership::ServerMode;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::control::Action;
use pascaline_wire::header::{Flags, Header, Kind, Own};

use super::{assert_header, embedded, first_come, gradient, part, plan};
use crate::common::appliance::{Bench, assert_results, four, single_slot};
use pascaline_testkit::{Worker, bytes, values};

#[test]
fn a_contribution_that_loses_a_conflict_is_passed_on_as_it_is() {
    let (mut bench, workers) = embedded(first_come());
    bench.feed(0, [&gradient(&workers[0], 1, 0)]);
    let flags = Flags::OVERFLOW.with(Flags::RETRANSMISSION);
    let header = Header { flags, own: Own::sum(77, 5), ..workers[2].header(Kind::Gradient, 2, 1) };
    let mut frame = workers[2].frame(&header, &bytes(&[1, 2, 3]));
    // Bytes behind the datagram belong to nobody.
    frame.extend([0xee; 6]);
    bench.feed(0, [&frame]);
    let got = bench.served();
    assert_eq!(got.len(), 1);
    // It keeps what belongs to the contribution, and nothing of its way here.
    assert_header(&got[0], &workers[2], Kind::Gradient, flags, 2, 1);
    assert_eq!((got[0].header.rank, got[0].header.own.priority()), (2, 77));
    assert_eq!((&got[0].values[..], &got[0].inside), (&[1, 2, 3][..], &None));
    assert!(bench.heard(0).is_empty());
    let seen = [Counter::Spilled, Counter::Forwarded, Counter::ServerSent].map(|c| bench.appliance.get(c));
    assert_eq!((seen, bench.appliance.dropped(DropReason::Conflict)), ([1, 1, 1], 0));
    bench.end();
}

#[test]
fn a_contribution_beyond_the_quota_is_passed_on_too() {
    let policy = Policy { quota: 1, ..first_come() };
    let mut with_room = plan(policy, ServerMode::Embedded);
    with_room.pool = pascaline_aggregator::PoolConfig { slots: 64, ways: 4, ..single_slot() };
    let (mut bench, workers) = crate::common::appliance::four(&with_room);
    bench.feed(0, [&gradient(&workers[0], 1, 0), &gradient(&workers[1], 2, 0)]);
    let got = bench.served();
    assert_eq!(got.len(), 1);
    assert_header(&got[0], &workers[1], Kind::Gradient, Flags::NONE, 2, 1);
    assert_eq!((got[0].header.rank, &got[0].values[..]), (1, &part(1)[..]));
    assert_eq!(bench.appliance.get(Counter::Spilled), 1);
    assert_eq!(bench.appliance.dropped(DropReason::Quota), 0);
    bench.end();
}

#[test]
fn a_partial_that_is_preempted_arrives_with_its_bitmap() {
    let (mut bench, workers) = embedded(Policy { conflict: ConflictPolicy::Preempt, ..Policy::default() });
    bench.feed(0, [&gradient(&workers[3], 1, 20), &gradient(&workers[1], 1, 90)]);
    // The first one fails, and downgrades; the second succeeds.
    bench.feed(0, [&gradient(&workers[0], 2, 15)]);
    assert_eq!(bench.served()[0].header.own.priority(), 15);
    bench.feed(0, [&gradient(&workers[0], 3, 11)]);
    let got = bench.served();
    assert_eq!(got.len(), 1);
    assert_header(&got[0], &workers[0], Kind::Partial, Flags::TRAILER, 1, 2);
    assert_eq!((got[0].header.rank, got[0].header.own.priority()), (0, 10));
    assert_eq!((&got[0].values[..], &got[0].inside), (&[1010, -2][..], &Some(vec![1, 3])));
    let counters = [Counter::Preempted, Counter::Evicted, Counter::Spilled, Counter::ServerSent];
    assert_eq!(counters.map(|counter| bench.appliance.get(counter)), [1, 1, 1, 2]);
    // The winner has the slot.
    bench.feed(0, [&gradient(&workers[1], 3, 0), &gradient(&workers[2], 3, 0), &gradient(&workers[3], 3, 0)]);
    assert_results(&mut bench, &workers, 3, &[1111, -4]);
    assert_eq!(bench.appliance.reading().open_slots(), 0);
    bench.end();
}

#[test]
fn a_partial_that_is_too_old_is_sent_there_and_counted_apart() {
    let (mut bench, workers) = embedded(first_come());
    bench.feed(0, [&gradient(&workers[3], 1, 0)]);
    bench.clock.advance(600_000_000);
    bench.feed(0, [&gradient(&workers[0], 2, 0)]);
    let got = bench.served();
    assert_header(&got[0], &workers[0], Kind::Partial, Flags::TRAILER, 1, 1);
    assert_eq!(got[0].inside, Some(vec![3]));
    assert_eq!([Counter::Preempted, Counter::Evicted].map(|counter| bench.appliance.get(counter)), [0, 1]);
    assert_eq!(bench.appliance.reading().open_slots(), 1, "of the PSN that took its place");
    bench.end();
}

#[test]
fn what_is_kept_by_rank_arrives_one_by_one() {
    let (mut bench, workers) =
        embedded(Policy { conflict: ConflictPolicy::Always, order: Order::Rank, ..Policy::default() });
    for rank in [3, 0, 2] {
        let header = Header { own: Own::sum(5, 0), ..workers[rank].header(Kind::Gradient, 1, 1) };
        let mut frame = workers[rank].frame(&header, &bytes(&part(workers[rank].rank)));
        frame.extend([0xee; 3]);
        bench.feed(0, [&frame]);
    }
    assert_eq!(bench.appliance.lcores[0].packets_held(), 3);
    bench.feed(0, [&gradient(&workers[1], 2, 0)]);
    let mut got = bench.served();
    got.sort_by_key(|got| got.header.rank);
    for (got, rank) in got.iter().zip([0, 2, 3]) {
        assert_header(got, &workers[0], Kind::Gradient, Flags::NONE, 1, 1);
        assert_eq!((got.header.rank, got.header.own.priority()), (rank, 5));
        assert_eq!((&got.values[..], &got.inside), (&part(rank)[..], &None));
    }
    let counters = [Counter::Preempted, Counter::Evicted, Counter::ServerSent];
    assert_eq!((got.len(), counters.map(|counter| bench.appliance.get(counter))), (3, [1, 1, 3]));
    assert_eq!(bench.appliance.reading().open_slots(), 1, "of the PSN that took its place");
    bench.end();
}

#[test]
fn a_reminder_of_what_nobody_knows_is_passed_on() {
    let (mut bench, workers) = embedded(first_come());
    let reminder = |worker: &Worker, psn| {
        let mut frame = worker.reminder(psn);
        frame.extend([0xee; 6]);
        frame
    };
    // The second speaks of another number of ranks; the server is told that of the job.
    let strange = Worker { fan_in: 3, ..workers[1] };
    for (frame, rank) in
        [(reminder(&workers[2], 1), 2), (reminder(&strange, 1), 1), (workers[3].about(Action::Help, 1), 3)]
    {
        bench.feed(0, [&frame]);
        let got = bench.served();
        assert_eq!(got.len(), 1);
        let asker = Worker { element: got[0].header.element, ..workers[0] };
        assert_header(&got[0], &asker, Kind::Reminder, Flags::NONE, 1, 0);
        assert_eq!((got[0].header.rank, &got[0].values[..]), (rank, &[][..]));
    }
    assert!(bench.heard(0).is_empty(), "the others are not asked");
    // Of what is known, it is not.
    bench.feed(0, [&gradient(&workers[0], 1, 0), &workers[0].reminder(1)]);
    assert_eq!(bench.heard(0).iter().map(|heard| heard.header.rank).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(bench.served().is_empty());
    assert_eq!(bench.appliance.get(Counter::RemindersReceived), 4);
    assert_eq!(bench.appliance.get(Counter::Forwarded), 3);
    bench.end();
}

#[test]
fn what_a_worker_sends_round_the_pool_is_passed_on_unchanged() {
    let (mut bench, workers) = embedded(first_come());
    let original = Flags::BYPASS.with(Flags::RETRANSMISSION);
    let gradient = Header { flags: original, own: Own::sum(9, 0), ..workers[1].header(Kind::Gradient, 1, 1) };
    let result = Header { flags: Flags::BYPASS, ..workers[2].header(Kind::Result, 1, 4) };
    for (header, worker) in [(gradient, &workers[1]), (result, &workers[2])] {
        let mut frame = worker.frame(&header, &bytes(&[5, 6]));
        frame.extend([0xee; 9]);
        bench.feed(0, [&frame]);
        let got = bench.served();
        assert_eq!((got.len(), got[0].header, &got[0].values[..]), (1, header, &[5, 6][..]));
    }
    assert_eq!(bench.appliance.lcores[0].packets_held(), 0, "nothing has been aggregated");
    assert!(bench.heard(0).is_empty());
    // Nor from elsewhere, of another generation, or longer than the job's.
    let spoofed = Worker { udp_port: 1, ..workers[1] }.bypass(Kind::Gradient, 1, &bytes(&[5, 6]));
    let old = Worker { epoch: 0, ..workers[1] }.bypass(Kind::Gradient, 1, &bytes(&[5, 6]));
    let long = workers[1].bypass(Kind::Gradient, 1, &bytes(&[5; 257]));
    bench.feed(0, [&spoofed, &old, &long]);
    let reasons = [DropReason::RankSpoofed, DropReason::WrongEpoch, DropReason::PayloadLength];
    assert_eq!(reasons.map(|reason| bench.appliance.dropped(reason)), [1, 1, 1]);
    assert!(bench.served().is_empty());
    bench.end();
}

#[test]
fn what_a_full_queue_does_not_take_is_dropped_and_counted() {
    let mut bench = Bench::with_queues(&plan(first_come(), ServerMode::Embedded), 2);
    let mut workers: Vec<Worker> = (0..4).map(|rank| Worker::new(rank, 4)).collect();
    bench.join(&mut workers);
    bench.feed(0, [&gradient(&workers[0], 1, 0)]);
    let frames = [
        gradient(&workers[1], 2, 0),
        workers[1].bypass(Kind::Gradient, 3, &bytes(&[1])),
        // From here on there is no room.
        gradient(&workers[2], 2, 0),
        workers[2].bypass(Kind::Result, 3, &bytes(&[1])),
        workers[3].reminder(9),
    ];
    frames.iter().for_each(|frame| bench.feed(0, [frame]));
    assert_eq!(bench.appliance.dropped(DropReason::ServerFull), 3);
    assert_eq!([Counter::Forwarded, Counter::Spilled].map(|counter| bench.appliance.get(counter)), [2, 1]);
    assert_eq!(bench.served().len(), 2);
    // With room again it goes on.
    bench.feed(0, [&gradient(&workers[2], 2, 0), &gradient(&workers[3], 2, 0)]);
    // What leaves its slot just then is given up.
    bench.clock.advance(600_000_000);
    bench.feed(0, [&gradient(&workers[2], 3, 0)]);
    let counters = [Counter::Evicted, Counter::DisplacedPartials, Counter::ServerSent];
    assert_eq!(counters.map(|counter| bench.appliance.get(counter)), [0, 1, 4]);
    assert_eq!(bench.served().len(), 2);
    bench.end();
}

#[test]
fn without_a_server_nothing_is_sent_there() {
    let (mut bench, workers) = four(&plan(first_come(), ServerMode::None));
    bench.feed(0, [&gradient(&workers[0], 1, 0), &gradient(&workers[1], 2, 0)]);
    assert_eq!(bench.appliance.dropped(DropReason::Conflict), 1);
    // What is to go round the pool goes nowhere.
    bench.feed(0, [&workers[1].bypass(Kind::Gradient, 3, &bytes(&[1]))]);
    assert_eq!(bench.appliance.dropped(DropReason::NoServer), 1);
    bench.feed(0, [&workers[1].reminder(7)]);
    assert_eq!(bench.heard(0).len(), 3, "the ranks themselves are reminded");
    bench.clock.advance(600_000_000);
    bench.feed(0, [&gradient(&workers[1], 2, 0)]);
    assert_eq!(bench.appliance.get(Counter::DisplacedPartials), 1);
    assert!(bench.served().is_empty());
    assert_eq!(bench.appliance.get(Counter::ServerSent), 0);
    bench.end();
}

#[test]
fn a_generation_that_is_over_is_nothing_to_the_server() {
    let (mut bench, mut workers) = embedded(Policy { conflict: ConflictPolicy::Always, ..Policy::default() });
    bench.feed(0, [&gradient(&workers[3], 1, 0)]);
    workers[0].session += 1;
    bench.join(&mut workers);
    bench.feed(0, [&gradient(&workers[0], 1, 0)]);
    assert!(bench.served().is_empty());
    let counters = [Counter::ServerSent, Counter::Evicted, Counter::DisplacedPartials];
    assert_eq!(counters.map(|counter| bench.appliance.get(counter)), [0, 0, 1]);
    bench.feed(0, [&gradient(&workers[1], 1, 0), &gradient(&workers[2], 1, 0), &gradient(&workers[3], 1, 0)]);
    assert_results(&mut bench, &workers, 1, &[1111, -4]);
    bench.end();
}

/// Two PSNs contend for one slot. What the server gets of one of them is everything, and once.
#[test]
fn the_server_gets_all_that_the_pool_could_not_keep() {
    let (mut bench, workers) = embedded(Policy { conflict: ConflictPolicy::Always, ..Policy::default() });
    for rank in [0, 1, 2, 3] {
        for psn in [1, 2] {
            bench.feed(0, [&gradient(&workers[rank], psn, 0)]);
        }
    }
    let mut sum = [0; 2];
    let mut inside = Vec::new();
    for got in bench.served().iter().filter(|got| got.header.psn == 1) {
        sum.iter_mut().zip(&got.values).for_each(|(a, b)| *a += b);
        inside.extend(got.inside.clone().unwrap());
    }
    assert_eq!((sum, inside), ([1111, -4], vec![0, 1, 2, 3]));
    let result = Header { count: 4, ..workers[0].header(Kind::Result, 1, 4) };
    bench.serve(&result, &bytes(&sum));
    let heard = bench.heard(0);
    assert_eq!(heard.len(), 4);
    assert!(heard.iter().all(|heard| values(&heard.body) == sum));
    assert_eq!(bench.appliance.reading().open_slots(), 1, "of the other PSN");
    bench.end();
}
