//! Becoming a member, and saying so again.

use core::time::Duration;

use pascaline_wire::control::{self, ASK, Control, Status};
use pascaline_wire::frame::Address;

use super::answer::Shown;
use super::claim::Claim;
use super::generation::State;
use super::job::{Decision, JobRecord, Names, source};
use super::offer::{Offer, agreed};
use super::rank::{Joined, Latest};
use super::rate::Asked;
use super::reply::ControlRequest;
use super::spec::Admission;
use super::uplink::Uplink;

/// Whoever waits for a generation and is silent for so long does not keep others from going on with theirs.
pub(super) const AWAY: Duration = Duration::from_millis(500);

impl JobRecord {
    /// A Join. Without a proof that it comes from where it says it changes nothing.
    pub(super) fn join(
        &mut self,
        now: Duration,
        request: &ControlRequest,
        admission: Option<&Admission>,
    ) -> Result<Decision, Decision> {
        let (at, offer) = self.admits(request, admission)?;
        let (rank, ControlRequest { header, control, from, .. }) = (self.ranks[at], request);
        let (source, same) = (source(from), rank.latest.filter(|latest| latest.session == control.session));
        let wanted = Claim::of(control);
        let back = wanted.is_some_and(|claim| self.comes_back(at, control.number, claim));
        // An earlier life of the rank, or one that has left, does not come back, in whatever generation: its
        // Join was overtaken by what came later.
        if rank.retired.contains(control.session)
            || same.is_some_and(|latest| latest.left && !back || latest.lost && latest.source != source)
        {
            return Err(Decision::of(Status::StaleSession).hidden());
        }
        // Nobody else knows a member's session.
        let own = same.is_some_and(|latest| latest.source == source);
        if !own && control.cookie != self.cookie(request) {
            let shown = if rank.present() { Shown::Never } else { Shown::Always };
            return Ok(Decision { shown, ..Decision::of(Status::Pending) });
        }
        if !own {
            self.has_room_for(at, from.address)?;
        }
        if self.spec.refused.is_some() && !(own && rank.joined.is_some()) {
            return Err(Decision::of(Status::Objective).hidden());
        }
        if same.is_some_and(|latest| latest.lost)
            && !rank.joined.is_some_and(|joined| joined.endpoint == *from)
            || rank.lost && rank.joined.is_none() && wanted.is_some()
        {
            let lost = Decision::new(Status::RankLost, 1, u32::from(header.rank));
            return Err(Decision { names: Names::Sender, ..lost });
        }
        if !own {
            self.contest(now, request)?;
        }
        // Before the parent has told its number of the generation no Join counts: one of this appliance's own
        // may be one that workers have been in.
        if self.uplink.as_ref().is_some_and(Uplink::lacks_number) || self.is_question(control)? {
            return Ok(Decision::new(Status::Pending, self.under_way(now, at), 0));
        }
        if own && !back && self.ranks[at].joined.is_some() {
            return Ok(self.said_again(now, request));
        }
        if self.state.is_broken() && wanted.is_some() {
            return Err(self.standing(false));
        }
        // A Join without any number of a worker that has been a member for long: it does not know yet.
        if let Some(former) = same.and_then(|latest| latest.former).filter(|former| former.resumable)
            && (wanted, control.got) == (None, 0)
        {
            return Err(Decision::new(Status::WrongEpoch, u32::from(self.epoch), u32::from(former.epoch)));
        }
        self.become_member(now, (at, offer), request, (wanted, back))
    }

    /// Whether an address may have one more rank. Without a limit one host could take a job's every rank.
    fn has_room_for(&self, at: usize, host: Address) -> Result<(), Decision> {
        let most = self.spec.max_ranks_per_host;
        let held =
            |&(other, joined): &(u16, &Joined)| usize::from(other) != at && joined.endpoint.address == host;
        let own = if most < self.spec.fan_in { self.present().filter(held).count() } else { 0 };
        if own < usize::from(most) {
            return Ok(());
        }
        let told = u32::try_from(own).unwrap_or(u32::MAX);
        Err(Decision::new(Status::RanksOfHost, u32::from(most), told))
    }

    /// A Join of a member, from wherever it comes now.
    fn said_again(&mut self, now: Duration, request: &ControlRequest) -> Decision {
        let hears = self.spec.is_heard_by(request);
        // The way to a member may change, and whether multicast gets there.
        let joined = self.ranks[usize::from(request.header.rank)].joined.as_mut();
        let moved = joined.is_some_and(|joined| joined.comes_from(request.from, hears));
        // Only a claim while a generation forms can cost others their place, or complete it: lcores have not
        // got its window yet. To count all ranks for each heartbeat would take a job of many ranks most of
        // its turn.
        let forming = self.state.is_forming() && Claim::of(&request.control).is_some();
        let state = |job: &Self| (job.state.is_forming(), job.joined(), job.session_above());
        let before = forming.then(|| state(self));
        let decision = self.repeated(now, request);
        let otherwise = before.is_some_and(|before| before != state(self));
        Decision { changed: decision.changed || moved || otherwise, ..decision }
    }

