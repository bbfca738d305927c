//! The control plane's turn: requests and time go in, a table for the lcores and answers for the workers come
//! out.
//!
//! Sans-I/O: nothing here reads a clock, writes a log or waits. The appliance's main core, the fault harness
//! and the tests of this crate call [`ControlPlane::turn`] again and again and do with the [`Turn`] what they
//! like.
//!
//! ```text
//! lcores ─ requests ─→ membership decides ─→ job table ─→ lcores
//!                              │               └→ list of jobs ─→ parameter server (before the table)
//!                              └→ answers wait until every lcore has this table ─→ lcores ─→ workers
//! ```
//!
//! A worker may send as soon as it hears that it is a member. That is why answers wait.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pascaline_wire::frame::Mac;

use crate::announcements::Announcements;
use crate::bridge::Ports;
use crate::capture::Capture;
use crate::jobs::{Job, ServedJobs};
use crate::membership::{
    Admission, Answer, Ask, Command, ControlRequest, Event, JobSpec, Membership, NotRegistered, Reconfigured,
    Refused, Registration, Reply, Upward,
};
use crate::setup::Setup;
use crate::shared::{ControlEnd, LcoreEnd};
use crate::switchml::Terms;

/// Requests that one turn decides on. Workers ask again when they hear nothing.
const REQUESTS: usize = 128;
/// As many of them at the most are of those whom the job table knows, and come first.
const KNOWN: usize = REQUESTS / 2;
/// Answers that may wait for lcores to have their table. Beyond that requests are left where they are, and
/// what finds no room there is counted by the lcore.
const WAITING: usize = 1024;

/// A request, and how the membership answered it.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The request.
    pub request: ControlRequest,
    /// The answer; `None` if the request was ignored.
    pub answer: Option<Answer>,
}

/// What a turn did.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// What time brought about.
    pub events: Vec<Event>,
    /// The requests it decided on.
    pub decided: Vec<Decided>,
    /// True if it put a new table in force.
    pub published: bool,
    /// True if every lcore uses the newest table.
    pub settled: bool,
    /// The number of the oldest table that an lcore uses: answers to what came before it was put in force
    /// are given.
    pub in_use: u64,
    /// Answers that it gave to lcores. An answer that finds its queue full is lost: the worker asks again.
    pub answers: usize,
}

/// All that the control plane knows and shares.
#[derive(Debug)]
pub struct ControlPlane {
    membership: Membership,
    end: ControlEnd,
    setup: Arc<Setup>,
    served: ServedJobs,
    /// Answers that wait until every lcore has a table, each with that one's number and its lcore. A later
    /// table does not hold them up, or they would wait for as long as some job changes.
    waiting: VecDeque<(u64, usize, Reply)>,
    announcements: Announcements,
    /// The table in force is out of date.
    changed: bool,
}

impl ControlPlane {
    /// A control plane with its first table in force, and the ends of this many lcores.
    #[must_use]
    pub fn new(membership: Membership, setup: Arc<Setup>, lcores: usize) -> (Self, Vec<LcoreEnd>) {
        let (end, lcores) = ControlEnd::connect(lcores);
        let (served, waiting) = (ServedJobs::default(), VecDeque::new());
        let announcements = Announcements::default();
        let mut plane = Self { membership, end, setup, served, waiting, announcements, changed: true };
        plane.publish();
        (plane, lcores)
    }

    /// Lets time pass until `now` and decides on requests. `now` is monotonic, from any origin.
    pub fn turn(&mut self, now: Duration) -> Turn {
        let elapsed = self.membership.handle_timeout(now);
        self.changed |= elapsed.changed;
        for ask in elapsed.upward {
            let (Upward { to, header, control }, sealing) = (ask, self.membership.sealing_above(&ask));
            let request = Reply::sealed(&to, self.mac(to.port), (&header, &control), sealing);
            // The uplink asks again if it hears nothing.
            let _ = self.end.reply(0, request);
        }
        for question in elapsed.questions {
            let _ = self.end.reply(0, Reply::question(&question, self.mac(question.port)));
        }
        let Self { announcements, setup, end, .. } = self;
        announcements.turn(now, &setup.addresses, |port, address| {
            // A port that there is not has no hosts.
            let own = setup.ports.get(port).map(|own| Reply::announcement(port, own.mac, address));
            own.is_none_or(|frame| end.reply(0, frame))
        });
        let mut turn = Turn { events: elapsed.events, ..Turn::default() };
        for _ in 0..REQUESTS {
            let Some(found) = self.end.found() else { break };
            turn.events.extend(self.membership.found(now, &found));
        }
        let before = self.waiting.len();
        let mut known = KNOWN;
        for _ in 0..REQUESTS {
            if self.waiting.len() >= WAITING {
                break;
            }
            let request = if known > 0 { self.end.known_request() } else { None };
            known = if request.is_some() { known - 1 } else { 0 };
            let Some(request) = request.or_else(|| self.end.request()) else { break };
            let answer = self.membership.handle(now, &request);
            if let Some(answer) = &answer {
                self.changed |= answer.changed;
                let mac = self.mac(request.from.port);
                let reply = answer.reply(&request, mac, self.membership.sealing(&request));
                self.waiting.push_back((u64::MAX, request.lcore, reply));
                if answer.is_heard(&request) {
                    let probe = answer.probe(&request, mac, self.membership.sealing(&request));
                    self.waiting.extend(probe.map(|probe| (u64::MAX, request.lcore, probe)));
                }
            }
            turn.decided.push(Decided { request, answer });
        }
        for Ask { to, header, control } in self.membership.take_asks() {
            // What is lost is asked again.
            let _ = self.end.reply(0, Reply::new(&to, self.mac(to.port), &header, &control));
        }
        // Before anybody is told of it.
        self.changed |= self.membership.take_changed();
        turn.published = self.publish();
        let newest = self.end.newest();
        self.waiting.range_mut(before..).for_each(|(table, ..)| *table = newest);
        turn.in_use = self.end.reap();
        turn.settled = turn.in_use == newest;
        let ready = self.waiting.iter().take_while(|(table, ..)| *table <= turn.in_use).count();
        let given = self.waiting.drain(..ready).filter(|(_, lcore, reply)| self.end.reply(*lcore, *reply));
        turn.answers = given.count();
        turn
    }

