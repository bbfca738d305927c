//! All jobs together, as a driver uses them.

use core::time::Duration;
use std::collections::{HashMap, HashSet, VecDeque};

use pascaline_buffer::combine::Kernels;
use pascaline_wire::{Header, Kind};

use crate::action::Action;
use crate::agenda::Agenda;
use crate::config::{Capacity, Config, JobParams, SetJobError};
use crate::counters::Counters;
use crate::job::{Job, Packet};
use crate::outcome::{Outcome, RejectReason, Rejection};

/// A job's use of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Incomplete entries.
    pub open: usize,
    /// Cached results.
    pub cached: usize,
    /// Payload bytes of both.
    pub bytes: usize,
    /// How long until an entry first counts as late.
    pub timeout: Duration,
}

/// The parameter server.
///
/// Calling contract. Times are monotonic, from any origin. After [`handle`](Self::handle),
/// [`handle_datagram`](Self::handle_datagram) and [`handle_timeout`](Self::handle_timeout), call
/// [`poll_action`](Self::poll_action) until it returns `None` and send what it returns; then wait for a
/// packet or until [`poll_timeout`](Self::poll_timeout), whichever is first. A lost action is a lost packet:
/// the protocol recovers.
///
/// Each call does a bounded amount of work, but for [`set_job`](Self::set_job) and
/// [`remove_job`](Self::remove_job), which take time in proportion to what the job held.
#[derive(Debug)]
pub struct Server {
    config: Config,
    kernels: Kernels,
    jobs: HashMap<u16, Job>,
    /// Jobs of which it will see the next generation from the beginning.
    witnessed: HashSet<u16>,
    agenda: Agenda,
    /// Jobs that may have something to send; they take turns.
    ready: VecDeque<u16>,
    /// Requests that may be sent before the next `handle_timeout`.
    budget: u32,
    /// The latest time that is known.
    now: Duration,
    counters: Counters,
}

