use core::sync::atomic::{AtomicU32, Ordering};

use pascaline_seal::{JobKeys, Protection, Secret};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Element, Header, Kind, header};

use super::*;
use crate::identity::Membership;

static TOLD: AtomicU32 = AtomicU32::new(0);

const SESSION: u64 = 9;
const SALT: u64 = 4;
const RANK: u16 = 2;

fn ends(protection: Protection) -> (JobKeys, Sealing) {
    let secret = Secret::new(&[1; 32]).unwrap();
    let holder = Holder::of(&secret, 1, RANK, protection);
    (JobKeys::new(&secret, 1, protection), Sealing::new((&holder, None), SESSION, Duration::ZERO))
}

/// A session with this many packets to send, and its tensor.
fn running(payload: u16, packets: usize) -> (Session, Vec<u8>) {
    let membership = Membership {
        identity: Identity { job: 1, rank: RANK, ranks: 3, payload },
        flexible: false,
        session: SESSION,
        requests: 0,
        epoch: 1,
        spread: 256,
        base: 0,
        cookie: 0,
        congestion: None,
        group: None,
        workers: 0,
    };
    let mut session = Session::new(membership, 256);
    let bytes = usize::from(payload) * packets;
    session.start(Duration::ZERO, bytes, Element::I32_SUM, Duration::from_secs(9)).unwrap();
    (session, (0..=250).cycle().take(bytes).collect())
}

/// A datagram of the appliance's, sealed.
fn from_appliance(kind: Kind, body: &[u8], seal: impl FnOnce(&mut [u8], usize) -> Option<usize>) -> Vec<u8> {
    let header = Header { rank: RANK, ..Header::about(kind, Element::F32_SUM, 1, 5) };
    let mut bytes = [&header.to_bytes()[..], body].concat();
    let length = bytes.len();
    bytes.resize(length + LONGER, 0);
    let sealed = seal(&mut bytes, length).unwrap();
    bytes.truncate(sealed);
    bytes
}

fn ack(status: Status, expected: u32) -> Control {
    let ack = Control::request(Action::Ack, SESSION);
    Control { status, answers: Some(Action::Join), expected, ..ack }.with_salt(SALT)
}

/// As much as there is room for, each packet as it would have been, and again under another number.
#[test]
fn a_batch_is_sealed_as_far_as_there_is_room_and_anew_each_time() {
    for protection in Protection::ALL {
        let (keys, mut sealing) = ends(protection);
        let up = keys.rank(RANK).up;
        for (payload, packets, most) in [(1408, 130, 128), (20_000, 40, 26), (1408, 130, 128)] {
            let (mut session, tensor) = running(payload, packets);
            let batch: Vec<_> = core::iter::from_fn(|| session.poll_transmit(Duration::ZERO)).collect();
            sealing.make_room(header::LEN + usize::from(payload));
            let mut numbers = Vec::new();
            for _ in 0..2 {
                let sealed = sealing.seal_batch(&batch, &session, &tensor);
                assert_eq!(sealed.count(), most, "{payload}");
                for (packet, at) in batch.iter().zip(0..most) {
                    let mut bytes = sealed.packet(at).to_vec();
                    let opened = up.open(SESSION, &mut bytes).unwrap();
                    let plain = [&packet.header[..], session.payload(packet, &tensor)].concat();
                    assert_eq!(&bytes[..opened.len], plain);
                    numbers.push(opened.counter);
                }
                assert_eq!(sealed.packet(most), [0; 0]);
            }
            let next = numbers[0] + u64::try_from(most).unwrap();
            assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
            assert!(numbers[most] >= next, "what had no room may have taken a number");
        }
    }
}

