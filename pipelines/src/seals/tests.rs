use pascaline_seal::{Holder, LONGER, MemberEnd, Secret};
use pascaline_wire::header::{self, Element, Header, Kind};

use super::*;

fn ends(protection: Protection) -> (Seals, MemberEnd) {
    let secret = Secret::new(&[6; 32]).unwrap();
    let holder = Holder::of(&secret, 9, 1, protection);
    (Seals::new(&JobKeys::new(&secret, 9, protection), 2, 77), MemberEnd::new(holder, 5))
}

fn gradient() -> (Vec<u8>, usize) {
    let mut bytes = vec![3; header::LEN + 64 + LONGER];
    Header { rank: 1, ..Header::about(Kind::Gradient, Element::F32_SUM, 9, 2) }.emit(&mut bytes).unwrap();
    (bytes, header::LEN + 64)
}

#[test]
fn a_ranks_packets_open_and_say_why_if_they_do_not() {
    for protection in Protection::ALL {
        let (seals, mut member) = ends(protection);
        assert_eq!(seals.demand(), if protection == Protection::Mac { 1 } else { 2 });
        let (mut bytes, len) = gradient();
        let plain = bytes[..len].to_vec();
        let sealed = member.seal(&mut bytes, len).unwrap();
        bytes.truncate(sealed);
        let opened = |rank, session| seals.open(rank, (session, true), &mut bytes.clone());
        assert_eq!(opened(1, 6), Err(DropReason::Forged), "another session");
        assert_eq!(opened(0, 5), Err(DropReason::Forged), "another rank's key");
        assert_eq!(opened(2, 5), Err(DropReason::RankOutOfRange));
        assert_eq!(seals.open(1, (5, true), &mut plain.clone()), Err(DropReason::Unsealed));
        assert_eq!(seals.open(1, (5, true), &mut bytes), Ok(len));
        assert_eq!(bytes[..len], plain);
    }
}

#[test]
fn a_number_from_before_the_psns_came_round_is_a_replay() {
    let (seals, _) = ends(Protection::Mac);
    let keys = JobKeys::new(&Secret::new(&[6; 32]).unwrap(), 9, Protection::Mac).rank(1).up;
    let sent = |session, counter| {
        let (mut bytes, len) = gradient();
        let sealed = keys.seal(session, counter, &mut bytes, len).unwrap();
        bytes.truncate(sealed);
        bytes
    };
    let opened = |session, counter, present| {
        seals.open(1, (session, present), &mut sent(session, counter)).map(|_| ())
    };
    let late = 1 << 40;
    for (session, counter, expected) in [
        (5, 1, Ok(())),
        // Twice: what lies in the slot already is a duplicate there.
        (5, 1, Ok(())),
        (5, late, Ok(())),
        (5, late - LATE, Ok(())),
        (5, late - LATE - 1, Err(DropReason::Replayed)),
        (5, 1, Err(DropReason::Replayed)),
        // Another life of the rank counts from the beginning.
        (6, 1, Ok(())),
        (6, late, Ok(())),
    ] {
        assert_eq!(opened(session, counter, true), expected, "{counter} of session {session}");
    }
    // A request of the life before, which is looked at elsewhere, leaves the numbers of this one as they are.
    assert_eq!(opened(5, 3, false), Ok(()));
    assert_eq!(opened(6, 1, true), Err(DropReason::Replayed));
}

/// As protocol.md says of keys that change: each rank at its time, results when all have done so.
#[test]
fn keys_change_rank_by_rank_and_results_when_all_have() {
    for protection in Protection::ALL {
        let (seals, mut member) = ends(protection);
        let secret = Secret::new(&[7; 32]).unwrap();
        let keys = JobKeys::new(&secret, 9, protection);
        let mut next = MemberEnd::new(Holder::of(&secret, 9, 1, protection), 5);
        let seals = seals.renewed(&keys);
        let opened = |seals: &Seals, member: &mut MemberEnd| {
            let (mut bytes, len) = gradient();
            let plain = bytes[..len].to_vec();
            let sealed = member.seal(&mut bytes, len).unwrap();
            let opened = seals.open(1, (5, true), &mut bytes[..sealed]).map(|len| bytes[..len] == plain);
            assert_ne!(opened, Ok(false));
            opened.is_ok()
        };
        let results = |seals: &Seals, by: &Cipher| {
            let (mut bytes, len) = gradient();
            let sealed = seals.unasked(4).seal(&mut bytes, len).unwrap();
            by.open(0, &mut bytes[..sealed]).is_ok()
        };
        let (before, after) = (ends(protection).0.results, keys.results(77));
        assert!(seals.is_changing() && !seals.has_renewed(1));
        assert!(opened(&seals, &mut member) && !seals.has_renewed(1));
        assert!(opened(&seals, &mut next) && seals.has_renewed(1));
        assert!(opened(&seals, &mut member), "what it had sent before");
        assert!(seals.has_renewed(1) && !seals.has_renewed(0));
        assert!(results(&seals, &before));
        seals.use_for_results();
        assert!(results(&seals, &after) && opened(&seals, &mut member));
        let settled = seals.settled();
        assert!(!settled.is_changing() && settled.has_renewed(1));
        assert!(opened(&settled, &mut next) && !opened(&settled, &mut member) && results(&settled, &after));
    }
}
