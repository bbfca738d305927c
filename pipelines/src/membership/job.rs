//! One job: its ranks, its generations, and what changes them.

use core::cell::Cell;
use core::time::Duration;
use std::sync::Arc;

use pascaline_aggregator::Tenant;
use pascaline_telemetry::JobCells;
use pascaline_wire::control::Status;
use pascaline_wire::frame::Address;
use pascaline_wire::header::Header;
use pascaline_wire::trailer::Operations;

use super::answer::Shown;
use super::claim::{self, Claim};
use super::contest::Contest;
use super::cookie::Secret;
use super::generation::State;
use super::offer::{Offer, agreed};
use super::rank::{Epochs, Joined, Rank};
use super::server::Serving;
use super::spec::JobSpec;
use super::uplink::Uplink;
use crate::jobs::{Aliases, Endpoint};
use crate::seals::Seals;
use crate::switchml::SwitchMl;

/// Whom the trailer of an answer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// There is no trailer.
    Nobody,
    /// The rank that is answered.
    Sender,
    /// All lost ranks.
    Lost,
    /// Two ranks that call different operations, and what they call.
    Operations(Operations),
    /// What is known of those who have left before a PSN.
    Left { psn: u32 },
    /// What is known of those who are missing at a PSN.
    Missing { psn: u32 },
}

/// How a request fared. As an error: refused; then nothing has changed, unless it says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decision {
    pub(super) status: Status,
    pub(super) expected: u32,
    pub(super) got: u32,
    pub(super) names: Names,
    pub(super) changed: bool,
    pub(super) shown: Shown,
}

impl Decision {
    pub(super) const fn new(status: Status, expected: u32, got: u32) -> Self {
        Self { status, expected, got, names: Names::Nobody, changed: false, shown: Shown::ToKnown }
    }

    pub(super) const fn of(status: Status) -> Self {
        Self::new(status, 0, 0)
    }

    pub(super) const fn hidden(self) -> Self {
        Self { shown: Shown::Never, ..self }
    }
}

/// A Reset that has been carried out: repeated, it does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reset {
    pub(super) rank: u16,
    pub(super) session: u64,
    pub(super) epoch: u16,
}

#[derive(Debug)]
pub(super) struct JobRecord {
    // What it is, for all its life or until an operator changes it.
    pub(super) spec: Arc<JobSpec>,
    /// As whom it shares the appliance.
    pub(super) tenant: Tenant,
    /// Whose Join has formed it; `None` if it is configured.
    pub(super) founder: Option<Address>,
    pub(super) secret: Secret,
    /// Its ciphers, if its packets are sealed.
    pub(super) seals: Option<Arc<Seals>>,
    /// While its keys change, since when all ranks have the new ones.
    pub(super) renewed: Option<Duration>,
    /// What lcores count of it, over all generations.
    pub(super) cells: Arc<JobCells>,
    /// Lcores, which all give out results.
    pub(super) lcores: usize,

    pub(super) ranks: Vec<Rank>,

    // The present generation.
    pub(super) epoch: u16,
    /// How many generations there have been; unlike epochs they do not come back.
    pub(super) generations: u64,
    /// The first PSN, if it is not resumed: the same from its beginning to its end.
    pub(super) base: u32,
    /// Payload bytes on which its members have agreed; 0 before that.
    pub(super) payload: u16,
    pub(super) state: State,
    /// What lcores share, where its workers are SwitchML's clients and rank 0 has registered.
    pub(super) switchml: Option<Arc<SwitchMl>>,

