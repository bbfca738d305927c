use pascaline_wire::frame::{Address, Mac, VlanTags};

use super::numbers::{APART, NUMBERS};
use pascaline_wire::header::{Element, Header, Kind};

use super::*;
use crate::jobs::Endpoint;

fn uplink(session: u64) -> Uplink {
    Uplink::new(1, (parent(254), &[]), &[], session)
}

fn parent(host: u8) -> Parent {
    let address = Address::from_v4([10, 79, 0, host]);
    let endpoint = Endpoint {
        port: 0,
        mac: Mac([2; 6]),
        vlan: VlanTags::NONE,
        address,
        udp_port: 16420,
        local: Address::from_v4([10, 79, 0, 1]),
        local_udp_port: 16420,
        dscp: 0,
    };
    Parent { endpoint, rank: 0, ranks: 2, next_hop: None }
}

/// Ranks that have not noticed are still in the one that was complete, whatever has begun to form since.
#[test]
fn what_forms_has_another_number_than_what_was_complete() {
    let least = u64::from(NUMBERS);
    for session in [0, 1, 2, least / 2, least - 2, least - 1] {
        // All that are near what may be chosen.
        let near = |known: u16| (0..NUMBERS + 4).map(move |more| known.wrapping_add(APART - 2 + more));
        let all = [0, 7, 0x1234, u16::MAX].into_iter();
        for (known, complete) in all.flat_map(|known| near(known).map(move |one| (known, one))) {
            let mut uplink = uplink(session);
            uplink.numbers.complete = Some(complete);
            uplink.numbers.known = Some(known);
            let before = complete.wrapping_add(1);
            let number = uplink.numbers.next(before).expect("the parent has said its own");
            assert!(number != complete && number != before, "{known}: {number} after {complete}");
            let apart = number.wrapping_sub(known);
            assert!((APART..APART + NUMBERS).contains(&apart), "{known}: {number}");
        }
    }
}

/// A rejection of a sum may be for what the operation is: the heartbeat that asks has to say it.
#[test]
fn what_is_under_way_is_said_after_a_rejection_and_no_more_when_nobody_waits() {
    let mut uplink = uplink(1);
    let granted = Granted { epoch: 7, base: 100, payload: 1024, window: 64, resumed: None, workers: 2 };
    uplink.state = State::Member(Member::new(WISH, granted, Duration::ZERO));
    let inside = Control { psn: 105, first: 100, bytes: 4096, ..Control::request(Action::Join, 1) };
    let mut now = Duration::ZERO;
    let mut said = |uplink: &mut Uplink| {
        now += Duration::from_secs(1);
        let asked = uplink.poll(now).expect("it asks");
        assert_eq!(asked.control.action, Action::Join);
        (asked.control.psn, asked.control.bytes)
    };
    uplink.waits(Duration::ZERO, Some(Called::of(&inside)));
    assert_eq!(said(&mut uplink), (105, 4096));
    for status in [Status::OperationMismatch, Status::ElementMismatch, Status::WrongEpoch] {
        assert_eq!(uplink.rejected(status), News::Nothing);
        assert_eq!(said(&mut uplink), (105, 4096), "{status:?}");
    }
    uplink.waits(Duration::ZERO, None);
    assert_eq!(said(&mut uplink), (105, 0));
}

const WISH: Wish = Wish { resume: None, payload: 1024, window: 64, una: 0, workers: 2 };

/// An answer to the latest Join.
fn answer(uplink: &Uplink, status: Status, expected: u32) -> (Header, Control) {
    let header = Header::about(Kind::Control, Element::F32_SUM, 1, 0);
    let ack = Control { number: uplink.requests.latest(), ..Control::request(Action::Ack, uplink.session) };
    (header, Control { status, answers: Some(Action::Join), window: 64, expected, ..ack })
}

#[test]
fn a_parent_that_has_refused_and_died_is_silent() {
    let mut uplink = uplink(1);
    uplink.join(Duration::ZERO, WISH, |number| number);
    uplink.poll(Duration::ZERO).unwrap();
    let (header, ack) = answer(&uplink, Status::FanInMismatch, 3);
    uplink.answered(Duration::ZERO, (&header, &ack), None);
    let mut now = Duration::ZERO;
    let mut state = |uplink: &mut Uplink, wait| {
        now += wait;
        uplink.poll(now);
        uplink.status(now).state
    };
    let refused = UplinkState::Refused(Status::FanInMismatch);
    assert_eq!(state(&mut uplink, LAST_INTERVAL), refused);
    assert_eq!(state(&mut uplink, told::SILENT / 2), refused);
    assert_eq!(state(&mut uplink, told::SILENT / 2), UplinkState::NoAnswer);
}

/// A backup that has the job is not left for the first one while the others may come, whatever is said of
/// further ones meanwhile.
#[test]
fn other_backups_change_nothing_about_how_long_one_is_held() {
    for told in [false, true] {
        let mut uplink = Uplink::new(1, (parent(254), &[parent(253)]), &[], 1);
        uplink.join(Duration::ZERO, WISH, |number| number);
        let mut now = Duration::ZERO;
        while uplink.ways.at == 0 {
            let (_, whole) = answer(&uplink, Status::Pending, 1);
            uplink.overheard(now, (parent(253).endpoint.address, 16420), &whole);
            uplink.poll(now);
            uplink.look_round(now);
            now += LAST_INTERVAL;
        }
        if told {
            uplink.replace(parent(254), &[parent(253), parent(252)], &[]);
        }
        let begun = now;
        while uplink.ways.at == 1 {
            let (header, pending) = answer(&uplink, Status::Pending, 0);
            uplink.overheard(now, (parent(254).endpoint.address, 16420), &pending);
            uplink.poll(now);
            uplink.answered(now, (&Header { psn: uplink.requests.latest(), ..header }, &pending), None);
            uplink.look_round(now);
            now += LAST_INTERVAL;
        }
        let held = now - begun;
        assert!(held > Duration::from_millis(1700) && held < Duration::from_millis(2300), "{told}: {held:?}");
    }
}
