//! Members that hear a job's multicast group: one packet is for all of them that are reached in one way.

use pascaline_wire::frame::Mac;
use pascaline_wire::{CongestionControl, MulticastGroup, RankSet};

use super::{Endpoint, Job, Member};

/// Members that one packet to the group reaches.
#[derive(Debug, Clone)]
pub(crate) struct Hearers {
    /// The group, in place of a member.
    pub(crate) group: Member,
    ranks: RankSet,
}

impl Hearers {
    /// Packets that one to the group saves.
    pub(crate) fn saved(&self) -> u64 {
        u64::from(self.ranks.len()).saturating_sub(1)
    }
}

/// The group in place of whoever is reached so: in the same network, from the same address and port of the
/// appliance's, and to that port.
pub(crate) fn towards(group: MulticastGroup, member: &Endpoint) -> Endpoint {
    Endpoint { mac: group.mac(), address: group.address(), udp_port: member.local_udp_port, ..*member }
}

impl Job {
    /// Sends results to the group instead of to a member with this rank, who hears it.
    pub fn hear(
        &mut self,
        group: MulticastGroup,
        rank: u16,
        member: &Endpoint,
        (control, mac): (Option<CongestionControl>, Mac),
    ) {
        let endpoint = towards(group, member);
        let at = self.hearers.iter().position(|hearers| hearers.group.endpoint == endpoint);
        let hearers = match at {
            Some(at) => &mut self.hearers[at],
            None => {
                let group = Member::new(endpoint, mac, self.id, 0, self.fan_in, self.epoch);
                self.hearers.push(Hearers { group: group.heeding(control, mac), ranks: RankSet::EMPTY });
                let last = self.hearers.len() - 1;
                &mut self.hearers[last]
            }
        };
        let _ = hearers.ranks.insert(rank);
    }

    /// Its members that hear its group, as one packet each reaches them.
    #[inline(never)]
    pub(crate) fn hearers(&self) -> &[Hearers] {
        &self.hearers
    }

    /// True if a member with this rank gets results by the group.
    pub(super) fn hears(&self, rank: u16) -> bool {
        self.hearers.iter().any(|hearers| hearers.ranks.contains(rank))
    }
}
