//! What a rank that waits can do: remind, and give back a result that it has kept.

use pascaline_aggregator::{Key, Rejection};
use pascaline_buffer::SharedBuf;

use crate::common::{Event, Known, Parcel, Rig, TICK, Who, payload_address, sum_of};

const KEY: Key = Key::new(7, 3, 11);
const OTHER: Key = Key::new(7, 3, 12);

fn who(rank: u16) -> Who {
    Who { key: KEY, rank }
}

fn remind(rank: u16) -> Parcel {
    Parcel::remind(KEY, rank, 3)
}

fn add(rank: u16) -> Parcel {
    Parcel::add(KEY, rank, 3, &[1 << rank])
}

#[test]
fn nothing_is_known_of_a_psn_nobody_has_sent() {
    let mut rig = Rig::new(1, 1);
    assert_eq!(rig.one(&remind(1)), Event::Reminded(who(1), Known::Unknown));
    rig.one(&Parcel::add(OTHER, 0, 3, &[1]));
    assert_eq!(rig.one(&remind(1)), Event::Reminded(who(1), Known::Unknown), "nor beside another");
    rig.close();
}

#[test]
fn a_partial_names_those_inside() {
    let mut rig = Rig::new(1, 1);
    rig.one(&add(2));
    rig.one(&add(0));
    assert_eq!(rig.one(&remind(2)), Event::Reminded(who(2), Known::Partial(vec![0, 2])));
    assert_eq!(sum_of(&rig.one(&add(1))).values, [7], "a reminder adds nothing");
    rig.close();
}

#[test]
fn a_kept_result_is_the_answer_itself() {
    let mut rig = Rig::new(1, 1);
    rig.one(&add(0));
    rig.one(&add(1));
    let result = sum_of(&rig.one(&add(2))).clone();
    for _ in 0..3 {
        assert_eq!(
            rig.one(&remind(1)),
            Event::Reminded(who(1), Known::Cached(result.clone())),
            "as often as asked"
        );
    }
    rig.close();
}

#[test]
fn the_missing_are_reminded_once_in_an_interval() {
    // The interval of the rig is 10 µs, counted in ticks.
    for start in [0, 1, 12_345] {
        let mut rig = Rig::new(1, 1);
        rig.one(&add(0).at(start * TICK));
        let mut at = |tick| rig.one(&remind(0).at((start + tick) * TICK));
        let partial = Event::Reminded(who(0), Known::Partial(vec![0]));
        let recently = Event::Reminded(who(0), Known::Recently);
        assert_eq!(at(0), partial);
        // At time 0 the slot notes tick 1, since 0 means never.
        assert_eq!(at(1), recently);
        assert_eq!(at(9), recently);
        assert_eq!(at(11), partial);
        assert_eq!(at(11), recently);
        assert_eq!(at(10), recently, "a clock that lags behind does not get around it");
        assert_eq!(at(21), partial);
        rig.close();
    }
}

#[test]
fn the_interval_holds_across_the_wrap_of_the_slots_clock() {
    let wrap = (u64::from(u32::MAX) + 1) * TICK;
    let mut rig = Rig::new(1, 1);
    rig.one(&add(0).at(wrap - 4 * TICK));
    let mut at = |now| rig.one(&remind(0).at(now));
    assert_eq!(at(wrap - 3 * TICK), Event::Reminded(who(0), Known::Partial(vec![0])));
    assert_eq!(at(wrap + 3 * TICK), Event::Reminded(who(0), Known::Recently));
    assert_eq!(at(wrap + 7 * TICK), Event::Reminded(who(0), Known::Partial(vec![0])));
    rig.close();
}

#[test]
fn the_interval_is_each_psns_own() {
    let mut rig = Rig::new(1, 1);
    rig.one(&add(0));
    rig.one(&remind(0));
    rig.one(&add(1));
    rig.one(&add(2));
    rig.offer(&Parcel::add(OTHER, 0, 2, &[1]));
    let event = rig.one(&Parcel::remind(OTHER, 0, 2));
    assert!(matches!(event, Event::Reminded(_, Known::Partial(_))), "{event:?}");
    rig.close();
}

#[test]
fn an_installed_result_is_kept_like_a_computed_one() {
    let mut rig = Rig::new(1, 1);
    let parcel = Parcel::install(KEY, 2, 3, &[7, 8]).at(3).with(|r| r.overflow = true);
    let packet = parcel.packet(&rig.memory);
    let memory = payload_address(&packet, &parcel.request);
    rig.session.offer(&parcel.request, None, packet, &mut rig.sink);
    assert_eq!(rig.sink.payloads[0].bytes().as_ptr(), memory, "no copy here either");
    let events = rig.sink.take();
    let [Event::Installed { who: by, sum }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(*by, who(2));
    assert_eq!((sum.values.as_slice(), sum.fan_in, sum.count), ([7, 8].as_slice(), 3, 3));
    assert_eq!((sum.first, sum.overflow), (3, true));
    assert_eq!(rig.one(&add(0)), Event::Replayed(who(0), sum.clone()), "to the rank that waited");
    assert_eq!(rig.one(&remind(1)), Event::Reminded(who(1), Known::Cached(sum.clone())));
    rig.close();
}

#[test]
fn an_installed_result_takes_a_partials_place() {
    let mut rig = Rig::new(1, 1);
    rig.one(&add(0));
    rig.one(&add(1));
    let events = rig.offer(&Parcel::install(KEY, 2, 3, &[7]));
    let [Event::EvictedPartial(KEY), Event::Installed { .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(rig.sink.returned.len(), 1, "the partial's packet is given back");
    assert_eq!(sum_of(&rig.one(&add(1))).values, [7], "what was in the partial is not in the result twice");
    rig.close();
}

#[test]
fn a_result_that_is_there_is_not_replaced() {
    let mut rig = Rig::new(1, 1);
    for rank in 0..3 {
        rig.one(&add(rank));
    }
    let forged = Parcel::install(KEY, 2, 3, &[1_000_000]);
    assert_eq!(rig.one(&forged), Event::Rejected(who(2), Rejection::Duplicate));
    assert_eq!(sum_of(&rig.one(&add(1))).values, [7]);
    rig.close();
}

#[test]
fn an_installed_result_displaces_like_any_newcomer() {
    let mut rig = Rig::new(1, 1);
    rig.one(&Parcel::add(OTHER, 0, 1, &[1]));
    let events = rig.offer(&Parcel::install(KEY, 0, 3, &[7]));
    assert!(
        matches!(events.as_slice(), [Event::EvictedResult(OTHER), Event::Installed { .. }]),
        "{events:?}"
    );
    rig.close();
}
