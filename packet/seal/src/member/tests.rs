use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{self, Element, Header};

use super::*;
use crate::cipher::{LONGER, Opened};
use crate::keys::JobKeys;
use crate::secret::Secret;
use crate::shared::{NUMBER_BITS, ORDER};

const SESSION: u64 = 0x1234_5678_9abc;

fn ends() -> (JobKeys, MemberEnd) {
    let secret = Secret::new(&[3; 32]).unwrap();
    let holder = Holder::of(&secret, 1, 2, Protection::Encrypt);
    (JobKeys::new(&secret, 1, Protection::Encrypt), MemberEnd::new(holder, SESSION))
}

fn datagram(kind: Kind, body: &[u8]) -> (Vec<u8>, usize) {
    let mut bytes = vec![0; header::LEN];
    Header { rank: 2, ..Header::about(kind, Element::F32_SUM, 1, 5) }.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(body);
    let len = bytes.len();
    bytes.resize(len + LONGER, 0);
    (bytes, len)
}

fn ack(session: u64, status: Status, salt: u64) -> Control {
    Control { status, answers: Some(Action::Join), ..Control::request(Action::Ack, session) }.with_salt(salt)
}

/// Holds R14.11 and R14.12 of protocol.md.
#[test]
fn results_open_once_an_answer_has_told_the_salt() {
    let (job, mut end) = ends();
    let result = |salt, counter| {
        let (mut bytes, len) = datagram(Kind::Result, &[9; 64]);
        let len = job.results(salt).seal(0, counter, &mut bytes, len).unwrap();
        bytes.truncate(len);
        bytes
    };
    assert_eq!(end.open(&mut result(7, 1)), Err(Fault::Forged));
    let (mut told, len) = datagram(Kind::Control, &ack(SESSION, Status::Ok, 7).to_bytes());
    job.rank(2).down.seal(SESSION, 99, &mut told, len).unwrap();
    assert_eq!(end.open(&mut told), Ok(len));
    let mut one = result(7, 1);
    assert_eq!(end.open(&mut one), Ok(header::LEN + 64));
    assert_eq!(one[header::LEN..header::LEN + 64], [9; 64]);
    assert_eq!(end.open(&mut result(8, 1)), Err(Fault::Forged));
    // Of another lcore, of a number far ahead, and one that is far behind then.
    assert!(end.open(&mut result(7, 3 << NUMBER_BITS)).is_ok());
    assert!(end.open(&mut result(7, 1 + ORDER + 5)).is_ok());
    assert!(end.open(&mut result(7, 6)).is_ok());
    assert_eq!(end.open(&mut result(7, 4)), Err(Fault::Replayed));
}

/// Holds R14.11 of protocol.md.
#[test]
fn an_answer_to_another_session_or_of_another_key_is_ignored() {
    let (job, mut end) = ends();
    for (session, by, fault) in [
        (SESSION + 1, job.rank(2).down, Fault::Elsewhere),
        (SESSION, job.rank(1).down, Fault::Forged),
        (SESSION, job.rank(2).up, Fault::Forged),
    ] {
        let (mut bytes, len) = datagram(Kind::Control, &ack(session, Status::Ok, 7).to_bytes());
        by.seal(session, 1, &mut bytes, len).unwrap();
        assert_eq!(end.open(&mut bytes), Err(fault));
    }
}

/// Holds R14.13 of protocol.md.
#[test]
fn an_unsealed_answer_only_explains() {
    let (_, mut end) = ends();
    for (session, status, fault) in [
        (SESSION, Status::Ok, Fault::Unsealed),
        (SESSION + 1, Status::Unproven, Fault::Unsealed),
        (SESSION, Status::Unproven, Fault::Unproven(2)),
    ] {
        let ack = Control { expected: 2, ..ack(session, status, 0) };
        let (mut bytes, len) = datagram(Kind::Control, &ack.to_bytes());
        assert_eq!(end.open(&mut bytes[..len]), Err(fault));
    }
}

/// Holds R14.9 of protocol.md.
#[test]
fn no_two_packets_are_sealed_with_one_number() {
    let (job, mut end) = ends();
    for number in 1..5 {
        let (mut bytes, len) = datagram(Kind::Gradient, &[1; 8]);
        let sealed = end.seal(&mut bytes, len).unwrap();
        assert_eq!(job.rank(2).up.open(SESSION, &mut bytes[..sealed]), Ok(Opened { len, counter: number }));
    }
}

/// An Ack to a Join, a result and this end's packets, by these keys.
struct Sent<'a>(&'a JobKeys, u32);

impl Sent<'_> {
    fn answer(&mut self) -> Vec<u8> {
        self.1 += 1;
        let ack = Control { number: self.1, ..ack(SESSION, Status::Ok, 7) };
        let (mut bytes, len) = datagram(Kind::Control, &ack.to_bytes());
        self.0.rank(2).down.seal(SESSION, u64::from(self.1), &mut bytes, len).unwrap();
        bytes
    }

    fn result(&mut self) -> Vec<u8> {
        self.1 += 1;
        let (mut bytes, len) = datagram(Kind::Result, &[9; 64]);
        self.0.results(7).seal(0, u64::from(self.1), &mut bytes, len).unwrap();
        bytes
    }
}

