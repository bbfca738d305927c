//! All jobs in one table.

use std::sync::Arc;

use pascaline_aggregator::{Shares, TENANTS, Tenant};
use pascaline_buffer::prefetch::{prefetch_first, prefetch_value};
use pascaline_wire::frame::Address;
use pascaline_wire::template::PlainHead;

use super::pauses::Pauses;
use super::{Flow, Job};
use crate::membership::Registry;

/// Members of a job that are reached through one port with plain headers, in a table.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    port: u32,
    first: u32,
    count: u32,
}

impl Group {
    /// The port.
    #[must_use]
    #[inline]
    pub const fn port(&self) -> usize {
        self.port as usize
    }

    const fn range(&self) -> core::ops::Range<usize> {
        self.first as usize..self.first as usize + self.count as usize
    }
}

const NONE: u16 = u16::MAX;
/// Cache lines of results' headers that are prefetched: about as many as a core has on their way at a time.
const HEAD_LINES: usize = 16;

/// Where a job is in a table.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its first flow.
    flow: u32,
    /// Its flows, one for each rank.
    ranks: u16,
    at: u16,
}

impl Place {
    const NOWHERE: Self = Self { flow: 0, ranks: 0, at: NONE };

    /// That of each number before there are jobs, made where it stays: half a megabyte is much for a stack,
    /// and to copy it from there takes most of the time that a table does.
    fn nowhere() -> Box<[Self; 1 << 16]> {
        let all = vec![Self::NOWHERE; 1 << 16];
        all.try_into().unwrap_or_else(|_| Box::new([Self::NOWHERE; 1 << 16]))
    }
}

/// All jobs.
///
/// What packets are compared with, and what results need, lie apart from the jobs, each in one piece. The
/// job's number alone says where, so it can be prefetched.
#[derive(Debug, Clone)]
pub struct JobTable {
    /// By job number; dense, so that a lookup is one load.
    places: Box<[Place; 1 << 16]>,
    /// What the gradients of each rank of each job look like.
    flows: Vec<Flow>,
    groups: Vec<Group>,
    /// Of the members with plain headers.
    heads: Vec<PlainHead>,
    ranks: Vec<u16>,
    jobs: Vec<Job>,
    /// UDP ports that SwitchML's clients send to, each with its job's place.
    foreign: Vec<(u16, u16)>,
    /// Addresses whose MACs are asked for, in order.
    next_hops: Vec<[u8; 16]>,
    shares: Shares,
    /// By tenant.
    weights: Box<[u32; TENANTS]>,
    /// There is more than one tenant.
    shared: bool,
    /// There are jobs whose packets are sealed.
    sealed: bool,
    pauses: Arc<Pauses>,
}

impl Default for JobTable {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl JobTable {
    /// Up to this many flows a lookup needs no prefetch: their 128 KiB stay in the second-level cache.
    const FEW: usize = 1024;

    /// A table of these jobs. Where a number occurs twice, the later job counts.
    ///
    /// At most 65,535 jobs; more are ignored.
    #[must_use]
    pub fn new(mut jobs: Vec<Job>) -> Self {
        jobs.truncate(usize::from(NONE));
        let mut table = Self {
            places: Place::nowhere(),
            flows: Vec::with_capacity(jobs.iter().map(|job| job.members.len()).sum()),
            groups: Vec::with_capacity(jobs.len()),
            heads: Vec::new(),
            ranks: Vec::new(),
            jobs: Vec::new(),
            foreign: Vec::new(),
            next_hops: Vec::new(),
            shares: Shares::by_weight(
                jobs.iter().filter(|job| job.shares_the_pool()).map(|job| (job.tenant, job.spec.share)),
            ),
            weights: Box::new([0; TENANTS]),
            shared: false,
            sealed: jobs.iter().any(Job::is_sealed),
            pauses: Arc::default(),
        };
        for job in &jobs {
            table.weights[usize::from(job.tenant.0)] += u32::from(job.spec.share);
        }
        table.shared = table.weights.iter().filter(|weight| **weight > 0).count() > 1;
        let sharing =
            jobs.iter().filter(|job| job.shares_the_pool()).map(|job| usize::from(job.spec.share)).sum();
        for (at, job) in (0..NONE).zip(&mut jobs) {
            job.settle(sharing);
            table.places[usize::from(job.id)] = table.add_flows(at, job);
            table.add_groups(job);
            let hops = job.parent.iter().flat_map(|above| &above.next_hops);
            table.next_hops.extend(hops.map(|hop| hop.octets()));
            if let Some(registry) = &job.registry {
                table.foreign.push((registry.udp_port, at));
            }
        }
        table.next_hops.sort_unstable();
        table.next_hops.dedup();
        Self { jobs, ..table }
    }

    fn add_flows(&mut self, at: u16, job: &Job) -> Place {
        let first = self.flows.len();
        self.flows.extend((0..).zip(&job.members).map(|(rank, member)| job.flow_of(rank, member.as_ref())));
        // More than 2^32 flows do not fit any memory.
        let ranks = self.flows.len() - first;
        Place {
            flow: u32::try_from(first).unwrap_or(u32::MAX),
            ranks: u16::try_from(ranks).unwrap_or(u16::MAX),
            at,
        }
    }

