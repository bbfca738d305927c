//! Bad input on a real port: each frame is dropped, counted under its own reason, and disturbs nothing.

use pascaline_wire::{Element, Flags, Header, control};

use crate::common::appliance::{Appliance, Wanted};
use crate::common::net::{Network, port_mac, possible, worker_mac};
use crate::common::ranks::{
    BODY, EMPTY_JOB, ETHERTYPE, IP, JOB, PAYLOAD, Ranks, UDP, dropped, frame, join, resize,
};
use crate::common::raw::sum_ip;

/// What is wrong with a frame, the reason under which it is counted, and how it is spoilt.
type Case = (&'static str, &'static str, fn(&mut Vec<u8>));

/// What is done to a good contribution of rank 0: what cannot be read.
fn unreadable() -> Vec<Case> {
    vec![
        ("version 1", "version", |f| f[BODY] = 1),
        ("kind 0", "kind", |f| f[BODY + 1] = 0),
        ("kind 9", "kind", |f| f[BODY + 1] = 9),
        ("a fetch", "rank_spoofed", |f| {
            f[BODY + 1] = 7;
            resize(f, PAYLOAD);
        }),
        ("a reserved flag", "flags", |f| f[BODY + 2] = 0x40),
        ("dtype 9", "dtype", |f| f[BODY + 3] = 9),
        ("op 4", "dtype", |f| f[BODY + 3] = 0x41),
        ("dtype 0", "dtype", |f| f[BODY + 3] = 0),
        ("a header that is cut off", "truncated", |f| resize(f, BODY + 10)),
        ("a UDP header that is cut off", "truncated", |f| resize(f, UDP + 6)),
        ("an IP header that is cut off", "truncated", |f| f.truncate(IP + 12)),
        ("a payload that is not a multiple of 4", "payload_length", |f| resize(f, PAYLOAD + 7)),
        ("no payload", "payload_length", |f| resize(f, PAYLOAD)),
        ("a payload beyond the job's", "payload_length", |f| resize(f, PAYLOAD + 72)),
        ("a UDP length too small", "length", |f| f[UDP + 5] -= 4),
        ("a UDP length too large", "length", |f| f[UDP + 5] += 4),
        ("an IP length beyond the frame", "length", |f| {
            f[IP + 3] += 4;
            sum_ip(f, IP);
        }),
        ("a wrong IP checksum", "checksum", |f| f[IP + 10] ^= 0x55),
        ("IP version 5", "ip_header", |f| f[IP] = 0x55),
        ("an IP header of 16 bytes", "ip_header", |f| f[IP] = 0x44),
        ("IP options", "ip_options", |f| {
            f.splice(UDP..UDP, [1, 1, 1, 0]);
            f[IP] = 0x46;
            f[IP + 3] += 4;
        }),
        ("three VLAN tags", "vlan_depth", |f| {
            f.splice(ETHERTYPE..ETHERTYPE, [0x81, 0, 0, 7, 0x81, 0, 0, 8, 0x81, 0, 0, 9]);
        }),
        ("a trailer that is not there", "trailer", |f| f[BODY + 2] = 0x20),
        ("a trailer longer than all", "trailer", |f| {
            f[BODY + 2] = 0x20;
            f[PAYLOAD + 7] = 200;
        }),
        ("an unknown trailer", "trailer", |f| {
            f[BODY + 2] = 0x20;
            resize(f, PAYLOAD + 12);
            f[PAYLOAD + 8..].copy_from_slice(&[9, 0, 0, 4]);
        }),
    ]
}

/// And what can be read, but is not the sender's, or not for the appliance.
fn out_of_place() -> Vec<Case> {
    vec![
        ("no such job", "unknown_job", |f| f[BODY + 5] = 99),
        ("a job without members", "not_member", |f| f[BODY + 5] = 0),
        ("a rank beyond the fan-in", "rank_out_of_range", |f| f[BODY + 7] = 2),
        ("another generation", "wrong_epoch", |f| f[BODY + 21] ^= 1),
        ("the other's rank", "rank_spoofed", |f| f[BODY + 7] = 1),
        ("another source address", "rank_spoofed", |f| {
            f[IP + 15] = 77;
            sum_ip(f, IP);
        }),
        ("another source port", "rank_spoofed", |f| f[UDP + 1] ^= 1),
        ("another fan-in", "fan_in_mismatch", |f| f[BODY + 13] = 3),
        ("two contributions in one", "bad_count", |f| f[BODY + 15] = 2),
        ("a result with the count of another fan-in", "bad_count", |f| {
            f[BODY + 1] = 2;
            f[BODY + 15] = 3;
        }),
        ("another UDP port", "no_service", |f| f[UDP + 3] ^= 1),
        ("a protocol that nobody speaks", "no_service", |f| {
            f[IP + 9] = 89;
            sum_ip(f, IP);
        }),
        ("another destination", "not_for_us", |f| {
            f[IP + 19] = 99;
            sum_ip(f, IP);
        }),
        ("another MAC", "not_for_us", |f| f[5] ^= 1),
    ]
}

/// What is done to a Join.
fn bodies() -> Vec<Case> {
    vec![
        ("an unknown element", "control", |f| f[PAYLOAD + 3] = 9),
        ("an unknown action", "control", |f| f[PAYLOAD] = 11),
        ("an answer that nobody asked for", "control", |f| f[PAYLOAD] = 8),
        ("a body that is cut off", "truncated", |f| resize(f, PAYLOAD + 20)),
        ("a body that is too long", "control", |f| {
            resize(f, PAYLOAD + 76);
            f[PAYLOAD + 75] = 1;
        }),
    ]
}

