//! Who belongs to which job: the control plane's state machine.
//!
//! A job is formed by its workers' Joins. Its *generation* (epoch) tells packets of one formation from those
//! of another: it changes when a rank joins again with a later session, when anybody joins after somebody
//! has left, by a Reset, and when the job goes on without a rank that has died. Sessions are random numbers:
//! nobody can speak for a worker who does not know its own, and one that is over does not come back.
//!
//! The rules are those of `docs/protocol.md`, section 9; the actions are iSwitch's (section 3.2, Table 2).
//!
//! Calling contract of [`Membership`]: times are monotonic, from any origin. Call
//! [`handle`](Membership::handle) for each request, and [`handle_timeout`](Membership::handle_timeout) once
//! [`poll_timeout`](Membership::poll_timeout) has come. A member's requests are its signs of life: it
//! repeats its Join while it is inside an operation. What lcores see of it is none. Where one of them says
//! that something has changed, give lcores a new [`table`](Membership::table), and an answer to its sender
//! not before they have it.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod answer;
mod claim;
mod command;
mod contest;
mod cookie;
mod entry;
mod form;
mod generation;
mod job;
mod join;
mod kind;
mod leave;
mod liveness;
mod multicast;
mod offer;
mod operator;
mod progress;
mod rank;
mod rate;
mod reconfigure;
mod refusal;
mod registration;
mod reply;
mod seals;
mod server;
mod spec;
mod state;
mod subtree;
mod table;
mod terms;
mod uplink;

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use pascaline_aggregator::Tenant;
use pascaline_telemetry::JobCells;
use pascaline_wire::control::{Action, Status};
use pascaline_wire::frame::Mac;
use pascaline_wire::{MulticastGroup, RankSet};

use crate::jobs::JobTable;
use crate::seals::Numbers;

pub use cookie::Secret;
pub use entry::{APPLIANCE, Entry, Role};
use job::{Decision, JobRecord};
pub use kind::JobKind;
pub use liveness::Event;
pub use operator::{Command, Obeyed, PsnOrder, Refused};
pub use reconfigure::Reconfigured;
pub use refusal::{Ask, Found, Refusal};
pub use registration::{NotRegistered, Registration, Registry};
pub use reply::{Answer, ControlRequest, REPLY_LEN, Reply, answer_header};
pub use server::{SILENCE, ServerState};
pub use spec::{Admission, JobSpec, OnDeath, Rights, ServerMode};
pub use state::JobState;
pub use uplink::{HopStatus, Neighbour, Parent, Question, UplinkState, UplinkStatus, Upward};

/// A job's state for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobStatus {
    /// Its number.
    pub id: u16,
    /// Its ranks.
    pub fan_in: u16,
    /// Ranks that are here: joined, not left, not lost.
    pub joined: u16,
    /// Its generation.
    pub epoch: u16,
    /// Payload bytes of a full packet, on which the ranks agreed when they joined; 0 before that.
    pub payload: u16,
    /// Its multicast group, and the ranks that hear it.
    pub multicast: Option<(MulticastGroup, RankSet)>,
    /// Contributions that complete a PSN.
    pub needed: u16,
    /// Ranks that the generation has lost, or goes on without.
    pub lost: u16,
    /// True if all ranks that the generation waits for have joined it.
    pub complete: bool,
    /// True if it is suspended.
    pub halted: bool,
    /// True if it has lost ranks, and nothing is left but to say so.
    pub broken: bool,
    /// True if it was formed by its workers' Joins.
    pub formed: bool,
    /// Its parameter server, where that is a process of its own.
    pub server: ServerState,
    /// How it stands with its parent, if it has one.
    pub uplink: Option<UplinkStatus>,
}

/// What time has brought about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Elapsed {
    /// True if lcores need a new table.
    pub changed: bool,
    /// What it was.
    pub events: Vec<Event>,
    /// Control packets to send to the appliances above.
    pub upward: Vec<Upward>,
    /// Questions for the MACs by which these are reached.
    pub questions: Vec<Question>,
}

/// Codes of statuses, with those that are none.
const CODES: usize = Status::ALL[Status::ALL.len() - 1] as usize + 1;

/// All jobs' memberships.
#[derive(Debug)]
pub struct Membership {
    jobs: BTreeMap<u16, JobRecord>,
    admission: Option<Admission>,
    /// How many lcores count what jobs do.
    lcores: usize,
    /// With which epoch jobs begin that are formed by Joins, if they have existed before: not with one that
    /// they have had.
    next_epochs: BTreeMap<u16, u16>,
    secret: Secret,
    first_epoch: u16,
    /// What is counted of addresses that requests come from.
    addresses: rate::Addresses,
    answered: [u64; CODES],
    ignored: u64,
    /// An answer of a parent has changed what lcores have to know.
    changed: bool,
    /// Questions to members that are to be sent.
    asks: Vec<Ask>,
    /// Answers that were sealed.
    sealed: u64,
    /// Numbers of the packets sealed for parents.
    numbers: Numbers,
    /// The latest time that it has been told.
    now: Duration,
}