    // What outlives a generation.
    /// Contributions that complete a PSN, of however many ranks there are.
    pub(super) threshold: u16,
    pub(super) halted: bool,
    /// Generations that were ended by a Reset: nobody resumes them.
    pub(super) unresumable: Epochs,
    pub(super) reset: Option<Reset>,
    /// The question whether any member is alive, for newcomers that want a job of this number with another
    /// number of ranks.
    pub(super) rival: Option<Contest>,
    /// What it is to its parent.
    pub(super) uplink: Option<Uplink>,
    /// Whose updates went to the parent under which number.
    pub(super) aliases: Arc<Aliases>,
    pub(super) server: Option<Serving>,
    /// The server's last Serve; before the first, since when it is expected. `None` once that is too long ago
    /// and has been told.
    pub(super) served: Option<Duration>,
    /// How many are here and what window they have, for answers, as long as nothing changes: a heartbeat must
    /// not cost a look at all ranks.
    pub(super) told: Cell<Option<(u16, u16)>>,

    // What time alone changes.
    /// The last sign of life of anybody.
    pub(super) heard: Duration,
    /// When it was last looked at who has contributed.
    pub(super) looked: Duration,
    /// When something was last heard of a rank, and what the lcores' clock showed then.
    pub(super) clocks: (Duration, u64),
    /// Not before then can time alone change anything; `None` for never.
    pub(super) due: Option<Duration>,
    /// A rank has been silent for longer than the limit, and nobody waited for it.
    pub(super) overdue: bool,
}

impl JobRecord {
    pub(super) fn new(spec: JobSpec, secret: Secret, epoch: u16, now: Duration) -> Self {
        let ranks = vec![Rank::default(); usize::from(spec.fan_in)];
        Self { ranks, ..Self::bare(spec, secret, epoch, now) }
    }

    /// Without ranks, which may take much memory: enough to answer somebody who will not be a member.
    pub(super) fn bare(spec: JobSpec, secret: Secret, epoch: u16, now: Duration) -> Self {
        // Jobs that are made again begin with another number each time, by the epoch and the time.
        let generations = u64::from(epoch) ^ u64::try_from(now.as_nanos()).unwrap_or(u64::MAX) << 8;
        let session = secret.session(spec.id, generations, 0);
        Self {
            tenant: Tenant::default(),
            founder: None,
            seals: seals_of(&spec, secret),
            renewed: None,
            secret,
            cells: Arc::default(),
            lcores: 0,
            ranks: Vec::new(),
            epoch,
            generations,
            base: secret.base(spec.id, generations),
            payload: 0,
            state: State::EMPTY,
            switchml: None,
            threshold: spec.kind.threshold(),
            halted: false,
            unresumable: Epochs::default(),
            reset: None,
            rival: None,
            uplink: uplink_of(&spec, session),
            aliases: Arc::default(),
            server: None,
            served: Some(now),
            told: Cell::new(None),
            heard: now,
            looked: now,
            clocks: (now, 0),
            due: Some(now),
            overdue: false,
            spec: Arc::new(spec),
        }
    }

    /// Has it counted by so many lcores, from 0 on.
    pub(super) fn count_by(&mut self, lcores: usize) {
        self.cells = Arc::new(JobCells::new(lcores, self.spec.fan_in));
        self.lcores = lcores;
    }

    /// All who have joined the present generation, with their ranks.
    pub(super) fn members(&self) -> impl Iterator<Item = (u16, &Joined)> + Clone {
        (0..).zip(&self.ranks).filter_map(|(number, rank)| Some((number, rank.joined.as_ref()?)))
    }

    /// Those of them that are here.
    pub(super) fn present(&self) -> impl Iterator<Item = (u16, &Joined)> + Clone {
        (0..).zip(&self.ranks).filter_map(|(number, rank)| Some((number, rank.here()?)))
    }

    /// Ranks that are here: they have joined the present generation and neither left nor died.
    pub(super) fn joined(&self) -> u16 {
        count(self.present())
    }

    /// Ranks that the present generation has lost or goes on without.
    pub(super) fn lost(&self) -> u16 {
        count(self.ranks.iter().filter(|rank| rank.lost))
    }

