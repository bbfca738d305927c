//! Each refusal is provoked by the smallest change to a packet that would be welcome, and disturbs nothing.

use pascaline_aggregator::{Key, Rejection, Request};
use pascaline_buffer::PacketBuf;
use pascaline_wire::{Element, switchml};

use crate::common::{Event, Parcel, Rig, Who, sum_of};

const KEY: Key = Key::new(7, 3, 11);
const OTHER: Key = Key::new(7, 3, 12);

fn welcome(key: Key, rank: u16) -> Parcel {
    Parcel::add(key, rank, 3, &[1 << rank, 100])
}

/// A partial of rank 0 meets `bad`, which must come back as it was with `why`; then the partial is completed.
#[track_caller]
fn leaves_the_partial_alone(bad: &Parcel, why: Rejection) {
    let mut rig = Rig::new(1, 1);
    rig.one(&welcome(KEY, 0));
    let packet = bad.packet(&rig.memory);
    let (memory, bytes) = (packet.bytes().as_ptr(), packet.bytes().to_vec());
    rig.sink.take();
    rig.session.offer(&bad.request, None, packet, &mut rig.sink);
    let who = Who { key: bad.request.key, rank: bad.request.rank };
    assert_eq!(rig.sink.events, [Event::Rejected(who, why)]);
    assert_eq!(rig.sink.returned[0].bytes().as_ptr(), memory, "the packet itself comes back");
    assert_eq!(rig.sink.returned[0].bytes(), bytes);

    assert!(matches!(rig.one(&welcome(KEY, 1)), Event::Added(_)));
    let done = rig.one(&welcome(KEY, 2));
    let sum = sum_of(&done);
    assert_eq!((sum.values.as_slice(), sum.count, sum.overflow), ([7, 300].as_slice(), 3, false));
    rig.close();
}

/// An empty pool meets `bad`, which must be refused with `why`; then the slot must still be free.
#[track_caller]
fn takes_no_slot(bad: &Parcel, why: Rejection) {
    let mut rig = Rig::new(1, 1);
    let who = Who { key: bad.request.key, rank: bad.request.rank };
    assert_eq!(rig.one(bad), Event::Rejected(who, why));
    assert!(matches!(rig.one(&welcome(OTHER, 0)), Event::Opened(_)), "without displacing anything");
    rig.close();
}

#[track_caller]
fn both(change: impl Fn(&mut Request), why: Rejection) {
    leaves_the_partial_alone(&welcome(KEY, 1).with(&change), why);
    takes_no_slot(&welcome(KEY, 1).with(&change), why);
}

#[test]
fn conflict_when_every_way_is_open_with_another_psn() {
    leaves_the_partial_alone(&welcome(OTHER, 1), Rejection::Conflict);
}

/// Holds R11.1 of protocol.md.
#[test]
fn duplicate_when_the_rank_is_inside() {
    leaves_the_partial_alone(&welcome(KEY, 0), Rejection::Duplicate);
    // Not even its overflow flag gets in.
    leaves_the_partial_alone(&welcome(KEY, 0).with(|r| r.overflow = true), Rejection::Duplicate);
}

#[test]
fn rank_out_of_range_from_the_fan_in_on() {
    both(|r| r.rank = 3, Rejection::RankOutOfRange);
    both(|r| r.rank = u16::MAX, Rejection::RankOutOfRange);
}

#[test]
fn rank_out_of_range_where_the_bitmap_ends() {
    let mut rig = Rig::new(1, 1);
    let of_100 = |rank| Parcel::add(KEY, rank, 100, &[1]);
    assert!(matches!(rig.one(&of_100(64)), Event::Rejected(_, Rejection::RankOutOfRange)));
    assert!(matches!(rig.one(&of_100(63)), Event::Opened(_)));
    rig.close();
}

#[test]
fn fan_in_mismatch_when_a_new_psn_disagrees_with_its_job() {
    takes_no_slot(&welcome(KEY, 1).with(|r| r.fan_in = 2), Rejection::FanInMismatch);
    takes_no_slot(&welcome(KEY, 1).with(|r| r.fan_in = 0), Rejection::FanInMismatch);
    takes_no_slot(&welcome(KEY, 1).with(|r| r.job_fan_in = 4), Rejection::FanInMismatch);
}

#[test]
fn fan_in_changed_when_a_contribution_disagrees_with_those_inside() {
    leaves_the_partial_alone(&welcome(KEY, 1).with(|r| r.fan_in = 2), Rejection::FanInChanged);
    // The job has changed its mind meanwhile; the partial has not.
    let changed = welcome(KEY, 1).with(|r| {
        r.fan_in = 2;
        r.job_fan_in = 2;
    });
    leaves_the_partial_alone(&changed, Rejection::FanInChanged);
}

