use super::*;

#[test]
fn rfc1071_example() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(finish(sum(&bytes)), !0xddf2);
}

#[test]
fn a_real_ipv4_header_holds_and_breaks_on_any_flipped_bit() {
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];
    assert!(holds(&header));
    for bit in 0..header.len() * 8 {
        let mut broken = header;
        broken[bit / 8] ^= 1 << (bit % 8);
        assert!(!holds(&broken), "bit {bit}");
    }
}

#[test]
fn sums_are_folded_with_the_carry_until_16_bits_are_left() {
    let folded = |mut total: u128| {
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        u16::try_from(total).unwrap()
    };
    let parts = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff, 0x1_0000, 0xfffe_ffff, 0xffff_0000, 0xffff_ffff];
    for upper in parts {
        for lower in parts {
            let total = upper << 32 | lower;
            assert_eq!(finish(total), !folded(total.into()), "{total:x}");
        }
    }
}

#[test]
fn odd_tails_are_padded_with_zero() {
    for len in 0..9 {
        let bytes: Vec<u8> = (1..=len).collect();
        let mut padded = bytes.clone();
        padded.resize(len as usize + 4 - len as usize % 4, 0);
        assert_eq!(finish(sum(&bytes)), finish(sum(&padded)), "{len}");
    }
}

/// A UDP datagram of this many bytes, with the checksum that its sender has made.
fn datagram(src: Address, dst: Address, payload: usize) -> Vec<u8> {
    let v4 = src.as_v4().is_some();
    let len = u16::try_from(UDP_LEN + payload).unwrap();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if v4 {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, protocol::UDP, 0, 0]);
        frame.extend(src.as_v4().unwrap().into_iter().chain(dst.as_v4().unwrap()));
        let header = finish(sum(&frame[14..34]));
        frame[24..26].copy_from_slice(&header.to_be_bytes());
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([protocol::UDP, 64]);
        frame.extend(src.octets().into_iter().chain(dst.octets()));
    }
    let l4 = frame.len();
    frame.extend([0x12, 0x34, 0x40, 0x24]);
    frame.extend(len.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((0..payload).map(|at| u8::try_from((at * 7 + 3) % 251).unwrap()));
    let sum = finish(pseudo_header(src, dst, protocol::UDP, len.into()) + sum(&frame[l4..]));
    frame[l4 + 6..l4 + 8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    frame
}

fn paths() -> [(Address, Address); 2] {
    let v6 = |last| Address::from_v6([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    [(Address::from_v4([10, 77, 0, 1]), Address::from_v4([10, 77, 0, 254])), (v6(1), v6(254))]
}

#[test]
fn datagrams_hold_and_break_on_any_flipped_bit() {
    for (src, dst) in paths() {
        for payload in [0, 1, 2, 3, 4, 5, 30, 31, 1024, 1447] {
            let mut frame = datagram(src, dst, payload);
            assert!(!udp_is_wrong(&frame), "{payload}");
            let l4 = frame.len() - payload - UDP_LEN;
            for bit in (l4 + UDP_LEN) * 8..frame.len() * 8 {
                frame[bit / 8] ^= 1 << (bit % 8);
                assert!(udp_is_wrong(&frame), "{payload} {bit}");
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            // Ethernet's padding is no part of it.
            frame.extend([0xff; 5]);
            assert!(!udp_is_wrong(&frame), "{payload}");
        }
    }
}

#[test]
fn no_checksum_is_right_over_ipv4_alone() {
    let [v4, v6] = paths().map(|(src, dst)| {
        let mut frame = datagram(src, dst, 64);
        let at = frame.len() - 64 - 2;
        frame[at..at + 2].fill(0);
        frame
    });
    assert!(!udp_is_wrong(&v4));
    assert!(udp_is_wrong(&v6));
}

#[test]
fn what_is_no_datagram_is_not_judged() {
    let (src, dst) = paths()[0];
    let mut frame = datagram(src, dst, 64);
    for len in 0..frame.len() {
        assert!(!udp_is_wrong(&frame[..len]), "{len}");
    }
    let last = frame.len() - 1;
    frame[last] ^= 1;
    assert!(udp_is_wrong(&frame));
    // The same as TCP.
    frame[23] = 6;
    let header = {
        frame[24..26].fill(0);
        finish(sum(&frame[14..34]))
    };
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    assert!(!udp_is_wrong(&frame));
}

#[test]
fn words_may_be_added_in_any_order_of_bytes() {
    let bytes: Vec<u8> = (0..2000_usize).map(|at| u8::try_from(at * at / 8 % 256).unwrap()).collect();
    for len in (0..40).chain(1990..2000) {
        assert_eq!(finish(sum_of_many(&bytes[..len])), finish(sum(&bytes[..len])), "{len}");
        let ones = vec![0xff; len];
        assert_eq!(finish(sum_of_many(&ones)), finish(sum(&ones)), "{len}");
    }
}
