//! The parameter server as a separate process on a separate host: it registers, stops and restarts.

use core::time::Duration;
use std::collections::BTreeMap;

use pascaline_aggregator::Order;
use pascaline_buffer::{HeapPool, PacketBuf as _};
use pascaline_pipelines::jobs::{ServedJob, ServedJobs};
use pascaline_seal::{Holder, LONGER, MemberEnd};
use pascaline_wire::control::{Action, Control, SERVER_RANK, Status};
use pascaline_wire::{Element, Header, Kind, header};

use crate::attacker;
use crate::host::Host;
use crate::plan::{JobPlan, MILLI, Plan, ServerPlan};
use crate::sabotage::Sabotage;
use crate::server::Server;
use crate::violation::Violation;
use crate::wheel::{Timer, nanos};

/// Between two Serves of a job; ...
const SERVE_EVERY: u64 = 200 * MILLI;
/// ... and after an unanswered one, twice as long each time, or when unknown packets come.
const HASTE: u64 = 20 * MILLI;
/// How long without an answer until it registers anew.
const LAPSE: u64 = 500 * MILLI;
/// Datagrams that its socket keeps while it is stopped.
const SOCKET: usize = 64;

/// How a server goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Away {
    /// It is killed, and the next one has no state.
    Killed,
    /// It is stopped, and later resumes as if nothing had happened.
    Stopped,
}

/// A job that it registers for.
#[derive(Debug)]
struct Registration {
    order: Order,
    /// The latest Serve's number, and whether its answer is still awaited: no other answer counts.
    number: u32,
    awaited: bool,
    /// The cookie from the appliance, to be sent back.
    cookie: u64,
    sent: u64,
    due: u64,
    patience: u64,
    hastened: bool,
    answered: Option<u64>,
}

impl Registration {
    /// Sends the next Serve soon, if an unknown packet has come and no Serve is in flight.
    fn hasten(&mut self, now: u64) {
        if self.hastened && !self.awaited {
            self.due = self.due.min(self.sent + HASTE).max(now);
        }
    }
}

/// The server, its host, and its registrations at the appliance.
pub(crate) struct Outside {
    pub(crate) host: Host,
    server: Server,
    jobs: BTreeMap<u16, Registration>,
    /// The keys of jobs whose packets are sealed, and the ends of this life.
    sealed: BTreeMap<u16, (Holder, MemberEnd)>,
    away: Option<Away>,
    /// Each life has its own session.
    session: u64,
    inbox: Vec<Vec<u8>>,
    frames: HeapPool,
    /// When it is going to be woken.
    pub(crate) wake: Timer,
}

impl Outside {
    /// The server of a plan, on the host of this number.
    pub(crate) fn new(plan: &Plan, server: ServerPlan, number: usize) -> Self {
        let frames = HeapPool::new();
        let served = plan.jobs.iter().filter(|job| job.policy.server);
        let registration = |order| {
            let (number, awaited, cookie, hastened) = (0, false, 0, false);
            let (sent, due, patience, answered) = (0, 0, HASTE, None);
            Registration { order, number, awaited, cookie, sent, due, patience, hastened, answered }
        };
        let sealed = |job: &JobPlan| {
            let holder = attacker::holder(job, (0, SERVER_RANK), false)?;
            Some((job.id, (holder.clone(), MemberEnd::new(holder, 1))))
        };
        Self {
            host: Host::new(number, plan.ports, plan.v6),
            server: Server::new(server, &frames, ServedJobs::default()),
            jobs: served.map(|job| (job.id, registration(job.policy.order))).collect(),
            sealed: plan.jobs.iter().filter(|job| job.policy.server).filter_map(sealed).collect(),
            away: None,
            session: 1,
            inbox: Vec::new(),
            frames,
            wake: Timer::default(),
        }
    }

    pub(crate) fn go_away(&mut self, how: Away) {
        self.away = Some(how);
        if how == Away::Killed {
            self.server.go_away(true);
            self.inbox.clear();
        }
    }

    pub(crate) fn come_back(&mut self, now: u64) {
        if self.away.take() == Some(Away::Killed) {
            self.server.come_back();
            self.session += 1;
            for (holder, end) in self.sealed.values_mut() {
                *end = MemberEnd::new(holder.clone(), self.session);
            }
            self.jobs.values_mut().for_each(|job| {
                (job.due, job.patience, job.answered) = (now, HASTE, None);
                (job.number, job.awaited, job.cookie) = (0, false, 0);
            });
        }
    }

    /// A job has another key.
    pub(crate) fn renew(&mut self, plan: &JobPlan) {
        if let (Some((holder, end)), Some(other)) =
            (self.sealed.get_mut(&plan.id), attacker::holder(plan, (0, SERVER_RANK), true))
        {
            *holder = other.clone();
            end.renew(other);
        }
    }

    /// The frame of a datagram, which is sealed if those of its job are.
    fn frame(&mut self, job: u16, mut datagram: Vec<u8>) -> Vec<u8> {
        if let Some((_, end)) = self.sealed.get_mut(&job) {
            let len = datagram.len();
            datagram.resize(len + LONGER, 0);
            let sealed = end.seal(&mut datagram, len).unwrap_or_default();
            datagram.truncate(sealed);
        }
        let parts = datagram.split_first_chunk::<{ header::LEN }>();
        parts.map(|(head, body)| self.host.send(head, body)).unwrap_or_default()
    }

