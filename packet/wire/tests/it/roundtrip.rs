//! Written packets are read back: every legal value, and no illegal one.

use pascaline_wire::arp::{self, Arp, Operation};
use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::frame::protocol;
use pascaline_wire::template::{Heads, PLAIN, Template};
use pascaline_wire::trailer::{self, Bitmap, QueueState};
use pascaline_wire::{Address, Flags, Frame, Header, Kind, Mac, Malformed, Net, NoRoom, Trailer, header};
use proptest::prelude::*;

use crate::common;

proptest! {
    #[test]
    fn header(header in common::header(), tail in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = vec![0xa5; header::LEN + tail.len()];
        header.emit(&mut bytes)?.copy_from_slice(&tail);
        prop_assert_eq!(Header::parse(&bytes), Ok((header, tail.as_slice())));
        prop_assert_eq!(&bytes[..header::LEN], header.to_bytes());
        prop_assert_eq!(header.emit(&mut bytes[..header::LEN - 1]), Err(NoRoom));
    }

    #[test]
    fn bitmap(
        ranks in 1..=pascaline_wire::MAX_RANKS,
        marked in prop::collection::btree_set(any::<u16>(), 0..40),
    ) {
        let mut bitmap = Bitmap::new(ranks).unwrap();
        prop_assert!(bitmap.capacity() >= ranks && bitmap.capacity() - ranks < 64);
        for &rank in &marked {
            prop_assert_eq!(bitmap.insert(rank), rank < bitmap.capacity());
        }
        for rank in 0..2048 {
            prop_assert_eq!(bitmap.contains(rank), rank < bitmap.capacity() && marked.contains(&rank));
        }
        let inside = marked.iter().filter(|&&rank| rank < bitmap.capacity()).count();
        prop_assert_eq!(bitmap.count() as usize, inside);
        let bytes = common::trailer_bytes(&Trailer { bitmap: Some(bitmap), ..Trailer::default() });
        let (_, back) = Trailer::split(&bytes)?;
        prop_assert_eq!(back.bitmap, Some(bitmap));
        // On the wire: one big number, rank 0 its lowest bit.
        let value = &bytes[2..bytes.len() - 2];
        for rank in 0..bitmap.capacity() {
            let byte = value[value.len() - 1 - usize::from(rank / 8)];
            prop_assert_eq!(byte >> (rank % 8) & 1 == 1, bitmap.contains(rank));
        }
    }

    #[test]
    fn trailer(trailer in common::trailer(), payload in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut body = payload.clone();
        body.extend(common::trailer_bytes(&trailer));
        prop_assert!(trailer.emitted_len() <= trailer::MAX_LEN);
        let (before, back) = Trailer::split(&body)?;
        prop_assert_eq!(before, payload);
        // Field by field, because NaN rewards are equal in their bits only.
        prop_assert_eq!(back.bitmap, trailer.bitmap);
        prop_assert_eq!(
            back.update.map(|update| (update.reward.to_bits(), update.generated_ns)),
            trailer.update.map(|update| (update.reward.to_bits(), update.generated_ns))
        );
        prop_assert_eq!(back.queue, trailer.queue);
        prop_assert_eq!(back.operations, trailer.operations);
        prop_assert_eq!(back.ranks, trailer.ranks);
        prop_assert_eq!(back.sentence, trailer.sentence);
        prop_assert_eq!(back.seal, trailer.seal);
        let short = trailer.emitted_len() - 1;
        prop_assert_eq!(trailer.emit(&mut body[..short]), Err(NoRoom));
    }

    #[test]
    fn the_trailer_of_an_acknowledgement(update in common::trailer(), queue in common::trailer()) {
        let trailer = Trailer { update: update.update, queue: queue.queue, ..Trailer::default() };
        let both = trailer.update.is_some() && trailer.queue.is_some();
        prop_assert!(trailer.emitted_len() <= usize::from(trailer::ACK_LEN));
        prop_assert_eq!(trailer.emitted_len() == usize::from(trailer::ACK_LEN), both);
    }

    #[test]
    fn control(control in common::control()) {
        let mut bytes = [0xa5; control::LEN + 1];
        control.emit(&mut bytes)?;
        prop_assert_eq!(bytes[control::LEN], 0xa5);
        prop_assert_eq!(Control::parse(&bytes[..control::LEN]), Ok(control));
        prop_assert_eq!(control.emit(&mut bytes[..control::LEN - 1]), Err(NoRoom));
    }

    #[test]
    fn arp(
        request: bool,
        (sender_mac, sender_ip, target_mac, target_ip) in any::<([u8; 6], [u8; 4], [u8; 6], [u8; 4])>(),
    ) {
        let operation = if request { Operation::Request } else { Operation::Reply };
        let (sender_mac, target_mac) = (Mac(sender_mac), Mac(target_mac));
        let packet = Arp { operation, sender_mac, sender_ip, target_mac, target_ip };
        let mut bytes = [0xa5; arp::LEN + 1];
        packet.emit(&mut bytes)?;
        prop_assert_eq!(bytes[arp::LEN], 0xa5);
        prop_assert_eq!(Arp::parse(&bytes), Ok(packet));
        prop_assert_eq!(packet.emit(&mut bytes[..arp::LEN - 1]), Err(NoRoom));
    }

    #[test]
    fn whole_frame(
        path in common::path(),
        header in common::header(),
        payload in prop::collection::vec(any::<u8>(), 0..1500),
        padding in 0..20usize,
    ) {
        let mut bytes = common::build(&path, &header, &payload);
        let whole = bytes.len();
        bytes.resize(whole + padding, 0xa5);

        let frame = Frame::parse(&bytes)?;
        prop_assert_eq!((frame.dst, frame.src, frame.vlan), (path.dst_mac, path.src_mac, path.vlan));
        let Net::Ip(ip) = frame.net else { return Err(TestCaseError::fail("not IP")) };
        prop_assert_eq!((ip.src, ip.dst, ip.protocol, ip.ecn), (path.src, path.dst, protocol::UDP, 0));
        prop_assert_eq!((ip.l4 + ip.l4_len, ip.l4_len), (whole, 8 + header::LEN + payload.len()));

        let datagram = ip.udp(&bytes)?;
        prop_assert_eq!((datagram.src_port, datagram.dst_port), (path.src_port, path.dst_port));
        let body = datagram.body;
        prop_assert_eq!(Header::parse(body), Ok((header, payload.as_slice())));

        let (l3, segment) = (&bytes[frame.l3..ip.l4], &bytes[ip.l4..whole]);
        let checksum = [segment[6], segment[7]];
        if path.src.as_v4().is_some() {
            prop_assert_eq!(common::slow_checksum(&[l3]), 0);
            prop_assert_eq!(checksum, [0, 0], "none");
        } else {
            prop_assert_eq!(common::slow_checksum_v6(l3, protocol::UDP, segment), 0);
            prop_assert_ne!(checksum, [0, 0], "which would mean none");
        }
    }

    /// What all members of a job get is what the template writes, but for the identification, which makes the
    /// checksum the same for all.
    #[test]
    fn plain_heads(
        path in common::path(),
        header in common::header(),
        psn: u32,
        len in 0..=65535 - PLAIN + 14,
    ) {
        let template = Template::new(&path);
        let Some(head) = template.plain(header.rank) else {
            prop_assert_ne!(template.len(), PLAIN);
            return Ok(());
        };
        let mut written = [0xa5; PLAIN];
        let heads = Heads::new(&Header { psn: !psn, ..header }, len)?;
        let common = heads.plain().expect("what a datagram holds");
        head.write(&mut written, &common.with_psn(psn));
        prop_assert_eq!(common::slow_checksum(&[&written[14..34]]), 0);
        prop_assert_eq!(written[20], 0x40, "not to be fragmented");

        let mut expected = [0; PLAIN];
        let heads = Heads::new(&Header { psn, ..header }, len)?;
        template.write_for(&mut expected, &heads, header.rank, &[])?;
        for changed in [18..20, 24..26] {
            expected[changed.clone()].copy_from_slice(&written[changed]);
        }
        prop_assert_eq!(written, expected);
    }

    #[test]
    fn address(octets: [u8; 16], v4: [u8; 4]) {
        let address = Address::from_v6(octets);
        prop_assert_eq!(address.octets(), octets);
        prop_assert_eq!(Address::from(std::net::IpAddr::from(octets)), address);
        prop_assert_eq!(Address::from_v4(v4).as_v4(), Some(v4));
        prop_assert_eq!(Address::from_v4(v4).to_string(), std::net::Ipv4Addr::from(v4).to_string());
    }
}

