//! One job: its ranks, its generations, and what changes them.

use core::time::Duration;
use std::sync::Arc;

use pascaline_aggregator::Tenant;
use pascaline_telemetry::JobCells;
use pascaline_wire::control::{Action, Status};
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::Header;
use pascaline_wire::trailer::Bitmap;

use super::claim::{self, Claim};
use super::rate::Bucket;
use super::reply::ControlRequest;
use super::server::{Presence, ServerState, Serving};
use super::spec::{JobSpec, ServerMode};
use crate::jobs::{Endpoint, Job, Member, PsnWindow, Server};

/// Whom the trailer of an answer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// There is no trailer.
    Nobody,
    /// The rank that is answered.
    Sender,
    /// All lost ranks.
    Lost,
}

/// How a request fared. As an error: refused; then nothing has changed, unless it says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decision {
    pub(super) status: Status,
    pub(super) expected: u32,
    pub(super) got: u32,
    pub(super) names: Names,
    pub(super) changed: bool,
}

impl Decision {
    pub(super) const fn new(status: Status, expected: u32, got: u32) -> Self {
        Self { status, expected, got, names: Names::Nobody, changed: false }
    }

    pub(super) const fn of(status: Status) -> Self {
        Self::new(status, 0, 0)
    }
}

/// Where a generation is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Ranks are missing.
    Forming,
    /// All that it waits for have joined, and go on with an earlier one or start from nothing.
    Complete { resumed: Option<u8> },
    /// It has lost ranks, and nothing is left but to say so.
    Broken,
}

/// A member of the present generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joined {
    pub(super) endpoint: Endpoint,
    /// What it wants to go on with.
    pub(super) claim: Option<Claim>,
    /// The last sign of life.
    pub(super) heard: Duration,
    /// The last heartbeat since the generation is complete.
    pub(super) waiting: Option<Duration>,
}

/// The latest session of a rank, of whatever generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latest {
    pub(super) session: u64,
    pub(super) source: (Address, u16),
    pub(super) left: bool,
    pub(super) lost: bool,
    /// The last generation before the present one that it was in.
    pub(super) former: Option<Former>,
    pub(super) bucket: Bucket,
}

/// A generation that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Former {
    pub(super) epoch: u8,
    /// A death has ended it: those who were in it should resume, not start anew.
    pub(super) resumable: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rank {
    pub(super) latest: Option<Latest>,
    /// Its membership in the present generation, which is its latest session's. Ranks that have left stay
    /// until all have: others may yet need a result that only they have kept.
    pub(super) joined: Option<Joined>,
    /// It has left the present generation.
    pub(super) left: bool,
    /// The present generation has lost it, or was begun without it.
    pub(super) lost: bool,
    /// It wanted to go on with an earlier generation, and has been told that it cannot: in the present one it
    /// can only start from nothing.
    pub(super) anew: bool,
}

impl Rank {
    pub(super) const fn present(&self) -> bool {
        self.joined.is_some() && !self.left && !self.lost
    }
}

/// A set of epochs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Epochs([u64; 4]);

impl Epochs {
    pub(super) fn set(&mut self, epoch: u8, member: bool) {
        let (word, bit) = (usize::from(epoch / 64), 1 << (epoch % 64));
        self.0[word] = if member { self.0[word] | bit } else { self.0[word] & !bit };
    }

    pub(super) fn contains(&self, epoch: u8) -> bool {
        self.0[usize::from(epoch / 64)] & 1 << (epoch % 64) != 0
    }
}

/// A Reset that has been carried out: repeated, it does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reset {
    pub(super) rank: u16,
    pub(super) session: u64,
    pub(super) epoch: u8,
}

#[derive(Debug)]
pub(super) struct JobRecord {
    pub(super) spec: JobSpec,
    /// As whom it shares the appliance: for all its life.
    pub(super) tenant: Tenant,
    /// It exists by its workers' Joins.
    pub(super) formed: bool,
    pub(super) epoch: u8,
    pub(super) payload: Option<u16>,
    pub(super) phase: Phase,
    pub(super) ranks: Vec<Rank>,
    pub(super) threshold: Option<u16>,
    pub(super) halted: bool,
    /// Generations that were ended by a Reset: nobody resumes them.
    pub(super) unresumable: Epochs,
    pub(super) reset: Option<Reset>,
    pub(super) server: Option<Serving>,
    pub(super) presence: Presence,
    /// What lcores count of it, over all generations.
    pub(super) cells: Arc<JobCells>,
    /// Lcores, which all give out results.
    lcores: usize,
    /// The PSNs that the generation may have under way.
    pub(super) window: Arc<PsnWindow>,
    /// When the first of those that are forming the generation joined.
    pub(super) since: Duration,
    /// The last sign of life of anybody.
    pub(super) heard: Duration,
    /// Not before then can time alone change anything; `None` for never.
    pub(super) due: Option<Duration>,
}