    /// A frame reaches the host.
    pub(crate) fn deliver(&mut self, now: u64, frame: &[u8]) {
        let Some(datagram) = self.host.receive(frame).map(<[u8]>::to_vec) else { return };
        match self.away {
            None => self.receive(now, &datagram),
            Some(Away::Stopped) if self.inbox.len() < SOCKET => self.inbox.push(datagram),
            Some(_) => {}
        }
    }

    fn receive(&mut self, now: u64, datagram: &[u8]) {
        let mut datagram = datagram.to_vec();
        let Ok((Header { job, .. }, _)) = Header::parse(&datagram) else { return };
        if let Some((_, end)) = self.sealed.get_mut(&job) {
            let Ok(len) = end.open(&mut datagram) else { return };
            datagram.truncate(len);
        }
        let datagram = &datagram[..];
        let Ok((header, body)) = Header::parse(datagram) else { return };
        if header.kind != Kind::Control {
            if self.server.is_unknown(&header) {
                if let Some(job) = self.jobs.get_mut(&header.job) {
                    job.hastened = true;
                    job.hasten(now);
                }
                return;
            }
            let packet = self.frames.alloc(datagram, datagram.len());
            let _ = self.server.end().to.push(packet);
            return;
        }
        let Ok(answer) = Control::parse(body) else { return };
        let ours = answer.answers == Some(Action::Serve) && answer.session == self.session;
        let latest = |job: &&mut Registration| ours && job.awaited && job.number == answer.number;
        let Some(job) = self.jobs.get_mut(&header.job).filter(latest) else { return };
        job.awaited = false;
        if answer.status == Status::Pending {
            if core::mem::replace(&mut job.cookie, answer.cookie) != answer.cookie {
                job.due = now;
            }
            return self.server.forget_job(header.job);
        }
        (job.answered, job.patience, job.due) = (Some(now), HASTE, job.sent + SERVE_EVERY);
        job.hasten(now);
        if answer.status == Status::TooMany {
            return;
        }
        let order = job.order;
        let Header { job, fan_in, epoch, .. } = header;
        match (answer.status, answer.payload) {
            (Status::Ok, 0) => self.server.await_job(job),
            (Status::Ok, payload) => {
                let needed =
                    u16::try_from(answer.expected).ok().filter(|needed| *needed > 0).unwrap_or(fan_in);
                self.server.serve_job(&ServedJob { job, fan_in, epoch, needed, order, payload });
            }
            _ => self.server.forget_job(job),
        }
    }

    /// Handles due timers, and returns the frames that it sends.
    pub(crate) fn turn(&mut self, now: u64, sabotage: Sabotage) -> Result<Vec<Vec<u8>>, Violation> {
        let mut frames = Vec::new();
        if self.away.is_none() || sabotage == Sabotage::ServeForTheDead {
            let mut serves = Vec::new();
            for (&job, registration) in self.jobs.iter_mut().filter(|(_, job)| job.due <= now) {
                (registration.sent, registration.hastened, registration.awaited) = (now, false, true);
                registration.number += 1;
                registration.due = now + registration.patience;
                registration.patience = (registration.patience * 2).min(SERVE_EVERY);
                let about = Header::about(Kind::Control, Element::F32_SUM, job, 0);
                let header = Header { rank: SERVER_RANK, ..about };
                let &mut Registration { number, cookie, .. } = registration;
                let serve = Control { number, cookie, ..Control::request(Action::Serve, self.session) };
                serves.push((job, [&header.to_bytes()[..], &serve.to_bytes()].concat()));
            }
            frames.extend(serves.into_iter().map(|(job, serve)| self.frame(job, serve)));
        }
        if self.away.is_some() {
            return Ok(frames);
        }
        let late = |at: &mut u64| *at + LAPSE <= now;
        for (&job, registration) in &mut self.jobs {
            if registration.answered.take_if(late).is_some() {
                registration.awaited = false;
                self.server.forget_job(job);
            }
        }
        for datagram in core::mem::take(&mut self.inbox) {
            self.receive(now, &datagram);
        }
        // There is no queue before its socket: it sends everything at once.
        while self.server.turn(Duration::from_nanos(now), false, sabotage)?.sent > 0 {
            while let Some(packet) = self.server.end().from.pop() {
                if let Ok((Header { job, .. }, _)) = Header::parse(packet.bytes()) {
                    frames.push(self.frame(job, packet.bytes().to_vec()));
                }
            }
        }
        Ok(frames)
    }

    /// Its next timer.
    pub(crate) fn due(&self, now: u64, sabotage: Sabotage) -> u64 {
        let serve = self.jobs.values().map(|job| job.due).min().unwrap_or(u64::MAX);
        if self.away.is_some() {
            return if sabotage == Sabotage::ServeForTheDead { serve } else { u64::MAX };
        }
        let more = if self.server.is_wanted() { Some(now) } else { self.server.next().map(nanos) };
        more.map_or(serve, |at| at.min(serve))
    }
}
