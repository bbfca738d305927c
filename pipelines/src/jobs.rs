//! What lcores know of jobs: a table that is never changed, only replaced.

use std::sync::Arc;

use pascaline_aggregator::{Policy, Rules, Terms};
use pascaline_telemetry::JobCells;
use pascaline_wire::frame::{Address, Mac, VlanTags};
use pascaline_wire::header::{self, Element, Flags, Header, Kind};
use pascaline_wire::plain::Expected;
use pascaline_wire::template::{Path, PlainHead, Template};

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
    expected: Expected,
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
        let port = u32::try_from(endpoint.port).unwrap_or(u32::MAX);
        Self { endpoint, expected: Expected::new(&back, &header, port), template: Template::new(&there) }
    }
}

/// Everything about a rank's gradients that is known before they come: two cache lines, and nothing else has to be looked at for
/// a packet to be judged.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Flow {
    /// What they look like.
    pub expected: Expected,
    /// What the pool has to know of them.
    pub terms: Terms,
    /// Longest payload in bytes; 0 if the job takes none at present.
    pub most: u16,
}

const _: () = assert!(size_of::<Flow>() == 128);

/// How results are sent to the members that are reached through one port with plain headers: everything that is known before
/// there is a result, apart from the members as the flows are.
#[derive(Debug, Clone)]
pub struct Replies {
    /// The port.
    pub port: usize,
    /// The ranks.
    pub ranks: Vec<u16>,
    /// The headers of each of them.
    pub heads: Vec<PlainHead>,
}

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

/// How a job's workers train together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Each PSN is summed over the ranks, in the aggregator pool.
    #[default]
    Sync,
    /// Each worker sends updates when it has them, which may be combined where they queue on their way to the parameter
    /// server (Olaf). The job is one cluster, its number the cluster's.
    Olaf,
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
    /// Contributions that complete a PSN: the fan-in, unless the job's threshold is lower or ranks are lost.
    pub needed: u16,
    /// True if results may be partial: members may have PSNs sent out before they are complete.
    pub partials: bool,
    /// True if the job is suspended.
    pub halted: bool,
    /// How its workers train together.
    pub mode: Mode,
    /// How it uses the pool.
    pub policy: Policy,
    /// Where its parameter server is.
    pub server: Server,
    /// What lcores count of it.
    pub cells: Arc<JobCells>,
    rules: Rules,
    /// Its members by rank; `None` for ranks that have not joined. Ranks that have left stay until all have.
    members: Vec<Option<Member>>,
    /// What the gradients of each rank look like, apart from the members; once the job is in a [`JobTable`].
    flows: Vec<Flow>,
    /// How results are sent, likewise.
    replies: Vec<Replies>,
    /// Ranks to which results are sent with other than plain headers.
    others: Vec<u16>,
}

impl Job {
    /// A job of this generation with these members, by rank.
    #[must_use]
    pub fn new(id: u16, fan_in: u16, epoch: u8, payload: u16, members: Vec<Option<Member>>) -> Self {
        let (needed, partials, halted, policy) = (fan_in, false, false, Policy::default());
        let server = Server::None;
        let cells = Arc::new(JobCells::default());
        Self {
            id,
            fan_in,
            epoch,
            payload,
            needed,
            partials,
            halted,
            mode: Mode::Sync,
            policy,
            server,
            cells,
            rules: Rules::of(&policy),
            members,
            flows: Vec::new(),
            replies: Vec::new(),
            others: Vec::new(),
        }
    }

    /// True if there is a parameter server for what finds no slot.
    #[must_use]
    #[inline]
    pub const fn has_server(&self) -> bool {
        self.policy.server && !matches!(self.server, Server::None)
    }

    /// What its policy says about a packet, once it is in a [`JobTable`].
    #[must_use]
    #[inline]
    pub const fn rules(&self) -> Rules {
        self.rules
    }

    /// Its members by rank; `None` for ranks that have not joined.
    #[must_use]
    #[inline]
    pub fn members(&self) -> &[Option<Member>] {
        &self.members
    }

    /// What the gradients of a rank look like, once the job is in a [`JobTable`].
    #[must_use]
    #[inline(always)]
    pub fn flow(&self, rank: u16) -> Option<&Flow> {
        self.flows.get(usize::from(rank))
    }

    /// How results are sent, once the job is in a [`JobTable`]; and the ranks to which they are sent in another way.
    #[must_use]
    #[inline(always)]
    pub fn replies(&self) -> (&[Replies], &[u16]) {
        (&self.replies, &self.others)
    }

    fn prepare(&mut self) {
        for (rank, member) in (0..).zip(&self.members) {
            self.flows.push(self.flow_of(rank, member.as_ref()));
            let Some(member) = member else { continue };
            let port = member.endpoint.port;
            let Some(head) = member.template.plain(rank) else {
                self.others.push(rank);
                continue;
            };
            match self.replies.iter_mut().find(|replies| replies.port == port) {
                Some(replies) => {
                    replies.ranks.push(rank);
                    replies.heads.push(head);
                }
                None => self.replies.push(Replies { port, ranks: vec![rank], heads: vec![head] }),
            }
        }
    }

    fn flow_of(&self, rank: u16, member: Option<&Member>) -> Flow {
        let &Self { id, fan_in, epoch, needed, halted, mode, policy, .. } = self;
        // Workers that send updates send no gradients.
        let none = halted || mode == Mode::Olaf;
        Flow {
            expected: member.map_or(Expected::NONE, |member| member.expected),
            terms: Terms::new(id, epoch, rank, fan_in, needed, policy.region),
            most: if none { 0 } else { self.payload },
        }
    }

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
    index: Box<[u16; 1 << 16]>,
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
        let mut index = Box::new([NONE; 1 << 16]);
        for (at, job) in (0..NONE).zip(&mut jobs) {
            job.rules = Rules::of(&Policy { server: job.has_server(), ..job.policy });
            job.prepare();
            index[usize::from(job.id)] = at;
        }
        Self { index, jobs }
    }

    /// The job with a number.
    #[must_use]
    #[inline]
    pub fn get(&self, id: u16) -> Option<&Job> {
        self.at(self.index(id))
    }

    /// Where in the table a job number is; if it is in none, where nothing is.
    #[must_use]
    #[inline]
    pub fn index(&self, id: u16) -> u16 {
        self.index[usize::from(id)]
    }

    /// The job at a place in the table.
    #[must_use]
    #[inline]
    pub fn at(&self, index: u16) -> Option<&Job> {
        self.jobs.get(usize::from(index))
    }

    /// All jobs.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }
}