impl Membership {
    /// Jobs without members. Generations begin at `first_epoch`, which should differ from one start of the
    /// appliance to the next; `secret` must. Of jobs with the same number, the last counts.
    #[must_use]
    pub fn new(specs: Vec<JobSpec>, secret: Secret, first_epoch: u16) -> Self {
        let state = |spec: JobSpec| (spec.id, JobRecord::new(spec, secret, first_epoch, Duration::ZERO));
        let mut jobs: BTreeMap<u16, JobRecord> = specs.into_iter().map(state).collect();
        for (tenant, job) in (0..u8::MAX).chain(core::iter::repeat(u8::MAX)).zip(jobs.values_mut()) {
            job.tenant = Tenant(tenant);
        }
        Self {
            jobs,
            admission: None,
            lcores: 0,
            next_epochs: BTreeMap::new(),
            secret,
            first_epoch,
            addresses: rate::Addresses::default(),
            answered: [0; CODES],
            ignored: 0,
            changed: false,
            asks: Vec::new(),
            sealed: 0,
            numbers: Numbers::default(),
            now: Duration::ZERO,
        }
    }

    /// A number for one more job that shares the appliance. With more than 255 jobs, the others share the
    /// last one.
    fn free_tenant(&self) -> Tenant {
        let taken = |tenant| self.jobs.values().any(|job| job.tenant == tenant);
        (0..u8::MAX).map(Tenant).find(|&tenant| !taken(tenant)).unwrap_or(Tenant(u8::MAX))
    }

    /// Admits jobs that are formed by Joins alone as well.
    #[must_use]
    pub fn with_admission(self, admission: Admission) -> Self {
        Self { admission: Some(admission), ..self }
    }

    /// Has so many lcores count what jobs do; nothing is counted otherwise. To be said before there are
    /// members.
    #[must_use]
    pub fn counted_by(mut self, lcores: usize) -> Self {
        self.lcores = lcores;
        self.jobs.values_mut().for_each(|job| job.count_by(lcores));
        self
    }

    /// The same, but that the first generation of each job begins with this PSN, where no parent says so. For
    /// tests of what happens where PSNs begin again at 0.
    #[must_use]
    pub fn beginning_with(mut self, psn: u32) -> Self {
        self.jobs.values_mut().filter(|job| job.uplink.is_none()).for_each(|job| job.base = psn);
        self
    }

    /// Decides on a request. `None` if it is not answered: an Ack, or one of too many.
    #[must_use]
    pub fn handle(&mut self, now: Duration, request: &ControlRequest) -> Option<Answer> {
        let ControlRequest { header, control, .. } = request;
        if control.action == Action::Ack {
            if !self.acknowledged(now, request) {
                self.ignored += 1;
            }
            return None;
        }
        if self.jobs.get_mut(&header.job).is_some_and(|job| job.repeats(request)) {
            self.ignored += 1;
            return None;
        }
        // A job that a Join is about to form, for the answer if it does not come to that.
        let mut proposed = None;
        let decision = match self.admits(now, request) {
            None => {
                self.ignored += 1;
                return None;
            }
            Some(false) => Err(Decision::of(Status::TooMany)),
            Some(true) if self.is_rival(request) => self.form_anew(now, request, &mut proposed),
            Some(true) => match self.jobs.get_mut(&header.job) {
                Some(job) => {
                    let decision = decide(job, now, request, self.admission.as_ref());
                    let unchanged = decision.is_ok_and(|decision| !decision.changed);
                    if control.action != Action::Join || !unchanged {
                        job.told.set(None);
                    }
                    // A stranger is no sign of life of the rank that he names.
                    if decision.is_ok() && job.is_member(request) {
                        job.hear((now, request.at_ns), header.rank, control.action);
                    }
                    decision
                }
                None => self.form(now, request, &mut proposed),
            },
        };
        let decision = decision.unwrap_or_else(|refused| refused);
        self.answered[decision.status as usize] += 1;
        let answer = self.answer(now, request, &decision, proposed.as_ref());
        if (control.action, decision.status) == (Action::Leave, Status::Ok) {
            self.forget_if(header.job, |_, _| true);
        }
        Some(answer)
    }