/// The UDP checksum that comes out as 0 is sent as 0xffff, which is the same number in one's complement.
#[test]
fn ipv6_checksum_zero_is_sent_as_all_ones() {
    let path = common::path().prop_filter("IPv6", |path| path.src.as_v4().is_none());
    let path = common::sample(&path);
    let header = common::sample(&common::header());
    let template = Template::new(&path);
    let at = template.len() - header::LEN - 2;
    let zero = (0..=u16::MAX).find(|word| {
        let frame = common::build(&path, &header, &word.to_be_bytes());
        frame[at..at + 2] == [0xff, 0xff]
    });
    let word = zero.expect("one of the 65,536 words makes the sum all ones");
    let mut frame = common::build(&path, &header, &word.to_be_bytes());
    let l3 = 14 + path.vlan.wire_len();
    frame[at..at + 2].fill(0);
    assert_eq!(common::slow_checksum_v6(&frame[l3..l3 + 40], protocol::UDP, &frame[l3 + 40..]), 0);
}

#[test]
fn generations_have_names_that_are_never_0() {
    let names: std::collections::BTreeSet<u32> = (0..=u16::MAX).map(control::generation).collect();
    assert_eq!(names.len(), 1 << 16);
    for epoch in 0..=u16::MAX {
        assert_eq!(control::named_generation(control::generation(epoch)), Some(epoch));
    }
    for value in (0..0x4_0000).chain([0x101_0000, u32::MAX]) {
        assert_eq!(control::named_generation(value).is_some(), names.contains(&value), "{value:#x}");
    }
    assert_eq!(control::named_generation(control::ASK), None);
}

