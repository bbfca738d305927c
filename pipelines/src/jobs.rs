//! What lcores know of jobs: a table that is never changed, only replaced.

use pascaline_wire::frame::{Address, Mac, VlanTags};
use pascaline_wire::header::{Element, Flags, Header, Kind};
use pascaline_wire::plain::Expected;
use pascaline_wire::template::{Path, Template};

/// How a member is reached, as learnt from its Join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Index of the port its packets come in on.
    pub port: usize,
    /// MAC of its next hop.
    pub mac: Mac,
    /// VLAN tags of its packets.
    pub vlan: VlanTags,
    /// Its address.
    pub address: Address,
    /// Its UDP port.
    pub udp_port: u16,
    /// The appliance's address that it uses.
    pub local: Address,
    /// The appliance's UDP port.
    pub local_udp_port: u16,
}

impl Endpoint {
    /// The path of packets towards it, from a port with this MAC.
    #[must_use]
    pub const fn path(&self, local_mac: Mac) -> Path {
        Path {
            dst_mac: self.mac,
            src_mac: local_mac,
            vlan: self.vlan,
            dst: self.address,
            src: self.local,
            dst_port: self.udp_port,
            src_port: self.local_udp_port,
        }
    }
}

/// A member of a job.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// Where it is.
    pub endpoint: Endpoint,
    /// What its gradients look like.
    pub expected: Expected,
    /// Headers of packets towards it.
    pub template: Template,
}

impl Member {
    /// The member with this rank of a job, reached through a port with this MAC.
    #[must_use]
    pub fn new(endpoint: Endpoint, local_mac: Mac, job: u16, rank: u16, fan_in: u16, epoch: u8) -> Self {
        let there = endpoint.path(local_mac);
        let back = Path {
            dst_mac: there.src_mac,
            src_mac: there.dst_mac,
            dst: there.src,
            src: there.dst,
            dst_port: there.src_port,
            src_port: there.dst_port,
            vlan: there.vlan,
        };
        let header = Header {
            kind: Kind::Gradient,
            flags: Flags::NONE,
            element: Element::F32_SUM,
            job,
            rank,
            psn: 0,
            fan_in,
            count: 1,
            priority: 0,
            wnd_cap: 0,
            tree: 0,
            epoch,
        };
        Self { endpoint, expected: Expected::new(&back, &header), template: Template::new(&there) }
    }
}

/// A job, as lcores see it.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its number.
    pub id: u16,
    /// Its ranks.
    pub fan_in: u16,
    /// Its generation.
    pub epoch: u8,
    /// Longest payload of its packets, in bytes.
    pub payload: u16,
    /// Its members by rank; `None` for ranks that have not joined. Ranks that have left stay until all have.
    pub members: Vec<Option<Member>>,
}

impl Job {
    /// The member with a rank.
    #[must_use]
    #[inline]
    pub fn member(&self, rank: u16) -> Option<&Member> {
        self.members.get(usize::from(rank))?.as_ref()
    }
}

const NONE: u16 = u16::MAX;

/// All jobs.
#[derive(Debug, Clone)]
pub struct JobTable {
    /// Job number → index; dense, so that a lookup is one load.
    index: Box<[u16]>,
    jobs: Vec<Job>,
}

impl Default for JobTable {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl JobTable {
    /// A table of these jobs. Where a number occurs twice, the later job counts.
    ///
    /// At most 65,535 jobs; more are ignored.
    #[must_use]
    pub fn new(mut jobs: Vec<Job>) -> Self {
        jobs.truncate(usize::from(NONE));
        let mut index = vec![NONE; 1 << 16].into_boxed_slice();
        for (at, job) in (0..NONE).zip(&jobs) {
            index[usize::from(job.id)] = at;
        }
        Self { index, jobs }
    }

    /// The job with a number.
    #[must_use]
    #[inline]
    pub fn get(&self, id: u16) -> Option<&Job> {
        self.jobs.get(usize::from(self.index[usize::from(id)]))
    }

    /// All jobs.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }
}
