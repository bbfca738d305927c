//! Commands of members (iSwitch, Table 2), as a tool next to the worker sends them.

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Element, Flags, Header, Kind, Own};

use super::World;
use crate::faults::{Fault, Reach};

impl World<'_> {
    /// A member's host sends a command, if the member is one at present.
    pub(super) fn command(&mut self, number: usize, action: Action, value: u32) {
        let Some(worker) = self.workers.get(number) else { return };
        let Some(membership) = worker.session.as_ref().map(|session| *session.membership()) else { return };
        let (psn, expected) = if action == Action::FBcast { (value, 0) } else { (0, value) };
        let header = Header {
            kind: Kind::Control,
            flags: Flags::NONE,
            element: Element::F32_SUM,
            job: membership.identity.job,
            rank: membership.identity.rank,
            psn,
            fan_in: membership.identity.ranks,
            count: 0,
            own: Own::NONE,
            epoch: membership.epoch,
        };
        let control = Control { expected, ..Control::request(action, membership.session) };
        let frame = worker.host.send(&header.to_bytes(), &control.to_bytes());
        self.faults.count(Fault::Commanded);
        self.send_up(number, frame);
    }

    /// True if a datagram answers a command: the tool reads it, not the worker.
    pub(super) fn answers_command(&mut self, datagram: &[u8]) -> bool {
        let Ok((Header { kind: Kind::Control, .. }, body)) = Header::parse(datagram) else { return false };
        let Ok(control) = Control::parse(body) else { return false };
        let answers =
            matches!(control.answers, Some(Action::SetH | Action::FBcast | Action::Halt | Action::Reset));
        self.reached.add(Reach::Obeyed, u64::from(answers && control.status == Status::Ok));
        answers
    }
}
