//! Jobs whose packets are sealed, over loopback sockets.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use pascaline_seal::{JobKeys, LONGER};
use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::multicast::Hearing;
use pascaline_wire::{Flags, Header, Kind, MulticastGroup, header};
use pascaline_worker::udp::ConfigError;
use pascaline_worker::{
    Collective, Config, Element, Hints, Ignored, JoinError, JoinFailure, Left, Op, Protection, Reason,
    Rejection, Secret, Streams, Worker,
};

use crate::adversary::Conditions;
use crate::aggregator::{Aggregator, Out, packet};
use crate::driver::{Appliance, JOB, RANKS};

mod end;

use end::{End, on_every_rank, sealed, seals, sum};

/// How far a result may be behind others.
const ORDER: u64 = 1 << 22;

/// Of all lengths, by several collectives, and with results that name the ranks inside.
#[test]
fn sums_are_exact_whatever_is_done_to_packets() {
    for protection in Protection::ALL {
        let appliance = End::new(JOB, protection, 5).serve(Conditions::IDEAL);
        on_every_rank(
            |rank| sealed(&appliance, rank, protection),
            |rank, mut worker| {
                for elements in [0, 1, 2, 256, 257, 30_001] {
                    sum(rank, &mut worker, elements);
                    worker.tend().unwrap();
                }
                let mut tensor = [if rank == 2 { 7.5_f64 } else { 0.0 }; 300];
                let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut tensor[..]);
                let broadcast = Collective::Broadcast { root: 2 };
                worker.collective(&broadcast, f64::DTYPE, bytes, Hints::default()).unwrap();
                assert_eq!(tensor, [7.5; 300]);
                let departure = worker.leave();
                assert_eq!(departure.left, Left::Everyone);
                assert_eq!((departure.counters.not_sent, departure.counters.without_effect()), (0, 0));
            },
        );
    }
}

/// Retransmissions are sealed anew, and a worker that joins anew has another session.
#[test]
fn no_number_is_used_twice_by_what_is_sent_again_or_in_another_session() {
    let end = End::new(JOB, Protection::Encrypt, 5);
    let seen = Arc::clone(&end.seen);
    let appliance = end.serve(Conditions { loss: 0.03, forget_result: 0.3, ..Conditions::IDEAL });
    for _ in 0..2 {
        let resent = on_every_rank(
            |rank| sealed(&appliance, rank, Protection::Encrypt),
            |rank, mut worker| {
                sum(rank, &mut worker, 50_000);
                let departure = worker.leave();
                assert_eq!(departure.left, Left::Everyone);
                departure.counters.retransmissions
            },
        );
        assert!(resent.iter().all(|&resent| resent > 0), "{resent:?}");
    }
    let sessions: BTreeSet<_> =
        seen.lock().unwrap().iter().map(|&(rank, session, _)| (rank, session)).collect();
    assert_eq!(sessions.len(), 2 * usize::from(RANKS));
}

#[test]
fn results_without_a_rank_keep_their_bitmap() {
    let mut end = End::new(JOB, Protection::Encrypt, 5);
    let (mut aggregator, mut random) = (Aggregator::new(JOB, RANKS, 64), Rng::with_seed(1));
    aggregator.threshold = Some(2);
    let conditions = Conditions { loss: 0.06, forget_result: 1.0, ..Conditions::IDEAL };
    let appliance = Appliance::serve("127.0.0.1:0", move |datagram| {
        end.handle(&mut aggregator, datagram, &conditions, &mut random)
    });
    let answered = on_every_rank(
        |rank| sealed(&appliance, rank, Protection::Encrypt),
        |rank, mut worker| {
            if rank == 2 {
                worker.leave();
                return 0;
            }
            let mut tensor = vec![f64::from(rank) + 1.0; 20_000];
            let report = worker.allreduce_with(&mut tensor, Op::Mean, Hints::default()).unwrap();
            assert!(tensor.iter().all(|&mean| mean == 1.5));
            let partial = report.partial.unwrap();
            assert_eq!((partial.results, partial.least_count), (report.packets, 2));
            worker.leave().counters.reminders_answered
        },
    );
    assert!(answered.iter().sum::<u64>() > 0, "{answered:?}");
}