#[test]
fn statuses_are_listed_by_their_codes() {
    assert!(Status::ALL.is_sorted_by_key(|status| *status as u8));
    let names: std::collections::BTreeSet<&str> = Status::ALL.map(Status::name).into();
    assert_eq!(names.len(), Status::ALL.len());
}

/// A control packet with a trailer, as an Ack that names lost ranks has one.
#[test]
fn a_control_body_may_have_a_trailer_behind_it() {
    let mut bitmap = Bitmap::new(1024).unwrap();
    assert!(bitmap.insert(1023));
    let trailer = Trailer { bitmap: Some(bitmap), ..Trailer::default() };
    let control = Control { status: Status::RankLost, ..Control::request(Action::Ack, 1) };
    let header = Header { kind: Kind::Control, flags: Flags::TRAILER, ..common::sample(&common::header()) };
    let mut rest = control.to_bytes().to_vec();
    rest.extend(common::trailer_bytes(&trailer));
    assert_eq!(rest.len(), control::LEN + trailer::BITMAP_LEN);
    assert_eq!(Control::parse_with_trailer(&header, &rest), Ok((control, Some(trailer))));
    assert_eq!(Control::parse(&rest), Err(Malformed::Control), "a request has none");
    let plain = Header { flags: Flags::NONE, ..header };
    assert_eq!(Control::parse_with_trailer(&plain, &rest), Err(Malformed::Control));
    assert_eq!(Control::parse_with_trailer(&plain, &rest[..control::LEN]), Ok((control, None)));
    assert_eq!(Control::parse_with_trailer(&header, &rest[..control::LEN]), Err(Malformed::Trailer));
}

