use pascaline_wire::header::{Element, Header, Kind, Own};
use pascaline_wire::trailer::{Bitmap, Trailer};
use proptest::prelude::*;

use super::*;
use crate::keys::JobKeys;
use crate::secret::Secret;

fn keys(secret: u8, protection: Protection) -> JobKeys {
    JobKeys::new(&Secret::new(&[secret; 32]).unwrap(), 1, protection)
}

/// A datagram with so much room behind it.
fn datagram(kind: Kind, payload: &[u8], bitmap: bool) -> (Vec<u8>, usize) {
    let flags = if bitmap { Flags::TRAILER } else { Flags::NONE };
    let element = Element::from_byte(Element::F32_SUM.code()).unwrap();
    let header = Header {
        flags,
        rank: 3,
        psn: 77,
        fan_in: 8,
        count: 1,
        own: Own::NONE,
        ..Header::about(kind, element, 1, 9)
    };
    let mut bytes = vec![0; header::LEN];
    header.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    if bitmap {
        let trailer = Trailer { bitmap: Bitmap::new(8), ..Trailer::default() };
        let mut room = vec![0; trailer.emitted_len()];
        trailer.emit(&mut room).unwrap();
        bytes.extend_from_slice(&room);
    }
    let len = bytes.len();
    bytes.resize(len + LONGER, 0xaa);
    (bytes, len)
}

proptest! {
    /// Holds R14.8 of protocol.md.
    #[test]
    fn what_is_sealed_opens_to_what_it_was(
        payload in prop::collection::vec(any::<u8>(), 0..300),
        bitmap: bool,
        encrypt: bool,
        kind in prop::sample::select(vec![Kind::Gradient, Kind::Result, Kind::Control, Kind::Reminder]),
        (of, number) in any::<(u64, u64)>(),
    ) {
        let protection = if encrypt { Protection::Encrypt } else { Protection::Mac };
        let cipher = keys(1, protection).rank(3).up;
        let (mut bytes, len) = datagram(kind, &payload, bitmap);
        let plain = bytes[..len].to_vec();
        let sealed = cipher.seal(of, number, &mut bytes, len).unwrap();
        prop_assert_eq!(sealed, len + if bitmap { LONGER - 2 } else { LONGER });
        prop_assert_eq!(counter(&bytes[..sealed]), Some(number));
        let shows = payload.len() >= 16 && bytes.windows(payload.len()).any(|part| part == &payload[..]);
        prop_assert_eq!(shows, payload.len() >= 16 && !(encrypt && kind != Kind::Control));
        let opened = cipher.open(of, &mut bytes[..sealed]).unwrap();
        prop_assert_eq!(opened, Opened { len, counter: number });
        prop_assert_eq!(&bytes[..len], &plain[..]);
    }

    /// Holds R14.10 of protocol.md.
    #[test]
    fn every_bit_counts_but_those_of_rank_and_cap(
        payload in prop::collection::vec(any::<u8>(), 1..60),
        bitmap: bool,
        encrypt: bool,
        at: prop::sample::Index,
        bit in 0..8,
    ) {
        let protection = if encrypt { Protection::Encrypt } else { Protection::Mac };
        let cipher = keys(1, protection).rank(3).up;
        let (mut bytes, len) = datagram(Kind::Result, &payload, bitmap);
        let sealed = cipher.seal(5, 6, &mut bytes, len).unwrap();
        let at = at.index(sealed);
        bytes[at] ^= 1_u8 << bit;
        let free = UNCOVERED.iter().any(|range| range.contains(&at));
        prop_assert_eq!(cipher.open(5, &mut bytes[..sealed]).is_ok(), free);
    }

    #[test]
    fn bytes_of_any_kind_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let cipher = keys(1, Protection::Encrypt).rank(3).up;
        prop_assert!(cipher.open(1, &mut bytes).is_err());
    }
}

/// Holds R14.10 of protocol.md.
#[test]
fn another_key_number_or_direction_opens_nothing() {
    for protection in Protection::ALL {
        let job = keys(1, protection);
        let (mut bytes, len) = datagram(Kind::Gradient, &[5; 40], false);
        let sealed = job.rank(3).up.seal(8, 9, &mut bytes, len).unwrap();
        let other = Protection::ALL.into_iter().find(|other| *other != protection).unwrap();
        let others = [
            (keys(2, protection).rank(3).up, 8),
            (job.rank(2).up, 8),
            (job.rank(3).down, 8),
            (job.results(0), 8),
            (keys(1, other).rank(3).up, 8),
            (JobKeys::new(&Secret::new(&[1; 32]).unwrap(), 2, protection).rank(3).up, 8),
            (job.rank(3).up, 7),
        ];
        for (cipher, of) in others {
            assert_eq!(cipher.open(of, &mut bytes.clone()[..sealed]), Err(Fault::Forged));
        }
        assert!(job.rank(3).up.open(8, &mut bytes[..sealed]).is_ok());
        assert_eq!(job.rank(3).up.open(8, &mut bytes[..len]), Err(Fault::Unsealed));
    }
}

#[test]
fn there_has_to_be_room() {
    let cipher = keys(1, Protection::Mac).results(4);
    let (mut bytes, len) = datagram(Kind::Reminder, &[], false);
    assert_eq!(cipher.seal(0, 1, &mut bytes[..len + LONGER - 1], len), None);
    assert_eq!(cipher.seal(0, 1, &mut bytes[..10], 10), None);
    assert!(cipher.seal(0, 1, &mut bytes, len).is_some());
}