    /// True if another turn would decide on requests that wait already.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.waiting.len() < WAITING && self.end.has_requests()
    }

    /// The number of the table that the next turn ends with: it has all that has been changed until now.
    #[must_use]
    pub fn next_table(&self) -> u64 {
        self.end.newest() + u64::from(self.changed)
    }

    /// True if a turn has something to do, whatever the time.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.changed || !self.waiting.is_empty() || self.end.has_requests()
    }

    /// When time alone gives a turn something to do; it may be in the past. `None` for never.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        [self.membership.poll_timeout(), self.announcements.poll_timeout()].into_iter().flatten().min()
    }

    /// Tells all hosts behind these ports, unasked, where the appliance's own addresses are: at its start,
    /// and when a link has come up. The next turns do it.
    pub fn announce(&mut self, now: Duration, ports: Ports) {
        self.announcements.begin(now, ports);
    }

    /// Forgets what bridges have learned of these ports, whose links are down.
    pub fn forget_behind(&self, ports: Ports) {
        ports.iter().for_each(|port| self.setup.bridge.forget(port));
    }

    /// Replaces the configured jobs and the admission, as [`Membership::reconfigure`] does; the next turn
    /// puts the new table in force.
    pub fn reconfigure(
        &mut self,
        now: Duration,
        specs: Vec<JobSpec>,
        admission: Option<Admission>,
    ) -> BTreeMap<u16, Reconfigured> {
        let done = self.membership.reconfigure(now, specs, admission);
        self.changed |= !done.is_empty();
        done
    }

    /// Carries out an order of an operator; the next turn puts it in force. Gives what has followed.
    ///
    /// # Errors
    /// [`Refused`]: nothing has changed.
    pub fn command(&mut self, now: Duration, job: u16, command: Command) -> Result<Vec<Event>, Refused> {
        let obeyed = self.membership.command(now, job, command)?;
        self.changed |= obeyed.changed;
        match obeyed.psn {
            Some(order) if !self.end.order(order) => Err(Refused::Busy),
            _ => Ok(obeyed.events),
        }
    }

    /// Gives a configured job other keys, beside those before; the next turn puts that in force. False if
    /// there is no such job, or these are its keys.
    pub fn rekey(&mut self, now: Duration, job: u16, keys: Arc<pascaline_seal::JobKeys>) -> bool {
        let changed = self.membership.rekey(now, job, keys);
        self.changed |= changed;
        changed
    }

    /// Gives a configured job other keys at its parent; the next turn puts that in force. False if there is
    /// no such job, or these are its keys.
    pub fn rekey_above(&mut self, now: Duration, job: u16, keys: Vec<pascaline_seal::Holder>) -> bool {
        let changed = self.membership.rekey_above(now, job, keys);
        self.changed |= changed;
        changed
    }

    /// Takes no packet of a job with the keys before the present ones any more; the next turn puts that in
    /// force. False if there are none.
    pub fn end_former_keys(&mut self, job: u16) -> bool {
        let ended = self.membership.end_former_keys(job);
        self.changed |= ended;
        ended
    }

    /// Ends a job that Joins have formed; the next turn puts that in force. False if there is none of this
    /// number.
    pub fn dissolve(&mut self, job: u16) -> bool {
        let ended = self.membership.dissolve(job);
        self.changed |= ended;
        ended
    }

    /// Takes a worker of SwitchML's in. It may be told so once the [next table](Self::next_table) is
    /// [in use](Turn::in_use).
    ///
    /// # Errors
    /// [`NotRegistered`]: nothing has changed.
    pub fn register(&mut self, now: Duration, job: u16, who: &Registration) -> Result<Terms, NotRegistered> {
        let terms = self.membership.register(now, job, who, self.mac(0))?;
        self.changed = true;
        Ok(terms)
    }

    /// Who belongs to which job.
    #[must_use]
    pub const fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The jobs that a parameter server in this process has to serve.
    #[must_use]
    pub fn served_jobs(&self) -> ServedJobs {
        self.served.clone()
    }

    /// Where lcores leave copies of packets.
    #[must_use]
    pub fn capture(&self) -> &Capture {
        self.end.capture()
    }

    /// Tells the lcores that it is `unix_ns` Unix time when their clock shows `lcore_ns`, both in
    /// nanoseconds. Until then they take their clock for Unix time.
    pub fn set_time(&self, lcore_ns: u64, unix_ns: u64) {
        self.end.set_time(lcore_ns, unix_ns);
    }

    /// Tells the lcores to end.
    pub fn stop(&self) {
        self.end.stop();
    }

    fn mac(&self, port: usize) -> Mac {
        self.setup.ports.get(port).map_or_else(Mac::default, |port| port.mac)
    }

    /// Puts a new table in force if the old one is out of date. True if it was.
    fn publish(&mut self) -> bool {
        if !core::mem::take(&mut self.changed) {
            return false;
        }
        let table = self.membership.table(|port| self.mac(port));
        // The server first, so that it knows the jobs whose packets it gets.
        self.served.publish(table.jobs().iter().filter_map(Job::served).collect());
        self.end.publish(table);
        true
    }
}
