//! Who belongs to which job: the control plane's decisions, and how they reach the lcores.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod common;

use common::appliance::{Bench, Plan, job};
use common::frames::{JOB, Worker, port_mac};
use pascaline_pipelines::jobs::{Endpoint, Job, JobTable};
use pascaline_pipelines::membership::{Answer, JobSpec};
use pascaline_pipelines::{ControlRequest, Membership};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::Address;
use pascaline_wire::header::{Element, Kind};
use proptest::prelude::*;

fn request(worker: &Worker, action: Action) -> ControlRequest {
    ControlRequest {
        lcore: 0,
        from: Endpoint {
            port: worker.port,
            mac: worker.mac,
            vlan: worker.vlan,
            address: worker.address,
            udp_port: worker.udp_port,
            local: worker.local(),
            local_udp_port: 16420,
        },
        header: pascaline_wire::Header { element: Element::F32_SUM, ..worker.header(Kind::Control, 0, 0) },
        control: Control { payload: worker.payload, window: 64, ..Control::request(action, worker.session) },
    }
}

struct Plane(Membership);

impl Plane {
    fn new(spec: JobSpec) -> Self {
        Self(Membership::new(vec![spec], 7))
    }

    fn ask(&mut self, worker: &Worker, action: Action) -> Answer {
        let answer = self.0.handle(&request(worker, action)).expect("requests are answered");
        assert_eq!((answer.control.action, answer.control.answers), (Action::Ack, Some(action)));
        assert_eq!(answer.control.session, worker.session);
        assert_eq!((answer.header.kind, answer.header.job), (Kind::Control, worker.job));
        assert_eq!(answer.header.rank, worker.rank);
        answer
    }

    /// Asserts the status, the generation, the ranks joined and whether the table changes.
    #[track_caller]
    fn expect(&mut self, worker: &Worker, action: Action, expected: (Status, u8, u16, bool)) {
        let answer = self.ask(worker, action);
        let seen = (answer.control.status, answer.header.epoch, answer.header.count, answer.changed);
        assert_eq!(seen, expected);
    }

    #[track_caller]
    fn refuses(&mut self, worker: &Worker, action: Action, status: Status, expected: u32, got: u32) {
        let before = self.0.status();
        let answer = self.ask(worker, action);
        assert_eq!(
            (answer.control.status, answer.control.expected, answer.control.got),
            (status, expected, got)
        );
        assert!(!answer.changed);
        assert_eq!(self.0.status(), before, "a refusal changes nothing");
    }

    fn members(&self) -> Vec<u16> {
        let table = self.0.table(|port| port_mac(u8::try_from(port).unwrap()));
        let job = table.get(JOB).unwrap();
        (0..job.fan_in).filter(|&rank| job.member(rank).is_some()).collect()
    }
}

#[test]
fn a_job_forms_lives_and_ends() {
    use Action::{Join, Leave};
    use Status::{NotMember, Ok, Pending, StaleSession};
    let mut plane = Plane::new(job(JOB, 2));
    let [a, b] = [Worker::new(0, 2), Worker::new(1, 2)];
    plane.expect(&a, Join, (Pending, 7, 1, true));
    plane.expect(&a, Join, (Pending, 7, 1, false));
    plane.expect(&b, Join, (Ok, 7, 2, true));
    plane.expect(&a, Join, (Ok, 7, 2, false));
    assert_eq!(plane.members(), [0, 1]);
    assert_eq!(plane.ask(&a, Join).control.window, 512);
    assert_eq!(plane.ask(&a, Join).control.payload, 1024);

    plane.expect(&a, Leave, (Pending, 7, 1, false));
    plane.expect(&a, Leave, (Pending, 7, 1, false));
    assert_eq!(plane.members(), [0, 1], "it may have kept what the other needs");
    // A Join that was overtaken by its own Leave does not bring the rank back.
    plane.refuses(&a, Join, StaleSession, 0, 0);
    plane.expect(&b, Leave, (Ok, 7, 0, true));
    plane.expect(&a, Leave, (Ok, 7, 0, false));
    assert!(plane.members().is_empty());
    plane.refuses(&Worker { session: 999, ..a }, Leave, NotMember, 0, 0);

    let later = Worker { session: 1001, ..b };
    plane.expect(&later, Join, (Pending, 8, 1, true));
    plane.expect(&Worker { session: 1002, ..a }, Join, (Ok, 8, 2, true));
}

