//! What lcores know of jobs: a table that is never changed, only replaced.

use core::mem::offset_of;
use std::sync::Arc;

use crate::membership::{JobSpec, Registry};
use crate::seals::Seals;
use crate::switchml::SwitchMl;
use pascaline_aggregator::{Policy, Rules, Tenant, Terms};
use pascaline_telemetry::{JobCells, RankCells};
use pascaline_wire::fast_path::Expected;
use pascaline_wire::frame::{Address, Mac, VlanTags};
use pascaline_wire::header::{Element, Flags, Header, Kind, Own};
use pascaline_wire::template::{Path, Template};
use pascaline_wire::{CongestionControl, Datagram, ecn};

mod above;
mod aliases;
pub(crate) mod hearers;
mod known;
mod onward;
mod pauses;
mod served;
mod server;
mod table;
mod window;

pub(crate) use above::ABOVE;
pub use above::Above;
pub(crate) use aliases::Aliases;
pub(crate) use known::Sessions;
pub(crate) use onward::{Onward, origin};
pub use served::{ServedJob, ServedJobs};
pub use server::Server;
pub use table::{Group, JobTable};
pub use window::PsnWindow;

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
    /// The DSCP of its packets, and of those towards it.
    pub dscp: u8,
}

impl Endpoint {
    /// Where a datagram came from that this port has received.
    #[must_use]
    pub const fn of(port: usize, datagram: &Datagram) -> Self {
        let &Datagram { src_mac, vlan, sender, local, dscp, .. } = datagram;
        Self {
            port,
            mac: src_mac,
            vlan,
            address: sender.0,
            udp_port: sender.1,
            local: local.0,
            local_udp_port: local.1,
            dscp,
        }
    }

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
            class: self.dscp << 2,
        }
    }
}

/// A member of a job. Packets need it only where their headers are not plain: [`JobTable`] has copies of the
/// rest, each in one piece.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Member {
    /// Where it is.
    pub endpoint: Endpoint,
    expected: Expected,
    /// Headers of packets towards it.
    pub template: Template,
    /// It is an appliance, which stands for the ranks of its own.
    pub appliance: bool,
}

const _: () = assert!(offset_of!(Member, endpoint) == 0 && size_of::<Endpoint>() <= 96);

impl Member {
    /// The member with this rank of a job, reached through a port with this MAC.
    #[must_use]
    pub fn new(endpoint: Endpoint, local_mac: Mac, job: u16, rank: u16, fan_in: u16, epoch: u16) -> Self {
        let there = endpoint.path(local_mac);
        let back = Path {
            dst_mac: there.src_mac,
            src_mac: there.dst_mac,
            dst: there.src,
            src: there.dst,
            dst_port: there.src_port,
            src_port: there.dst_port,
            vlan: there.vlan,
            class: there.class,
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
            own: Own::NONE,
            epoch,
        };
        let port = u32::try_from(endpoint.port).unwrap_or(u32::MAX);
        let (expected, template) = (Expected::new(&back, &header, port), Template::new(&there));
        Self { endpoint, expected, template, appliance: false }
    }

    /// The same, but packets towards it may be marked where they meet congestion, if its control heeds marks.
    #[must_use]
    pub fn heeding(self, control: Option<CongestionControl>, local_mac: Mac) -> Self {
        let class = if control.is_some_and(CongestionControl::reacts_to_marks) { ecn::CAPABLE } else { 0 };
        let path = self.endpoint.path(local_mac);
        let template = Template::new(&Path { class: path.class | class, ..path });
        Self { template, ..self }
    }
}

/// Everything about a rank's gradients that is known before they come: two cache lines, and nothing else has
/// to be looked at for a packet to be judged.
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

// The first line is what each packet is compared with, the second what is passed to the pool.
const _: () = {
    assert!(size_of::<Flow>() == 128 && align_of::<Flow>() == 64);
    assert!(offset_of!(Flow, expected) == 0);
    assert!(offset_of!(Flow, terms) >= 64);
};

/// How a job's workers train together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Each PSN is summed over the ranks, in the aggregator pool.
    #[default]
    Sync,
    /// Each worker sends updates when it has them, which may be combined where they queue on their way to the
    /// parameter server (Olaf). The job is one cluster, its number the cluster's.
    Olaf,
}

