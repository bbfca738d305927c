//! What must hold for any bytes at all: offsets stay within bounds, and what is accepted has one encoding
//! only, so that writing down what was understood gives the same bytes again.
//!
//! Shared by the property tests and the fuzz targets.

use pascaline_wire::arp::{self, Arp};
use pascaline_wire::control::{self, Action, Control};
use pascaline_wire::frame::{Ip, Udp, protocol};
use pascaline_wire::icmp::{self, Icmp};
use pascaline_wire::{Datagram, Frame, Header, Kind, Mac, Malformed, Net, Trailer, checksum, switchml};

const OWN: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);

/// Writes the IPv4 header checksum and an ICMP checksum anew, so that damage is seen by what comes after
/// them.
pub(crate) fn mend(bytes: &mut [u8]) {
    let mut at = 12;
    while let Some([0x81, 0x00] | [0x88, 0xa8]) = bytes.get(at..at + 2) {
        at += 4;
    }
    if let Some([8, 0, header @ ..]) = bytes.get_mut(at..at + 22) {
        header[10..12].fill(0);
        let sum = checksum::finish(checksum::sum(header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    if let Ok(Frame { net: Net::Ip(ip), .. }) = Frame::parse(bytes)
        && matches!(ip.protocol, protocol::ICMP | protocol::ICMPV6)
        && let Some(message) = bytes.get_mut(ip.l4..ip.l4 + ip.l4_len)
        && message.len() >= 4
    {
        message[2..4].fill(0);
        let pseudo = match (ip.protocol, u32::try_from(message.len())) {
            (protocol::ICMPV6, Ok(len)) => checksum::pseudo_header(ip.src, ip.dst, ip.protocol, len),
            _ => 0,
        };
        let sum = checksum::finish(pseudo + checksum::sum(message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A frame that may be of a client of SwitchML's, whatever its checksums. True if it has what one says.
pub(crate) fn switchml(bytes: &[u8]) -> bool {
    let Some(packet) = switchml::Packet::parse(bytes) else { return false };
    assert_eq!((&bytes[..6], &bytes[6..12]), (&packet.dst_mac.0[..], &packet.src_mac.0[..]));
    let end = 14 + usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let own = &bytes[42..end];
    assert_eq!(packet.body, switchml::Body::parse(own));
    switchml_body(own)
}

/// What such a packet says. True if it is anything.
pub(crate) fn switchml_body(bytes: &[u8]) -> bool {
    let Some(body) = switchml::Body::parse(bytes) else { return false };
    let [kind, rest @ ..] = body.to_bytes();
    // One bit of the kind is not looked at.
    assert_eq!((kind, &rest[..]), (bytes[0] & !0x08, &bytes[1..8]));
    assert_eq!(bytes.len(), 8 + usize::from(body.size.summed()));
    assert!(u32::from(body.place.slot) < switchml::PLACES);
    true
}

/// A whole frame, through every layer that it has. True if it held an aggregation packet.
pub(crate) fn frame(bytes: &[u8]) -> bool {
    let Ok(frame) = Frame::parse(bytes) else { return false };
    assert_eq!(bytes[..6], frame.dst.0);
    assert_eq!(bytes[6..12], frame.src.0);
    assert_eq!(frame.l3, 14 + frame.vlan.wire_len());
    let mut at = 12;
    for (tpid, tci) in frame.vlan.as_slice() {
        assert_eq!(bytes[at..at + 2], tpid.to_be_bytes());
        assert_eq!(bytes[at + 2..at + 4], tci.to_be_bytes());
        at += 4;
    }
    let ethertype = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    match frame.net {
        Net::Arp => {
            assert_eq!(ethertype, 0x0806);
            arp(bytes, frame.l3);
        }
        Net::Other(other) => assert_eq!(ethertype, other),
        Net::OpaqueIp(_, why) => {
            assert!(matches!(why, Malformed::IpHeader | Malformed::IpOptions | Malformed::IpFragment));
        }
        Net::Ip(packet) => return ip(bytes, &frame, &packet),
    }
    false
}

fn ip(bytes: &[u8], frame: &Frame, ip: &Ip) -> bool {
    let header = &bytes[frame.l3..ip.l4];
    let v4 = header.len() == 20;
    assert!(v4 || header.len() == 40);
    assert!(ip.l4 + ip.l4_len <= bytes.len());
    let (src, dst, protocol) = if v4 {
        assert!(checksum::holds(header));
        (ip.src.as_v4().map(Vec::from), ip.dst.as_v4().map(Vec::from), header[9])
    } else {
        (Some(ip.src.octets().to_vec()), Some(ip.dst.octets().to_vec()), header[6])
    };
    let split = if v4 { 16 } else { 24 };
    let first = if v4 { 12 } else { 8 };
    assert_eq!(src.as_deref(), Some(&header[first..split]));
    assert_eq!(dst.as_deref(), Some(&header[split..]));
    assert_eq!(ip.src.as_v4().is_some(), v4, "the address tells the family");
    assert_eq!(ip.protocol, protocol);
    match ip.protocol {
        protocol::UDP => {
            let Ok(datagram) = ip.udp(bytes) else { return false };
            let Udp { src_port, dst_port, offset, body } = datagram;
            assert_eq!((offset, body.len() + 8), (ip.l4 + 8, ip.l4_len));
            assert_eq!(bytes[ip.l4..ip.l4 + 2], src_port.to_be_bytes());
            assert_eq!(bytes[ip.l4 + 2..ip.l4 + 4], dst_port.to_be_bytes());
            assert_eq!(body, &bytes[offset..offset + body.len()]);
            self::datagram(bytes, frame, ip, &datagram)
        }
        protocol::ICMP | protocol::ICMPV6 => {
            icmp(bytes, frame, ip);
            false
        }
        _ => false,
    }
}

/// The aggregation header and what follows it. True if all of it was accepted.
pub(crate) fn header(bytes: &[u8]) -> bool {
    let Ok((header, body)) = Header::parse(bytes) else { return false };
    assert_eq!(bytes[..bytes.len() - body.len()], header.to_bytes());
    let mut out = vec![0xa5; bytes.len()];
    assert_eq!(header.emit(&mut out).map(|rest| rest.len()), Ok(body.len()));
    assert_eq!(out[..bytes.len() - body.len()], header.to_bytes());
    let Ok((payload, found)) = header.payload(body) else { return false };
    assert_eq!(payload, &body[..payload.len()]);
    match found {
        Some(found) => emitted(&found, &body[payload.len()..]),
        None => assert_eq!(payload.len(), body.len()),
    }
    match header.kind {
        Kind::Gradient | Kind::Result | Kind::Partial | Kind::Update => assert!(!payload.is_empty()),
        Kind::Reminder | Kind::Fetch => assert!(payload.is_empty()),
        Kind::Control => return control(payload),
        Kind::Ack => {}
    }
    assert_eq!(payload.len() % header.element.dtype.size(), 0);
    true
}

/// Payload and trailer. True if accepted.
pub(crate) fn trailer(body: &[u8]) -> bool {
    let Ok((payload, trailer)) = Trailer::split(body) else { return false };
    assert_eq!(payload, &body[..payload.len()]);
    emitted(&trailer, &body[payload.len()..]);
    true
}

fn emitted(trailer: &Trailer, bytes: &[u8]) {
    assert_eq!(trailer.emitted_len(), bytes.len());
    let mut out = vec![0xa5; bytes.len()];
    assert_eq!(trailer.emit(&mut out), Ok(bytes.len()));
    assert_eq!(out, bytes);
    if let Some(short) = bytes.len().checked_sub(1) {
        assert!(trailer.emit(&mut out[..short]).is_err(), "a byte less is no room");
    }
}

/// A control body. True if accepted.
pub(crate) fn control(bytes: &[u8]) -> bool {
    let Ok(control) = Control::parse(bytes) else { return false };
    let (body, behind) = bytes.split_at(control::LEN);
    assert_eq!(body, control.to_bytes());
    let mut out = vec![0xa5; body.len()];
    assert!(control.emit(&mut out).is_ok());
    assert_eq!(out, body);
    // Zeros make a Join as long as a full packet, and the Ack to it.
    assert!(behind.iter().all(|&byte| byte == 0));
    assert!(behind.is_empty() || control.action == Action::Join || control.answers == Some(Action::Join));
    true
}

/// An ARP packet at `l3`, and its answer. True if accepted.
pub(crate) fn arp(bytes: &[u8], l3: usize) -> bool {
    let Ok(packet) = Arp::parse(&bytes[l3..]) else { return false };
    let mut out = [0xa5; arp::LEN];
    assert!(packet.emit(&mut out).is_ok());
    assert_eq!(out, bytes[l3..l3 + arp::LEN]);
    let mut answer = bytes.to_vec();
    assert!(arp::answer_in_place(&mut answer, l3, &packet, OWN).is_ok());
    assert_eq!(Arp::parse(&answer[l3..]), Ok(packet.reply(OWN)));
    assert_eq!(answer[12..l3], bytes[12..l3], "tags stay");
    assert_eq!(answer[l3 + arp::LEN..], bytes[l3 + arp::LEN..], "padding stays");
    true
}

/// A datagram says what its layers say. True if it holds an aggregation packet.
fn datagram(bytes: &[u8], frame: &Frame, ip: &Ip, udp: &Udp<'_>) -> bool {
    let sound = header(udp.body);
    let Ok(mut datagram) = Datagram::parse(frame, ip, udp) else { return false };
    assert_eq!((datagram.src_mac, datagram.vlan), (frame.src, frame.vlan));
    assert_eq!(datagram.sender, (ip.src, udp.src_port));
    assert_eq!(datagram.local, (ip.dst, udp.dst_port));
    let Ok((header, body)) = Header::parse(udp.body) else { panic!("it has just been read") };
    assert_eq!(datagram.header, header);
    assert_eq!(datagram.payload.whole(bytes), body);
    match (datagram.split(bytes), header.payload(body)) {
        (Ok(trailer), Ok((payload, expected))) => {
            assert_eq!(datagram.payload.of(bytes), payload);
            assert_eq!(trailer.is_some(), expected.is_some());
            // As bytes: a reward that is NaN does not equal itself.
            if let Some(trailer) = trailer {
                emitted(&trailer, &body[payload.len()..]);
            }
        }
        (got, expected) => assert_eq!(got.err(), expected.err()),
    }
    assert_eq!(datagram.payload.whole(bytes), body, "the trailer stays behind the payload");
    assert_eq!(datagram.payload.end(), udp.offset + udp.body.len());
    sound
}

/// The ICMP message of `ip`, and its answer. True if it is one that is answered.
pub(crate) fn icmp(bytes: &[u8], frame: &Frame, ip: &Ip) -> bool {
    match Icmp::parse(bytes, ip) {
        Ok(Icmp::Echo) => {
            let mut answer = bytes.to_vec();
            assert!(icmp::answer_echo_in_place(&mut answer, frame.l3, ip, OWN).is_ok());
            let back = Frame::parse(&answer);
            let Ok(Frame { net: Net::Ip(back), .. }) = back else { panic!("the answer is {back:?}") };
            assert_eq!((back.src, back.dst), (ip.dst, ip.src));
            assert_eq!(Icmp::parse(&answer, &back), Ok(Icmp::Other), "a reply, and its checksum holds");
            assert_eq!(
                answer[ip.l4 + 4..],
                bytes[ip.l4 + 4..],
                "identifier, sequence, data and padding stay"
            );
            true
        }
        Ok(Icmp::Solicitation(target)) => {
            assert_eq!(target.octets(), bytes[ip.l4 + 8..ip.l4 + 24]);
            assert_eq!(bytes[frame.l3 + 7], 255);
            true
        }
        Ok(Icmp::Advertisement(target, at)) => {
            let message = &bytes[ip.l4..ip.l4 + 32];
            assert_eq!(target.octets(), message[8..24]);
            assert_eq!((&message[24..26], &message[26..]), (&[2, 1][..], &at.0[..]));
            assert_eq!(bytes[frame.l3 + 7], 255);
            false
        }
        Ok(Icmp::PortUnreachable(quoted)) => {
            assert!(quoted.payload <= ip.l4 + ip.l4_len && quoted.payload <= bytes.len());
            assert_eq!(quoted.src.as_v4().is_some(), ip.src.as_v4().is_some());
            false
        }
        Ok(Icmp::Other) | Err(_) => false,
    }
}
