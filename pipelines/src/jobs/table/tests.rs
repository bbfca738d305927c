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
        dscp: 0,
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
    let table = JobTable::new(vec![plain(7, 3), plain(40_000, 1), plain(5, 1100)]);
    let place =
        |id, rank| table.flow(id, rank).map(|flow| core::ptr::from_ref(flow).addr() / size_of::<Flow>());
    let first = place(7, 0).unwrap();
    assert_eq!([place(7, 2), place(7, 3)], [Some(first + 2), None]);
    assert_eq!([place(40_000, 0), place(40_000, 1)], [Some(first + 3), None]);
    assert_eq!([place(5, 0), place(5, 1099), place(5, 1100)], [Some(first + 4), Some(first + 1103), None]);
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
        groups.map(|group| (group.port(), table.ranks(group), table.heads(group).len())).collect::<Vec<_>>()
    };
    assert_eq!(of(9), [(3, &[0][..], 1)]);
    assert_eq!(of(1), [(0, &[1][..], 1), (1, &[0, 3][..], 2)]);
    assert_eq!(table.get(1).unwrap().others(), [4]);
    assert!(table.get(9).unwrap().others().is_empty());
}
