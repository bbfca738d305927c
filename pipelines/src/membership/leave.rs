//! Ceasing to be a member.

use core::time::Duration;

use pascaline_wire::control::Status;

use super::job::{Decision, JobRecord, count, source};
use super::progress::Called;
use super::rank::Joined;
use super::reply::ControlRequest;

/// For so long after its last heartbeat a rank counts as waiting inside an operation: ten heartbeats, of
/// which some may get lost, and late when its machine is busy.
const WAITS: Duration = Duration::from_secs(1);

impl JobRecord {
    /// A rank wants to leave the generation that the request's header names.
    pub(super) fn leave(&mut self, now: Duration, request: &ControlRequest) -> Result<Decision, Decision> {
        let ControlRequest { header, control, from, .. } = request;
        let at = self.rank(header)?;
        let not_member = Decision::new(Status::NotMember, 0, u32::from(header.rank));
        let (epoch, source) = (self.epoch, source(from));
        let rank = &mut self.ranks[at];
        let Some(latest) = rank.latest.as_mut().filter(|latest| latest.session == control.session) else {
            return Err(not_member);
        };
        if latest.source != source {
            return Err(Decision::new(Status::RankSpoofed, 0, u32::from(header.rank)));
        }
        let before = latest.former.filter(|_| header.epoch != epoch);
        let former = before.filter(|former| former.epoch == header.epoch);
        // Sent before its worker went on in this generation, or before it knew that it may.
        let early = rank.joined.map_or(before.is_some_and(|former| former.resumable), |joined| {
            header.epoch != epoch && joined.claim.is_some_and(|claim| claim.contains(header.epoch))
        });
        if early && !latest.left {
            return Err(Decision::new(Status::WrongEpoch, u32::from(epoch), u32::from(header.epoch)));
        }
        // Also where the session's generation is over: a Join of its that is still under way must not bring
        // it back.
        latest.left = true;
        if let Some(joined) = &mut rank.joined {
            joined.called = Some(Called::of(control));
        }
        if former.is_some() && rank.present() {
            // One has already, into a generation that its worker knows nothing of.
            if self.state.is_forming() {
                self.remove(at);
            } else {
                // The others have been told to go, and would wait for it.
                self.next_generation(false);
            }
            return Err(Decision { changed: true, ..not_member });
        }
        if rank.joined.is_none() && !rank.left {
            return Err(not_member);
        }
        let forming = self.state.is_forming();
        if forming {
            // Nobody can need anything of a generation that was never complete.
            self.remove(at);
        } else {
            rank.left = true;
        }
        if self.joined() > 0 {
            let pending = Decision::new(Status::Pending, u32::from(self.waiting(now)), 0);
            return Ok(Decision { changed: forming, ..pending });
        }
        if let Some(others) = self.held_back(now) {
            return Ok(others);
        }
        let changed = forming || self.members().next().is_some();
        (0..self.ranks.len()).for_each(|at| self.remove(at));
        self.threshold = self.spec.kind.threshold();
        Ok(Decision { changed, ..Decision::of(Status::Ok) })
    }

    /// Ranks that wait inside an operation, as far as can be told, and may need what others have kept.
    pub(super) fn waiting(&self, now: Duration) -> u16 {
        // Whatever they wait for in another generation fails.
        if self.state.running().is_some() { count(self.called_lately(now)) } else { 0 }
    }

    /// What a rank is told that asks from elsewhere: 0 while the generation forms, else 1 and the other ranks
    /// that wait inside an operation.
    pub(super) fn under_way(&self, now: Duration, at: usize) -> u32 {
        let own = self.ranks[at].here().is_some_and(|joined| joined.waits(now));
        let complete = self.state.running().is_some();
        if complete { 1 + u32::from(self.waiting(now)) - u32::from(own) } else { 0 }
    }
}

impl Joined {
    /// True if it has said lately that it waits inside an operation: between two it may say that it is
    /// alive.
    pub(super) fn waits(&self, now: Duration) -> bool {
        let recently = |at: Duration| at.saturating_add(WAITS) > now;
        self.called.is_some_and(|called| called.is_under_way()) && self.beat.is_some_and(recently)
    }
}
