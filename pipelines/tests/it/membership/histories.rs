//! Any history at all: what must hold whatever is asked, by whomever, in whatever order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pascaline_pipelines::membership::{
    Admission, Answer, Event, JobSpec, JobStatus, OnDeath, Role, ServerMode,
};
use pascaline_wire::control::{ASK, Action, SERVER_RANK, Status, generation, named_generation};
use proptest::prelude::*;

use super::plane::{FIRST, Plane, early as early_job, millis, request, secs, served};
use pascaline_testkit::{JOB, Worker};

proptest! {
    /// Joins and Leaves against a model: `ok` only when all are here or all are gone, the members are those
    /// who have joined the generation that the answer names, sessions never go back, and a refusal changes
    /// nothing.
    #[test]
    fn any_history_keeps_the_members_of_one_generation(
        steps in proptest::collection::vec((0u16..3, 0u64..4, any::<bool>(), 0u16..2), 0..60),
    ) {
        let mut plane = Plane::new(JobSpec::new(JOB, 3));
        let mut model: BTreeMap<u16, (u64, u16, bool)> = BTreeMap::new();
        let (mut epoch, mut complete) = (FIRST, false);
        for (rank, session, join, elsewhere) in steps {
            let base = Worker::new(rank, 3);
            let worker = Worker { session, epoch, udp_port: base.udp_port + 100 * elsewhere, ..base };
            let action = if join { Action::Join } else { Action::Leave };
            let answer = plane.ask(&worker, action, 0, 0);
            if says_nothing(&answer) {
                prop_assert!(!answer.changed);
                continue;
            }
            if answer.header.epoch != epoch {
                prop_assert_eq!(answer.header.epoch, epoch + 1);
                prop_assert!(join && answer.changed);
                (epoch, complete) = (epoch + 1, false);
                model.clear();
            }
            match (answer.control.status, join) {
                (Status::Ok | Status::Pending, true) => {
                    let before = model.insert(rank, (session, worker.udp_port, false));
                    prop_assert!(before.is_none_or(|before| before == (session, worker.udp_port, false)));
                    complete |= model.len() == 3;
                    prop_assert_eq!(answer.control.status == Status::Ok, complete);
                }
                (Status::Ok | Status::Pending, false) => {
                    let same = |known: &(_, _, _)| (known.0, known.1) == (session, worker.udp_port);
                    prop_assert!(model.get(&rank).is_some_and(same));
                    if complete {
                        model.insert(rank, (session, worker.udp_port, true));
                    } else {
                        model.remove(&rank);
                    }
                    prop_assert_eq!(answer.control.status == Status::Ok, model.values().all(|known| known.2));
                }
                (status, _) => {
                    prop_assert!(matches!(
                        status,
                        Status::StaleSession | Status::NotMember | Status::RankSpoofed
                    ));
                    prop_assert!(!answer.changed);
                }
            }
            let all_gone = model.values().all(|known| known.2);
            let members: Vec<u16> = if all_gone { vec![] } else { model.keys().copied().collect() };
            prop_assert_eq!(plane.members(JOB), members);
            let here = model.values().filter(|known| !known.2).count();
            prop_assert_eq!(usize::from(answer.control.joined), here);
        }
    }

    /// Everything that can be asked, with time passing.
    #[test]
    fn any_history_keeps_the_invariants(
        on_death in prop::sample::select(&[OnDeath::Fail, OnDeath::Continue]),
        early in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let mut history = History::new(on_death, early);
        for step in &steps {
            history.step(step)?;
        }
    }
}

/// True if an answer is for somebody who is not to know about the job: it grants no window.
fn says_nothing(answer: &Answer) -> bool {
    answer.control.window == 0
}

/// One packet, and the time before it.
#[derive(Debug, Clone)]
struct Step {
    wait: Duration,
    job: u16,
    rank: u16,
    session: u64,
    elsewhere: bool,
    action: Action,
    /// How far the packet's generation and those that it names are behind the job's; 3 for none, 4 for a
    /// question.
    epochs: [u16; 3],
    threshold: u32,
}

fn step() -> impl Strategy<Value = Step> {
    let action = prop_oneof![
        12 => Just(Action::Join),
        3 => Just(Action::Leave),
        1 => prop::sample::select(&[Action::Reset, Action::SetH, Action::Halt, Action::FBcast]),
        1 => prop::sample::select(&[Action::Serve, Action::Ack]),
    ];
    let wait = prop::sample::select(&[10, 10, 10, 100, 400, 1100, 60_000]).prop_map(millis);
    // Mostly one job: the others are there for the quotas.
    let job = prop_oneof![6 => Just(JOB), 1 => 999u16..=1004];
    let epochs = [0u16..5, 0u16..4, 0u16..5];
    ((wait, job, 0u16..4, 1u64..4, prop::bool::weighted(0.1), action), (epochs, 0u32..5)).prop_map(
        |((wait, job, rank, session, elsewhere, action), (epochs, threshold))| Step {
            wait,
            job,
            rank,
            session,
            elsewhere,
            action,
            epochs,
            threshold,
        },
    )
}