    fn add_groups(&mut self, job: &mut Job) {
        let mut plain: Vec<(usize, u16, PlainHead)> = Vec::new();
        for (rank, member) in (0..).zip(&job.members) {
            let Some(member) = member.as_ref().filter(|_| !job.hears(rank)) else { continue };
            match member.template.plain(rank).filter(|_| job.registry.is_none() && job.seals.is_none()) {
                Some(head) => plain.push((member.endpoint.port, rank, head)),
                None => job.others.push(rank),
            }
        }
        job.has_others = !job.others.is_empty() || !job.hearers.is_empty();
        // Stable, so that ranks stay in order.
        plain.sort_by_key(|&(port, ..)| port);
        let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let first = self.groups.len();
        for group in plain.chunk_by(|(port, ..), (next, ..)| port == next) {
            let Some(&(port, ..)) = group.first() else { break };
            let (first, count) = (narrow(self.heads.len()), narrow(group.len()));
            self.groups.push(Group { port: narrow(port), first, count });
            self.heads.extend(group.iter().map(|&(.., head)| head));
            self.ranks.extend(group.iter().map(|&(_, rank, _)| rank));
        }
        let groups = self.groups.len() - first;
        (job.first_group, job.groups) = (narrow(first), u16::try_from(groups).unwrap_or(u16::MAX));
    }

    /// The job with a number.
    #[must_use]
    #[inline]
    pub fn get(&self, id: u16) -> Option<&Job> {
        self.jobs.get(usize::from(self.places[usize::from(id)].at))
    }

    /// True if there are jobs of SwitchML's clients.
    #[must_use]
    #[inline]
    pub const fn has_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// The job of SwitchML's clients that send to this UDP port, and how it meets them.
    #[must_use]
    pub fn foreign(&self, udp_port: u16) -> Option<(&Job, &Registry)> {
        let (_, at) = self.foreign.iter().find(|(port, _)| *port == udp_port)?;
        let job = self.jobs.get(usize::from(*at))?;
        Some((job, job.registry.as_ref()?))
    }

    /// True if it is asked for the MAC of this address.
    #[must_use]
    pub fn asks_for(&self, address: Address) -> bool {
        self.next_hops.binary_search(&address.octets()).is_ok()
    }

    /// What the gradients of a rank of a job look like.
    #[must_use]
    #[inline(always)]
    pub fn flow(&self, id: u16, rank: u16) -> Option<&Flow> {
        let place = self.places[usize::from(id)];
        if rank >= place.ranks {
            return None;
        }
        self.flows.get(place.flow as usize + usize::from(rank))
    }

    /// The members of a job to which results are sent with plain headers, port by port.
    #[must_use]
    #[inline(always)]
    pub fn groups(&self, job: &Job) -> &[Group] {
        let (first, count) = (job.first_group as usize, usize::from(job.groups));
        self.groups.get(first..first + count).unwrap_or_default()
    }

    /// The headers of packets to each member of a group, as far as they are known before there is a result.
    #[must_use]
    #[inline(always)]
    pub fn heads(&self, group: &Group) -> &[PlainHead] {
        self.heads.get(group.range()).unwrap_or_default()
    }

    /// The ranks of a group.
    #[must_use]
    pub fn ranks(&self, group: &Group) -> &[u16] {
        self.ranks.get(group.range()).unwrap_or_default()
    }

    /// True if there are too many ranks for their flows to stay in the second-level cache.
    #[must_use]
    #[inline]
    pub fn is_wide(&self) -> bool {
        self.flows.len() > Self::FEW
    }

    /// Prefetches what a packet will be compared with, and for what is needed of its job.
    #[inline(always)]
    pub fn prefetch_flow(&self, id: u16, rank: u16) {
        if let Some(flow) = self.flow(id, rank) {
            prefetch_value(flow);
        }
        if let Some(job) = self.get(id) {
            prefetch_value(&job.counts);
            prefetch_value(&job.rules);
        }
    }

    /// Prefetches where a packet is counted.
    #[inline(always)]
    pub fn prefetch_count(&self, id: u16, rank: u16, lcore: usize) {
        if let Some(cell) = self.get(id).and_then(|job| job.counts.of(lcore).cell(rank)) {
            prefetch_value(cell);
        }
    }

    /// Prefetches what sending a result takes, which this rank completes.
    #[inline]
    pub fn prefetch_replies(&self, id: u16, rank: u16, lcore: usize) {
        let Some(job) = self.get(id) else { return };
        if let Some(last) = job.counts.last(lcore, rank) {
            prefetch_value(last);
        }
        for group in self.groups(job) {
            prefetch_first(self.heads(group), HEAD_LINES);
        }
    }

    /// What part of the shared pool each of them is sure of.
    #[must_use]
    pub const fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The shares of all jobs, by tenant, in proportion to each other.
    #[must_use]
    pub const fn weights(&self) -> &[u32; TENANTS] {
        &self.weights
    }

    /// True if there is more than one tenant.
    #[inline(always)]
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared
    }

    /// True if there are jobs whose packets are sealed.
    #[inline(always)]
    pub(crate) const fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Has all lcores drop what a tenant sends to the pool, for a moment; not where there is no other.
    #[cold]
    pub(crate) fn pause(&self, tenant: Tenant, now: u64) {
        if self.shared {
            self.pauses.begin(tenant, now);
        }
    }

    /// True if any tenant is [paused](Self::pause).
    #[inline(always)]
    pub(crate) fn pauses_any(&self, now: u64) -> bool {
        self.pauses.any(now)
    }

    /// True if this one is.
    #[inline]
    pub(crate) fn pauses(&self, tenant: Tenant, now: u64) -> bool {
        self.pauses.has(tenant, now)
    }

    /// All jobs.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }
}

#[cfg(test)]
mod tests;
