use super::{
    HEADERS, Offload, PREFIX, can_join, finish, joined, parse_prefix, rewrite_headers, same_flow, sum,
};

/// The headers of a UDP datagram over IPv4 with this much payload.
fn ipv4(payload: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((28 + payload).to_be_bytes());
    frame.extend([0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4]);
    frame.extend((8 + payload).to_be_bytes());
    frame.extend([0, 0]);
    frame
}

#[test]
fn what_is_joined_says_how_to_cut_it() {
    let head = joined(&ipv4(1000), 5400, 1000).unwrap();
    let (prefix, headers) = head.split_first_chunk::<PREFIX>().unwrap();
    let mut frame = headers.to_vec();
    frame.extend(vec![9; 5400]);
    let Offload::Long(cut) = parse_prefix(*prefix, &frame) else { panic!("{prefix:?}") };
    assert_eq!((cut.headers, cut.size), (HEADERS, 1000));
    let mut last = headers.to_vec();
    rewrite_headers(&mut last, cut, 5000, &frame[HEADERS + 5000..], (true, false));
    assert_eq!(last[16..20], [1, 172, 0, 12], "its length is 28 + 400, its number 7 + 5");
    assert_eq!(super::folded(sum(&last[14..34])), 0xffff);
    assert!(joined(&ipv4(1000), 65_530, 1000).is_none(), "longer than IP allows");
}

#[test]
fn only_datagrams_of_one_way_are_joined() {
    let one = ipv4(1000);
    assert!(can_join(&one, 1000) && !can_join(&one, 1010), "padded");
    assert!(same_flow(&one, &ipv4(400)));
    for (at, what) in
        [(0, "station"), (26, "source"), (30, "address"), (36, "port"), (15, "class"), (22, "hops")]
    {
        let mut other = one.clone();
        other[at] ^= 1;
        assert!(!same_flow(&one, &other), "another {what}");
    }
    for (at, what) in
        [(12, "protocol"), (14, "options"), (23, "transport"), (20, "fragment"), (41, "checksum")]
    {
        let mut other = one.clone();
        other[at] ^= 0x21;
        assert!(!can_join(&other, 1000), "{what}");
    }
    assert!(!can_join(&one[..41], 1000));
    let mut other = one.clone();
    other[20] = 0;
    assert!(!can_join(&other, 1000), "its number may tell whose fragment is whose");
}

/// A datagram for another host has its checksum when it is forwarded.
#[test]
fn over_ipv4_each_datagram_for_others_has_its_checksum() {
    let mut long = ipv4(2500);
    let pseudo = sum(&long[26..34]) + 17 + 2508;
    long[40..42].copy_from_slice(&super::folded(pseudo).to_be_bytes());
    let payload: Vec<u8> = (0..251).cycle().take(2500).collect();
    let prefix = [1, 5, 0, 0, 232, 3, 34, 0, 6, 0];
    let Offload::Long(cut) = parse_prefix(prefix, &[long.clone(), payload.clone()].concat()) else {
        panic!()
    };
    for (offset, piece) in [(0, &payload[..1000]), (2000, &payload[2000..])] {
        let mut headers = long.clone();
        rewrite_headers(&mut headers, cut, offset, piece, (offset == 2000, true));
        let pseudo = sum(&headers[26..34]) + 17 + 8 + piece.len() as u64;
        assert_eq!(super::folded(pseudo + sum(&headers[34..]) + sum(piece)), 0xffff, "at {offset}");
        assert!(!can_join(&headers, piece.len()), "it stays as it is");
    }
}

/// Over IPv6 there is always a checksum: each datagram gets its own.
#[test]
fn over_ipv6_each_datagram_has_its_checksum() {
    let mut long = vec![2; 12];
    long.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    long.extend(2508_u16.to_be_bytes());
    long.extend([17, 64]);
    long.extend([0xfd; 32]);
    long.extend([1, 2, 3, 4]);
    long.extend(2508_u16.to_be_bytes());
    let pseudo = sum(&[0xfd; 32]) + 17 + 2508;
    long.extend(super::folded(pseudo).to_be_bytes());
    let payload: Vec<u8> = (0..251).cycle().take(2500).collect();
    let prefix = {
        let mut prefix = [1, 5, 0, 0, 0, 0, 0, 0, 0, 0];
        prefix[4..6].copy_from_slice(&1000_u16.to_ne_bytes());
        prefix[6..8].copy_from_slice(&54_u16.to_ne_bytes());
        prefix[8..10].copy_from_slice(&6_u16.to_ne_bytes());
        prefix
    };
    let Offload::Long(cut) = parse_prefix(prefix, &[long.clone(), payload.clone()].concat()) else {
        panic!()
    };
    for (offset, piece) in [(0, &payload[..1000]), (2000, &payload[2000..])] {
        let mut headers = long.clone();
        rewrite_headers(&mut headers, cut, offset, piece, (offset == 2000, false));
        let length = 8 + piece.len() as u64;
        let pseudo = sum(&headers[22..54]) + 17 + length;
        assert_eq!(super::folded(pseudo + sum(&headers[54..]) + sum(piece)), 0xffff, "at {offset}");
    }
}