/// Which of these keys opens what the end sends.
fn sends(end: &mut MemberEnd, kind: Kind, keys: [&JobKeys; 2]) -> [bool; 2] {
    let body = if kind == Kind::Control {
        &Control::request(Action::Join, SESSION).to_bytes()[..]
    } else {
        &[1; 64]
    };
    let (mut bytes, len) = datagram(kind, body);
    assert!(end.seal(&mut bytes, len).is_some());
    keys.map(|keys| keys.rank(2).up.open(SESSION, &mut bytes.clone()).is_ok())
}

/// The keys of the rank by one secret or another.
fn holder(byte: u8) -> Holder {
    Holder::of(&Secret::new(&[byte; 32]).unwrap(), 1, 2, Protection::Encrypt)
}

/// An end whose salt is known, with the keys of [`ends`] and those of the appliance after them.
fn changing() -> (JobKeys, JobKeys, MemberEnd) {
    let (old, mut end) = ends();
    let new = JobKeys::new(&Secret::new(&[4; 32]).unwrap(), 1, Protection::Encrypt);
    end.open(&mut Sent(&old, 0).answer()).unwrap();
    (old, new, end)
}

/// Holds R14.14 of protocol.md.
#[test]
fn keys_change_once_the_appliance_has_shown_that_it_has_them() {
    let (old, new, mut end) = changing();
    let (both, mut by_old, mut by_new) = ([&old, &new], Sent(&old, 1), Sent(&new, 100));
    assert!(end.renew(holder(4)) && !end.renew(holder(4)), "once");
    let requests: Vec<_> = (0..4).map(|_| sends(&mut end, Kind::Control, both)).collect();
    assert_eq!(requests, [[false, true], [true, false], [false, true], [true, false]], "in turn");
    assert_eq!(sends(&mut end, Kind::Gradient, both), [true, false]);
    end.open(&mut by_old.answer()).unwrap();
    end.open(&mut by_old.result()).unwrap();
    assert_eq!(sends(&mut end, Kind::Gradient, both), [true, false]);

    end.open(&mut by_new.answer()).unwrap();
    for kind in [Kind::Control, Kind::Gradient] {
        assert_eq!(sends(&mut end, kind, both), [false, true]);
    }
    // Others do not have it yet.
    let mut result = by_old.result();
    assert_eq!(end.open(&mut result), Ok(header::LEN + 64));
    assert_eq!(result[header::LEN..header::LEN + 64], [9; 64]);
    end.open(&mut by_old.answer()).unwrap();
    end.open(&mut by_new.answer()).unwrap();
    assert!(end.open(&mut by_new.result()).is_ok());
    assert!(end.open(&mut by_old.result()).is_ok(), "it was on its way");
    end.open(&mut by_new.answer()).unwrap();
    assert_eq!(end.open(&mut by_old.result()), Err(Fault::Forged));
    assert_eq!(end.open(&mut by_old.answer()), Err(Fault::Forged));
    assert!(end.open(&mut by_new.result()).is_ok());
}

/// A file that gets its former content back, and keys that all others have already.
#[test]
fn keys_that_are_offered_are_taken_back_or_found_in_force() {
    let (old, new, mut end) = changing();
    let (both, mut by_old, mut by_new) = ([&old, &new], Sent(&old, 1), Sent(&new, 100));
    assert!(end.renew(holder(4)));
    assert!(!end.renew(holder(3)));
    assert_eq!([0; 2].map(|_| sends(&mut end, Kind::Control, both)), [[true, false]; 2]);
    assert_eq!(end.open(&mut by_new.result()), Err(Fault::Forged));

    assert!(end.renew(holder(4)));
    assert!(end.open(&mut by_new.result()).is_ok(), "all have it, and the answer was lost");
    assert_eq!(sends(&mut end, Kind::Gradient, both), [false, true]);
    assert!(end.open(&mut by_old.result()).is_ok());
    end.open(&mut by_new.answer()).unwrap();
    assert_eq!(end.open(&mut by_old.result()), Err(Fault::Forged));
}

/// A recorded request that is sent from another address has a right answer as well.
///
/// Holds R14.15 of protocol.md.
#[test]
fn an_address_is_refused_once_nothing_else_is_answered() {
    let (job, mut end) = ends();
    let mut hears = |number, status| {
        let ack = Control { number, ..ack(SESSION, status, 7) };
        let (mut bytes, len) = datagram(Kind::Control, &ack.to_bytes());
        job.rank(2).down.seal(SESSION, u64::from(number) << 8 | status as u64, &mut bytes, len).unwrap();
        end.open(&mut bytes).map(|_| ())
    };
    for status in [Status::SourceRefused, Status::RanksOfHost, Status::RankTaken] {
        assert_eq!(hears(10, status), Err(Fault::Elsewhere));
        assert_eq!(hears(10, status), Err(Fault::Elsewhere), "the same request");
        assert_eq!(hears(11, status), Err(Fault::Elsewhere));
        assert_eq!(hears(11, Status::Pending), Ok(()));
        assert_eq!(hears(12, status), Err(Fault::Elsewhere));
        assert_eq!(hears(13, status), Err(Fault::Elsewhere));
        assert_eq!(hears(14, status), Ok(()));
        assert_eq!(hears(15, Status::Ok), Ok(()));
    }
}
