//! Whose control packets are not a stranger's.

use pascaline_wire::control::{Action, Control};
use pascaline_wire::datagram::Datagram;
use pascaline_wire::frame::Address;

use super::Job;

/// A session, and the address and port of whoever has it.
pub(crate) type Known = (u64, (Address, u16));

/// Sessions of those whom a job knows: whoever only sends in their name does not know these.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    /// The latest of each rank, and where it is: a member asks to join again where its generation has ended.
    pub(crate) ranks: Box<[Option<Known>]>,
    /// Of its parameter server, also while that is gone: it may come back.
    pub(crate) server: Option<Known>,
    /// Its own at its parent.
    pub(crate) parent: Option<u64>,
}

impl Job {
    /// True for a control packet of whoever is or was a member, or of the server, by address, port and
    /// session, or for one with the session that this job has at its parent.
    pub(crate) fn knows(&self, datagram: &Datagram, control: &Control) -> bool {
        let known = match control.action {
            Action::Ack => return self.sessions.parent == Some(control.session),
            Action::Serve => self.sessions.server,
            // Ranks send all others.
            _ => self.sessions.ranks.get(usize::from(datagram.header.rank)).copied().flatten(),
        };
        known == Some((control.session, datagram.sender))
    }
}