impl JobRecord {
    pub(super) fn new(spec: JobSpec, epoch: u8, formed: bool, now: Duration) -> Self {
        Self {
            tenant: Tenant::default(),
            formed,
            epoch,
            payload: None,
            phase: Phase::Forming,
            ranks: vec![Rank::default(); usize::from(spec.fan_in)],
            threshold: spec.threshold,
            halted: false,
            unresumable: Epochs::default(),
            reset: None,
            server: None,
            presence: Presence { heard: now, lacking: false },
            cells: Arc::default(),
            lcores: 0,
            window: Arc::new(PsnWindow::closed()),
            since: now,
            heard: now,
            due: Some(now),
            spec,
        }
    }

    /// Has it counted by so many lcores, from 0 on.
    pub(super) fn count_by(&mut self, lcores: usize) {
        self.cells = Arc::new(JobCells::new(lcores, self.spec.fan_in));
        self.lcores = lcores;
    }

    /// The bucket of a source that is known to this job, by the address and port that it has joined or
    /// registered from.
    pub(super) fn bucket(&mut self, request: &ControlRequest) -> Option<&mut Bucket> {
        let from = source(&request.from);
        if request.control.action == Action::Serve {
            let server = self.server.as_mut().filter(|server| source(&server.endpoint) == from);
            return server.map(|server| &mut server.bucket);
        }
        let latest = self.ranks.get_mut(usize::from(request.header.rank))?.latest.as_mut();
        latest.filter(|latest| latest.source == from).map(|latest| &mut latest.bucket)
    }

    /// Ranks that are here: they have joined the present generation and neither left nor died.
    pub(super) fn joined(&self) -> u16 {
        count(self.ranks.iter().filter(|rank| rank.present()))
    }

    /// Ranks that the present generation has lost or goes on without.
    pub(super) fn lost(&self) -> u16 {
        count(self.ranks.iter().filter(|rank| rank.lost))
    }

    /// Contributions that complete a PSN.
    pub(super) fn needed(&self) -> u16 {
        let fan_in = self.spec.fan_in;
        // What a broken generation has lost must not make results complete: nobody asked for them.
        let there = if self.phase == Phase::Broken { fan_in } else { fan_in - self.lost() };
        self.threshold.unwrap_or(fan_in).min(there).max(1)
    }

    /// Completes the generation if it has all that it waits for. Who has not been told yet that it cannot go
    /// on is not there in that sense.
    pub(super) fn complete(&mut self, now: Duration) {
        let all = self.joined() == self.spec.fan_in - self.lost();
        if self.phase != Phase::Forming || !all || !self.agree() {
            return;
        }
        let resumed = self.common_claim();
        self.phase = Phase::Complete { resumed };
        self.window = Arc::new(match resumed {
            None => PsnWindow::new(0, 0, self.spec.window, self.lcores),
            Some(_) => PsnWindow::unlimited(),
        });
        for joined in self.ranks.iter_mut().filter_map(|rank| rank.joined.as_mut()) {
            joined.heard = now;
        }
    }

    /// The generation that all who have joined want to go on with.
    pub(super) fn common_claim(&self) -> Option<u8> {
        claim::common(self.claims())
    }

    fn claims(&self) -> impl Iterator<Item = Option<Claim>> + Clone {
        self.ranks.iter().filter_map(|rank| rank.joined.as_ref()).map(|joined| joined.claim)
    }

    /// True if all who have joined can go on with the same generation, or want to start from nothing.
    fn agree(&self) -> bool {
        self.common_claim().is_some() || self.claims().all(|claim| claim.is_none())
    }