/// Before each result come forged ones that would change the sum: unsealed, changed, and sealed by a rank.
/// Later, one of the first ones again.
#[test]
fn what_does_not_open_is_counted_and_has_no_effect() {
    let mut end = End::new(JOB, Protection::Mac, 5);
    let (mut aggregator, mut random) = (Aggregator::new(JOB, 1, 64), Rng::with_seed(1));
    let mut first = None;
    let appliance = Appliance::serve("127.0.0.1:0", move |datagram| {
        let plain = end.open(datagram);
        let mut answers = Vec::new();
        for out in aggregator.handle(&plain, &Conditions::IDEAL, &mut random) {
            let (rank, plain) = out.clone();
            let (header, _) = Header::parse(&plain).unwrap();
            let genuine = end.seal(out);
            if header.kind != Kind::Result {
                answers.push(genuine);
                continue;
            }
            let mut wrong = plain.clone();
            wrong[header::LEN] ^= 1;
            let mut changed = genuine.1.clone();
            changed[header::LEN] ^= 1;
            let mut by_rank = [&wrong[..], &[0; LONGER]].concat();
            let len = end.keys.rank(0).up.seal(0, 9, &mut by_rank, wrong.len()).unwrap();
            answers.extend([(rank, wrong), (rank, changed), (rank, by_rank[..len].to_vec())]);
            answers.extend([genuine.clone()].into_iter().chain(first.clone()));
            first.get_or_insert(genuine);
            // Far ahead.
            end.sent += ORDER;
        }
        answers
    });
    let config = Config { ranks: 1, ..sealed(&appliance, 0, Protection::Mac) };
    let mut worker = Worker::join(config).unwrap();
    for value in 1..=20 {
        let mut tensor = [value; 64];
        worker.allreduce(&mut tensor).unwrap();
        assert_eq!(tensor, [value; 64]);
    }
    let counters = worker.leave().counters;
    let ignored = [Ignored::Unsealed, Ignored::Forged].map(|reason| counters.ignored(reason));
    // On a busy machine some packets are sent again, and answered again.
    assert!(ignored[0] >= 20 && ignored[1] == 2 * ignored[0], "{ignored:?}");
    // Those behind the last results may not have been read.
    assert!(counters.ignored(Ignored::Replayed) >= 16, "{counters:?}");
    assert!(counters.results >= 20, "{counters:?}");
}

/// The first answers are unsealed, and say that the rank is unproven.
#[test]
fn an_unsealed_answer_keeps_no_rank_from_joining() {
    let mut end = End::new(JOB, Protection::Encrypt, 5);
    let mut aggregator = Aggregator::new(JOB, 1, 64);
    let mut doubts = 5;
    let appliance = Appliance::serve("127.0.0.1:0", move |datagram| {
        let plain = end.open(datagram);
        if doubts > 0 {
            doubts -= 1;
            return vec![unproven(&plain, 2)];
        }
        let answers = aggregator.handle(&plain, &Conditions::IDEAL, &mut Rng::with_seed(1));
        answers.into_iter().map(|out| end.seal(out)).collect()
    });
    let mut worker = Worker::join(Config { ranks: 1, ..sealed(&appliance, 0, Protection::Encrypt) }).unwrap();
    assert_eq!(worker.counters().ignored(Ignored::Unsealed), 5);
    worker.allreduce(&mut [1.0_f32]).unwrap();
    assert_eq!(worker.leave().left, Left::Everyone);
}