#[test]
fn a_missing_checksum_is_finished() {
    let mut frame = ipv4(5);
    frame.extend([1, 2, 3, 4, 5]);
    let pseudo = sum(&frame[26..34]) + 17 + 13;
    frame[40..42].copy_from_slice(&super::folded(pseudo).to_be_bytes());
    assert_eq!(parse_prefix([1, 0, 0, 0, 0, 0, 34, 0, 6, 0], &frame), Offload::Plain(Some((34, 40))));
    finish(&mut frame, 34, 40);
    assert_eq!(super::folded(pseudo + sum(&frame[34..])), 0xffff);
    finish(&mut frame, 34, 4000);
}

#[test]
fn the_checksum_of_sctp_is_its_own() {
    assert_eq!(super::crc32c(b"123456789"), 0xe306_9283, "of the polynomial's authors");
    let mut frame = vec![2; 34];
    frame.extend([0, 1, 0, 2, 0, 0, 0, 3, 9, 9, 9, 9, 5, 6, 7]);
    finish(&mut frame, 34, 42);
    let sum = frame[42..46].to_vec();
    frame[42..46].fill(0);
    assert_eq!(sum, super::crc32c(&frame[34..]).to_le_bytes());
    finish(&mut frame[..44], 34, 42);
}

#[test]
fn a_part_of_a_packet_is_known() {
    let mut frame = ipv4(100);
    assert!(super::is_truncated(&frame));
    frame.extend([0; 100]);
    assert!(!super::is_truncated(&frame) && super::is_truncated(&frame[..141]));
}

/// A long TCP segment becomes segments with numbers, flags and checksums of their own.
#[test]
fn tcp_is_cut_into_segments() {
    let mut long = vec![2; 12];
    long.extend([
        8, 0, 0x45, 0, 0x0b, 0xec, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4,
    ]);
    long.extend([0xff, 0xff, 0xff, 0x9c, 0, 0, 0, 9, 0x80, 0x99, 1, 2]);
    let payload: Vec<u8> = (0..251).cycle().take(3000).collect();
    // 3,052 bytes of IP, of which 3,032 are TCP's: a header of 32 with twelve of options.
    let pseudo = sum(&long[26..34]) + 6 + 3032;
    long.extend(super::folded(pseudo).to_be_bytes());
    long.extend([0; 14]);
    let mut prefix = [1, 0x81, 0, 0, 0, 0, 0, 0, 16, 0];
    prefix[4..6].copy_from_slice(&1400_u16.to_ne_bytes());
    prefix[6..8].copy_from_slice(&34_u16.to_ne_bytes());
    let Offload::Long(cut) = parse_prefix(prefix, &[long.clone(), payload.clone()].concat()) else {
        panic!()
    };
    assert_eq!((cut.headers, cut.size), (66, 1400));
    // A card that has joined segments does not say where the header is, nor leave the pseudo header's sum.
    let mut by_card = [prefix[0] & !1, prefix[1], 0, 0, prefix[4], prefix[5], 0, 0, 0, 0];
    assert_eq!(parse_prefix(by_card, &[long.clone(), payload.clone()].concat()), Offload::Long(cut));
    by_card[6] = 14;
    assert_eq!(parse_prefix(by_card, &[long.clone(), payload.clone()].concat()), Offload::Other);
    long[50..52].fill(7);
    for (offset, end, number, flags) in
        [(0, 1400, 0xffff_ff9c_u32, 0x90), (1400, 2800, 1300, 0x10), (2800, 3000, 2700, 0x19)]
    {
        let (mut headers, piece) = (long.clone(), &payload[offset..end]);
        rewrite_headers(&mut headers, cut, offset, piece, (end == 3000, false));
        assert_eq!(headers[38..42], number.to_be_bytes(), "at {offset}");
        assert_eq!(headers[47], flags, "at {offset}");
        assert_eq!(super::word(&headers, 16).map(usize::from), Some(52 + piece.len()));
        assert_eq!(super::folded(sum(&headers[14..34])), 0xffff);
        let pseudo = sum(&headers[26..34]) + 6 + 32 + piece.len() as u64;
        assert_eq!(super::folded(pseudo + sum(&headers[34..]) + sum(piece)), 0xffff, "at {offset}");
    }
    for (at, value) in [(12, 0x86), (23, 17), (46, 0x40)] {
        let mut other = [long.clone(), payload.clone()].concat();
        other[at] = value;
        assert_eq!(parse_prefix(prefix, &other), Offload::Other, "byte {at}");
    }
}

/// Whatever the prefix, only a UDP datagram or a TCP segment with a payload is cut.
#[test]
fn nonsense_is_not_cut() {
    let mut frame = ipv4(3000);
    frame.extend([0; 3000]);
    let prefix = [1, 5, 0, 0, 232, 3, 34, 0, 6, 0];
    assert!(matches!(parse_prefix(prefix, &frame), Offload::Long(_)));
    for (at, value) in [(1, 1), (4, 0), (6, 20), (7, 255)] {
        let mut other = prefix;
        other[at] = value;
        if at == 4 {
            other[5] = 0;
        }
        assert_eq!(parse_prefix(other, &frame), Offload::Other, "byte {at}");
    }
    assert_eq!(parse_prefix(prefix, &frame[..42]), Offload::Other);
    frame[23] = 6;
    assert_eq!(parse_prefix(prefix, &frame), Offload::Other, "TCP");
}
