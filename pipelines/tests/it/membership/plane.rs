//! A control plane without lcores, and what is asked of it.

use std::time::Duration;

use pascaline_aggregator::{Policy, Region};
use pascaline_pipelines::jobs::{Endpoint, JobTable};
use pascaline_pipelines::membership::{
    Admission, Answer, Elapsed, JobKind, JobSpec, JobStatus, Secret, ServerMode,
};
use pascaline_pipelines::{ControlRequest, Membership};
use pascaline_wire::control::{self, ASK, Action, Control, Status};
use pascaline_wire::header::{Element, Header, Kind};

use crate::common::appliance::kind;
use pascaline_testkit::{JOB, Worker, port_mac};

/// The first generation of each job in these tests.
pub(crate) const FIRST: u16 = 7;

/// Time between two requests: nobody asks too often.
const STEP: Duration = Duration::from_millis(10);

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A job in which `needed` contributions complete a PSN.
pub(crate) fn early(fan_in: u16, needed: u16) -> JobSpec {
    let place = Region { first: 0, sets: 8 };
    JobSpec { kind: JobKind::Early { place, needed, partial_after: None }, ..JobSpec::new(JOB, fan_in) }
}

/// A job with this server.
pub(crate) fn served(server: ServerMode, fan_in: u16) -> JobSpec {
    JobSpec { kind: kind(Policy::default(), server), ..JobSpec::new(JOB, fan_in) }
}

/// What the lcores' clock shows: no telling from when.
pub(crate) fn lcores(now: Duration) -> u64 {
    u64::try_from((now - secs(500)).as_nanos()).unwrap()
}

pub(crate) fn endpoint(worker: &Worker) -> Endpoint {
    Endpoint {
        port: worker.port,
        mac: worker.mac,
        vlan: worker.vlan,
        address: worker.address,
        udp_port: worker.udp_port,
        local: worker.local(),
        local_udp_port: 16420,
        dscp: worker.dscp,
    }
}

/// Two generations, either of which will do, as `expected` of [`request`].
pub(crate) fn either(epoch: u16, before: u16) -> u64 {
    u64::from(control::generation(before)) << 32 | u64::from(control::generation(epoch))
}

pub(crate) fn request(worker: &Worker, action: Action, expected: u64, got: u32) -> ControlRequest {
    let [before, expected] =
        [expected >> 32, expected & 0xffff_ffff].map(|half| u32::try_from(half).unwrap());
    // A Join belongs to no generation.
    let epoch = if action == Action::Join { 0 } else { worker.epoch };
    ControlRequest {
        lcore: 0,
        at_ns: 0,
        from: endpoint(worker),
        header: Header { epoch, element: Element::F32_SUM, ..worker.header(Kind::Control, 0, 0) },
        control: Control {
            payload: worker.payload,
            window: 64,
            cookie: 1,
            expected,
            got,
            before,
            ..Control::request(action, worker.session)
        },
        padding: 0,
        operations: None,
    }
}

/// Rank 0 to `ranks` − 1, none of which has heard of a generation.
pub(crate) fn ranks(count: u16) -> Vec<Worker> {
    (0..count).map(|rank| Worker::new(rank, count)).collect()
}

pub(crate) struct Plane {
    pub(crate) membership: Membership,
    pub(crate) now: Duration,
}

impl Plane {
    pub(crate) fn new(spec: JobSpec) -> Self {
        Self { membership: Membership::new(vec![spec], Secret::NONE, FIRST), now: secs(1000) }
    }

    pub(crate) fn with_admission(specs: Vec<JobSpec>, admission: Admission) -> Self {
        Self {
            membership: Membership::new(specs, Secret::NONE, FIRST).with_admission(admission),
            now: secs(1000),
        }
    }

    /// A job whose ranks have all joined generation [`FIRST`], and know it.
    pub(crate) fn complete(spec: JobSpec) -> (Self, Vec<Worker>) {
        let mut workers = ranks(spec.fan_in);
        let mut plane = Self::new(spec);
        plane.form(&mut workers);
        (plane, workers)
    }

    /// Lets workers join by the handshake, all into one generation that is then complete.
    #[track_caller]
    pub(crate) fn form(&mut self, workers: &mut [Worker]) {
        for worker in workers.iter_mut() {
            worker.epoch = self.ask(worker, Action::Join, 0, ASK).header.epoch;
        }
        // Whoever starts anew begins another generation: the others are told so, and ask again.
        let mut told = Vec::new();
        for _ in 0..4 {
            told.clear();
            for worker in workers.iter_mut() {
                let answer = self.join(worker);
                worker.epoch = answer.header.epoch;
                told.push(answer.control.status);
            }
        }
        told.iter().for_each(|status| assert_eq!(*status, Status::Ok));
    }

    /// The answer to a request, checked as far as all answers are alike.
    #[track_caller]
    pub(crate) fn ask(
        &mut self,
        worker: &Worker,
        action: Action,
        expected: impl TryInto<u64>,
        got: u32,
    ) -> Answer {
        self.handle(request(worker, action, expected.try_into().ok().expect("two generations"), got))
    }

