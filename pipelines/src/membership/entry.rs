//! The membership table (iSwitch, section 3.3 and Figure 9).

use pascaline_wire::control::{APPLIANCE_RANK, SERVER_RANK};
use pascaline_wire::frame::Address;

use super::job::JobRecord;

/// The identifier of the appliance itself, which is no rank.
pub const APPLIANCE: u16 = APPLIANCE_RANK;

/// What an entry stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A rank.
    Worker,
    /// The job's parameter server.
    Server,
    /// The appliance: the root of those that have it for a parent.
    Appliance,
}

/// One line of the membership table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// A worker's rank; 65,535 for the parameter server, [`APPLIANCE`] for the appliance.
    pub id: u16,
    /// Its address.
    pub address: Address,
    /// Its UDP port.
    pub udp_port: u16,
    /// What it is.
    pub role: Role,
    /// Who aggregates for it; `None` for the root.
    pub parent: Option<u16>,
}

impl JobRecord {
    /// Who is there, in the order of the identifiers: no line for the appliance where there is nobody else.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let workers = self.present().map(|(id, joined)| (id, joined.endpoint, Role::Worker));
        let server = self.server.iter().map(|server| (SERVER_RANK, server.endpoint, Role::Server));
        let mut entries: Vec<Entry> = Vec::new();
        let mut own = None;
        for (id, endpoint, role) in workers.chain(server) {
            own = own.or(Some((endpoint.local, endpoint.local_udp_port)));
            let (address, udp_port) = (endpoint.address, endpoint.udp_port);
            entries.push(Entry { id, address, udp_port, role, parent: Some(APPLIANCE) });
        }
        entries.extend(own.map(|(address, udp_port)| Entry {
            id: APPLIANCE,
            address,
            udp_port,
            role: Role::Appliance,
            parent: None,
        }));
        entries.sort_by_key(|entry| entry.id);
        entries
    }
}