#[test]
fn a_rank_that_starts_anew_starts_a_generation() {
    use Action::{Join, Leave};
    use Status::{NotMember, Ok, Pending, StaleSession};
    let mut plane = Plane::new(job(JOB, 3));
    let [a, b, c] = [0, 1, 2].map(|rank| Worker::new(rank, 3));
    for (worker, expected) in [(a, (Pending, 7, 1, true)), (b, (Pending, 7, 2, true)), (c, (Ok, 7, 3, true))]
    {
        plane.expect(&worker, Join, expected);
    }
    let newer = Worker { session: 2000, udp_port: 5, ..b };
    plane.expect(&newer, Join, (Pending, 8, 1, true));
    assert_eq!(plane.members(), [1]);
    plane.refuses(&b, Join, StaleSession, 0, 0);
    plane.refuses(&b, Leave, NotMember, 0, 1);
    plane.refuses(&a, Leave, NotMember, 0, 0);
    // A session that has left is over, even if its generation was over before.
    plane.refuses(&a, Join, StaleSession, 0, 0);
    let a = Worker { session: a.session + 1, ..a };
    // The same session from elsewhere is a new start as well: two hosts do not share a rank.
    plane.expect(&Worker { udp_port: 6, ..newer }, Join, (Pending, 9, 1, true));
    plane.expect(&a, Join, (Pending, 9, 2, true));
    plane.expect(&c, Join, (Ok, 9, 3, true));
    // Joining after somebody has left: what was collected is forgotten, whoever it is.
    plane.expect(&a, Leave, (Pending, 9, 2, false));
    plane.expect(&Worker { session: 3000, ..a }, Join, (Pending, 10, 1, true));
    plane.expect(&c, Join, (Pending, 10, 2, true));
    // Whoever is not the rank cannot end its session.
    plane.refuses(&Worker { address: b.address, ..c }, Leave, NotMember, 0, 2);
    plane.expect(&c, Join, (Pending, 10, 2, false));
}

#[test]
fn what_disagrees_is_refused_by_name() {
    use Action::Join;
    let members = (0..2).map(|rank| Worker::new(rank, 2).address).collect();
    let mut plane = Plane::new(JobSpec { admitted: Some(members), ..job(JOB, 2) });
    let [a, b] = [0, 1].map(|rank| Worker::new(rank, 2));
    plane.refuses(&Worker { fan_in: 8, ..a }, Join, Status::FanInMismatch, 2, 8);
    plane.refuses(&Worker { rank: 2, ..a }, Join, Status::RankOutOfRange, 2, 2);
    plane.refuses(&Worker { rank: 1, ..a }, Join, Status::SourceRefused, 0, 1);
    plane.refuses(&a.v6(), Join, Status::SourceRefused, 0, 0);
    for payload in [0, 1020, 1416] {
        plane.refuses(&Worker { payload, ..a }, Join, Status::PayloadMismatch, 1408, u32::from(payload));
    }
    plane.refuses(&Worker { job: 9, ..a }, Join, Status::UnknownJob, 0, 9);
    for action in [Action::Reset, Action::SetH, Action::FBcast, Action::Help, Action::Halt] {
        plane.refuses(&a, action, Status::Unsupported, 0, action as u32);
    }
    plane.refuses(&a, Action::Leave, Status::NotMember, 0, 0);
    assert_eq!(plane.ask(&a, Join).control.status, Status::Pending);
    plane.refuses(&Worker { payload: 512, ..b }, Join, Status::PayloadMismatch, 1024, 512);
    assert_eq!(plane.ask(&b, Join).control.status, Status::Ok);
    assert_eq!(plane.0.handle(&request(&a, Action::Ack)), None);
}

#[test]
fn generations_go_round_after_256() {
    let mut plane = Plane::new(job(JOB, 1));
    let mut worker = Worker::new(0, 1);
    for start in 0..=256u64 {
        worker.session = start;
        let answer = plane.ask(&worker, Action::Join);
        assert_eq!(u64::from(answer.header.epoch), (7 + start) % 256);
    }
}

#[test]
fn a_table_knows_its_jobs_and_no_others() {
    let job = |id| Job::new(id, 1, 0, 8, vec![None]);
    let table = JobTable::new((0..=u16::MAX).map(job).collect());
    assert_eq!(table.jobs().len(), 65_535);
    assert!(table.get(65_534).is_some_and(|job| job.id == 65_534));
    assert!(table.get(65_535).is_none(), "one too many");
    assert!(JobTable::default().get(0).is_none());
}

