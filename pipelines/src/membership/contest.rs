//! A newcomer for a rank that has a member: who of the two is to have it.
//!
//! The member keeps the rank if it is alive. Inside an operation it says so every 100 ms; between two
//! operations it says nothing, for as long as its user computes. So how much silence is a proof depends on
//! what it would have to say, and on where the newcomer is.

use core::time::Duration;

use pascaline_wire::control::Status;
use pascaline_wire::frame::Address;

use super::generation::State;
use super::job::{Decision, JobRecord, source};
use super::leave::waits;
use super::progress::Called;
use super::rank::Rank;
use super::refusal::Ask;
use super::reply::ControlRequest;

/// Whatever is heard of a member within so long after the first Join of a newcomer was under way before it.
const UNDER_WAY: Duration = Duration::from_millis(500);
/// Silence of a member that would have something to say: ten times as long as it is silent at the most.
const LIVELY: Duration = Duration::from_secs(1);
/// Silence of an appliance, which says every 150 ms that it is alive.
const APPLIANCE_GONE: Duration = Duration::from_millis(500);
/// Silence of a member whose host has a newcomer of the same rank: most likely it was started anew.
const SAME_HOST: Duration = Duration::from_millis(1500);
/// A newcomer from elsewhere is told after so long that the rank is taken.
const PATIENCE: Duration = Duration::from_secs(3);

/// The question whether a member is alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contest {
    pub(super) since: Duration,
    /// The latest Join of a newcomer.
    latest: Duration,
    /// When members were last asked, where they are.
    pub(super) asked: Option<Duration>,
}

/// Whether a job that Joins have formed still has members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occupancy {
    /// A member has given a sign of life since the question.
    Alive,
    /// Not known yet.
    Unknown,
    /// All are gone: they have been silent for as long as proves it, or their hosts say so.
    Deserted,
}

/// Silence that proves a member gone where `dead_after` is never.
const NEVER_LOST: Duration = Duration::from_secs(60);

impl JobRecord {
    /// Whether the job still has members, asked on behalf of a newcomer that it has no rank for.
    pub(super) fn occupancy(&mut self, now: Duration, newcomer: Address, asks: &mut Vec<Ask>) -> Occupancy {
        for at in 0..self.ranks.len() {
            self.note_sent(now, at);
        }
        let fresh = Contest { since: now, latest: now, asked: None };
        let contest = self.rival.filter(|contest| now.saturating_sub(contest.latest) < LIVELY);
        let mut contest = Contest { latest: now, ..contest.unwrap_or(fresh) };
        let asked = now.saturating_sub(contest.since);
        let silence = self.spec.dead_after.unwrap_or(NEVER_LOST);
        let members = || (0..).zip(&self.ranks).filter(|(_, rank)| rank.present());
        let mut present = members().filter_map(|(at, rank)| rank.joined.map(|joined| (at, joined)));
        if present.clone().any(|(_, joined)| joined.seen().max(joined.alive) > contest.since + UNDER_WAY) {
            self.rival = None;
            return Occupancy::Alive;
        }
        let deserted = present.all(|(at, joined)| {
            let proof = match joined.endpoint.address == newcomer {
                _ if joined.is_appliance() => APPLIANCE_GONE + UNDER_WAY,
                _ if self.expects_signs(now, at) => LIVELY,
                true => SAME_HOST,
                false => silence,
            };
            asked >= proof || joined.is_gone(&contest)
        });
        self.ask_members(now, &mut contest, asks);
        self.rival = Some(contest);
        if deserted { Occupancy::Deserted } else { Occupancy::Unknown }
    }

    /// Whether a newcomer gets a rank that has a member: `Ok` if it does, else what it is answered.
    pub(super) fn contest(
        &mut self,
        now: Duration,
        at: usize,
        request: &ControlRequest,
    ) -> Result<(), Decision> {
        self.note_sent(now, at);
        let expects_signs = self.expects_signs(now, at);
        let silence = self.spec.dead_after.unwrap_or(NEVER_LOST);
        let rank = &mut self.ranks[at];
        let (true, Some(joined)) = (rank.present(), &mut rank.joined) else { return Ok(()) };
        let from = source(&request.from);
        let same = rank.latest.is_some_and(|latest| latest.session == request.control.session);
        if source(&joined.endpoint) == from || same {
            // Its socket is the newcomer's now; or it has moved, since nobody else knows its session.
            return Ok(());
        }
        let fresh = Contest { since: now, latest: now, asked: None };
        let contest = joined.contest.filter(|contest| now.saturating_sub(contest.latest) < LIVELY);
        let contest = Contest { latest: now, ..contest.unwrap_or(fresh) };
        joined.contest = Some(contest);
        let asked = now.saturating_sub(contest.since);
        let refusal = if asked >= PATIENCE { Status::RankTaken } else { Status::Pending };
        // An appliance says that it is alive, whether anybody waits or not; what it contributes says so, too.
        if joined.is_appliance() {
            let silent = now.saturating_sub(joined.seen().max(joined.alive));
            let gone = silent >= APPLIANCE_GONE;
            return if gone { Ok(()) } else { Err(Decision::of(refusal).hidden()) };
        }
        if joined.seen() > contest.since + UNDER_WAY {
            joined.contest = None;
            return Err(Decision::of(Status::RankTaken).hidden());
        }
        let enough = match joined.endpoint.address == from.0 {
            _ if expects_signs => LIVELY,
            true => SAME_HOST,
            false => silence,
        };
        if asked >= enough {
            return Ok(());
        }
        Err(Decision::of(refusal).hidden())
    }

    /// True if a live member would have been heard of within [`LIVELY`]: it asks to join, or is inside an
    /// operation that others wait in as well.
    fn expects_signs(&self, now: Duration, at: usize) -> bool {
        let first = |rank: &Rank| {
            rank.joined.and_then(|joined| joined.called).filter(Called::is_under_way).map(|c| c.first)
        };
        match self.state {
            State::Forming { .. } => true,
            State::Broken(_) => false,
            State::Complete(_) => {
                let own = first(&self.ranks[at]);
                let mut others = self.ranks.iter().enumerate().filter(|(other, _)| *other != at);
                own.is_some() && others.any(|(_, other)| waits(other, now) && first(other) == own)
            }
        }
    }
}