    #[track_caller]
    pub(crate) fn handle(&mut self, mut request: ControlRequest) -> Answer {
        self.now += STEP;
        let (action, worker) = (request.control.action, (request.header.job, request.header.rank));
        // Later ones have larger numbers.
        request.at_ns = lcores(self.now);
        request.control.number = u32::try_from(self.now.as_millis()).expect("a test is short");
        let answer = self.membership.handle(self.now, &request).expect("requests are answered");
        assert_eq!((answer.control.action, answer.control.answers), (Action::Ack, Some(action)));
        assert_eq!(answer.control.session, request.control.session);
        assert_eq!(
            (answer.header.kind, answer.header.job, answer.header.rank),
            (Kind::Control, worker.0, worker.1)
        );
        answer
    }

    /// Asserts the status, the generation, the ranks that are there and whether the table changes.
    #[track_caller]
    pub(crate) fn expect(&mut self, worker: &Worker, action: Action, expected: (Status, u16, u16, bool)) {
        let answer = self.ask(worker, action, 0, 0);
        let seen = (answer.control.status, answer.header.epoch, answer.control.joined, answer.changed);
        assert_eq!(seen, expected);
    }

    /// Asserts that a request is refused with this status, the value that would have been right and the one
    /// received, and that nothing changes.
    #[track_caller]
    pub(crate) fn refuses(
        &mut self,
        worker: &Worker,
        action: Action,
        status: Status,
        expected: u32,
        got: u32,
    ) {
        self.refuses_values(worker, action, (0, 0), (status, expected, got));
    }

    /// The same for a request with values.
    #[track_caller]
    pub(crate) fn refuses_values(
        &mut self,
        worker: &Worker,
        action: Action,
        values: (u32, u32),
        refusal: (Status, u32, u32),
    ) {
        let before = (self.membership.status(), self.members(worker.job));
        let answer = self.ask(worker, action, values.0, values.1);
        let seen = (answer.control.status, answer.control.expected, answer.control.got);
        assert_eq!(seen, refusal);
        assert!(!answer.changed);
        assert_eq!((self.membership.status(), self.members(worker.job)), before, "a refusal changes nothing");
    }

    /// A Join of a worker that is about to join, and knows the generation.
    #[track_caller]
    pub(crate) fn join(&mut self, worker: &Worker) -> Answer {
        self.ask(worker, Action::Join, 0, control::generation(worker.epoch))
    }

    /// What a member sends while it waits inside an operation.
    #[track_caller]
    pub(crate) fn heartbeat(&mut self, worker: &Worker) -> Answer {
        let mut beat = request(worker, Action::Join, 0, control::generation(worker.epoch));
        (beat.control.element, beat.control.bytes) = (Some(Element::F32_SUM), 4096);
        self.handle(beat)
    }

    /// A Join that wants to go on with the worker's generation, in the one that the appliance is in.
    #[track_caller]
    pub(crate) fn resume(&mut self, worker: &Worker, in_epoch: u16) -> Answer {
        self.ask(worker, Action::Join, control::generation(worker.epoch), control::generation(in_epoch))
    }

    pub(crate) fn table(&self) -> JobTable {
        self.membership.table(|port| port_mac(u8::try_from(port).unwrap()))
    }

    /// The ranks that lcores take for members.
    pub(crate) fn members(&self, job: u16) -> Vec<u16> {
        let table = self.table();
        let Some(job) = table.get(job) else { return Vec::new() };
        (0..job.fan_in).filter(|&rank| job.member(rank).is_some()).collect()
    }

    pub(crate) fn status(&self) -> JobStatus {
        *self.membership.status().iter().find(|status| status.id == JOB).expect("the job exists")
    }

    /// Lets time pass in one step.
    pub(crate) fn pass(&mut self, time: Duration) -> Elapsed {
        self.now += time;
        self.membership.handle_timeout(self.now)
    }

    /// Lets time pass in small steps while these workers send heartbeats, as they do while they wait, as long
    /// as nothing happens.
    pub(crate) fn wait(&mut self, workers: &[Worker], time: Duration) -> Elapsed {
        let end = self.now + time;
        while self.now < end {
            for worker in workers {
                let _ = self.heartbeat(worker);
            }
            let elapsed = self.pass(millis(100));
            if elapsed != Elapsed::default() {
                return elapsed;
            }
        }
        Elapsed::default()
    }
}

/// The ranks that an answer names in its trailer.
pub(crate) fn named(answer: &Answer) -> Vec<u16> {
    let lost = answer.lost.expect("a trailer");
    (0..lost.capacity()).filter(|&rank| lost.contains(rank)).collect()
}

/// Status, generation, and the values told.
pub(crate) fn told(answer: &Answer) -> (Status, u16, u32, u32) {
    let Control { status, expected, got, .. } = answer.control;
    (status, answer.header.epoch, expected, got)
}