/// Holds R6.1 and R7.1 of protocol.md.
#[test]
fn each_code_is_legal_or_refused() {
    let good = common::sample(&common::header()).to_bytes();
    for code in 0..=u8::MAX {
        let with = |at: usize| {
            let mut bytes = good;
            bytes[at] = code;
            Header::parse(&bytes).map(|(header, _)| header.to_bytes() == bytes)
        };
        assert_eq!(with(0).is_ok(), code == 3, "version {code}");
        assert_eq!(with(1).is_ok(), (1..=8).contains(&code), "kind {code}");
        assert_eq!(with(2).is_ok(), code < 0x40, "flags {code}");
        // Blocks have no minimum and no maximum, integers that wrap no mean.
        let element = match (code & 15, code >> 4) {
            (1..=5, op) => op <= 3,
            (6 | 7, op) => op == 0 || op == 3,
            (8, op) => op <= 2,
            _ => false,
        };
        assert_eq!(with(3).is_ok(), element, "element {code}");
        for at in 0..4 {
            assert_ne!(with(at), Ok(false), "byte {at} = {code} is not written as it was read");
        }
    }
}

#[test]
fn flags_are_a_set() {
    let both = Flags::TRAILER.with(Flags::FIN);
    assert!(both.has(Flags::FIN) && both.has(Flags::TRAILER) && both.has(both) && both.has(Flags::NONE));
    assert!(!Flags::FIN.has(both));
    assert_eq!(both.without(Flags::FIN), Flags::TRAILER);
    assert_eq!(Flags::from_bits(both.bits()), Some(both));
}

#[test]
fn bitmap_rank_counts() {
    assert_eq!(Bitmap::new(0), None);
    assert_eq!(Bitmap::new(1025), None);
    assert_eq!(Bitmap::new(1).map(|bitmap| bitmap.capacity()), Some(64));
    assert_eq!(Bitmap::new(65).map(|bitmap| bitmap.words().len()), Some(2));
    assert_eq!(Bitmap::new(1024).map(|bitmap| bitmap.capacity()), Some(1024));
}

#[test]
fn waiting_beyond_24_bits_is_written_as_the_largest() {
    let queue = QueueState { clusters: 1, capacity: 2, waiting: 1 << 24 };
    let bytes = common::trailer_bytes(&Trailer { queue: Some(queue), ..Trailer::default() });
    let (_, back) = Trailer::split(&bytes).unwrap();
    assert_eq!(back.queue, Some(QueueState { waiting: 0x00ff_ffff, ..queue }));
}

/// A datagram holds 65,535 bytes with its IP header (IPv4) or without (IPv6).
#[test]
fn template_refuses_what_no_datagram_holds() {
    let header = common::sample(&common::header());
    for v4 in [true, false] {
        let path = common::path().prop_filter("family", move |path| path.src.as_v4().is_some() == v4);
        let template = Template::new(&common::sample(&path));
        let most = 65535 - 8 - header::LEN - if v4 { 20 } else { 0 };
        let mut out = [0; 128];
        assert_eq!(template.write(&mut out, &header, &vec![0; most]), Ok(template.len()));
        assert_eq!(template.write(&mut out, &header, &vec![0; most + 1]), Err(NoRoom));
        assert_eq!(template.write(&mut out[..template.len() - 1], &header, &[]), Err(NoRoom));
    }
}

/// The bottleneck of a path: where Q_max / N is the least.
#[test]
fn the_narrower_of_two_queues_leaves_the_smaller_chance() {
    let queue = |clusters, capacity| QueueState { clusters, capacity, waiting: u32::from(clusters) };
    for (one, other, narrower) in [
        (queue(8, 4), queue(8, 3), queue(8, 3)),
        (queue(8, 3), queue(8, 4), queue(8, 3)),
        (queue(2, 8), queue(20, 40), queue(20, 40)),
        (queue(1, 8), queue(0, 3), queue(1, 8)),
        (queue(0, 8), queue(1, 8), queue(1, 8)),
        (queue(u16::MAX, u16::MAX), queue(u16::MAX, u16::MAX - 1), queue(u16::MAX, u16::MAX - 1)),
        // Of equals the one that has been stamped already stays.
        (queue(4, 2), queue(8, 4), queue(4, 2)),
    ] {
        assert_eq!(one.narrower(other), narrower);
    }
}
