//! Nothing that arrives makes an end panic.

use pascaline_wire::Flags;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::invariants;

proptest! {
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        invariants::arrives(&bytes);
    }

    /// Packets as far as seals look at them: kind, flags, lengths of trailers, seals.
    #[test]
    fn what_looks_like_a_packet(
        mut bytes in vec(any::<u8>(), 22..400),
        kind in 1..=8_u8,
        trailer in 0..400_u16,
        marked: bool,
    ) {
        (bytes[1], bytes[2]) = (kind, Flags::TRAILER.bits());
        let at = bytes.len() - 2;
        bytes[at..].copy_from_slice(&trailer.to_be_bytes());
        if let Some(seal) = bytes.len().checked_sub(28).filter(|at| *at >= 22 && marked) {
            bytes[seal..seal + 2].copy_from_slice(&[8, 24]);
        }
        invariants::arrives(&bytes);
    }
}