    /// Whether a request is decided on, or refused as one of too many; `None` if it is not answered.
    fn admits(&mut self, now: Duration, request: &ControlRequest) -> Option<bool> {
        let known = self.jobs.get_mut(&request.header.job).and_then(|job| job.asked(request));
        self.addresses.may(now, request.from.address, known)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); it may be in the past. `None` for never, until
    /// something else is called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.jobs.values().filter_map(|job| job.due).min()
    }

    /// True if an answer of a parent has changed what lcores have to know, since the last call.
    pub(crate) const fn take_changed(&mut self) -> bool {
        core::mem::replace(&mut self.changed, false)
    }

    /// Lets time pass: ranks die, jobs are forgotten. Cheap if nothing is due.
    #[must_use]
    pub fn handle_timeout(&mut self, now: Duration) -> Elapsed {
        self.now = now;
        let mut elapsed = Elapsed { changed: self.take_changed(), ..Elapsed::default() };
        let due = |job: &JobRecord| job.due.is_some_and(|due| due <= now);
        let mut over = Vec::new();
        for job in self.jobs.values_mut().filter(|job| due(job)) {
            let events = elapsed.events.len();
            let changed = job.elapse(now, &mut elapsed.events) | job.look_round(now);
            if changed || elapsed.events.len() > events {
                job.told.set(None);
            }
            elapsed.changed |= changed;
            if let Some(uplink) = &mut job.uplink {
                elapsed.upward.extend(uplink.poll(now));
                uplink.ask_hops(now, &mut elapsed);
            }
            job.schedule(now, self.admission.as_ref());
            over.push(job.spec.id);
        }
        for id in over {
            if self.forget_if(id, |job, admission| job.is_over(now, admission)) {
                elapsed.changed = true;
                elapsed.events.push(Event::Forgotten { job: id });
            }
        }
        elapsed
    }

    /// Forgets a job under a condition. True if it did. What is forgotten is never a configured job.
    fn forget_if(&mut self, id: u16, condition: impl Fn(&JobRecord, &Admission) -> bool) -> bool {
        let Some(admission) = &self.admission else { return false };
        let over = self.jobs.get(&id).filter(|job| job.founder.is_some() && condition(job, admission));
        let Some(epoch) = over.map(|job| job.epoch.wrapping_add(1)) else { return false };
        self.jobs.remove(&id);
        self.next_epochs.insert(id, epoch);
        true
    }

    /// The table for the lcores. `mac` gives the MAC of a port.
    #[must_use]
    pub fn table(&self, mac: impl Fn(usize) -> Mac) -> JobTable {
        JobTable::new(self.jobs.values().map(|job| job.table(&self.numbers, &mac)).collect())
    }

    /// The state of each job.
    #[must_use]
    pub fn status(&self) -> Vec<JobStatus> {
        let status = |job: &JobRecord| JobStatus {
            id: job.spec.id,
            fan_in: job.spec.fan_in,
            joined: job.joined(),
            epoch: job.epoch,
            payload: job.payload,
            multicast: job.audience(),
            needed: job.needed(),
            lost: job.lost(),
            complete: job.state.running().is_some(),
            halted: job.is_halted(),
            broken: job.state.is_broken(),
            formed: job.founder.is_some(),
            server: job.server_state(),
            uplink: job.uplink.as_ref().map(|uplink| uplink.status(self.now)),
        };
        self.jobs.values().map(status).collect()
    }

    /// What lcores count of each job, by its number.
    #[must_use]
    pub fn counts(&self) -> Vec<(u16, Arc<JobCells>)> {
        self.jobs.iter().map(|(&id, job)| (id, Arc::clone(&job.cells))).collect()
    }

    /// What lcores count of one job; `None` if there is no such job.
    #[must_use]
    pub fn counts_of(&self, job: u16) -> Option<Arc<JobCells>> {
        self.jobs.get(&job).map(|job| Arc::clone(&job.cells))
    }

    /// The membership table of a job; `None` if there is no such job.
    #[must_use]
    pub fn entries(&self, job: u16) -> Option<Vec<Entry>> {
        self.jobs.get(&job).map(JobRecord::entries)
    }

    /// Requests that were answered with a status.
    #[must_use]
    pub const fn answered(&self, status: Status) -> u64 {
        self.answered[status as usize]
    }

    /// Requests that were not answered: Acks, and those of sources that ask too often.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }
}

fn decide(
    job: &mut JobRecord,
    now: Duration,
    request: &ControlRequest,
    admission: Option<&Admission>,
) -> Result<Decision, Decision> {
    match request.control.action {
        action if job.spec.kind.registry().is_some() => {
            Err(Decision::new(Status::Unsupported, 0, action as u32))
        }
        Action::Join => job.join(now, request, admission),
        Action::Leave => job.leave(now, request),
        Action::Query => job.query(now, request),
        Action::Serve => job.serve(now, request),
        _ => job.command(now, request),
    }
}
