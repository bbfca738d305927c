//! How an external server learns what there is to serve.
//!
//! It sends Serve for each job, again and again: so the appliance knows where the server is, also after it
//! has been restarted, and its Acks tell the job's generation, ranks and payload. A packet of a job or
//! generation that is not served hastens the next one.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use std::time::Duration;

use pascaline_aggregator::Order;
use pascaline_pipelines::jobs::ServedJob;
use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Element, Header, Kind, header};
use tracing::{info, warn};

/// Between two Serves of a job.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);
/// Between two Serves of a job of which unknown packets come; and after one that was not answered, twice as
/// long each time.
pub(super) const HASTE: Duration = Duration::from_millis(20);
/// After how long without an answer a server takes itself for gone. The appliance does so after
/// [`SILENCE`](pascaline_pipelines::membership::SILENCE) without a Serve: never before the server does.
pub(super) const LAPSE: Duration = Duration::from_millis(500);
/// Bytes of a Serve.
pub(super) const LEN: usize = header::LEN + control::LEN;

/// What an answer of the appliance means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Serve this generation.
    Serve(ServedJob),
    /// There is nothing to serve yet: nobody has joined.
    NotYet(u16),
    /// There is nothing to serve: there is no such job, or this server may not.
    Nothing(u16),
    /// Nothing new: the appliance had no time.
    Later,
    /// The appliance has another session for this server, and wants to know that it is not a stranger's.
    Unproven(u16),
    /// Not an answer to this server.
    Stray,
}

#[derive(Debug)]
struct Registration {
    order: Order,
    /// The latest Serve's number. No answer but its own, and that once, is of any use: others tell of a time
    /// before, perhaps of a generation that is over.
    number: u32,
    awaited: bool,
    /// What the appliance has given to be sent back.
    cookie: u64,
    sent: Option<Duration>,
    due: Duration,
    /// How long the next answer is waited for.
    patience: Duration,
    /// An unknown packet has come since.
    hastened: bool,
    /// When an answer came last.
    answered: Option<Duration>,
    /// What the appliance has said last, so that changes are told once.
    status: Option<Status>,
    /// Whether the job is one that Joins have formed, and is given up when it is no more.
    admitted: bool,
}

/// The Serves of all jobs.
#[derive(Debug)]
pub(super) struct Registrar {
    session: u64,
    /// Of the latest Serve of all jobs: none is used twice, also if a job is given up and comes again.
    number: u32,
    jobs: BTreeMap<u16, Registration>,
    admission: Option<RangeInclusive<u16>>,
    /// How many jobs there may be.
    most: usize,
}

impl Registrar {
    /// A server's registrations for these jobs, and for up to `most` in all where others may be formed.
    pub(super) fn new(
        session: u64,
        jobs: impl IntoIterator<Item = (u16, Order)>,
        admission: Option<RangeInclusive<u16>>,
        most: usize,
    ) -> Self {
        let jobs =
            jobs.into_iter().map(|(job, order)| (job, Registration::new(order, Duration::ZERO, false)));
        Self { session, number: 0, jobs: jobs.collect(), admission, most }
    }

    /// The next Serve that is due, if there is one.
    pub(super) fn poll(&mut self, now: Duration) -> Option<[u8; LEN]> {
        let (&job, registration) = self.jobs.iter_mut().find(|(_, registration)| registration.due <= now)?;
        self.number = self.number.wrapping_add(1);
        registration.number = self.number;
        registration.awaited = true;
        registration.sent = Some(now);
        registration.due = now.saturating_add(registration.patience);
        registration.patience = (registration.patience * 2).min(INTERVAL);
        registration.hastened = false;
        let about = Header::about(Kind::Control, Element::F32_SUM, job, 0);
        let header = Header { rank: control::SERVER_RANK, ..about };
        let mut bytes = [0; LEN];
        let (head, body) = bytes.split_at_mut(header::LEN);
        head.copy_from_slice(&header.to_bytes());
        let &mut Registration { number, cookie, .. } = registration;
        let serve = Control { number, cookie, ..Control::request(Action::Serve, self.session) };
        body.copy_from_slice(&serve.to_bytes());
        Some(bytes)
    }

