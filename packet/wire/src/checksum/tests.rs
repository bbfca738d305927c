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
