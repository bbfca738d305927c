use super::*;

/// Rank 0's first packet of an operation with 64 elements, as its client sends it: packet 4 of operation 0 in
/// slot 0, second set.
fn request() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0x10, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 1, 0x26, 0, 0, 0, 0, 0x80, 0x11, 0, 0, 10, 0, 0, 1, 10, 0, 0, 0xfe]);
    frame.extend([0x0f, 0xa0, 0xbe, 0xe0, 1, 0x12, 0x16, 0x22]);
    frame.extend([0x11, 0, 4, 0, 0, 0, 0x80, 0, 4, 0]);
    frame.extend((0..64u32).flat_map(u32::to_be_bytes));
    frame
}

#[test]
fn a_request_is_understood_whatever_its_checksums() {
    let packet = Packet::parse(&request()).unwrap();
    assert_eq!(packet.src_mac, Mac([2, 0, 0, 0, 0, 1]));
    assert_eq!((packet.src, packet.src_port), (Address::from_v4([10, 0, 0, 1]), 4000));
    assert_eq!((packet.dst, packet.dst_port), (Address::from_v4([10, 0, 0, 0xfe]), UDP_PORT));
    let body = packet.body.unwrap();
    assert_eq!(body.size, Size::Bytes256);
    assert_eq!(body.mark, Mark { operation: 0, packet: 0x0400_0000 });
    assert_eq!(body.place, Place { slot: 0, second: true });
}

#[test]
fn a_result_has_exact_lengths_a_right_checksum_and_what_was_asked() {
    let body = Packet::parse(&request()).unwrap().body.unwrap();
    let to = (Mac([2, 0, 0, 0, 0, 1]), [10, 0, 0, 1], 4000);
    let from = (Mac([2, 0, 0, 0, 0, 0x10]), [10, 0, 0, 0xfe], UDP_PORT);
    let mut frame = headers(&Route { to, from }, body).to_vec();
    frame.extend_from_slice(&request()[HEADERS..]);
    assert_eq!(frame.len(), 308);
    // The ordinary parser looks at the checksum and the lengths.
    let parsed = crate::frame::Frame::parse(&frame).unwrap();
    let crate::frame::Net::Ip(ip) = parsed.net else { panic!("no IP") };
    let datagram = ip.udp(&frame).unwrap();
    assert_eq!((datagram.src_port, datagram.dst_port), (UDP_PORT, 4000));
    assert_eq!(Body::parse(datagram.body), Some(body));
    assert_eq!(frame[40..42], [0, 0], "no UDP checksum");
    assert_eq!(Packet::parse(&frame).unwrap().body, Some(body));
}

#[test]
fn what_no_client_sends_is_refused() {
    let changed = |place: usize, value: u8| {
        let mut frame = request();
        frame[place] = value;
        Packet::parse(&frame)
    };
    for (place, value) in [(12, 0x86), (14, 0x46), (20, 0x20), (23, 6), (16, 0xff)] {
        assert_eq!(changed(place, value), None, "byte {place}");
    }
    // 32 elements, 128, another kind, a slot beyond the last, a size that is not the length.
    for (place, value) in [(42, 0x10), (42, 0x12), (42, 0x21), (48, 0xc0), (42, 0x13)] {
        assert_eq!(changed(place, value).unwrap().body, None, "byte {place} = {value:#x}");
    }
    let frame = request();
    for len in 0..frame.len() {
        assert!(Packet::parse(&frame[..len]).is_none_or(|packet| packet.body.is_none()));
    }
}