    /// When the next Serve is due.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        self.jobs.values().map(|registration| registration.due).min()
    }

    /// A packet of a job or generation that is not served has come.
    pub(super) fn unknown(&mut self, now: Duration, job: u16) {
        if let Some(registration) = self.jobs.get_mut(&job) {
            registration.hastened = true;
            registration.hasten(now);
        } else if self.jobs.len() < self.most
            && self.admission.as_ref().is_some_and(|jobs| jobs.contains(&job))
        {
            self.jobs.insert(job, Registration::new(Order::Arrival, now, true));
        }
    }

    /// Jobs for which no answer has come for [`LAPSE`], each once: the appliance may have gone on without
    /// this server, so that what was collected and agreed upon means nothing any more.
    pub(super) fn lapsed(&mut self, now: Duration) -> impl Iterator<Item = u16> {
        let late = move |at: &mut Duration| at.saturating_add(LAPSE) <= now;
        self.jobs.iter_mut().filter_map(move |(&job, registration)| {
            registration.answered.take_if(late)?;
            (registration.status, registration.awaited) = (None, false);
            Some(job)
        })
    }

    /// A control packet has come.
    pub(super) fn answer(&mut self, now: Duration, header: &Header, control: &Control) -> Answer {
        let job = header.job;
        let ours = control.answers == Some(Action::Serve) && control.session == self.session;
        let is_latest = |it: &&mut Registration| ours && it.awaited && it.number == control.number;
        let Some(registration) = self.jobs.get_mut(&job).filter(is_latest) else { return Answer::Stray };
        registration.awaited = false;
        if control.status == Status::Pending {
            // At once, but not over and over.
            if core::mem::replace(&mut registration.cookie, control.cookie) != control.cookie {
                registration.due = now;
            }
            return Answer::Unproven(job);
        }
        registration.patience = HASTE;
        registration.answered = Some(now);
        if let Some(sent) = registration.sent {
            registration.due = sent.saturating_add(INTERVAL);
        }
        registration.hasten(now);
        if control.status == Status::TooMany {
            return Answer::Later;
        }
        if registration.status.replace(control.status) != Some(control.status) {
            match control.status {
                Status::Ok => info!(job, "the appliance knows this server"),
                status => warn!(job, %status, "the appliance does not take this server"),
            }
        }
        let served = registration.served(header, control);
        if registration.admitted && control.status == Status::UnknownJob {
            self.jobs.remove(&job);
        }
        match (served, control.status) {
            (Some(served), _) => Answer::Serve(served),
            (None, Status::Ok) => Answer::NotYet(job),
            (None, _) => Answer::Nothing(job),
        }
    }
}

impl Registration {
    const fn new(order: Order, due: Duration, admitted: bool) -> Self {
        let (number, awaited, cookie, hastened) = (0, false, 0, false);
        let (sent, answered, status) = (None, None, None);
        let patience = HASTE;
        Self { order, number, awaited, cookie, sent, due, patience, hastened, answered, status, admitted }
    }

    /// Sees to it that the next Serve comes soon, if an unknown packet has come. What is under way is waited
    /// for: its answer would be of no use any more.
    fn hasten(&mut self, now: Duration) {
        if self.hastened && !self.awaited {
            let soon = self.sent.map_or(now, |sent| sent.saturating_add(HASTE).max(now));
            self.due = self.due.min(soon);
        }
    }

    /// What an Ack says that there is to serve.
    fn served(&self, header: &Header, control: &Control) -> Option<ServedJob> {
        // Without a payload length nobody has joined yet.
        if control.status != Status::Ok || control.payload == 0 {
            return None;
        }
        let &Header { job, fan_in, epoch, .. } = header;
        // An appliance that has nothing to say about it means all.
        let needed = match u16::try_from(control.expected).ok()? {
            0 => fan_in,
            needed => needed,
        };
        Some(ServedJob { job, fan_in, epoch, needed, order: self.order, payload: control.payload })
    }
}

#[cfg(test)]
mod tests;
