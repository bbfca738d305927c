//! Invariants for any bytes at all: nothing panics, a datagram that opens is sealed to the same bytes again,
//! and a sealed one opens.
//!
//! Shared by the property tests and the fuzz target. The keys are those of the vectors in `docs/protocol.md`,
//! so that these open.

use pascaline_seal::{Cipher, Fault, Holder, JobKeys, LONGER, MemberEnd, Protection, Secret};
use pascaline_wire::Flags;
use pascaline_wire::control::{Action, Control};
use pascaline_wire::header::{self, Element, Header, Kind};

pub(crate) const JOB: u16 = 9;
pub(crate) const RANK: u16 = 1;
pub(crate) const SESSION: u64 = 0x1122_3344_5566_7788;
pub(crate) const SALT: u64 = 0x99aa_bbcc_ddee_ff00;

/// Of the vectors: 32 bytes that count from 0.
pub(crate) fn secret() -> Secret {
    let bytes: Vec<u8> = (0..32).collect();
    Secret::new(&bytes).expect("as long as secrets are at least")
}

/// A datagram, or bytes that look like one, at a worker that has just joined, at one that has not, and at the
/// appliance.
pub(crate) fn arrives(bytes: &[u8]) {
    for protection in Protection::ALL {
        let keys = JobKeys::new(&secret(), JOB, protection);
        let (rank, results) = (keys.rank(RANK), keys.results(SALT));
        for (cipher, of) in [(&rank.up, SESSION), (&rank.down, SESSION), (&results, 0)] {
            opens(cipher, of, bytes);
            seals(cipher, of, bytes);
        }
        let end = || MemberEnd::new(Holder::of(&secret(), JOB, RANK, protection), SESSION);
        let (mut stranger, mut member) = (end(), end());
        let mut told = answer();
        let len = told.len() - LONGER;
        let sealed = rank.down.seal(SESSION, 1, &mut told, len).expect("room for a seal");
        assert_eq!(member.open(&mut told[..sealed]), Ok(len));
        for end in [&mut stranger, &mut member] {
            if let Ok(len) = end.open(&mut bytes.to_vec()) {
                assert!(len >= header::LEN && len + LONGER - 2 <= bytes.len());
            }
        }
        // Any content, as one who has the keys could send it.
        for (cipher, of) in [(&rank.down, SESSION), (&results, 0)] {
            let mut room = [bytes, &[0; LONGER]].concat();
            if let Some(sealed) = cipher.seal(of, 1, &mut room, bytes.len()) {
                let opened = member.open(&mut room[..sealed]);
                assert!(opened.is_err() || opened.is_ok_and(|len| len <= bytes.len()));
            }
        }
    }
}

/// An Ack to a Join that tells the salt, and room behind it.
fn answer() -> Vec<u8> {
    let ack = Control { answers: Some(Action::Join), ..Control::request(Action::Ack, SESSION) };
    let mut bytes = vec![0; header::LEN];
    let header = Header { rank: RANK, ..Header::about(Kind::Control, Element::F32_SUM, JOB, 3) };
    header.emit(&mut bytes).expect("room for a header");
    bytes.extend(ack.with_salt(SALT).to_bytes());
    bytes.extend([0; LONGER]);
    bytes
}

/// A datagram that opens gives the same bytes when it is sealed again.
fn opens(cipher: &Cipher, of: u64, bytes: &[u8]) {
    let mut opened = bytes.to_vec();
    match cipher.open(of, &mut opened) {
        Ok(found) => {
            assert_eq!(cipher.seal(of, found.counter, &mut opened, found.len), Some(bytes.len()));
            assert_eq!(opened, bytes);
        }
        Err(fault) => {
            assert_eq!(pascaline_seal::counter(bytes).is_none(), fault == Fault::Unsealed);
            assert_ne!(fault, Fault::Replayed);
        }
    }
}

/// A sealed datagram opens to the same bytes, but for an empty trailer, which is lost.
fn seals(cipher: &Cipher, of: u64, bytes: &[u8]) {
    let mut room = [bytes, &[0xaa; LONGER]].concat();
    let Some(sealed) = cipher.seal(of, 5, &mut room, bytes.len()) else { return };
    let opened = cipher.open(of, &mut room[..sealed]).expect("it has just been sealed");
    let mut plain = bytes.to_vec();
    if plain[2] & Flags::TRAILER.bits() != 0 && plain.ends_with(&[0, 2]) {
        plain.truncate(plain.len() - 2);
        plain[2] &= !Flags::TRAILER.bits();
    }
    assert_eq!((opened.counter, &room[..opened.len]), (5, &plain[..]));
}
