//! Where an asynchronous job's updates go from here: to the parent if there is one, else to the parameter
//! server.

use pascaline_queue::Update;
use pascaline_wire::control::APPLIANCE_RANK;
use pascaline_wire::header::Header;
use pascaline_wire::template::Template;

use super::{Above, Job, Member, Mode, Server};

/// The way of updates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Onward<'a> {
    /// Index of the port.
    pub(crate) port: usize,
    /// Headers of packets on it.
    pub(crate) template: &'a Template,
    /// The parent, if that is where it leads.
    pub(crate) above: Option<&'a Above>,
}

impl Job {
    /// True if there is a parameter server, here or further up.
    pub(crate) fn reaches_server(&self) -> bool {
        self.has_server() || self.mode == Mode::Olaf && self.parent.is_some()
    }

    /// The way of its updates; `None` while there is none.
    pub(crate) fn onward(&self) -> Option<Onward<'_>> {
        match (self.parent.as_deref(), &self.server) {
            (Some(above), _) => {
                let member = &above.member;
                Some(Onward { port: member.endpoint.port, template: &member.template, above: Some(above) })
            }
            (None, Server::External { endpoint, template }) => {
                Some(Onward { port: endpoint.port, template, above: None })
            }
            (None, Server::None | Server::Embedded) => None,
        }
    }
}

impl Member {
    /// The same, as an appliance.
    #[must_use]
    pub const fn standing_for_others(self) -> Self {
        Self { appliance: true, ..self }
    }
}

impl Above {
    /// The header of an update, or of initial weights, of a rank here, as it goes up.
    pub(crate) fn upward(&self, header: Header) -> Header {
        Header { psn: self.aliases.draw(header.rank, header.psn), ..self.header(header) }
    }

    /// The header of an Ack of the parent's, for the ranks here: it names the one whose update it answers,
    /// with that one's own number. `None` if it is for that one alone, and it is not known.
    pub(crate) fn downward(&self, header: &Header, fan_in: u16, alone: bool) -> Option<Header> {
        let known = if header.rank == self.rank { self.aliases.whose(header.psn) } else { None };
        let nobody = || (!alone).then(|| (APPLIANCE_RANK, self.aliases.of_others()));
        let (rank, psn) = known.or_else(nobody)?;
        Some(Header { rank, psn, fan_in, ..*header })
    }
}

/// As whose an update is known to the parent, among those of this appliance: 1 + rank + fan-in × what the
/// rank itself has said.
pub(crate) fn origin(update: &Update, fan_in: u16) -> u16 {
    let below = u32::from(fan_in) * u32::from(update.origin);
    let number = 1 + u32::from(update.worker) + below;
    match u16::try_from(number) {
        Ok(number) if update.origin != Update::ANYBODY => number,
        _ => Update::ANYBODY,
    }
}

#[cfg(test)]
mod tests;