    /// A Join that makes its sender a member.
    fn become_member(
        &mut self,
        now: Duration,
        (at, offer): (usize, Offer),
        request: &ControlRequest,
        (wanted, back): (Option<Claim>, bool),
    ) -> Result<Decision, Decision> {
        let ControlRequest { control, from, .. } = request;
        let rank = self.ranks[at];
        let resumes = wanted.is_some_and(|claim| claim.contains(self.epoch));
        if rank.left && !resumes && !back && self.waiting(now) > 0 {
            // Those who are still inside an operation end it first, unless it is to go on with them.
            return Err(Decision::of(Status::Pending).hidden());
        }
        // Whoever comes from another appliance may come from a generation with this one's number.
        let alike = resumes && self.uplink.is_none();
        let before = self.joined();
        let renewed = rank.joined.is_some() || rank.lost || !self.state.is_forming() || alike;
        if back {
            self.go_on();
        } else if renewed {
            self.next_generation(false);
        }
        // Nor can it go on with packets that this appliance takes from nobody any more.
        let claim = self.claim_now(now, at, wanted).filter(|_| offer.bytes() <= self.spec.limit());
        if wanted.is_some() && claim.is_none() {
            self.note_session(at, control.session, source(from));
            let sent_off = self.send_off(at);
            // Also if only the generation is another one.
            let changed = sent_off.changed || renewed || before != self.joined();
            return Ok(Decision { changed, ..sent_off });
        }
        self.payload = self.agree_with(offer, claim)?;
        let member = Joined {
            claim,
            number: control.number,
            workers: control.workers,
            hears: self.spec.is_heard_by(request),
            lacked: control.psn,
            ..Joined::new(now, *from, offer, control.window)
        };
        self.note_session(at, control.session, source(from));
        // The rank has been decided about. What is heard of this member says nothing of the one before.
        self.ranks[at].joined = Some(member);
        if self.joined() == 1 {
            self.state = State::Forming { since: now };
        }
        self.complete(now);
        self.due = Some(now);
        Ok(Decision { changed: true, ..self.standing(true) })
    }

    /// True if a member has been in another generation since it was told to go in this one: elsewhere, at an
    /// appliance that stood in for this one.
    fn comes_back(&self, at: usize, number: u32, wanted: Claim) -> bool {
        let (Some(_), Some(joined)) = (self.state.running(), self.ranks[at].joined) else {
            return false;
        };
        // What nobody can go on with any more is not in the claim of the member either.
        let Some(wanted) = wanted.without(&self.unresumable) else { return false };
        // Else it is older than the one that made it a member, and has been overtaken.
        let newer = (1..1 << 31).contains(&number.wrapping_sub(joined.number));
        let former = self.ranks[at].latest.and_then(|latest| latest.former).map(|former| former.epoch);
        // Who has joined from nothing does not go on with the one that it was in here before.
        let known = joined.claim.map_or(wanted.latest() == former, |claim| wanted.is_within(claim));
        newer && !known && wanted.latest() != Some(self.epoch)
    }

    /// What a rank can still go on with, if it wants to, now that others may have gone to another appliance:
    /// who waits here asks again every 20 to 100 ms.
    fn claim_now(&mut self, now: Duration, at: usize, wanted: Option<Claim>) -> Option<Claim> {
        let claim = self.claim(at, wanted);
        if claim.is_some() || wanted.is_none() || !self.state.is_forming() {
            return claim;
        }
        let away = |joined: Joined| joined.heard.saturating_add(AWAY) <= now;
        for other in (0..self.ranks.len()).filter(|&other| other != at) {
            if self.ranks[other].joined.is_some_and(away) {
                self.remove(other);
            }
        }
        self.claim(at, wanted)
    }

    /// What all are to send, with one more whose claim is this. What those have agreed on who want to go on
    /// with an earlier generation does not bind one that starts from nothing, with which they cannot.
    fn agree_with(&self, offer: Offer, claim: Option<Claim>) -> Result<u16, Decision> {
        let limit = self.spec.limit();
        let before = self.offers(claim.is_none());
        let all = before.clone().chain(core::iter::once(offer));
        let payload = agreed(all.clone(), limit).unwrap_or(offer.bytes());
        if all.clone().all(|offer| offer.takes(payload)) {
            return Ok(payload);
        }
        Err(payload_refused(agreed(before, limit).unwrap_or(payload), offer.bytes()))
    }

