//! Acks that answer no request: the appliance has refused one of the worker's packets, or a forged Ack claims
//! so (protocol, sections 9 and 14).

use core::time::Duration;

use pascaline_wire::Header;
use pascaline_wire::control::{Control, Status};

use super::Session;
use super::receive::Handled;
use crate::counters::Ignored;
use crate::rejection::Rejection;
use crate::window::Standing;

/// How long the appliance may take to say which ranks disagree. Then the operation fails with the reports so
/// far.
const UNEXPLAINED: Duration = Duration::from_millis(1500);

impl Session {
    /// True if such an Ack names a contribution that has no result yet, and repeats this worker's values: a
    /// host that cannot see its packets would have to guess them. A packet that another host has sent in this
    /// worker's name, or that was damaged on its way, is not its own.
    pub(super) fn is_of_own(&self, header: &Header, ack: &Control) -> bool {
        let Some(operation) = self.state.operation() else { return false };
        if self.psns.window.standing(header.psn) != Standing::Outstanding {
            return false;
        }
        let identity = &self.membership.identity;
        let present = header.epoch == self.membership.epoch;
        match ack.status {
            Status::WrongEpoch => ack.got == u32::from(self.membership.epoch),
            Status::NotMember => ack.got == u32::from(identity.rank),
            Status::UnknownJob => ack.got == u32::from(identity.job),
            Status::FanInMismatch => present && ack.got == u32::from(identity.ranks),
            Status::PayloadMismatch | Status::OperationMismatch => {
                present && usize::try_from(ack.got) == Ok(operation.len(header.psn))
            }
            Status::ElementMismatch => present && ack.got == u32::from(operation.element(header.psn).code()),
            Status::Halted | Status::UnknownPsn => present,
            _ => false,
        }
    }

    /// An Ack that answers no request: a packet of this worker, or of an earlier session, was rejected.
    pub(super) fn on_rejection(&mut self, now: Duration, ack: &Control, rejection: Rejection) -> Handled {
        // If the generation that the appliance expects is this session's, then it refused a packet in flight
        // since an earlier session.
        let stale = ack.got != ack.expected && ack.expected == u32::from(self.membership.epoch);
        let over = matches!(ack.status, Status::WrongEpoch | Status::NotMember | Status::UnknownJob);
        if self.is_over() || stale && ack.status == Status::WrongEpoch {
            // A leaving worker learns the state of the generation from the Ack to its next Leave.
            return Err(Ignored::LateRejection.into());
        }
        match ack.status {
            _ if over => self.lose_generation(now, None),
            Status::TooMany | Status::UnknownPsn => return Err(Ignored::NotFatal.into()),
            Status::PayloadMismatch | Status::ElementMismatch | Status::OperationMismatch
                if !self.has_expired_dispute(now) => {}
            _ => return self.rejected(now, rejection),
        }
        Ok(None)
    }

    /// A packet of this worker other than a contribution was refused, as if its generation were over: it
    /// asks.
    pub(crate) fn doubt(&mut self, now: Duration) {
        if !self.is_over() {
            self.lose_generation(now, None);
        }
    }

    /// The other ranks have called something else. The next heartbeat, which is due at once, names this
    /// worker's call, and its answer that of the others. True if none has come for too long.
    pub(super) fn has_expired_dispute(&mut self, now: Duration) -> bool {
        let Some(operation) = self.state.operation_mut() else { return false };
        if let Some(since) = operation.disputed {
            return now.saturating_sub(since) >= UNEXPLAINED;
        }
        operation.disputed = Some(now);
        self.set_heartbeat(now);
        false
    }
}
