//! All jobs in one table.

use pascaline_aggregator::prefetch::{ask_for, ask_for_all};
use pascaline_wire::template::PlainHead;

use super::{Flow, Job};

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
}

/// All jobs.
///
/// What a packet is compared with and what a result takes lie apart from the jobs, each in one piece for all of them: where
/// something is follows from the job's number at once, so that it can be asked for ahead of time.
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
}

impl Default for JobTable {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl JobTable {
    /// Flows of which a lookup need not be prepared: as many as are at hand anyway, in 64 KiB.
    const FEW: usize = 512;

    /// A table of these jobs. Where a number occurs twice, the later job counts.
    ///
    /// At most 65,535 jobs; more are ignored.
    #[must_use]
    pub fn new(mut jobs: Vec<Job>) -> Self {
        jobs.truncate(usize::from(NONE));
        let mut table = Self {
            places: Box::new([Place::NOWHERE; 1 << 16]),
            flows: Vec::with_capacity(jobs.iter().map(|job| job.members.len()).sum()),
            groups: Vec::with_capacity(jobs.len()),
            heads: Vec::new(),
            ranks: Vec::new(),
            jobs: Vec::new(),
        };
        for (at, job) in (0..NONE).zip(&mut jobs) {
            job.settle();
            table.places[usize::from(job.id)] = table.add_flows(at, job);
            table.add_groups(job);
        }
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
            let Some(member) = member else { continue };
            match member.template.plain(rank) {
                Some(head) => plain.push((member.endpoint.port, rank, head)),
                None => job.others.push(rank),
            }
        }
        job.has_others = !job.others.is_empty();
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
        job.groups = (narrow(first), u16::try_from(groups).unwrap_or(u16::MAX));
    }

    /// The job with a number.
    #[must_use]
    #[inline]
    pub fn get(&self, id: u16) -> Option<&Job> {
        self.jobs.get(usize::from(self.places[usize::from(id)].at))
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
        let (first, count) = (job.groups.0 as usize, usize::from(job.groups.1));
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

    /// True if there are so many ranks in all that what is known of one is probably not at hand when a packet of it comes.
    #[must_use]
    #[inline]
    pub fn is_wide(&self) -> bool {
        self.flows.len() > Self::FEW
    }

    /// Asks for what a packet will be compared with, and for what is needed of its job.
    #[inline(always)]
    pub fn ask_for_flow(&self, id: u16, rank: u16) {
        if let Some(flow) = self.flow(id, rank) {
            ask_for(flow);
        }
        if let Some(job) = self.get(id) {
            ask_for(&job.rules);
        }
    }

    /// Asks for where a packet is counted.
    #[inline(always)]
    pub fn ask_for_count(&self, id: u16, rank: u16, lcore: usize) {
        if let Some(cell) = self.get(id).and_then(|job| job.counts.of(lcore).cell(rank)) {
            ask_for(cell);
        }
    }

    /// Asks for what sending a result takes, which this rank completes.
    #[inline]
    pub fn ask_for_replies(&self, id: u16, rank: u16, lcore: usize) {
        let Some(job) = self.get(id) else { return };
        if let Some(last) = job.counts.last(lcore, rank) {
            ask_for(last);
        }
        for group in self.groups(job) {
            ask_for_all(self.heads(group));
        }
    }

    /// All jobs.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{Endpoint, Member};
    use pascaline_wire::frame::{Address, Mac, VlanTags};

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn member(job: u16, rank: u16, fan_in: u16, port: usize, vlan: VlanTags) -> Option<Member> {
        let endpoint = Endpoint {
            port,
            mac: Mac([2, 0, 0, 1, 0, 0]),
            vlan,
            address: Address::from_v4([10, 0, 0, 1]),
            udp_port: 1000 + rank,
            local: Address::from_v4([10, 0, 0, 2]),
            local_udp_port: 9,
        };
        Some(Member::new(endpoint, MAC, job, rank, fan_in, 0))
    }

    fn job(id: u16, members: Vec<Option<Member>>) -> Job {
        Job::new(id, u16::try_from(members.len()).unwrap(), 0, 64, members)
    }

    /// Jobs of several sizes lie one after the other: none has a rank of the next one.
    #[test]
    fn each_rank_has_its_own_flow_and_no_job_those_of_another() {
        let plain =
            |id, ranks| job(id, (0..ranks).map(|rank| member(id, rank, ranks, 0, VlanTags::NONE)).collect());
        let table = JobTable::new(vec![plain(7, 3), plain(40_000, 1), plain(5, 600)]);
        let place =
            |id, rank| table.flow(id, rank).map(|flow| core::ptr::from_ref(flow).addr() / size_of::<Flow>());
        let first = place(7, 0).unwrap();
        assert_eq!([place(7, 2), place(7, 3)], [Some(first + 2), None]);
        assert_eq!([place(40_000, 0), place(40_000, 1)], [Some(first + 3), None]);
        assert_eq!([place(5, 0), place(5, 599), place(5, 600)], [Some(first + 4), Some(first + 603), None]);
        assert_eq!(place(6, 0), None);
        assert!(table.is_wide());
        assert!(!JobTable::new(vec![plain(7, 3)]).is_wide());
    }

    #[test]
    fn members_are_grouped_by_port_and_those_with_other_headers_are_apart() {
        let mut tagged = VlanTags::NONE;
        assert!(tagged.push(0x8100, 7));
        let members = vec![
            member(1, 0, 5, 1, VlanTags::NONE),
            member(1, 1, 5, 0, VlanTags::NONE),
            None,
            member(1, 3, 5, 1, VlanTags::NONE),
            member(1, 4, 5, 0, tagged),
        ];
        let table = JobTable::new(vec![job(9, vec![member(9, 0, 1, 3, VlanTags::NONE)]), job(1, members)]);
        let of = |id| {
            let groups = table.groups(table.get(id).unwrap()).iter();
            groups
                .map(|group| (group.port(), table.ranks(group), table.heads(group).len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(9), [(3, &[0][..], 1)]);
        assert_eq!(of(1), [(0, &[1][..], 1), (1, &[0, 3][..], 2)]);
        assert_eq!(table.get(1).unwrap().others(), [4]);
        assert!(table.get(9).unwrap().others().is_empty());
    }
}
