//! Workers end without a word, and their hosts say that their ports are closed.

use pascaline_pipelines::membership::{Admission, JobSpec};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{Heard, Worker};
use pascaline_wire::control::{Action, Status};
use pascaline_wire::frame::protocol;
use pascaline_wire::{Address, Mac, checksum, header};

use crate::common::appliance::{Bench, Plan};

const FORMED: u16 = 1000;

/// The ICMP message of the host at `by` that quotes a frame.
fn port_unreachable(frame: &[u8], by: Address) -> Vec<u8> {
    let quoted = &frame[14..];
    let mut message = [&[3, 3, 0, 0, 0, 0, 0, 0][..], quoted].concat();
    let sum = checksum::finish(checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let length = u16::try_from(20 + message.len()).unwrap().to_be_bytes();
    let mut head = vec![0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, protocol::ICMP, 0, 0];
    head.extend_from_slice(&by.as_v4().unwrap());
    head.extend_from_slice(&quoted[12..16]);
    let sum = checksum::finish(checksum::sum(&head));
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    [&frame[6..12], &frame[..6], &[8, 0], &head, &message].concat()
}

/// An appliance at which three ranks have formed a job.
fn formed() -> (Bench, [Worker; 3]) {
    let plan = Plan::one_armed();
    let mut bench = Bench::new(&plan);
    let admission = Admission {
        jobs: FORMED..=1999,
        from: vec!["10.77.0.0/24".parse().unwrap()],
        max_jobs: 2,
        max_jobs_per_host: 2,
        max_fan_in: 16,
        like: JobSpec::new(0, 1),
        idle: Admission::IDLE,
    };
    let now = bench.appliance.now;
    bench.appliance.plane.reconfigure(now, plan.jobs, Some(admission));
    bench.settle();
    let mut workers = [0, 1, 2].map(|rank| Worker { job: FORMED, ..Worker::new(rank, 3) });
    bench.join(&mut workers);
    (bench, workers)
}

/// Two newcomers on other hosts.
fn newcomers() -> [Worker; 2] {
    [0, 1].map(|rank| {
        let host = 101 + u8::try_from(rank).unwrap();
        let (mac, address) = (Mac([2, 0, 0, 0, 0, host]), Address::from_v4([10, 77, 0, host]));
        Worker { job: FORMED, session: 2000, mac, address, ..Worker::new(rank, 2) }
    })
}

/// Both ask to join. Gives what they hear and the frames to others.
fn ask(bench: &mut Bench) -> (Vec<Status>, Vec<Vec<u8>>) {
    let newcomers = newcomers();
    for worker in &newcomers {
        bench.feed(0, [&worker.control(Action::Join)]);
    }
    bench.settle();
    let is_theirs = |frame: &Vec<u8>| {
        let to = Heard::parse(frame).to;
        newcomers.iter().any(|worker| (worker.address, worker.udp_port) == to)
    };
    let (theirs, others): (Vec<_>, Vec<_>) = bench.io().sent(0).into_iter().partition(is_theirs);
    (theirs.iter().map(|frame| Heard::parse(frame).control().status).collect(), others)
}

#[test]
fn a_job_of_dead_workers_is_formed_anew_as_soon_as_their_hosts_say_so() {
    let (mut bench, workers) = formed();
    let (heard, questions) = ask(&mut bench);
    assert_eq!(heard, [Status::Pending; 2]);
    assert_eq!(questions.len(), 3, "each member is asked once");
    let answered = bench.appliance.get(Counter::Answered);
    for (question, worker) in questions.iter().zip(&workers) {
        let asked = Heard::parse(question);
        assert_eq!(asked.to, (worker.address, worker.udp_port));
        assert_ne!(asked.control().session, worker.session);
        bench.feed(0, [&port_unreachable(question, worker.address)]);
    }
    assert_eq!(bench.appliance.get(Counter::Answered), answered + 3);
    let _ = ask(&mut bench);
    assert_eq!(ask(&mut bench).0, [Status::Ok; 2]);
    bench.end();
}

/// Holds R14.4 of protocol.md.
#[test]
fn what_others_say_in_a_members_name_is_dropped() {
    let (mut bench, workers) = formed();
    let (_, questions) = ask(&mut bench);
    // Of another host, about a stranger's packet, about what is no control packet, and about what was never
    // sent. The last one is for the control plane to judge.
    let elsewhere = port_unreachable(&questions[0], newcomers()[0].address);
    let stranger = |at: usize| {
        let mut frame = questions[0].clone();
        frame[at] ^= 1;
        port_unreachable(&frame, workers[0].address)
    };
    for (frame, reason) in [
        (elsewhere, DropReason::NoService),
        (stranger(36), DropReason::NoService),
        (stranger(42), DropReason::NoService),
    ] {
        let before = bench.appliance.dropped(reason);
        bench.feed(0, [&frame]);
        assert_eq!(bench.appliance.dropped(reason), before + 1);
    }
    for (question, worker) in questions.iter().zip(&workers) {
        let mut forged = question.clone();
        // The session's last byte.
        forged[42 + header::LEN + 11] ^= 1;
        bench.feed(0, [&port_unreachable(&forged, worker.address)]);
    }
    assert_eq!(ask(&mut bench).0, [Status::Pending; 2]);
}
