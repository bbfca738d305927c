//! Ends of sealed paths: of the ranks, of the server, and of an observer who sees what leaves for that one.

use pascaline_seal::{JobKeys, LONGER, MemberEnd};
use pascaline_wire::control::SERVER_RANK;

use super::ClusterPlan;
use crate::attacker;

/// The ends of a cluster's hosts; the last one is the server's.
pub(super) struct Seals {
    hosts: Vec<MemberEnd>,
    observer: MemberEnd,
    /// What it has seen and could not open yet: a packet may leave before the answer that tells the salt.
    unopened: Vec<Vec<u8>>,
}

/// The session of a rank, or of the server.
pub(super) const fn session(rank: u16) -> u64 {
    if rank == SERVER_RANK { 1 } else { 1000 + rank as u64 }
}

impl ClusterPlan {
    /// The job's keys, if its packets are sealed.
    pub(super) fn keys(&self) -> Option<JobKeys> {
        let (protection, secret) = self.sealed.zip(attacker::secret(self.id, 0, false))?;
        Some(JobKeys::new(&secret, self.id, protection))
    }
}

impl Seals {
    /// None if packets are not sealed.
    pub(super) fn new(plan: &ClusterPlan) -> Option<Self> {
        let keys = plan.keys()?;
        let end = |rank| MemberEnd::new(keys.holder(rank), session(rank));
        Some(Self {
            hosts: (0..plan.ranks).chain([SERVER_RANK]).map(end).collect(),
            observer: end(SERVER_RANK),
            unopened: Vec::new(),
        })
    }

    /// The plain datagram that a host has received; `None` if it does not open.
    pub(super) fn open(&mut self, at: usize, datagram: &[u8]) -> Option<Vec<u8>> {
        opened(self.hosts.get_mut(at)?, datagram)
    }

    /// The same of what leaves the appliance for the server, and of all before that opens now.
    pub(super) fn observe(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        let Self { observer, unopened, .. } = self;
        let Some(first) = opened(observer, datagram) else {
            unopened.push(datagram.to_vec());
            return Vec::new();
        };
        let mut all = vec![first];
        unopened.retain(|earlier| opened(observer, earlier).map(|plain| all.push(plain)).is_none());
        all
    }

    /// A host's datagram as it is on the wire.
    pub(super) fn seal(&mut self, at: usize, mut datagram: Vec<u8>) -> Vec<u8> {
        let len = datagram.len();
        datagram.resize(len + LONGER, 0);
        let sealed = self.hosts.get_mut(at).and_then(|end| end.seal(&mut datagram, len));
        datagram.truncate(sealed.unwrap_or_default());
        datagram
    }
}

fn opened(end: &mut MemberEnd, datagram: &[u8]) -> Option<Vec<u8>> {
    let mut datagram = datagram.to_vec();
    let len = end.open(&mut datagram).ok()?;
    datagram.truncate(len);
    Some(datagram)
}
