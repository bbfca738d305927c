//! The appliance's own address, as its neighbours in a VLAN see it.

use pascaline_wire::arp::{self, Arp, Operation};
use pascaline_wire::{Mac, checksum};

use crate::common::appliance::{Appliance, Metrics, SOON, Wanted};
use crate::common::net::{APPLIANCE, Network, port_mac, possible, worker_mac};
use crate::common::raw::{Raw, sum_ip};

#[test]
fn echo_and_address_requests_with_tags_are_answered_with_tags() {
    if !possible() {
        return;
    }
    let network = Network::new(1);
    let appliance = Appliance::start(&network, Wanted::default());
    let raw = Raw::open(&network.workers[0]);
    let (worker, port) = (worker_mac(0), port_mac(0));
    let before = appliance.metrics();
    // A socket shows what it receives without the outermost tag.
    for (tags, shown) in
        [(&[0x81, 0, 0, 42][..], &[][..]), (&[0x81, 0, 0, 42, 0x81, 0, 0, 43], &[0x81, 0, 0, 43])]
    {
        let ask = Arp {
            operation: Operation::Request,
            sender_mac: Mac(worker),
            sender_ip: [10, 77, 0, 1],
            target_mac: Mac([0; 6]),
            target_ip: APPLIANCE,
        };
        let (mut request, mut reply) = ([0; arp::LEN], [0; arp::LEN]);
        ask.emit(&mut request).unwrap();
        ask.reply(Mac(port)).emit(&mut reply).unwrap();
        raw.send(&[&[0xff; 6][..], &worker, tags, &[8, 6], &request].concat());
        let expected = [&worker[..], &port, shown, &[8, 6], &reply].concat();
        raw.receive("an answer to the address request", SOON, |bytes| bytes.starts_with(&expected));

        let echo = |kind: u8, from: [u8; 4], to: [u8; 4]| {
            let mut message = [kind, 0, 0, 0, 0x12, 0x34, 0, 1, b't', b'a', b'g', b's'];
            let sum = checksum::finish(checksum::sum(&message));
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            let mut packet = [&[0x45, 0, 0, 32, 0, 1, 0, 0, 64, 1, 0, 0][..], &from, &to, &message].concat();
            sum_ip(&mut packet, 0);
            packet
        };
        let (request, reply) = (echo(8, [10, 77, 0, 1], APPLIANCE), echo(0, APPLIANCE, [10, 77, 0, 1]));
        raw.send(&[&port[..], &worker, tags, &[8, 0], &request].concat());
        let expected = [&worker[..], &port, shown, &[8, 0], &reply].concat();
        raw.receive("an answer to the echo", SOON, |bytes| bytes.starts_with(&expected));
    }
    let all = |now: &Metrics| now.packets("answered") >= before.packets("answered") + 4;
    let after = appliance.metrics_when("two requests and two echoes answered", all);
    assert_eq!(after.packets("dropped"), before.packets("dropped"), "{}", after.changes_since(&before));
}