/// The plain answer of an appliance that does not take a Join as proven.
fn unproven(join: &[u8], expected: u32) -> Out {
    let (header, body) = Header::parse(join).unwrap();
    let request = Control::parse(&body[..control::LEN]).unwrap();
    let ack = Control {
        action: Action::Ack,
        status: Status::Unproven,
        answers: Some(request.action),
        expected,
        ..request
    };
    let header = Header { flags: Flags::NONE, ..header };
    (header.rank, packet(&header, &ack.to_bytes()))
}

#[test]
fn ranks_that_prove_themselves_otherwise_learn_it_soon() {
    for (expected, own, says) in [
        (0, Some(Protection::Mac), r#"its job 3 has security = "none", and this rank "mac""#),
        (1, Some(Protection::Encrypt), r#"its job 3 has security = "mac", and this rank "encrypt""#),
        (2, Some(Protection::Encrypt), "it has another key for this rank"),
        (2, None, r#"its job 3 has security = "encrypt", and this rank "none""#),
    ] {
        let appliance = Appliance::serve("127.0.0.1:0", move |datagram| vec![unproven(datagram, expected)]);
        let seals = own.and_then(|protection| seals(JOB, 1, protection));
        let began = Instant::now();
        let error = Worker::join(Config { seals, ..appliance.config(1) }).unwrap_err();
        // Sealed ones do not believe it at once, and long before the deadline.
        let patience = Duration::from_millis(if own.is_some() { 1500 } else { 0 });
        let elapsed = began.elapsed();
        assert!(elapsed >= patience && elapsed < Duration::from_secs(10), "{elapsed:?}");
        let JoinError::Failed { failure: JoinFailure::Rejected(rejection), .. } = &error else {
            panic!("{error}")
        };
        let got = own.map_or(0, |own| if own == Protection::Mac { 1 } else { 2 });
        assert_eq!(*rejection, Rejection { job: JOB, rank: 1, expected, got, reason: Reason::Unproven });
        let text = error.to_string();
        let whose = "the appliance does not take the packets of rank 1 in job 3 as proven";
        let remedy = "\n  remedy: the same `security` and key as in the job's table of the appliance \
                      (`pascaline check` shows the mode)";
        for says in [whose, says, remedy] {
            assert!(text.contains(says), "{text}");
        }
    }
}

/// And does not say that it hears before a packet of the group has opened.
#[test]
fn a_sealed_worker_listens_to_a_group() {
    let mut end = End::new(JOB, Protection::Mac, 5);
    let mut aggregator = Aggregator::new(JOB, 1, 64);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&heard);
    let appliance = Appliance::serve("127.0.0.1:0", move |datagram| {
        let plain = end.open(datagram);
        let (header, body) = Header::parse(&plain).unwrap();
        if header.kind == Kind::Control {
            said.lock().unwrap().push(Control::parse(body).unwrap().hearing);
        }
        let mut answers = aggregator.handle(&plain, &Conditions::IDEAL, &mut Rng::with_seed(1));
        for (_, answer) in answers.iter_mut().filter(|_| header.kind == Kind::Control) {
            let ack = Control::parse(&answer[header::LEN..]).unwrap();
            let group = MulticastGroup::new([239, 77, 0, 1].into());
            Control { group, ..ack }.emit(&mut answer[header::LEN..]).unwrap();
        }
        answers.into_iter().map(|out| end.seal(out)).collect()
    });
    let mut worker = Worker::join(Config { ranks: 1, ..sealed(&appliance, 0, Protection::Mac) }).unwrap();
    let (began, before) = (Instant::now(), heard.lock().unwrap().len());
    while heard.lock().unwrap().len() < before + 2 {
        worker.tend().unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "no heartbeat");
        std::thread::yield_now();
    }
    worker.allreduce(&mut [1.0_f32; 300]).unwrap();
    assert_eq!(worker.leave().left, Left::Everyone);
    let heard = heard.lock().unwrap();
    assert!(heard.contains(&Hearing::Listens), "{heard:?}");
    assert!(!heard.contains(&Hearing::Hears), "{heard:?}");
}

/// With a salt of its own.
#[test]
fn a_backup_goes_on_with_what_runs() {
    let [first, second] = [5, 6].map(|salt| End::new(JOB, Protection::Encrypt, salt));
    let first = first.serve(Conditions::IDEAL);
    let (mut end, mut aggregator) = (second, Aggregator::new(JOB, RANKS, 64));
    aggregator.restart(90);
    let second = Appliance::serve("127.0.0.1:0", move |datagram| {
        end.handle(&mut aggregator, datagram, &Conditions::IDEAL, &mut Rng::with_seed(1))
    });
    let backups = vec![second.config(0).appliance];
    let silence = Duration::from_millis(60);
    let config =
        |rank| Config { backups: backups.clone(), silence, ..sealed(&first, rank, Protection::Encrypt) };
    let configs: Vec<_> = (0..RANKS).map(config).collect();
    let first = Mutex::new(Some(first));
    let summed = std::sync::Barrier::new(RANKS.into());
    on_every_rank(
        |rank| configs[usize::from(rank)].clone(),
        |rank, mut worker| {
            sum(rank, &mut worker, 1000);
            // The first one goes.
            if summed.wait().is_leader() {
                drop(first.lock().unwrap().take());
            }
            sum(rank, &mut worker, 1000);
            let departure = worker.leave();
            assert_eq!(departure.left, Left::Everyone);
            assert!(departure.counters.turned > 0);
        },
    );
}

/// Each stream is a job, and has its key.
#[test]
fn streams_have_a_key_each() {
    let file = std::env::temp_dir().join(format!("pascaline-sealed-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    Secret::create(&file).unwrap();
    let secret = Secret::read(&file).unwrap();
    let mut jobs = [JOB, JOB + 1].map(|job| {
        let keys = JobKeys::new(&secret, job, Protection::Mac);
        let end = End { results: keys.results(5), keys, ..End::new(job, Protection::Mac, 5) };
        (end, Aggregator::new(job, 1, 64))
    });
    let appliance = Appliance::serve("127.0.0.1:0", move |datagram| {
        let (header, _) = Header::parse(datagram).unwrap();
        let (end, aggregator) = &mut jobs[usize::from(header.job - JOB)];
        end.handle(aggregator, datagram, &Conditions::IDEAL, &mut Rng::with_seed(1))
    });
    let config = Config { ranks: 1, ..appliance.config(0) };
    let with_two = config.clone().sealed(&file, Protection::Mac, 2).unwrap();
    let streams = Streams::join(&with_two, 2).unwrap();
    for stream in 0..2 {
        let sum = Collective::Allreduce(Op::Sum);
        let done = streams.start(stream, &sum, vec![3_i32; 700], Hints::default()).wait();
        assert!(done.outcome.is_ok(), "{:?}", done.outcome);
    }
    assert!(streams.leave().into_iter().all(|departure| departure.unwrap().left == Left::Everyone));
    let without = Streams::join(&with_two, 3).unwrap_err();
    assert!(matches!(without, JoinError::Config(ConfigError::NoKey { job }) if job == JOB + 2), "{without}");
    let elsewhere = Config { seals: seals(JOB + 1, 0, Protection::Mac), ..config };
    assert_eq!(elsewhere.check(), Err(ConfigError::NoKey { job: JOB }));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_sealed_worker_offers_less() {
    let [v4, v6] = ["127.0.0.1:1", "[::1]:1"].map(|at| {
        let config = Config::new(at.parse().unwrap(), JOB, 0, RANKS);
        Config { seals: seals(JOB, 0, Protection::Mac), ..config }
    });
    let offer = |config: &Config, mtu| config.offer(mtu).0.payload;
    assert_eq!([None, Some(1500), Some(9000)].map(|mtu| offer(&v4, mtu)), [1416, 1416, 8920]);
    assert_eq!([1500, 9000].map(|mtu| offer(&v6, Some(mtu))), [1400, 8896]);
}