proptest! {
    /// Whatever is asked in whatever order: Ok only when all are here or all are gone, the members are those who have
    /// joined the generation that the answer names, sessions never go back, and a refusal changes nothing.
    #[test]
    fn any_history_keeps_the_members_of_one_generation(
        steps in proptest::collection::vec((0u16..3, 0u64..4, any::<bool>(), 0u16..2), 0..60),
    ) {
        let mut plane = Plane::new(job(JOB, 3));
        let mut model: std::collections::BTreeMap<u16, (u64, u16, bool)> = Default::default();
        let mut epoch = 7;
        for (rank, session, join, elsewhere) in steps {
            let base = Worker::new(rank, 3);
            let worker = Worker { session, udp_port: base.udp_port + 100 * elsewhere, ..base };
            let action = if join { Action::Join } else { Action::Leave };
            let answer = plane.ask(&worker, action);
            if answer.header.epoch != epoch {
                prop_assert_eq!(answer.header.epoch, epoch + 1);
                prop_assert!(join && answer.changed);
                epoch += 1;
                model.clear();
            }
            match (answer.control.status, join) {
                (Status::Ok | Status::Pending, true) => {
                    let before = model.insert(rank, (session, worker.udp_port, false));
                    prop_assert!(before.is_none_or(|before| before == (session, worker.udp_port, false)));
                    let complete = model.len() == 3 && model.values().all(|known| !known.2);
                    prop_assert_eq!(answer.control.status == Status::Ok, complete);
                }
                (Status::Ok | Status::Pending, false) => {
                    prop_assert!(model.get(&rank).is_some_and(|known| known.0 == session));
                    model.insert(rank, (session, worker.udp_port, true));
                    prop_assert_eq!(answer.control.status == Status::Ok, model.values().all(|known| known.2));
                }
                (status, _) => prop_assert!(!answer.changed && matches!(status, Status::StaleSession | Status::NotMember)),
            }
            let all_gone = model.values().all(|known| known.2);
            let members: Vec<u16> = if all_gone { vec![] } else { model.keys().copied().collect() };
            prop_assert_eq!(plane.members(), members);
            let here = model.values().filter(|known| !known.2).count();
            prop_assert_eq!(usize::from(answer.header.count), here);
        }
    }
}

#[test]
fn packets_of_a_past_generation_are_refused_and_their_senders_told() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 2)], first_epoch: 255, ..Plan::one_armed() });
    let mut workers = vec![Worker::new(0, 2), Worker::new(1, 2)];
    bench.join(&mut workers);
    let old = workers[0];
    assert_eq!(old.epoch, 255);
    workers[1].session += 1;
    bench.join(&mut workers);
    assert_eq!(workers[0].epoch, 0);
    bench.clock.advance(2_000_000);
    bench.feed(0, [&old.gradient(1, &[1]), &old.reminder(1), &old.kept(1, &[1])]);
    assert_eq!(bench.appliance.dropped(DropReason::WrongEpoch), 3);
    let heard = bench.heard_by(&old);
    assert_eq!(heard.len(), 1);
    heard[0].assert_addressed_to(&old);
    let told = heard[0].objection();
    assert_eq!((told.status, told.expected, told.got), (Status::WrongEpoch, 0, 255));
    assert_eq!((heard[0].header.epoch, heard[0].header.fan_in), (0, 2));
    bench.end();
}

#[test]
fn nobody_is_told_to_go_before_every_lcore_knows_the_members() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 1)], ..Plan::one_armed() });
    let mut worker = Worker::new(0, 1);
    bench.io().arrive(0, &worker.control(Action::Join));
    bench.appliance.lcores[0].turn();
    let request = bench.appliance.plane.request().unwrap();
    let (lcore, reply) = bench.appliance.decide(&request).unwrap();
    assert!(!bench.appliance.plane.settled(), "published, and not yet picked up");
    bench.appliance.plane.reap();
    bench.appliance.lcores[0].turn();
    assert!(bench.appliance.plane.settled());
    assert!(bench.heard(0).is_empty());
    assert!(bench.appliance.plane.reply(lcore, reply));
    bench.appliance.lcores[0].turn();
    let heard = bench.heard(0);
    assert_eq!(heard[0].control().status, Status::Ok);
    worker.epoch = heard[0].header.epoch;
    bench.feed(0, [&worker.gradient(0, &[3])]);
    common::appliance::assert_results(&mut bench, &[worker], 0, &[3]);
    bench.end();
}

#[test]
fn answers_that_find_no_buffer_are_lost_and_asked_for_again() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 1)], ..Plan::one_armed() });
    bench.io().headers = 0;
    let worker = Worker::new(0, 1);
    bench.feed(0, [&worker.control(Action::Join)]);
    assert!(bench.heard(0).is_empty());
    assert_eq!(bench.appliance.get(Counter::NoBuffer), 1);
    bench.io().headers = 1;
    bench.feed(0, [&worker.control(Action::Join)]);
    assert_eq!(bench.heard(0)[0].control().status, Status::Ok);
    bench.end();
}

#[test]
fn an_unknown_source_is_answered_where_it_is() {
    let mut bench = Bench::new(&Plan::one_armed());
    let stranger =
        Worker { job: 99, address: Address::from_v4([192, 0, 2, 1]), ..Worker::new(0, 4) }.tagged(0x8100, 5);
    bench.feed(0, [&stranger.control(Action::Join)]);
    let heard = bench.heard(0);
    heard[0].assert_addressed_to(&stranger);
    assert_eq!(heard[0].control().status, Status::UnknownJob);
    bench.end();
}
