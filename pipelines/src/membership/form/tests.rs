use pascaline_wire::control::Control;
use pascaline_wire::frame::{Mac, VlanTags};
use pascaline_wire::{Element, Header, Kind};

use super::*;
use crate::jobs::Endpoint;
use crate::membership::Secret;

const RANKS: u16 = pascaline_wire::MAX_RANKS;

fn join() -> ControlRequest {
    let address = Address::from_v4([10, 77, 0, 1]);
    let from = Endpoint {
        port: 0,
        mac: Mac([2, 0, 0, 0, 0, 1]),
        vlan: VlanTags::default(),
        address,
        udp_port: 5000,
        local: Address::from_v4([10, 77, 0, 254]),
        local_udp_port: 16420,
        dscp: 0,
    };
    let header = Header { fan_in: RANKS, ..Header::about(Kind::Control, Element::F32_SUM, 1000, 0) };
    let control = Control { payload: 1024, window: 64, ..Control::request(Action::Join, 77) };
    ControlRequest { lcore: 0, at_ns: 0, from, header, control, padding: 0, operations: None }
}

#[test]
fn memory_for_ranks_takes_a_proof() {
    let admission = Admission {
        jobs: 1000..=1999,
        from: vec!["10.77.0.0/24".parse().unwrap()],
        max_jobs: 4,
        max_jobs_per_host: 4,
        max_fan_in: RANKS,
        like: JobSpec::new(0, 1),
        idle: Admission::IDLE,
    };
    let mut membership = Membership::new(vec![], Secret::new([7; 16]), 3).with_admission(admission);
    let (mut request, mut proposed) = (join(), None);
    let decision = membership.form(Duration::ZERO, &request, &mut proposed).unwrap();
    assert_eq!((decision.status, decision.changed), (Status::Pending, false));
    assert_eq!(proposed.unwrap().ranks.capacity(), 0);
    // What it is told is enough to prove its address.
    let told = membership.handle(Duration::ZERO, &request).unwrap();
    assert_eq!((told.header.fan_in, told.header.epoch, told.control.window), (RANKS, 3, 64));
    request.control.cookie = told.control.cookie;
    assert!(membership.handle(Duration::ZERO, &request).unwrap().changed);
    assert_eq!(membership.status()[0].joined, 1);
    // Nor does what the terms forbid.
    request.header.job = 1001;
    request.control.payload = 0xfff8;
    let refused = membership.form(Duration::ZERO, &request, &mut None).unwrap_err();
    assert_eq!(refused.status, Status::PayloadMismatch);
}