#[test]
fn whatever_its_length_a_result_opens_once_a_join_is_answered() {
    for protection in Protection::ALL {
        let (keys, mut sealing) = ends(protection);
        let result = |counter, length: u8| {
            let body: Vec<u8> = (0..length).collect();
            from_appliance(Kind::Result, &body, |bytes, length| {
                keys.results(SALT).seal(0, counter, bytes, length)
            })
        };
        assert_eq!(sealing.open(Duration::ZERO, &mut result(1, 8)), Err(Ignored::Forged), "no salt yet");
        let join = |bytes: &mut [u8], length| keys.rank(RANK).down.seal(SESSION, 77, bytes, length);
        let mut answer = from_appliance(Kind::Control, &ack(Status::Ok, 0).to_bytes(), join);
        assert_eq!(sealing.open(Duration::ZERO, &mut answer), Ok(CONTROL_LEN));
        for length in [0, 8, 64, 200] {
            let mut bytes = result(2 + u64::from(length), length);
            assert_eq!(sealing.open(Duration::ZERO, &mut bytes), Ok(header::LEN + usize::from(length)));
            assert!(bytes[header::LEN..].iter().zip(0..length).all(|(&byte, at)| byte == at));
        }
    }
}

#[test]
fn what_does_not_open_before_there_is_a_session_is_counted() {
    let (keys, mut sealing) = ends(Protection::Mac);
    let join = |bytes: &mut [u8], length| keys.rank(RANK).down.seal(SESSION, 77, bytes, length);
    let answer = from_appliance(Kind::Control, &ack(Status::Ok, 0).to_bytes(), join);
    let mut changed = answer.clone();
    changed[header::LEN + 3] ^= 1;
    let mut plain = answer[..CONTROL_LEN].to_vec();
    plain[2] = 0;
    for mut wrong in [changed, plain] {
        assert_eq!(sealing.open_early(Duration::ZERO, &mut wrong), None);
    }
    assert_eq!(sealing.open_early(Duration::ZERO, &mut answer.clone()), Some(CONTROL_LEN));
    let counted = sealing.take_early();
    assert_eq!((counted.received, counted.without_effect()), (2, 2));
    assert_eq!([Ignored::Unsealed, Ignored::Forged].map(|why| counted.ignored(why)), [1, 1]);
    assert_eq!(sealing.take_early(), Counters::default());
}

/// Such an answer may be forged.
#[test]
fn that_packets_are_unproven_counts_once_nothing_has_opened_for_long() {
    let (keys, mut sealing) = ends(Protection::Mac);
    let (early, due) = (Duration::from_millis(10), UNPROVEN + Duration::from_millis(10));
    let join = |bytes: &mut [u8], length| keys.rank(RANK).down.seal(SESSION, 77, bytes, length);
    let answer = from_appliance(Kind::Control, &ack(Status::Pending, 0).to_bytes(), join);
    sealing.open(early, &mut answer.clone()).unwrap();
    assert!(!sealing.is_in_doubt() && sealing.unproven(Duration::MAX).is_none());
    let header = Header { rank: RANK, ..Header::about(Kind::Control, Element::F32_SUM, 1, 5) };
    let say = |ack: Control| [&header.to_bytes()[..], &ack.to_bytes()].concat();
    let another = Control { session: SESSION + 1, ..ack(Status::Unproven, 2) };
    for ack in [ack(Status::UnknownJob, 0), another] {
        assert_eq!(sealing.open(early, &mut say(ack)), Err(Ignored::Unsealed));
        assert!(!sealing.is_in_doubt());
    }
    assert_eq!(sealing.open(early, &mut say(ack(Status::Unproven, 2))), Err(Ignored::Unsealed));
    assert!(sealing.is_in_doubt());
    assert_eq!(sealing.poll_timeout(), Some(due));
    assert_eq!(sealing.unproven(due - Duration::from_millis(1)), None);
    assert_eq!(sealing.unproven(due), Some(Unproven { demanded: 2, own: 1 }));
    let identity = Identity { job: 1, rank: RANK, ranks: 3, payload: 1024 };
    let notice = Notice(|_| {
        TOLD.fetch_add(1, Ordering::Relaxed);
    });
    (0..3).for_each(|_| sealing.notify(notice, &identity, due));
    assert_eq!(TOLD.load(Ordering::Relaxed), 1, "once");
    // It proves itself after all.
    sealing.open(due, &mut answer.clone()).unwrap();
    assert_eq!((sealing.is_in_doubt(), sealing.poll_timeout()), (false, None));
}
