//! A job that has its place below another appliance: what the parent decides for it.
//!
//! Its ranks are told to go when the parent's job is complete, with the parent's number of the generation
//! and its first PSN. If the parent's generation ends, so does the one here, and those who were in it go on
//! in the next one.

use core::time::Duration;

use pascaline_wire::control::Status;
use pascaline_wire::frame::Mac;
use pascaline_wire::trailer::{RankReport, RankState};

use super::claim::Claim;
use super::entry::APPLIANCE;
use super::job::{Decision, JobRecord, Names, source};
use super::offer::Offer;
use super::reply::ControlRequest;
use super::uplink::{Granted, Neighbour, News, Uplink, UplinkState, UplinkStatus, Wish};
use super::{Event, JobKind, Membership, OnDeath, ServerMode};

impl Membership {
    /// How a job stands with its parent; `None` if it has none.
    #[must_use]
    pub fn uplink(&self, job: u16, now: Duration) -> Option<UplinkStatus> {
        Some(self.jobs.get(&job)?.uplink.as_ref()?.status(now))
    }

    /// An answer of a parent. True if it is one.
    pub(super) fn acknowledged(&mut self, now: Duration, request: &ControlRequest) -> bool {
        let job = self.jobs.get_mut(&request.header.job);
        let job = job.filter(|job| {
            let sender = source(&request.from);
            job.uplink.as_ref().is_some_and(|uplink| uplink.senders().any(|parent| parent == sender))
        });
        job.is_some_and(|job| {
            self.changed |= job.acknowledged(now, request);
            true
        })
    }

    /// A neighbour has said where it is. Ignored unless it was asked; gives what is new.
    pub(super) fn found_neighbour(&mut self, now: Duration, said: &Neighbour) -> Vec<Event> {
        let (mut events, mut asked) = (Vec::new(), false);
        for job in self.jobs.values_mut().filter(|_| !said.mac.is_group() && said.mac != Mac::default()) {
            let Some(uplink) = &mut job.uplink else { continue };
            let Some(changed) = uplink.found(now, said, &mut events) else { continue };
            (job.due, asked) = (Some(now), true);
            self.changed |= changed;
        }
        self.ignored += u64::from(!asked);
        events
    }
}

impl JobRecord {
    /// True if a rank may stand for several workers: where results are of all of them, and nobody else makes
    /// them; and where there are updates, each of which says how many it stands for.
    pub(super) fn takes_subtrees(&self) -> bool {
        let suits = match self.spec.kind {
            JobKind::Region { .. }
            | JobKind::Shared { server: ServerMode::None, .. }
            | JobKind::Updates { .. } => true,
            JobKind::Shared { .. } | JobKind::Early { .. } | JobKind::Switchml { .. } => false,
        };
        suits && self.spec.on_death == OnDeath::Fail
    }

    /// All ranks are here: asks the parent to take them in.
    pub(super) fn ascend(&mut self, now: Duration) {
        let resume = self.shared_claim();
        let una = self.lacked().0;
        let workers = self.below();
        let takes_less = resume.is_none() && self.offers(false).all(Offer::takes_less);
        let payload = Offer::said(self.payload, takes_less);
        let wish = Wish { resume, payload, window: self.granted(), una, workers };
        let (secret, id, generations) = (self.secret, self.spec.id, self.generations);
        if let Some(uplink) = &mut self.uplink {
            uplink.join(now, wish, |number| secret.session(id, generations, number));
            self.due = Some(now);
        }
    }

    /// The generations that all can go on with.
    fn shared_claim(&self) -> Option<Claim> {
        let mut claims = self.claims();
        let first = claims.next()??;
        claims.try_fold(first, |shared, claim| shared.shared(claim?))
    }

    /// Workers that its ranks stand for.
    pub(super) fn below(&self) -> u32 {
        self.members().fold(0, |all: u32, (_, joined)| all.saturating_add(joined.workers.max(1)))
    }

    /// An answer of the parent. True if lcores need a new table.
    fn acknowledged(&mut self, now: Duration, request: &ControlRequest) -> bool {
        let before = self.session_above();
        let Some(uplink) = &mut self.uplink else { return false };
        self.due = Some(now);
        let (header, control) = (&request.header, &request.control);
        let renewed = uplink.proven(source(&request.from), control);
        if uplink.overheard(now, source(&request.from), control) {
            return renewed;
        }
        let news = uplink.answered(now, (header, control), request.operations);
        self.apply_news(now, news) || renewed || self.session_above() != before
    }

    /// Its session at its parent, by which lcores know that one's answers.
    pub(super) fn session_above(&self) -> Option<u64> {
        self.uplink.as_ref().map(|uplink| uplink.session)
    }

