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
use super::progress::Called;
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

impl Contest {
    /// A Join of a newcomer: asks again, or anew where none has come for long.
    fn at(now: Duration, before: Option<Self>) -> Self {
        let before = before.filter(|contest| now.saturating_sub(contest.latest) < LIVELY);
        Self { latest: now, ..before.unwrap_or(Self { since: now, latest: now, asked: None }) }
    }
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
        (0..self.spec.fan_in).for_each(|rank| self.note_sent(now, rank));
        let mut contest = Contest::at(now, self.rival);
        let asked = now.saturating_sub(contest.since);
        if self.present().any(|(_, joined)| joined.seen().max(joined.alive) > contest.since + UNDER_WAY) {
            self.rival = None;
            return Occupancy::Alive;
        }
        let deserted = self.present().all(|(at, joined)| {
            let appliance = joined.is_appliance();
            let enough =
                if appliance { APPLIANCE_GONE + UNDER_WAY } else { self.enough(now, at.into(), newcomer) };
            asked >= enough || joined.is_gone(&contest)
        });
        self.ask_members(now, &mut contest, asks);
        self.rival = Some(contest);
        if deserted { Occupancy::Deserted } else { Occupancy::Unknown }
    }

    /// Whether a newcomer gets a rank that has a member: `Ok` if it does, else what it is answered.
    pub(super) fn contest(&mut self, now: Duration, request: &ControlRequest) -> Result<(), Decision> {
        self.note_sent(now, request.header.rank);
        let at = usize::from(request.header.rank);
        let enough = self.enough(now, at, request.from.address);
        let rank = &mut self.ranks[at];
        let (true, Some(joined)) = (rank.present(), &mut rank.joined) else { return Ok(()) };
        let from = source(&request.from);
        let same = rank.latest.is_some_and(|latest| latest.session == request.control.session);
        if source(&joined.endpoint) == from || same {
            // Its socket is the newcomer's now; or it has moved, since nobody else knows its session.
            return Ok(());
        }
        let contest = Contest::at(now, joined.contest);
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
        if asked >= enough { Ok(()) } else { Err(Decision::of(refusal).hidden()) }
    }

    /// Silence that proves a worker gone, where a newcomer from this address asks.
    fn enough(&self, now: Duration, at: usize, newcomer: Address) -> Duration {
        match self.ranks[at].joined.is_some_and(|joined| joined.endpoint.address == newcomer) {
            _ if self.expects_signs(now, at) => LIVELY,
            true => SAME_HOST,
            false => self.spec.dead_after.unwrap_or(NEVER_LOST),
        }
    }

    /// True if a live member would have been heard of within [`LIVELY`]: it asks to join, or is inside an
    /// operation that others wait in as well.
    fn expects_signs(&self, now: Duration, at: usize) -> bool {
        match self.state {
            State::Forming { .. } => true,
            State::Broken(_) => false,
            State::Complete(_) => {
                let own = self.ranks[at].joined.and_then(|joined| joined.called);
                let first = own.filter(Called::is_under_way).map(|own| own.first);
                let mut others = self.called_lately(now).filter(|(other, _)| usize::from(*other) != at);
                others.any(|(_, other)| Some(other.first) == first)
            }
        }
    }
}
