//! A generation that cannot be resumed: the running operation fails, and PSNs begin again.

use core::time::Duration;

use super::generation::{HEARTBEAT, Rejoin};
use super::psns::Psns;
use super::{Condition, Event, Session};
use crate::allreduce::Failure;
use crate::identity::Membership;
use crate::partials::Partials;
use crate::rejection::{Reason, Rejection};

impl Session {
    /// The generation cannot be resumed: the running operation fails, and the state of PSNs is forgotten. The
    /// worker joins the next one only with its next allreduce, or when it is tended: its user may not want
    /// to.
    pub(super) fn end_generation(&mut self, now: Duration, epoch: u16) -> Option<Event> {
        let Membership { identity, epoch: former, .. } = self.membership;
        let rejection = identity.rejection(Reason::Generation, u32::from(epoch), u32::from(former));
        // Its own generation elsewhere may still live, with others in it: it must not return there as a
        // newcomer.
        let before = if self.places.is_home() { self.condition } else { Condition::Broken };
        let event = self.fail(|progress| Failure::Rejected { rejection, progress }, now);
        if before == Condition::Broken {
            (self.condition, self.rejoin) = (before, None);
            return event;
        }
        // Each user sees it once: by the failure of the running operation, or at the next allreduce.
        self.farewells = 0;
        self.condition = match before {
            Condition::Broken => before,
            _ if event.is_some() => Condition::Good,
            _ => Condition::Ended { expected: epoch, got: former },
        };
        self.forget(self.psns.first);
        self.rejoin = Some(Rejoin::anew(now, epoch));
        event
    }

    /// A member of a generation that starts from nothing. An allreduce that has waited for it begins, with
    /// the payload that the ranks have agreed on.
    pub(super) fn start_anew(&mut self, now: Duration, membership: Membership) -> Result<(), Rejection> {
        let asked = core::mem::replace(&mut self.membership, membership).identity;
        self.forget(membership.base);
        if let Some(operation) = &mut self.operation {
            let payload = membership.identity.payload;
            let packets = operation.cut(payload);
            let (expected, got) = (payload.into(), asked.payload.into());
            let packets = packets.ok_or(asked.rejection(Reason::Payload, expected, got))?;
            operation.start = self.psns.window.begin(packets);
        }
        self.heartbeat = Some(now.saturating_add(HEARTBEAT));
        self.places.settle(now, membership.epoch);
        self.rejoin = None;
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
