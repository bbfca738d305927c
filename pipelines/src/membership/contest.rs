//! A newcomer for a rank that has a member: who of the two is to have it.
//!
//! The member keeps the rank if it is alive. Inside an operation it says so every 100 ms; between two
//! operations it says nothing, for as long as its user computes. So silence alone is no proof, and the
//! appliance sends it a packet that its host answers if nothing listens there any more.

use core::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{Element, Header, Kind};

use super::cookie::Secret;
use super::job::{Decision, JobRecord, Phase, source};
use super::leave::WAITS;
use super::rank::Rank;
use super::reply::{ControlRequest, Probe};

/// Whatever is heard of a member within so long after the first Join of a newcomer was under way before it.
const UNDER_WAY: Duration = Duration::from_millis(500);
/// Silence of a member that would have something to say: ten times as long as it is silent at the most.
const LIVELY: Duration = Duration::from_secs(1);
/// Silence of a member whose host has a newcomer of the same rank: most likely it was started anew, and
/// something on the way keeps back what the host says about its port.
const SAME_HOST: Duration = Duration::from_millis(1500);
/// A newcomer from elsewhere is told after so long that the rank is taken.
const PATIENCE: Duration = Duration::from_secs(3);

/// The question whether a member is alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contest {
    since: Duration,
    /// The latest Join of a newcomer.
    latest: Duration,
    /// The member's host has said that nothing listens at its port.
    closed: bool,
}

impl JobRecord {
    /// Whether a newcomer gets a rank that has a member: `Ok` if it does, else what it is answered.
    pub(super) fn contest(
        &mut self,
        now: Duration,
        at: usize,
        request: &ControlRequest,
    ) -> Result<(), Decision> {
        let expects_signs = self.expects_signs(now, at);
        let silence = self.spec.dead_after.unwrap_or(super::JobSpec::DEAD_AFTER);
        let rank = &mut self.ranks[at];
        let (Some(joined), true) = (rank.joined, rank.present()) else { return Ok(()) };
        let from = source(&request.from);
        let same = rank.latest.is_some_and(|latest| latest.session == request.control.session);
        if source(&joined.endpoint) == from || same {
            // Its socket is the newcomer's now; or it has moved, since nobody else knows its session.
            return Ok(());
        }
        let fresh = Contest { since: now, latest: now, closed: false };
        let contest = rank.contest.filter(|contest| now.saturating_sub(contest.latest) < LIVELY);
        let contest = Contest { latest: now, ..contest.unwrap_or(fresh) };
        rank.contest = Some(contest);
        let asked = now.saturating_sub(contest.since);
        if joined.heard > contest.since + UNDER_WAY {
            rank.contest = None;
            return Err(Decision::of(Status::RankTaken).hidden());
        }
        let enough = match joined.endpoint.address == from.0 {
            _ if expects_signs => LIVELY,
            true => SAME_HOST,
            false => silence,
        };
        if contest.closed || asked >= enough {
            return Ok(());
        }
        let status = if asked >= PATIENCE { Status::RankTaken } else { Status::Pending };
        Err(Decision { probes: true, ..Decision::of(status).hidden() })
    }

    /// True if a live member would have been heard of within [`LIVELY`]: it asks to join, or is inside an
    /// operation that others wait in as well.
    fn expects_signs(&self, now: Duration, at: usize) -> bool {
        let first = |rank: &Rank| {
            rank.joined.and_then(|joined| joined.called).filter(|called| called.bytes > 0).map(|c| c.first)
        };
        let waits = |rank: &Rank| {
            rank.present()
                && rank
                    .joined
                    .and_then(|joined| joined.waiting)
                    .is_some_and(|at| at.saturating_add(WAITS) > now)
        };
        match self.phase {
            Phase::Forming => true,
            Phase::Broken => false,
            Phase::Complete { .. } => {
                let own = first(&self.ranks[at]);
                let mut others = self.ranks.iter().enumerate().filter(|(other, _)| *other != at);
                own.is_some() && others.any(|(_, other)| waits(other) && first(other) == own)
            }
        }
    }

    /// What to send a member to find out whether anything listens at its port. Nobody answers an Ack.
    pub(super) fn probe(&self, secret: &Secret, rank: u16) -> Option<Probe> {
        let joined = self.ranks.get(usize::from(rank))?.joined?;
        let session = self.ranks.get(usize::from(rank))?.latest?.session;
        let cookie = secret.token(self.spec.id, rank, session, self.generations);
        let header = Header { rank, ..Header::about(Kind::Control, Element::F32_SUM, self.spec.id, 0) };
        let control = Control { status: Status::Pending, cookie, ..Control::request(Action::Ack, session) };
        Some(Probe { to: joined.endpoint, header, control })
    }

    /// A host has said that nothing listens where a probe was sent to.
    pub(super) fn unreachable(&mut self, secret: &Secret, request: &ControlRequest) -> bool {
        let ControlRequest { header, control, from, .. } = request;
        let (id, generations) = (self.spec.id, self.generations);
        let Some(rank) = self.ranks.get_mut(usize::from(header.rank)) else { return false };
        let (Some(latest), Some(contest)) = (rank.latest, &mut rank.contest) else { return false };
        let token = secret.token(id, header.rank, latest.session, generations);
        let proven = control.cookie == token && latest.source == source(from);
        contest.closed |= proven;
        proven
    }
}