/// A job, as lcores see it. What is looked at for each burst and each result is in its first cache line; what
/// a new PSN asks for begins the second one.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Job {
    /// What lcores count of its ranks, of `cells`; once it is in a [`JobTable`].
    counts: RankCells,
    /// The PSNs that may be under way.
    pub window: Arc<PsnWindow>,
    /// The first group of its members, once it is in a [`JobTable`], ...
    first_group: u32,
    /// ... and how many there are.
    groups: u16,
    /// Its number.
    pub id: u16,
    /// Its ranks.
    pub fan_in: u16,
    /// Its generation.
    pub epoch: u16,
    /// As whom it shares the appliance with the other jobs.
    pub tenant: Tenant,
    /// True if some get results with other than plain headers; once it is in a [`JobTable`].
    has_others: bool,
    /// True if a sum is not simply sent to all, once the job is in a [`JobTable`].
    detours: bool,
    /// What its policy says about a packet that opens a slot.
    rules: Rules,
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
    /// Its server is gone, and ranks may have promised to take only what that gives out: they may take any
    /// result.
    pub bereft: bool,
    /// How it uses the pool.
    pub policy: Policy,
    /// What it is to be like, for what is not asked of each packet: not in a line with the rest.
    pub spec: Arc<JobSpec>,
    /// As many packets of a worker's as there is room for here (PANAMA's `wnd_cap`); once it is in a
    /// [`JobTable`].
    pub(crate) cap: u16,
    /// Where its parameter server is.
    pub server: Server,
    /// What lcores count of it.
    pub cells: Arc<JobCells>,
    /// Its members by rank; `None` for ranks that have not joined. Ranks that have left stay until all have.
    members: Vec<Option<Member>>,
    /// Ranks to which results are sent with other than plain headers; once it is in a [`JobTable`].
    others: Vec<u16>,
    hearers: Vec<hearers::Hearers>,
    /// Its workers are clients of SwitchML's, which register.
    pub registry: Option<Registry>,
    /// What they have been told, once one has registered.
    pub switchml: Option<Arc<SwitchMl>>,
    /// The appliance that its sums go to: what comes back is the result.
    pub parent: Option<Box<Above>>,
    /// By which members, server and parent are known.
    pub(crate) sessions: Sessions,
    /// Its ciphers, if its packets are sealed.
    pub(crate) seals: Option<Arc<Seals>>,
}

const _: () = {
    assert!(offset_of!(Job, counts) == 0);
    assert!(offset_of!(Job, detours) < 64 && offset_of!(Job, rules) == 64);
    assert!(align_of::<Job>() == 64);
};

impl Job {
    /// A job of this generation with these members, by rank.
    #[must_use]
    pub fn new(id: u16, fan_in: u16, epoch: u16, payload: u16, members: Vec<Option<Member>>) -> Self {
        let policy = Policy::default();
        Self {
            counts: RankCells::default(),
            window: Arc::new(PsnWindow::unlimited()),
            first_group: 0,
            groups: 0,
            id,
            fan_in,
            epoch,
            tenant: Tenant(id.to_be_bytes()[1]),
            has_others: false,
            detours: false,
            rules: Rules::of(&policy),
            payload,
            needed: fan_in,
            partials: false,
            halted: false,
            mode: Mode::Sync,
            policy,
            spec: Arc::new(JobSpec::new(id, fan_in)),
            cap: u16::MAX,
            server: Server::None,
            bereft: false,
            cells: Arc::default(),
            members,
            others: Vec::new(),
            hearers: Vec::new(),
            registry: None,
            switchml: None,
            parent: None,
            sessions: Sessions::default(),
            seals: None,
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

    /// What lcores count of its ranks, once the job is in a [`JobTable`].
    #[must_use]
    #[inline]
    pub const fn counts(&self) -> &RankCells {
        &self.counts
    }

    /// The session of a rank whose packets are taken.
    pub(crate) fn session(&self, rank: u16) -> Option<u64> {
        self.sessions.ranks.get(usize::from(rank))?.map(|(session, _)| session)
    }

    /// What it demands of packets, as answers say it; `None` if they are not sealed.
    pub(crate) fn demand(&self) -> Option<u32> {
        self.seals.as_ref().map(|seals| seals.demand())
    }

    /// True if packets of its ranks or of its parent are sealed.
    fn is_sealed(&self) -> bool {
        self.seals.is_some() || self.parent.as_ref().is_some_and(|above| above.seals.is_some())
    }

    /// True if there are ranks to which results are sent with other than plain headers, once the job is in a
    /// [`JobTable`].
    #[must_use]
    #[inline]
    pub const fn has_others(&self) -> bool {
        self.has_others
    }

    /// Ranks to which results are sent with other than plain headers, once the job is in a [`JobTable`]. In
    /// another cache line than what is needed for each result.
    #[must_use]
    #[inline(never)]
    pub fn others(&self) -> &[u16] {
        &self.others
    }

    /// True if a sum is not simply sent to all.
    #[inline(always)]
    pub(crate) const fn detours(&self) -> bool {
        self.detours
    }

    /// True if it shares the pool, and somebody has joined it.
    fn shares_the_pool(&self) -> bool {
        let pool = self.mode == Mode::Sync && self.policy.region.is_none();
        pool && self.members.iter().any(Option::is_some)
    }

    /// Works out what a table has of it, in which the jobs that share the pool have so many shares.
    fn settle(&mut self, sharing: usize) {
        // PANAMA divides the memory by the jobs; here each has its share.
        let shared = self.shares_the_pool() && sharing > 0;
        let JobSpec { slots, share, .. } = *self.spec;
        let part = if shared { slots.saturating_mul(share.into()) / sharing } else { slots };
        self.cap = u16::try_from(part).unwrap_or(u16::MAX).max(1);
        self.rules = Rules::of(&Policy { server: self.has_server(), ..self.policy }).of_tenant(self.tenant);
        self.counts = self.cells.by_rank().clone();
        self.detours = self.bereft || self.parent.is_some();
    }

    fn flow_of(&self, rank: u16, member: Option<&Member>) -> Flow {
        let &Self { id, fan_in, epoch, needed, halted, mode, policy, .. } = self;
        // Workers that send updates send no gradients.
        let none = halted || mode == Mode::Olaf || self.registry.is_some();
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