    /// True if a rank can go on with this, as far as the others who have joined are concerned.
    pub(super) fn can_claim(&self, at: usize, claim: Claim) -> bool {
        let others = self.ranks.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.filter_map(|(_, rank)| rank.joined.as_ref()).map(|joined| joined.claim);
        claim::common(core::iter::once(Some(claim)).chain(others)).is_some()
    }

    /// Ends a membership, and with the last one what the members had agreed on.
    pub(super) fn remove(&mut self, at: usize) {
        self.ranks[at].joined = None;
        if self.ranks.iter().all(|rank| rank.joined.is_none()) {
            self.payload = None;
        }
    }

    /// Begins the next generation: nobody is a member of it yet.
    pub(super) fn next_generation(&mut self) {
        let former = Former { epoch: self.epoch, resumable: false };
        self.epoch = self.epoch.wrapping_add(1);
        self.payload = None;
        self.phase = Phase::Forming;
        self.window = Arc::new(PsnWindow::closed());
        // The number means another generation from now on.
        self.unresumable.set(self.epoch, false);
        self.reset = self.reset.filter(|reset| reset.epoch != self.epoch);
        for rank in &mut self.ranks {
            if let (Some(_), Some(latest)) = (rank.joined, &mut rank.latest) {
                latest.former = Some(former);
            }
            (rank.joined, rank.left, rank.lost, rank.anew) = (None, false, false, false);
        }
        self.due = Some(Duration::ZERO);
    }

    /// The ranks that a trailer names; `None` of a job for which no bitmap is wide enough, which no
    /// configuration admits.
    pub(super) fn named(&self, names: Names, sender: u16) -> Option<Bitmap> {
        let mut bitmap = match names {
            Names::Nobody => None,
            Names::Sender | Names::Lost => Bitmap::new(self.spec.fan_in),
        }?;
        for (number, rank) in (0..).zip(&self.ranks) {
            if if names == Names::Sender { number == sender } else { rank.lost } {
                let _ = bitmap.insert(number);
            }
        }
        Some(bitmap)
    }

    /// The rank as an index, if rank and rank count are those of the job.
    pub(super) fn rank(&self, header: &Header) -> Result<usize, Decision> {
        let fan_in = self.spec.fan_in;
        if header.fan_in != fan_in {
            return Err(Decision::new(Status::FanInMismatch, u32::from(fan_in), u32::from(header.fan_in)));
        }
        if header.rank >= fan_in {
            return Err(Decision::new(Status::RankOutOfRange, u32::from(fan_in), u32::from(header.rank)));
        }
        Ok(usize::from(header.rank))
    }

    /// The job as lcores see it. `mac` gives the MAC of a port.
    pub(super) fn table(&self, mac: &impl Fn(usize) -> Mac) -> Job {
        let JobSpec { id, fan_in, mode, policy, share, server, .. } = self.spec;
        let member = |number, endpoint: Endpoint| {
            Member::new(endpoint, mac(endpoint.port), id, number, fan_in, self.epoch)
        };
        let members = (0..)
            .zip(&self.ranks)
            .map(|(number, rank)| rank.joined.map(|joined| member(number, joined.endpoint)))
            .collect();
        let mut job = Job::new(id, fan_in, self.epoch, self.payload.unwrap_or(0), members);
        job.needed = self.needed();
        job.partials = self.spec.partials;
        job.control = self.spec.control;
        job.halted = self.halted;
        job.mode = mode;
        job.policy = policy;
        (job.tenant, job.share) = (self.tenant, share);
        job.cells = Arc::clone(&self.cells);
        job.window = Arc::clone(&self.window);
        job.server = match server {
            ServerMode::None => Server::None,
            ServerMode::Embedded => Server::Embedded,
            // What would be sent to it before it is known where it is, or when it is gone, would be lost.
            ServerMode::External { .. } => {
                self.server.as_ref().filter(|_| !self.presence.lacking).map_or(Server::None, |server| {
                    Server::external(server.endpoint, mac(server.endpoint.port))
                })
            }
        };
        job.bereft = self.server_state() == ServerState::Gone;
        job
    }
}

/// Address and port of a sender.
pub(super) const fn source(from: &Endpoint) -> (Address, u16) {
    (from.address, from.udp_port)
}

#[expect(clippy::cast_possible_truncation, reason = "as many as ranks, which are 16 bits")]
pub(super) fn count(ranks: impl Iterator) -> u16 {
    ranks.count() as u16
}
