//! Who belongs to which job: the control plane's state machine.
//!
//! A job is formed by its workers' Joins. Its *generation* (epoch) tells packets of one formation from those of
//! another: it changes when a rank joins again with a later session, or when anybody joins after somebody has left.
//! Sessions are numbers that grow from one start of a worker to the next, so that a Join that was delayed in the
//! network cannot undo a later one.

use std::collections::BTreeMap;

use pascaline_wire::control;
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::{self, Element, Flags, Header, Kind};
use pascaline_wire::template::{self, Template};

use crate::jobs::{Endpoint, Job, JobTable, Member};

/// A job as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Its number.
    pub id: u16,
    /// Its ranks.
    pub fan_in: u16,
    /// How far a PSN may run ahead of the oldest one without a result.
    pub window: u16,
    /// Longest payload in bytes that its workers may choose.
    pub max_payload: u16,
    /// The address of each rank, if only these are admitted.
    pub admitted: Option<Vec<Address>>,
}

/// A control packet, as an lcore hands it on.
#[derive(Debug, Clone, Copy)]
pub struct ControlRequest {
    /// The lcore that received it and will send the answer.
    pub lcore: usize,
    /// Who sent it.
    pub from: Endpoint,
    /// Its header.
    pub header: Header,
    /// Its body.
    pub control: Control,
}

/// Longest frame of an answer.
pub const REPLY_LEN: usize = template::MAX_LEN + control::LEN;

/// An answer: a whole frame and the port to send it on.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    /// Index of the port.
    pub port: usize,
    bytes: [u8; REPLY_LEN],
    len: usize,
}

impl Reply {
    /// The control packet `control` with the header `header` for `to`, from a port with this MAC.
    #[must_use]
    pub fn new(to: &Endpoint, local_mac: Mac, header: &Header, control: &Control) -> Self {
        let mut bytes = [0; REPLY_LEN];
        let body = control.to_bytes();
        // The array has room for the longest headers and the body.
        let head = Template::new(&to.path(local_mac)).write(&mut bytes, header, &body).unwrap_or(0);
        let len = head + body.len();
        if let Some(place) = bytes.get_mut(head..len) {
            place.copy_from_slice(&body);
        }
        Self { port: to.port, bytes, len }
    }

    /// The frame.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        &self.bytes[..self.len.min(REPLY_LEN)]
    }
}

const _: () = assert!(REPLY_LEN <= crate::io::HEADER_ROOM && header::LEN == 22);

/// The header of a control packet that answers one with the header `to`.
#[must_use]
pub fn answer_header(to: &Header, fan_in: u16, count: u16, epoch: u8) -> Header {
    Header {
        kind: Kind::Control,
        flags: Flags::NONE,
        element: Element::F32_SUM,
        job: to.job,
        rank: to.rank,
        psn: to.psn,
        fan_in,
        count,
        priority: 0,
        wnd_cap: u16::MAX,
        tree: to.tree,
        epoch,
    }
}

#[derive(Debug, Clone, Copy)]
struct Joined {
    session: u64,
    endpoint: Endpoint,
}

#[derive(Debug)]
struct JobState {
    spec: JobSpec,
    epoch: u8,
    payload: Option<u16>,
    members: Vec<Option<Joined>>,
    /// Sessions that have left this generation, by rank. Their ranks stay among the members until the last one leaves:
    /// others may yet need a result that only they have kept.
    left: BTreeMap<u16, u64>,
    /// The latest session of each rank, of whatever generation.
    sessions: BTreeMap<u16, Latest>,
}

/// The latest session of a rank.
#[derive(Debug, Clone, Copy)]
struct Latest {
    session: u64,
    address: Address,
    left: bool,
}

/// A job's state for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobStatus {
    /// Its number.
    pub id: u16,
    /// Its ranks.
    pub fan_in: u16,
    /// Ranks that have joined.
    pub joined: u16,
    /// Its generation.
    pub epoch: u8,
}

/// What a request led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Header of the answer.
    pub header: Header,
    /// Body of the answer.
    pub control: Control,
    /// True if lcores need a new table before the answer is sent.
    pub changed: bool,
}

/// All jobs' memberships.
#[derive(Debug)]
pub struct Membership {
    jobs: BTreeMap<u16, JobState>,
}

/// Why a request is refused, with the value that would have been right and the one received.
struct Refused(Status, u32, u32);

impl Membership {
    /// Jobs without members. Generations begin at `first_epoch`, which should differ from one start of the appliance
    /// to the next.
    #[must_use]
    pub fn new(specs: Vec<JobSpec>, first_epoch: u8) -> Self {
        let state = |spec: JobSpec| JobState {
            epoch: first_epoch,
            payload: None,
            members: vec![None; usize::from(spec.fan_in)],
            left: BTreeMap::new(),
            sessions: BTreeMap::new(),
            spec,
        };
        Self { jobs: specs.into_iter().map(|spec| (spec.id, state(spec))).collect() }
    }

    /// Decides on a request. `None` if it is not one that is answered.
    #[must_use]
    pub fn handle(&mut self, request: &ControlRequest) -> Option<Answer> {
        let ControlRequest { header, control, .. } = request;
        let (outcome, job) = match (control.action, self.jobs.get_mut(&header.job)) {
            (Action::Ack, _) => return None,
            (_, None) => (Err(Refused(Status::UnknownJob, 0, u32::from(header.job))), None),
            (Action::Join, Some(job)) => (job.join(request), Some(&*job)),
            (Action::Leave, Some(job)) => (job.leave(request), Some(&*job)),
            (_, Some(job)) => (Err(Refused(Status::Unsupported, 0, control.action as u32)), Some(&*job)),
        };
        let (status, expected, got, changed) = match outcome {
            Ok((status, changed)) => (status, 0, 0, changed),
            Err(Refused(status, expected, got)) => (status, expected, got, false),
        };
        let (fan_in, joined, epoch, payload, window) = job.map_or((0, 0, 0, 0, 0), |job| {
            (job.spec.fan_in, job.joined(), job.epoch, job.payload.unwrap_or(0), job.spec.window)
        });
        let answers = Some(control.action);
        let control = Control {
            action: Action::Ack,
            status,
            answers,
            session: control.session,
            payload,
            window,
            expected,
            got,
        };
        Some(Answer { header: answer_header(header, fan_in, joined, epoch), control, changed })
    }

