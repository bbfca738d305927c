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

/// A rejection of a sum may be for what the operation is: the heartbeat that asks has to say it.
#[test]
fn what_is_under_way_is_said_after_a_rejection_and_no_more_when_nobody_waits() {
    let mut uplink = uplink(1);
    let granted = Granted { epoch: 7, base: 100, payload: 1024, window: 64, resumed: None, workers: 2 };
    uplink.state = State::Member(granted);
    let inside = Control { psn: 105, first: 100, bytes: 4096, ..Control::request(Action::Join, 1) };
    let mut now = Duration::ZERO;
    let mut said = |uplink: &mut Uplink| {
        now += Duration::from_secs(1);
        let asked = uplink.poll(now).expect("it asks");
        assert_eq!(asked.control.action, Action::Join);
        (asked.control.psn, asked.control.bytes)
    };
    uplink.waits(Duration::ZERO, Some(Called::of(&inside)));
    assert_eq!(said(&mut uplink), (105, 4096));
    for status in [Status::OperationMismatch, Status::ElementMismatch, Status::WrongEpoch] {
        assert_eq!(uplink.rejected(Duration::ZERO, status), News::Nothing);
        assert_eq!(said(&mut uplink), (105, 4096), "{status:?}");
    }
    uplink.waits(Duration::ZERO, None);
    assert_eq!(said(&mut uplink), (105, 0));
}
