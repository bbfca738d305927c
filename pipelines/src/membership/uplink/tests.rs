use pascaline_wire::frame::{Address, Mac, VlanTags};

use super::*;
use crate::jobs::Endpoint;

fn uplink(session: u64) -> Uplink {
    let address = Address::from_v4([10, 79, 0, 254]);
    let endpoint = Endpoint {
        port: 0,
        mac: Mac([2; 6]),
        vlan: VlanTags::NONE,
        address,
        udp_port: 16420,
        local: Address::from_v4([10, 79, 0, 1]),
        local_udp_port: 16420,
        dscp: 0,
    };
    Uplink::new(1, Parent { endpoint, rank: 0, ranks: 2, next_hop: None }, &[], session)
}

/// Ranks that have not noticed are still in the one that was complete, whatever has begun to form since.
#[test]
fn what_forms_has_another_number_than_what_was_complete() {
    for session in 0..u64::from(NUMBERS) {
        for (known, complete) in (0..=255).flat_map(|known| (0..=255).map(move |one| (known, one))) {
            let mut uplink = uplink(session);
            uplink.completed(complete);
            uplink.known = Some(known);
            let before = complete.wrapping_add(1);
            let number = uplink.next_number(before).expect("the parent has said its own");
            assert!(number != complete && number != before, "{known}: {number} after {complete}");
            let apart = number.wrapping_sub(known);
            assert!((APART..APART + NUMBERS).contains(&apart), "{known}: {number}");
        }
    }
}