    /// The table for the lcores. `mac` gives the MAC of a port.
    #[must_use]
    pub fn table(&self, mac: impl Fn(usize) -> Mac) -> JobTable {
        let job = |job: &JobState| {
            let (id, fan_in, epoch) = (job.spec.id, job.spec.fan_in, job.epoch);
            let member = |(rank, joined): (u16, &Option<Joined>)| {
                let endpoint = joined.as_ref()?.endpoint;
                Some(Member::new(endpoint, mac(endpoint.port), id, rank, fan_in, epoch))
            };
            let members = (0..).zip(&job.members).map(member).collect();
            Job::new(id, fan_in, epoch, job.payload.unwrap_or(0), members)
        };
        JobTable::new(self.jobs.values().map(job).collect())
    }

    /// The state of each job.
    #[must_use]
    pub fn status(&self) -> Vec<JobStatus> {
        let status = |job: &JobState| JobStatus {
            id: job.spec.id,
            fan_in: job.spec.fan_in,
            joined: job.joined(),
            epoch: job.epoch,
        };
        self.jobs.values().map(status).collect()
    }
}

impl JobState {
    #[expect(clippy::cast_possible_truncation, reason = "as many as ranks, which are 16 bits")]
    fn joined(&self) -> u16 {
        let here =
            |&(rank, joined): &(u16, &Option<Joined>)| joined.is_some() && !self.left.contains_key(&rank);
        (0..).zip(&self.members).filter(here).count() as u16
    }

    fn join(&mut self, request: &ControlRequest) -> Result<(Status, bool), Refused> {
        let ControlRequest { header, control, from, .. } = request;
        let rank = self.rank(header)?;
        if let Some(admitted) = &self.spec.admitted
            && admitted.get(rank) != Some(&from.address)
        {
            return Err(Refused(Status::SourceRefused, 0, u32::from(header.rank)));
        }
        if control.payload == 0
            || control.payload > self.spec.max_payload
            || !control.payload.is_multiple_of(8)
        {
            return Err(payload_refused(self.spec.max_payload, control.payload));
        }
        let known = self.members.get(rank).copied().flatten();
        // An earlier life of the rank, or one that has left, does not come back, in whatever generation: its Join was
        // overtaken by what came later.
        if self.sessions.get(&header.rank).is_some_and(|latest| {
            control.session < latest.session || control.session == latest.session && latest.left
        }) {
            return Err(Refused(Status::StaleSession, 0, 0));
        }
        if known.is_some_and(|joined| joined.session == control.session && joined.endpoint == *from) {
            // The answer got lost, or others were missing.
            return Ok((self.completeness(), false));
        }
        if known.is_some() || !self.left.is_empty() {
            self.next_generation();
        }
        match self.payload {
            Some(payload) if payload != control.payload => {
                return Err(payload_refused(payload, control.payload));
            }
            _ => self.payload = Some(control.payload),
        }
        if let Some(place) = self.members.get_mut(rank) {
            *place = Some(Joined { session: control.session, endpoint: *from });
            self.sessions
                .insert(header.rank, Latest { session: control.session, address: from.address, left: false });
        }
        Ok((self.completeness(), true))
    }

    fn leave(&mut self, request: &ControlRequest) -> Result<(Status, bool), Refused> {
        let ControlRequest { header, control, from, .. } = request;
        let rank = self.rank(header)?;
        // Also where the session's generation is over: a Join of its that is still under way must not bring it back.
        if let Some(latest) = self.sessions.get_mut(&header.rank)
            && (latest.session, latest.address) == (control.session, from.address)
        {
            latest.left = true;
        }
        if self.left.get(&header.rank) != Some(&control.session) {
            let known = self.members.get(rank).copied().flatten();
            if known.is_none_or(|joined| {
                joined.session != control.session || joined.endpoint.address != from.address
            }) {
                return Err(Refused(Status::NotMember, 0, u32::from(header.rank)));
            }
            self.left.insert(header.rank, control.session);
        }
        if self.joined() > 0 {
            return Ok((Status::Pending, false));
        }
        let changed = self.members.iter().any(Option::is_some);
        self.members.fill(None);
        Ok((Status::Ok, changed))
    }

    /// The rank as an index, if rank and rank count are those of the job.
    fn rank(&self, header: &Header) -> Result<usize, Refused> {
        if header.fan_in != self.spec.fan_in {
            return Err(Refused(
                Status::FanInMismatch,
                u32::from(self.spec.fan_in),
                u32::from(header.fan_in),
            ));
        }
        if header.rank >= self.spec.fan_in {
            return Err(Refused(Status::RankOutOfRange, u32::from(self.spec.fan_in), u32::from(header.rank)));
        }
        Ok(usize::from(header.rank))
    }

    fn completeness(&self) -> Status {
        if self.joined() == self.spec.fan_in { Status::Ok } else { Status::Pending }
    }

    fn next_generation(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.payload = None;
        self.members.fill(None);
        self.left.clear();
    }
}

fn payload_refused(expected: u16, got: u16) -> Refused {
    Refused(Status::PayloadMismatch, u32::from(expected), u32::from(got))
}