impl Server {
    /// A server without jobs, with the widest kernels of this processor.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::with_kernels(config, Kernels::detect())
    }

    /// A server without jobs, with these kernels.
    #[must_use]
    pub fn with_kernels(config: Config, kernels: Kernels) -> Self {
        Self {
            config,
            kernels,
            jobs: HashMap::new(),
            witnessed: HashSet::new(),
            agenda: Agenda::default(),
            ready: VecDeque::new(),
            budget: config.burst.max(1),
            now: Duration::ZERO,
            counters: Counters::default(),
        }
    }

    /// Notes that in the generation of a job that will be [accepted](Self::set_job) next nothing has been
    /// sent yet. A server that joins a generation later does not know which results an earlier life of it has
    /// sent, and asks all ranks before it sends sums of PSNs that may have had one ([`Config::settle`]).
    pub fn witness(&mut self, job: u16) {
        self.witnessed.insert(job);
    }

    /// Accepts a job, or its next generation, or a change to it. Any change, also of the generation, discards
    /// all entries and results of the job; the same parameters again change nothing.
    ///
    /// # Errors
    /// See [`SetJobError`]; nothing changes then.
    pub fn set_job(&mut self, job: u16, params: JobParams) -> Result<(), SetJobError> {
        params.check()?;
        if self.jobs.get(&job).is_some_and(|there| *there.params() == params) {
            return Ok(());
        }
        let left = self.left_beside(job);
        let wanted = params.capacity;
        if wanted.entries > left.entries || wanted.bytes > left.bytes {
            return Err(SetJobError::Capacity { wanted, left });
        }
        let follows = self.jobs.get(&job).is_some_and(|there| there.params().epoch != params.epoch);
        let witnessed = self.witnessed.remove(&job) || follows;
        self.remove_job(job);
        self.jobs.insert(job, Job::new(job, params, witnessed, self.config, self.kernels));
        Ok(())
    }

    /// The capacity that the jobs other than this one leave.
    fn left_beside(&self, job: u16) -> Capacity {
        let others = self.jobs.iter().filter(|&(&id, _)| id != job);
        others.fold(self.config.capacity, |left, (_, other)| {
            let Capacity { entries, bytes } = other.params().capacity;
            Capacity {
                entries: left.entries.saturating_sub(entries),
                bytes: left.bytes.saturating_sub(bytes),
            }
        })
    }

    /// Forgets a job and its state. False if there was none.
    pub fn remove_job(&mut self, job: u16) -> bool {
        // It does not see packets from here on.
        self.witnessed.remove(&job);
        let Some(removed) = self.jobs.remove(&job) else { return false };
        self.agenda.update(job, removed.on_agenda, None);
        self.ready.retain(|&id| id != job);
        self.counters.forgotten += removed.open() as u64;
        true
    }

    /// Handles a datagram.
    pub fn handle_datagram(&mut self, now: Duration, datagram: &[u8]) -> Outcome {
        match Header::parse(datagram) {
            Ok((header, body)) => self.handle(now, &header, body),
            Err(reason) => self.count(Outcome::Malformed(reason)),
        }
    }

    /// Handles a packet whose header has been read; `body` is the rest of its datagram.
    pub fn handle(&mut self, now: Duration, header: &Header, body: &[u8]) -> Outcome {
        self.now = self.now.max(now);
        let outcome = self.dispatch(self.now, header, body);
        self.count(outcome)
    }

    fn count(&mut self, outcome: Outcome) -> Outcome {
        self.counters.received += 1;
        self.counters.note(&outcome);
        outcome
    }

    fn dispatch(&mut self, now: Duration, header: &Header, body: &[u8]) -> Outcome {
        let rejected = |rejection: Rejection, fan_in, epoch| Outcome::Rejected {
            reason: rejection.reason,
            answer: rejection.answer(header, fan_in, epoch),
        };
        if matches!(header.kind, Kind::Update | Kind::Ack | Kind::Fetch | Kind::Control) {
            return rejected(RejectReason::Unexpected.into(), 0, 0);
        }
        let (payload, trailer) = match header.payload(body) {
            Ok(split) => split,
            Err(reason) => return Outcome::Malformed(reason),
        };
        let bitmap = trailer.and_then(|trailer| trailer.bitmap);
        let Some(job) = self.jobs.get_mut(&header.job) else {
            return rejected(RejectReason::UnknownJob.into(), 0, 0);
        };
        let handled = job.handle(now, header, payload, bitmap.as_ref(), &mut self.counters);
        let (fan_in, epoch) = (job.params().fan_in, job.params().epoch);
        if let Err(rejection) = &handled
            && rejection.reason.has_answer()
            && let Some(answer) = rejection.answer(header, fan_in, epoch)
        {
            job.send_rejection(now, answer, &mut self.counters);
        }
        self.touch(header.job);
        handled.unwrap_or_else(|rejection| rejected(rejection, fan_in, epoch))
    }

    /// Notes a job's next timer and output after a change.
    fn touch(&mut self, id: u16) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let next = job.next_timer();
        self.agenda.update(id, job.on_agenda, next);
        job.on_agenda = next;
        if !job.ready && job.has_output() {
            job.ready = true;
            self.ready.push_back(id);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); a time that has passed means at once.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.budget == 0 && !self.ready.is_empty() { Some(self.now) } else { self.agenda.next() }
    }

    /// Handles the passing of time; harmless when nothing is due. Renews the budget of requests, and handles
    /// at most as many timers: where more are due, [`poll_timeout`](Self::poll_timeout) says so.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.budget = self.config.burst.max(1);
        for _ in 0..self.budget {
            let Some(id) = self.agenda.due(self.now) else { break };
            if let Some(job) = self.jobs.get_mut(&id) {
                job.on_due(self.now, &mut self.counters);
            }
            self.touch(id);
        }
    }

    /// The next packet to send, if any.
    pub fn poll_action(&mut self) -> Option<Action<'_>> {
        let (id, packet) = self.next_packet()?;
        self.jobs.get(&id)?.action(packet)
    }

    fn next_packet(&mut self) -> Option<(u16, Packet)> {
        for _ in 0..self.ready.len() {
            let id = self.ready.pop_front()?;
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let packet = job.next_packet(self.budget > 0, &mut self.counters);
            job.ready = job.has_output();
            if job.ready {
                self.ready.push_back(id);
            }
            if let Some(packet) = packet {
                // A rank that has asked for a result is always asked for its promise.
                let spent = u32::from(matches!(packet, Packet::Request { .. }));
                self.budget = self.budget.saturating_sub(spent);
                return Some((id, packet));
            }
        }
        None
    }

    /// The counts so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The use of memory of the job of this number, if there is one.
    #[must_use]
    pub fn usage(&self, job: u16) -> Option<Usage> {
        let job = self.jobs.get(&job)?;
        Some(Usage { open: job.open(), cached: job.cached(), bytes: job.bytes(), timeout: job.timeout() })
    }

    /// The parameters of the job of this number, if there is one.
    #[must_use]
    pub fn job(&self, job: u16) -> Option<&JobParams> {
        self.jobs.get(&job).map(Job::params)
    }
}
