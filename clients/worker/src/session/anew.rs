//! A generation that cannot be resumed: the running operation fails, and PSNs begin again.

use core::time::Duration;

use super::generation::{HEARTBEAT, Rejoin};
use super::psns::Psns;
use super::state::State;
use super::{Event, Session};
use crate::allreduce::Failure;
use crate::identity::Membership;
use crate::membership::FAREWELLS;
use crate::partials::Partials;
use crate::rejection::{Reason, Rejection};

impl Session {
    /// The generation cannot be resumed: the running operation fails, and the state of PSNs is forgotten. The
    /// worker joins the next one only with its next allreduce, or when it is tended: its user may not want
    /// to.
    pub(super) fn end_generation(&mut self, now: Duration, epoch: u16) -> Option<Event> {
        let Membership { identity, epoch: former, .. } = self.membership;
        let rejection = identity.rejection(Reason::Generation, u32::from(epoch), u32::from(former));
        let home = self.places.is_home();
        let progress = self.end_operation(now);
        let failed = progress.map(|progress| Event::Failed(Failure::Rejected { rejection, progress }));
        match &mut self.state {
            State::Member(member) if home => {
                // Each user sees it once: by the failure of the running operation, or at the next allreduce.
                member.ended = if failed.is_some() { None } else { Some((epoch, former)) };
                member.rejoin = Some(Rejoin::anew(now, epoch));
                self.forget(self.psns.first);
                failed
            }
            // Its own generation elsewhere may still live, with others in it: it must not return there as a
            // newcomer.
            _ => {
                let given_up = self.give_up_command(now);
                self.state = State::Over { farewells: if failed.is_some() { FAREWELLS } else { 0 } };
                failed.or(given_up)
            }
        }
    }

    /// A member of a generation that starts from nothing. An allreduce that has waited for it begins, with
    /// the payload that the ranks have agreed on.
    pub(super) fn start_anew(&mut self, now: Duration, membership: Membership) -> Result<(), Rejection> {
        let asked = core::mem::replace(&mut self.membership, membership).identity;
        self.forget(membership.base);
        if let Some(operation) = self.state.operation_mut() {
            let payload = membership.identity.payload;
            let packets = operation.cut(payload);
            let (expected, got) = (payload.into(), asked.payload.into());
            let packets = packets.ok_or(asked.rejection(Reason::Payload, expected, got))?;
            operation.start = self.psns.window.begin(packets);
        }
        self.set_heartbeat(now.saturating_add(HEARTBEAT));
        self.places.settle(now, membership.epoch);
        self.state.take_rejoin();
        Ok(())
    }

    /// Forgets the state of all PSNs: they begin anew.
    pub(super) fn forget(&mut self, first: u32) {
        let Membership { identity, spread, .. } = self.membership;
        let partials = self.psns.partials.take().map(|_| Partials::new(identity.ranks, spread));
        let psns = Psns::new(first, self.in_flight, self.control, &self.membership);
        self.psns = Psns { partials, ..psns };
    }
}