const FAN_IN: u16 = 3;
const MOST_JOBS: usize = 2;
const ADMITTED: core::ops::RangeInclusive<u16> = 1000..=1003;

struct History {
    plane: Plane,
    on_death: OnDeath,
    /// The latest session admitted and the sessions that have left, by rank of the configured job.
    latest: BTreeMap<u16, u64>,
    left: BTreeSet<(u16, u64)>,
    /// Sessions whose rank has been given to others.
    over: BTreeSet<(u16, u64)>,
    /// The generations that each rank has claimed in the present one.
    claims: BTreeMap<u16, BTreeSet<u16>>,
}

impl History {
    fn new(on_death: OnDeath, early: bool) -> Self {
        let like = JobSpec { dead_after: Some(secs(1)), ..JobSpec::new(0, 0) };
        let server = ServerMode::External { address: Worker::new(0, 1).address, udp_port: 49152 };
        let spec = JobSpec {
            dead_after: Some(secs(1)),
            on_death,
            ..if early { early_job(FAN_IN, FAN_IN) } else { served(server, FAN_IN) }
        };
        let admission = Admission {
            jobs: ADMITTED,
            from: vec!["10.77.0.0/24".parse().unwrap()],
            max_jobs: MOST_JOBS,
            max_jobs_per_host: MOST_JOBS,
            max_fan_in: FAN_IN,
            like,
            idle: secs(30),
        };
        Self {
            plane: Plane::with_admission(vec![spec], admission),
            on_death,
            latest: BTreeMap::new(),
            left: BTreeSet::new(),
            over: BTreeSet::new(),
            claims: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.pass(step.wait)?;
        let (before, table) = (self.plane.membership.status(), self.plane.members(JOB));
        let worker = self.worker(step);
        let values = self.values(step);
        let request = request(&worker, step.action, values.0.into(), values.1);
        let answer = self.plane.membership.handle(self.plane.now, &request);
        prop_assert_eq!(answer.is_none(), step.action == Action::Ack, "nobody asks too often here");
        if !answer.is_some_and(|answer| answer.changed) {
            prop_assert_eq!(&table, &self.plane.members(JOB), "lcores were not told");
        }
        if let Some(answer) = answer {
            self.check_answer(step, &worker, &before, values, &answer)?;
        }
        self.check_state()
    }

    fn before(&self, statuses: &[JobStatus]) -> JobStatus {
        *statuses.iter().find(|status| status.id == JOB).unwrap()
    }

    fn worker(&self, step: &Step) -> Worker {
        let epoch = self.plane.membership.status().iter().find(|job| job.id == step.job).map(|job| job.epoch);
        let base = Worker::new(step.rank, FAN_IN);
        let base = match step.action {
            Action::Serve => Worker { rank: SERVER_RANK, ..Worker::new(0, 0) },
            _ => base,
        };
        Worker {
            job: step.job,
            session: step.session,
            epoch: epoch.unwrap_or(FIRST).wrapping_sub(step.epochs[0] % 3),
            udp_port: base.udp_port + 100 * u16::from(step.elsewhere),
            ..base
        }
    }

    fn values(&self, step: &Step) -> (u32, u32) {
        let epoch = self.plane.status().epoch;
        let named = |behind: u16| match behind {
            0..=2 => generation(epoch.wrapping_sub(behind)),
            3 => 0,
            _ => ASK,
        };
        match step.action {
            Action::Join => (named(step.epochs[1]), named(step.epochs[2])),
            Action::SetH => (step.threshold, 0),
            _ => (0, 0),
        }
    }

    /// Lets time pass: a generation ends by a death only, and only where that is configured.
    fn pass(&mut self, time: Duration) -> Result<(), TestCaseError> {
        let before = self.plane.status();
        let elapsed = self.plane.pass(time);
        let after = self.plane.status();
        let died = elapsed.events.iter().any(|event| matches!(event, Event::Lost { job: JOB, .. }));
        if before.epoch != after.epoch {
            prop_assert_eq!(after.epoch, before.epoch.wrapping_add(1));
            prop_assert!(elapsed.changed && died && self.on_death == OnDeath::Continue);
            self.claims.clear();
            // Those who had left may be needed again.
            self.left.clear();
        }
        if elapsed.events.is_empty() {
            prop_assert!(!elapsed.changed);
            prop_assert_eq!(before, after);
        }
        prop_assert_eq!(after.lost != before.lost, died);
        self.check_state()
    }

    fn check_answer(
        &mut self,
        step: &Step,
        worker: &Worker,
        before: &[JobStatus],
        values: (u32, u32),
        answer: &Answer,
    ) -> Result<(), TestCaseError> {
        let status = answer.control.status;
        let admitted = step.action == Action::Join
            && values.1 != ASK
            && !says_nothing(answer)
            && matches!(status, Status::Ok | Status::Pending | Status::Halted);
        if !answer.changed {
            let after = self.plane.membership.status();
            // A rank that leaves is counted out at once; lcores need not know before all have left.
            let expected = before.iter().zip(&after).all(|(before, after)| {
                *before == JobStatus { joined: before.joined, ..*after } && after.joined <= before.joined
            });
            prop_assert!(expected && before.len() == after.len(), "{:?} {:?}", before, after);
        }
        prop_assert!(answer.lost.is_none() || status == Status::RankLost);
        if step.job != JOB {
            return Ok(());
        }
        let (before, after) = (self.before(before), self.plane.status());
        if before.epoch != after.epoch {
            prop_assert_eq!(after.epoch, before.epoch.wrapping_add(1));
            let by_join = admitted;
            let by_reset = (step.action, status) == (Action::Reset, Status::Ok);
            let by_ghost = (step.action, status) == (Action::Leave, Status::NotMember);
            prop_assert!(answer.changed && (by_join || by_reset || by_ghost), "{:?}", status);
            self.claims.clear();
        }
        if admitted {
            prop_assert!(!self.over.contains(&(step.rank, step.session)), "another has taken its place");
            let earlier = self.latest.get(&step.rank).filter(|&&earlier| earlier != step.session);
            self.over.extend(earlier.map(|&earlier| (step.rank, earlier)));
            prop_assert!(!self.left.contains(&(step.rank, step.session)), "it has left");
            prop_assert!(values.1 == 0 || values.1 == generation(before.epoch), "of another generation");
            self.latest.insert(step.rank, step.session);
            let claims = self.claims.entry(step.rank).or_default();
            claims.extend(named_generation(values.0));
            let told_to_go_on = answer.control.expected != 0;
            let told_not_to = named_generation(values.0).is_some() && !told_to_go_on;
            prop_assert!(after.complete || status != Status::Ok || told_not_to);
            // Who cannot go on does not count.
            let here = self.plane.members(JOB).contains(&step.rank);
            prop_assert!(here || status == Status::Ok && told_not_to, "{:?}", status);
        }
        self.check_resumed(answer)?;
        let leaves = step.action == Action::Leave && matches!(status, Status::Ok | Status::Pending);
        if leaves {
            self.left.insert((worker.rank, worker.session));
        }
        Ok(())
    }

    /// All who go on with a generation have asked for it.
    fn check_resumed(&self, answer: &Answer) -> Result<(), TestCaseError> {
        let resumed = named_generation(answer.control.expected);
        if let (Status::Ok, Some(resumed)) = (answer.control.status, resumed) {
            let entries = self.plane.membership.entries(JOB).unwrap();
            let workers = entries.iter().filter(|entry| entry.role == Role::Worker);
            for entry in workers {
                let claims = self.claims.get(&entry.id);
                prop_assert!(
                    claims.is_some_and(|claims| claims.contains(&resumed)),
                    "rank {} goes on",
                    entry.id
                );
            }
        }
        Ok(())
    }

    fn check_state(&self) -> Result<(), TestCaseError> {
        let table = self.plane.table();
        let statuses = self.plane.membership.status();
        let formed = statuses.iter().filter(|status| status.id != JOB);
        prop_assert!(formed.clone().count() <= MOST_JOBS);
        prop_assert!(formed.clone().all(|status| ADMITTED.contains(&status.id)));
        prop_assert_eq!(table.jobs().len(), statuses.len());
        for status in &statuses {
            let job = table.get(status.id).unwrap();
            prop_assert_eq!(
                (job.epoch, job.needed, job.halted),
                (status.epoch, status.needed, status.halted)
            );
            let members = self.plane.members(status.id);
            let entries = self.plane.membership.entries(status.id).unwrap();
            let here: Vec<u16> =
                entries.iter().filter(|entry| entry.role == Role::Worker).map(|entry| entry.id).collect();
            prop_assert_eq!(here.len(), usize::from(status.joined));
            prop_assert!(here.iter().all(|rank| members.contains(rank)));
            prop_assert!((1..=status.fan_in).contains(&status.needed));
            prop_assert!(status.joined + status.lost <= status.fan_in);
            if status.complete && !members.is_empty() {
                prop_assert!(usize::from(status.needed) <= members.len(), "{:?}", status);
                prop_assert_eq!(members.len(), usize::from(status.fan_in - status.lost));
            }
        }
        prop_assert!(self.plane.membership.poll_timeout().is_none_or(|at| at <= self.plane.now + secs(60)));
        Ok(())
    }
}