#[test]
fn frames_that_are_malformed_are_counted_and_disturb_nothing() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    appliance.allreduce(1, 1, &["--elements", "3000"]);
    let ranks = Ranks::join(&network);
    let good = frame(0, &ranks.gradient(0), &[1, 0, 0, 0, 2, 0, 0, 0]);
    for (what, reason, spoil) in [unreadable(), out_of_place()].concat() {
        let mut bytes = good.clone();
        spoil(&mut bytes);
        if reason == "not_member" {
            // A generation that is right, or that would be what is wrong.
            bytes[BODY + 5] = EMPTY_JOB.to_be_bytes()[1];
            let epoch = appliance.metrics().epoch(EMPTY_JOB);
            bytes[BODY + 20..BODY + 22].copy_from_slice(&epoch.to_be_bytes());
        }
        dropped(&appliance, &ranks, 0, &bytes, reason, what);
    }
    for (what, reason, spoil) in bodies() {
        let mut bytes = join(0, 0);
        assert_eq!(bytes.len(), PAYLOAD + control::LEN);
        spoil(&mut bytes);
        dropped(&appliance, &ranks, 0, &bytes, reason, what);
    }
    // The generation that all this was aimed at is still there and still clean, and so are others.
    assert_eq!(appliance.metrics().epoch(JOB), ranks.epoch);
    ranks.send(0, &good);
    ranks.send(1, &frame(1, &ranks.gradient(1), &[10, 0, 0, 0, 20, 0, 0, 0]));
    for rank in [0, 1] {
        let (header, payload) = ranks.hear_result(rank);
        assert_eq!((header.psn, header.count), (ranks.gradient(0).psn, 2));
        assert_eq!(payload, [11, 0, 0, 0, 22, 0, 0, 0]);
    }
    appliance.allreduce(1, 1, &["--elements", "3000", "--dtype", "i32"]);
}

#[test]
fn contributions_that_do_not_agree_are_counted_and_do_not_spoil_the_sum() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let mut appliance = Appliance::start(&network, Wanted::default());
    let ranks = Ranks::join(&network);
    let first = ranks.gradient(0);
    let second = ranks.gradient(1);
    let (one, two) = ([1, 0, 0, 0, 2, 0, 0, 0], [10, 0, 0, 0, 20, 0, 0, 0]);
    let absorbed = appliance.metrics().packets("absorbed");
    ranks.send(0, &frame(0, &first, &one));
    appliance.metrics_when("a contribution inside", |now| now.packets("absorbed") == absorbed + 1);
    let other_fan_in = Header { fan_in: 3, ..second };
    let other_element = Header { element: Element::F32_SUM, ..second };
    let cases: [(usize, Vec<u8>, &str); 4] = [
        (0, frame(0, &first, &one), "duplicate"),
        (1, frame(1, &other_fan_in, &two), "fan_in_changed"),
        (1, frame(1, &other_element, &two), "element_changed"),
        (1, frame(1, &second, &two[..4]), "length_changed"),
    ];
    for (from, bytes, reason) in &cases {
        dropped(&appliance, &ranks, *from, bytes, reason, reason);
    }
    ranks.send(1, &frame(1, &second, &two));
    for rank in [0, 1] {
        let (header, payload) = ranks.hear_result(rank);
        assert_eq!((header.psn, header.count, header.element), (first.psn, 2, Element::I32_SUM));
        assert_eq!(payload, [11, 0, 0, 0, 22, 0, 0, 0]);
    }
    // Asked for again, the result comes again, unchanged by what arrives late.
    ranks.send(1, &frame(1, &Header { flags: Flags::RETRANSMISSION, ..second }, &two));
    assert_eq!(ranks.hear_result(1).1, [11, 0, 0, 0, 22, 0, 0, 0]);
    appliance.terminate();
    appliance.ends_well();
}

#[test]
fn ipv6_packets_that_are_refused_are_counted() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    let ranks = Ranks::join(&network);
    let own: [u8; 16] = std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x254).octets();
    // Ethernet, 40 bytes of IPv6, and 16 bytes that are whatever `next` says.
    let packet = |first: u8, next: u8, source: [u8; 16]| {
        let ethernet = [&port_mac(0)[..], &worker_mac(0), &[0x86, 0xdd]].concat();
        let head = [first, 0, 0, 0, 0, 16, next, 64];
        [&ethernet[..], &head, &source, &own, &[0; 16]].concat()
    };
    let source: [u8; 16] = std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1).octets();
    let mapped: [u8; 16] = std::net::Ipv4Addr::new(10, 77, 0, 1).to_ipv6_mapped().octets();
    // net_af_packet has the kernel put IPv4 fragments together before it takes them; IPv6 fragments arrive.
    for (what, first, next, source, reason) in [
        ("a fragment", 0x60, 44, source, "ip_fragment"),
        ("a routing header", 0x60, 43, source, "ip_options"),
        ("a hop-by-hop header", 0x60, 0, source, "ip_options"),
        ("IP version 4", 0x40, 17, source, "ip_header"),
        ("an IPv4-mapped address", 0x60, 17, mapped, "ip_header"),
        ("UDP of length 0", 0x60, 17, source, "length"),
        ("ICMPv6 with a wrong checksum", 0x60, 58, source, "checksum"),
        ("a protocol that nobody speaks", 0x60, 89, source, "no_service"),
    ] {
        dropped(&appliance, &ranks, 0, &packet(first, next, source), reason, what);
    }
    let mut cut = packet(0x60, 17, source);
    cut.truncate(IP + 30);
    dropped(&appliance, &ranks, 0, &cut, "truncated", "a header that is cut off");
    let mut long = packet(0x60, 17, source);
    long[IP + 5] = 17;
    dropped(&appliance, &ranks, 0, &long, "length", "a length beyond the frame");
}