    /// What a rank can still go on with, if it wants to. In a job that is suspended that is not decided yet.
    fn claim(&self, at: usize, wanted: Option<Claim>) -> Option<Claim> {
        let wanted = wanted.filter(|_| !self.ranks[at].anew)?.without(&self.unresumable)?;
        (self.is_halted() || self.can_claim(at, wanted)).then_some(wanted)
    }

    /// Tells a rank that it cannot go on. It need not wait until all are here: what it waits for fails all
    /// the same. And it does not count until it joins from nothing: its worker may rather begin a new
    /// session, or end, and then the others should not have been told to go.
    pub(super) fn send_off(&mut self, at: usize) -> Decision {
        let changed = self.ranks[at].joined.is_some();
        self.ranks[at].anew = true;
        self.remove(at);
        Decision { changed, ..Decision::of(Status::Ok) }
    }

    /// True if a Join is to change nothing, because it only asks which generation it would count in.
    fn is_question(&self, control: &Control) -> Result<bool, Decision> {
        match (control.got, control::named_generation(control.got)) {
            (0, _) => Ok(false),
            (ASK, _) => Ok(true),
            (_, Some(epoch)) if epoch == self.epoch => Ok(false),
            (_, Some(epoch)) => {
                Err(Decision::new(Status::WrongEpoch, u32::from(self.epoch), u32::from(epoch)))
            }
            (got, None) => Err(Decision::new(Status::Unsupported, 0, got)),
        }
    }

    /// A Join of a member: its answer got lost, or others are missing, or it is a heartbeat.
    fn repeated(&mut self, now: Duration, request: &ControlRequest) -> Decision {
        let (at, wanted) = (usize::from(request.header.rank), Claim::of(&request.control));
        let (forming, anew) = (self.state.is_forming(), self.ranks[at].anew);
        let claim = if forming { self.claim_now(now, at, wanted) } else { None };
        if let Some(joined) = &mut self.ranks[at].joined {
            joined.heard = now;
            joined.beat = if forming { joined.beat } else { Some(now) };
            // Whoever waits may wait for somebody who has been silent for long.
            if self.overdue || self.due.is_none() {
                self.due = Some(now);
            }
            if forming && wanted.is_some() && !anew {
                if claim.is_none() {
                    return self.send_off(at);
                }
                (joined.claim, joined.lacked) = (claim, request.control.psn);
                self.complete(now);
                if let Some(given_up) = self.given_up(claim) {
                    return given_up;
                }
            }
        }
        let objection = if self.is_halted() { None } else { self.note_progress(now, request) };
        let objection = if forming { objection } else { self.relay(now).or(objection) };
        objection.unwrap_or_else(|| self.standing(true))
    }

    /// A rank's latest session, from now on: none before it comes back.
    fn note_session(&mut self, at: usize, session: u64, source: (Address, u16)) {
        let rank = &mut self.ranks[at];
        if let Some(over) = rank.latest.filter(|latest| latest.session != session) {
            rank.retired.add(over.session);
        }
        // Whoever starts anew again and again is still one source.
        let known = rank.latest.filter(|latest| latest.source == source);
        let asked = known.map_or_else(Asked::default, |latest| latest.asked);
        let former = rank.latest.filter(|latest| latest.session == session).and_then(|latest| latest.former);
        let number = known.filter(|latest| latest.session == session).map_or(0, |latest| latest.number);
        rank.latest = Some(Latest { session, source, left: false, lost: false, former, asked, number });
    }

    /// How things stand for a rank whose Join counts; with the names of the lost if it is a member.
    fn standing(&self, member: bool) -> Decision {
        match self.state {
            State::Broken(_) => {
                let lowest = self.numbers(|rank| rank.lost).first().map_or(0, |&number| number.into());
                let names = if member { Names::Lost } else { Names::Nobody };
                Decision { names, ..Decision::new(Status::RankLost, u32::from(self.lost()), lowest) }
            }
            _ if self.is_halted() => Decision::of(Status::Halted),
            State::Complete(ref running) => {
                Decision::new(Status::Ok, running.resumed.map_or(0, control::generation), 0)
            }
            State::Forming { .. } => match self.uplink.as_ref().and_then(Uplink::other_payload) {
                Some(payload) => payload_refused(u16::try_from(payload).unwrap_or(0), self.payload),
                None => Decision::of(Status::Pending),
            },
        }
    }
}

pub(super) fn payload_refused(expected: u16, got: u16) -> Decision {
    Decision::new(Status::PayloadMismatch, u32::from(expected), u32::from(got))
}
