//! Where a job's parameter server is, as lcores see it.

use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header;
use pascaline_wire::template::Template;

use super::Endpoint;

/// Where a job's parameter server is.
#[derive(Debug, Clone, Copy, Default)]
pub enum Server {
    /// There is none.
    #[default]
    None,
    /// In the appliance itself: packets are handed over by queue.
    Embedded,
    /// A process of its own, which is reached like a member.
    External {
        /// Where it is.
        endpoint: Endpoint,
        /// Headers of packets towards it.
        template: Template,
    },
}

impl Server {
    /// A server of its own there, reached through a port with this MAC.
    #[must_use]
    pub fn external(endpoint: Endpoint, local_mac: Mac) -> Self {
        Self::External { endpoint, template: Template::new(&endpoint.path(local_mac)) }
    }

    /// Bytes of the headers in front of a payload on its way there.
    #[must_use]
    pub fn room(&self) -> usize {
        match self {
            Self::External { template, .. } => template.len(),
            Self::None | Self::Embedded => header::LEN,
        }
    }

    /// True if packets from this address and UDP port are the server's.
    #[must_use]
    pub fn is_at(&self, sender: (Address, u16)) -> bool {
        matches!(self, Self::External { endpoint, .. } if (endpoint.address, endpoint.udp_port) == sender)
    }
}
