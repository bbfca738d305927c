//! The appliance above, as lcores see it.

use std::sync::Arc;

use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::Header;

use super::{Aliases, Member};
use crate::membership::{APPLIANCE, Parent};
use crate::seals::SealsAbove;

/// Whose business a parent's packet is, where the pool asks for a rank: nobody's here.
pub(crate) const ABOVE: u16 = APPLIANCE;

/// The appliance that adds up what this one does, with others' sums.
#[derive(Debug, Clone)]
pub struct Above {
    /// The way to it.
    pub member: Member,
    /// The rank of this appliance there.
    pub rank: u16,
    /// The ranks of its job.
    pub ranks: u16,
    /// Who may answer what is asked above: the one that is in force, and others that may be.
    pub(crate) senders: Box<[(Address, u16)]>,
    /// Who may say who has an address by which one of them is reached: whoever has been asked.
    pub(crate) next_hops: Box<[Address]>,
    /// Whose updates went up under which number.
    pub(crate) aliases: Arc<Aliases>,
    /// If packets to and from it are sealed.
    pub(crate) seals: Option<SealsAbove>,
}

impl Above {
    /// Reached through a port with this MAC.
    #[must_use]
    pub fn new(parent: &Parent, local_mac: Mac) -> Self {
        let &Parent { endpoint, rank, ranks, .. } = parent;
        let member = Member::new(endpoint, local_mac, 0, rank, ranks, 0);
        let senders = Box::new([(endpoint.address, endpoint.udp_port)]);
        let (next_hops, aliases) = (Box::default(), Arc::default());
        Self { member, rank, ranks, senders, next_hops, aliases, seals: None }
    }

    /// True if packets from this address and UDP port are the parent's.
    #[must_use]
    pub fn is_at(&self, sender: (Address, u16)) -> bool {
        (self.member.endpoint.address, self.member.endpoint.udp_port) == sender
    }

    /// A header as one of the parent's ranks writes it.
    pub(crate) const fn header(&self, header: Header) -> Header {
        Header { rank: self.rank, fan_in: self.ranks, ..header }
    }
}