    /// Contributions that complete a PSN.
    pub(super) fn needed(&self) -> u16 {
        let fan_in = self.spec.fan_in;
        // What a broken generation has lost must not make results complete: nobody asked for them.
        let there = if self.state.is_broken() { fan_in } else { fan_in - self.lost() };
        self.threshold.min(there).max(1)
    }

    /// What members have offered; only those `anew` that do not want to go on with an earlier generation.
    pub(super) fn offers(&self, anew: bool) -> impl Iterator<Item = Offer> + Clone {
        let members = self.members().map(|(_, joined)| joined);
        members.filter(move |joined| !anew || joined.claim.is_none()).map(|joined| joined.offer)
    }

    /// The window of all ranks: what each keeps is enough for the others only if it is the same for all.
    pub(super) fn granted(&self) -> u16 {
        let asked = self.members().map(|(_, joined)| joined.window);
        let above = self.uplink.as_ref().and_then(Uplink::granted).map(|granted| granted.window);
        asked.chain(above).min().unwrap_or(u16::MAX).min(self.spec.window)
    }

    /// How many ranks are here, and the window of all.
    pub(super) fn joined_and_granted(&self) -> (u16, u16) {
        let found = self.told.get().unwrap_or_else(|| (self.joined(), self.granted()));
        debug_assert_eq!(found, (self.joined(), self.granted()), "what was told is out of date");
        self.told.set(Some(found));
        found
    }

    /// The oldest PSN that any rank lacks that goes on, and the oldest of the one that is furthest ahead:
    /// there are no results from there on.
    pub(super) fn lacked(&self) -> (u32, u32) {
        let lacked = self.members().map(|(_, joined)| joined.lacked);
        let before = |one: u32, other: u32| other.wrapping_sub(one) < 1 << 31;
        let oldest = lacked.clone().reduce(|one, other| if before(one, other) { one } else { other });
        let next = lacked.reduce(|one, other| if before(one, other) { other } else { one });
        (oldest.unwrap_or_default(), next.unwrap_or_default())
    }

    /// The generation that all who have joined want to go on with.
    pub(super) fn common_claim(&self) -> Option<u16> {
        claim::common(self.claims())
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = Option<Claim>> + Clone {
        self.members().map(|(_, joined)| joined.claim)
    }

    /// True if a rank can go on with this, as far as the others who have joined are concerned.
    pub(super) fn can_claim(&self, at: usize, claim: Claim) -> bool {
        let others = self.members().filter(|(other, _)| usize::from(*other) != at);
        let claims = others.map(|(_, joined)| joined.claim);
        claim::common(core::iter::once(Some(claim)).chain(claims)).is_some()
    }

    /// Ends a membership, and with the last one what the members had agreed on.
    pub(super) fn remove(&mut self, at: usize) {
        self.ranks[at].joined = None;
        if self.members().next().is_none() {
            self.payload = 0;
        }
        if self.state.is_forming() {
            let anew = self.offers(true).next().is_some();
            self.payload = agreed(self.offers(anew), self.spec.limit()).unwrap_or(0);
            self.forget_parent();
        }
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
}

/// The ciphers of a job like this.
pub(super) fn seals_of(spec: &JobSpec, secret: Secret) -> Option<Arc<Seals>> {
    let keys = spec.keys.as_ref()?;
    Some(Arc::new(Seals::new(keys, spec.fan_in, secret.salt(spec.id))))
}

/// The state towards the parents of a job like this.
pub(super) fn uplink_of(spec: &JobSpec, session: u64) -> Option<Uplink> {
    Some(Uplink::new(spec.id, (spec.parent?, &spec.backups), &spec.keys_above, session))
}

/// Address and port of a sender.
pub(super) const fn source(from: &Endpoint) -> (Address, u16) {
    (from.address, from.udp_port)
}

#[expect(clippy::cast_possible_truncation, reason = "as many as ranks, which are 16 bits")]
pub(super) fn count(ranks: impl Iterator) -> u16 {
    ranks.count() as u16
}