    /// Looks round for another parent, where there are several. True if lcores need a new table.
    pub(super) fn look_round(&mut self, now: Duration) -> bool {
        let news = self.uplink.as_mut().map_or(News::Nothing, |uplink| uplink.look_round(now));
        self.apply_news(now, news)
    }

    /// Applies a change above. True if lcores need a new table.
    fn apply_news(&mut self, now: Duration, news: News) -> bool {
        match news {
            News::Nothing => return false,
            News::Formed(granted) => self.formed_above(now, granted),
            News::Anew => self.send_off_all(),
            // Those who were in it resume it in the next one, also who had left.
            News::Over if self.state.running().is_some() => self.next_generation(true),
            News::Over => {}
            News::Numbered => self.number_apart(),
            News::Changed => {}
            News::Displaced => self.complete(now),
            // A Reset, at any appliance, ends it for all.
            News::HandedUp => self.halted = false,
        }
        self.told.set(None);
        true
    }

    /// The parent's job is complete, and so is this one, in the generation of that number.
    fn formed_above(&mut self, now: Duration, granted: Granted) {
        if !self.is_gathered() {
            return self.forget_parent();
        }
        self.renumber(granted.epoch);
        if let Some(uplink) = &mut self.uplink {
            uplink.numbers.complete = Some(granted.epoch);
        }
        self.payload = granted.payload;
        self.begin(now, granted.resumed);
    }

    /// The parent has told its number for the first time: nobody has joined here yet.
    fn number_apart(&mut self) {
        if self.state.is_forming()
            && let Some(epoch) = self.uplink.as_mut().and_then(|uplink| uplink.numbers.next(self.epoch))
        {
            self.renumber(epoch);
        }
    }

    pub(super) fn forget_parent(&mut self) {
        self.uplink.as_mut().map(Uplink::forget).unwrap_or_default();
    }

    /// The parent's job cannot go on: nobody here can, and each is told so when it asks again.
    fn send_off_all(&mut self) {
        for at in 0..self.ranks.len() {
            if self.ranks[at].joined.is_some_and(|joined| joined.claim.is_some()) {
                self.send_off(at);
            }
        }
    }

    /// All have left here. While others are there at the parent, what to tell those here.
    pub(super) fn held_back(&mut self, now: Duration) -> Option<Decision> {
        let called = self.furthest_behind();
        let waiting = self.uplink.as_mut()?.leave(now, called)?;
        self.due = Some(now);
        Some(Decision::new(Status::Pending, u32::from(waiting), 0))
    }

    /// A rank waits inside an operation: the parent hears so, and what it has said against it counts here.
    pub(super) fn relay(&mut self, now: Duration) -> Option<Decision> {
        self.uplink.as_ref()?;
        let oldest = self.oldest_called(now);
        let uplink = self.uplink.as_mut()?;
        uplink.waits(now, oldest);
        let (due, objection) = (uplink.due(), uplink.objection());
        self.due = self.due.into_iter().chain(due).min();
        let (status, operations) = objection?;
        let operations = operations.map(|operations| self.state.settle_dispute(operations));
        let names = operations.map_or(Names::Nobody, Names::Operations);
        Some(Decision { names, ..Decision::of(status) })
    }

    /// What a rank is told that wants to go on with what the parent has given up.
    pub(super) fn given_up(&self, claim: Option<Claim>) -> Option<Decision> {
        let given_up = self.uplink.as_ref().is_some_and(Uplink::is_given_up);
        let names = Names::Left { psn: self.lacked().0 };
        (given_up && claim.is_some()).then_some(Decision { names, ..Decision::of(Status::RankLeft) })
    }

    /// The parent, if it keeps the ranks here from getting on.
    pub(super) fn report_of_parent(&self, now: Duration) -> Option<RankReport> {
        let uplink = self.uplink.as_ref()?;
        let UplinkStatus { parent, state, joined, silent, .. } = uplink.status(now);
        let state = match state {
            UplinkState::Joined | UplinkState::Idle | UplinkState::Leaving => return None,
            UplinkState::NoAnswer => RankState::Silent,
            UplinkState::Pending => RankState::Behind,
            UplinkState::Refused(_) if uplink.is_given_up() => RankState::Lost,
            UplinkState::Refused(_) => RankState::Blocked,
        };
        let (address, port) = source(&parent.endpoint);
        let silent_ms = u32::try_from(silent.as_millis()).unwrap_or(u32::MAX);
        let missing = parent.ranks.saturating_sub(joined);
        Some(RankReport { rank: APPLIANCE, state, silent_ms, behind: u32::from(missing), port, address })
    }
}