#[test]
fn length_changed_when_shorter_or_longer_than_those_inside() {
    leaves_the_partial_alone(&Parcel::add(KEY, 1, 3, &[2]), Rejection::LengthChanged);
    leaves_the_partial_alone(&Parcel::add(KEY, 1, 3, &[2, 100, 0]), Rejection::LengthChanged);
}

#[test]
fn length_changed_when_the_packet_is_shorter_than_it_says() {
    let cut = |mut parcel: Parcel| {
        parcel.values.pop();
        parcel
    };
    leaves_the_partial_alone(&cut(welcome(KEY, 1)), Rejection::LengthChanged);
    takes_no_slot(&cut(welcome(KEY, 1)), Rejection::LengthChanged);
    leaves_the_partial_alone(&cut(Parcel::install(KEY, 1, 3, &[7, 300])), Rejection::LengthChanged);
    takes_no_slot(&cut(Parcel::install(KEY, 1, 3, &[7, 300])), Rejection::LengthChanged);
    let beyond = |r: &mut Request| (r.offset, r.len) = (u16::MAX, u16::MAX);
    let short = Parcel { values: vec![0; 8], ..welcome(KEY, 1) };
    let packet_of = |parcel: &Parcel, rig: &Rig| parcel.packet(&rig.memory);
    let mut rig = Rig::new(1, 1);
    let packet = packet_of(&short, &rig);
    rig.session.offer(&short.clone().with(beyond).request, None, packet, &mut rig.sink);
    assert!(
        matches!(rig.sink.events[0], Event::Rejected(_, Rejection::LengthChanged)),
        "no sum of 16 bits wraps"
    );
    rig.close();
}

#[test]
fn element_changed_when_type_or_operation_differ_from_those_inside() {
    leaves_the_partial_alone(
        &welcome(KEY, 1).with(|r| r.element = Element::F32_SUM.code()),
        Rejection::ElementChanged,
    );
}

#[test]
fn element_unsupported_when_there_is_no_kernel() {
    both(|r| r.element = 0, Rejection::ElementUnsupported);
    both(|r| r.element = 0xff, Rejection::ElementUnsupported);
    both(|r| r.element = 0x09, Rejection::ElementUnsupported);
    both(|r| r.element = 0x16, Rejection::ElementUnsupported);
    both(|r| r.element = 0x38, Rejection::ElementUnsupported);
    both(|r| r.element = 0x41, Rejection::ElementUnsupported);
}

#[test]
fn every_code_that_is_an_element_is_supported() {
    for code in 0..=u8::MAX {
        let mut rig = Rig::new(1, 1);
        let event = rig.one(&Parcel::add(KEY, 0, 3, &[7, 300]).with(|r| r.element = code));
        let known = Element::from_byte(code).is_some() || code == switchml::ELEMENT;
        assert_eq!(matches!(event, Event::Opened(_)), known, "code {code}");
    }
}

#[test]
fn bad_count_when_a_contribution_is_not_one() {
    both(|r| r.count = 0, Rejection::BadCount);
    both(|r| r.count = 2, Rejection::BadCount);
}

#[test]
fn an_installed_result_is_refused_for_the_same_reasons() {
    let install = |change: fn(&mut Request)| Parcel::install(KEY, 1, 3, &[7, 300]).with(change);
    type Change = fn(&mut Request);
    let cases: [(Change, Rejection); 6] = [
        (|r| r.rank = 3, Rejection::RankOutOfRange),
        (|r| r.count = 0, Rejection::BadCount),
        (|r| r.count = 2, Rejection::BadCount),
        (|r| (r.count, r.fan_in) = (2, 2), Rejection::FanInMismatch),
        (|r| r.job_fan_in = 4, Rejection::FanInMismatch),
        (|r| r.element = 0, Rejection::ElementUnsupported),
    ];
    for (change, why) in cases {
        leaves_the_partial_alone(&install(change), why);
        takes_no_slot(&install(change), why);
    }
    // These need something inside to disagree with.
    leaves_the_partial_alone(&install(|r| r.element = Element::F32_SUM.code()), Rejection::ElementChanged);
    leaves_the_partial_alone(&Parcel::install(KEY, 1, 3, &[7]), Rejection::LengthChanged);
    leaves_the_partial_alone(
        &install(|r| (r.count, r.fan_in, r.job_fan_in) = (2, 2, 2)),
        Rejection::FanInChanged,
    );
}
