//! A worker's second socket: for what the appliance sends to its job's multicast group.

use core::time::Duration;

use pascaline_seal::LONGER;
use pascaline_wire::control::{Action, Control};
use pascaline_wire::multicast::Hearing;
use pascaline_wire::{Header, Kind, MulticastGroup, header};

use super::{Milestone, Phase, Worker, milestone};
use crate::plan::GroupPlan;
use crate::world::datagram;

/// A datagram, and whether it has come by the group.
pub(crate) type Datagram = (Vec<u8>, bool);

/// Datagrams that the sockets of a worker keep while it is stopped.
const SOCKET: usize = 64;

/// The socket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ear {
    /// Its host can have one.
    possible: bool,
    group: Option<MulticastGroup>,
    /// A frame has reached it.
    heard: bool,
}

impl Worker {
    /// Has its host listen to the group, if it can.
    pub(crate) fn with_group(mut self, plan: Option<&GroupPlan>) -> Self {
        let way = plan.and_then(|plan| plan.ways.get(usize::from(self.rank)));
        self.ear.possible = way.is_some_and(|way| way.listens);
        self
    }

    /// Listens to the group that the session names, if that is another one than before.
    pub(super) fn follow(&mut self) {
        let Some(session) = &mut self.session else {
            self.ear.group = None;
            return;
        };
        if self.ear.group != session.group() {
            (self.ear.group, self.ear.heard) = (session.group(), false);
            session.listen(self.ear.possible && self.ear.group.is_some());
        }
    }

    /// The group that its host has joined.
    pub(crate) fn joined(&self) -> Option<MulticastGroup> {
        self.ear.group.filter(|_| self.ear.possible && !self.is_away())
    }

    /// The datagram in a frame, if the kernel would give it to one of the worker's sockets.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> Option<Datagram> {
        if let Some(datagram) = self.host.receive(frame) {
            return self.opened(datagram).map(|datagram| (datagram, false));
        }
        let datagram = self.host.receive_from_group(self.joined()?, frame)?;
        let opened = self.opened(datagram)?;
        self.ear.heard = true;
        Some((opened, true))
    }

    /// A datagram without its seal; `None` if it has none that fits, where the job's packets are sealed.
    fn opened(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let mut datagram = datagram.to_vec();
        if let Some((end, _)) = &mut self.sealed {
            let len = end.open(&mut datagram).ok()?;
            datagram.truncate(len);
        }
        Some(datagram)
    }

    /// A frame of its own sealed; `None` where the job's packets are not.
    pub(crate) fn seal(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let (end, _) = self.sealed.as_mut()?;
        let mut room = datagram(frame)?.to_vec();
        let len = room.len();
        room.resize(len + LONGER, 0);
        let sealed = end.seal(&mut room, len)?;
        let (head, body) = room.get(..sealed)?.split_first_chunk::<{ header::LEN }>()?;
        Some(self.host.send(head, body))
    }

    /// Keeps a datagram that arrives while it is stopped, if there is room. `None` if it is not stopped.
    pub(crate) fn keep(&mut self, (datagram, by_group): (&[u8], bool)) -> Option<bool> {
        self.stopped?;
        let room = self.socket.len() < SOCKET;
        self.socket.extend(room.then(|| (datagram.to_vec(), by_group)));
        Some(room)
    }

    /// Sets a datagram aside while the sockets are not read. True if it did.
    pub(crate) fn set_aside(&mut self, (datagram, by_group): (&[u8], bool)) -> bool {
        let unread = matches!(self.phase, Phase::Pausing) && !self.tends;
        self.inbox.extend(unread.then(|| (datagram.to_vec(), by_group)));
        unread
    }

    /// Datagrams that were set aside.
    pub(crate) fn take_inbox(&mut self) -> Vec<Datagram> {
        core::mem::take(&mut self.inbox)
    }

    /// A datagram of the group has been read.
    pub(super) fn hear(&mut self, now: Duration, datagram: &[u8]) -> Option<Milestone> {
        let (pausing, beside) = (matches!(self.phase, Phase::Pausing), matches!(self.phase, Phase::Beside));
        let (session, nothing) = (self.session.as_mut()?, &mut [][..]);
        let tensor = if pausing || beside { nothing } else { &mut *self.tensor };
        let event = session.handle_by_group(now, datagram, false, tensor);
        event.filter(|_| !beside).and_then(milestone)
    }

    /// True if a packet that it sends says that it hears the group, and no frame to that has reached it.
    pub(crate) fn pretends(&self, frame: &[u8]) -> bool {
        let parsed = datagram(frame).and_then(|datagram| Header::parse(datagram).ok());
        let Some((Header { kind: Kind::Control, .. }, body)) = parsed else { return false };
        let hears = |control: Control| control.action == Action::Join && control.hearing == Hearing::Hears;
        !self.ear.heard && Control::parse(body).is_ok_and(hears)
    }
}
