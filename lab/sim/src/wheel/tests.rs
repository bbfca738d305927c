//! The wheel and its timer against a sorted list, and the wheel's memory.

use proptest::prelude::*;

use super::{Alarm, Timer, Wheel};
use crate::random::Random;

#[derive(Debug, Clone, Copy)]
enum Step {
    Push(u64),
    Set(u64),
    SetEarlier(u64),
    Cancel,
    Pop,
}

/// Many are equal and pushed from different distances; some are past when they are pushed, and some are the
/// end of time.
fn time() -> impl Strategy<Value = u64> {
    let unit = prop::sample::select(vec![1, 64, 5000, 1 << 24, u64::MAX / 40]);
    (0..=40_u64, unit).prop_map(|(number, unit)| number * unit)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => time().prop_map(Step::Push),
        1 => time().prop_map(Step::Set),
        1 => time().prop_map(Step::SetEarlier),
        1 => Just(Step::Cancel),
        4 => Just(Step::Pop),
    ]
}

/// The timer's event among those of the steps, which have their numbers.
const TIMER: usize = usize::MAX;

/// The next event that counts.
fn next(wheel: &mut Wheel<usize>, timer: &mut Timer) -> Option<(u64, usize)> {
    loop {
        let (now, what) = wheel.pop()?;
        if what != TIMER || timer.expire(now) {
            return Some((now, what));
        }
    }
}

proptest! {
    /// The list is sorted by time alone; an event of the timer counts if that is set to its time.
    #[test]
    fn a_wheel_is_a_sorted_list(steps in prop::collection::vec(step(), 1..200)) {
        let (mut wheel, mut timer) = (Wheel::default(), Timer::default());
        let (mut list, mut set_to) = (Vec::new(), None);
        let end = [Step::Pop; 201];
        for (number, step) in steps.into_iter().chain(end).enumerate() {
            let insert = |list: &mut Vec<(u64, usize)>, at, what| {
                list.insert(list.partition_point(|&(other, _)| other <= at), (at, what));
            };
            match step {
                Step::Push(at) => {
                    wheel.push(at, number);
                    insert(&mut list, at.max(wheel.now()), number);
                }
                Step::Set(at) | Step::SetEarlier(at) => {
                    let at = at.max(wheel.now());
                    let (set, expected) = match step {
                        Step::Set(_) => (timer.set(at), set_to != Some(at)),
                        _ => (timer.set_earlier(at), set_to.is_none_or(|before| at < before)),
                    };
                    prop_assert_eq!(set, expected);
                    if set {
                        set_to = Some(at);
                        wheel.push(at, TIMER);
                        insert(&mut list, at, TIMER);
                    }
                }
                Step::Cancel => {
                    prop_assert_eq!(timer.is_set(), set_to.take().is_some());
                    timer.cancel();
                }
                Step::Pop => {
                    let counts = |&(at, what): &(u64, usize)| what != TIMER || set_to == Some(at);
                    let place = list.iter().position(counts);
                    let expected = list.drain(..place.map_or(list.len(), |place| place + 1)).next_back();
                    let expected = expected.filter(|_| place.is_some());
                    set_to = set_to.filter(|_| expected.is_none_or(|(_, what)| what != TIMER));
                    prop_assert_eq!(next(&mut wheel, &mut timer), expected);
                }
            }
        }
        prop_assert!(list.is_empty() && wheel.is_empty());
    }
}

/// Memory follows the pending events: a peak's is freed, and each slot keeps little.
#[test]
fn a_peaks_memory_is_freed() {
    let mut random = Random::new(6);
    let mut wheel = Wheel::default();
    let fill = |wheel: &mut Wheel<u32>, random: &mut Random, number: u32| {
        (0..number).for_each(|what| wheel.push(wheel.now() + random.below(1 << 24), what));
    };
    fill(&mut wheel, &mut random, 300_000);
    assert!((300_000..1_200_000).contains(&wheel.capacity()), "{}", wheel.capacity());
    while wheel.pop().is_some() {}
    assert!(wheel.is_empty());
    for _ in 0..20 {
        fill(&mut wheel, &mut random, 1000);
        while wheel.pop().is_some() {}
    }
    assert!(wheel.capacity() < 12 * 64 * 64, "{}", wheel.capacity());
}

/// One that is outdated counts, too.
#[test]
fn an_alarm_has_one_event_for_a_time() {
    let mut alarm = Alarm::default();
    assert_eq!(alarm.set_earlier(30, 30), Some(30));
    assert_eq!(alarm.set_earlier(40, 40), None, "it rings by then");
    assert_eq!(alarm.set_earlier(10, 20), Some(20));
    alarm.ring(20);
    assert_eq!(alarm.set_earlier(30, 30), None, "it is pending");
    alarm.ring(30);
    assert_eq!(alarm.set_earlier(30, 30), Some(30));
}
