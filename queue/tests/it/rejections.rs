//! Every rejection has the smallest change to a good update that earns it, and disturbs nothing.

use core::time::Duration;

use pascaline_queue::{Combine, Config, ConfigError, EnqueueOutcome, Update, UpdateRejection};
use pascaline_wire::{DType, Element, Op};

use crate::common::{NOW, Rig, update};

fn config() -> Config {
    Config {
        segments: 4,
        clusters: 3,
        segment_len: 16,
        max_lead: Duration::from_nanos(100),
        ..Config::default()
    }
}

/// Offers something wrong to a queue in which something waits, and checks that nothing else happens.
fn rejected(config: Config, waits: Update, wrong: Update, payload: &[u8], reason: UpdateRejection) {
    let mut rig = Rig::new(config);
    let good = vec![1u8; usize::from(waits.len)];
    assert_eq!(rig.enqueue(waits, &good).outcome, EnqueueOutcome::Appended);
    let (waiting, counters) = (rig.queue.waiting().collect::<Vec<_>>(), *rig.queue.counters());
    let enqueued = rig.enqueue(wrong, payload);
    assert_eq!(enqueued.outcome, EnqueueOutcome::Rejected(reason));
    assert!(enqueued.recycled.is_some(), "the packet comes back");
    drop(enqueued);
    assert_eq!(rig.pool.live(), 1);
    assert_eq!(rig.queue.waiting().collect::<Vec<_>>(), waiting);
    let now = *rig.queue.counters();
    let all: u64 = UpdateRejection::ALL.iter().map(|&reason| now.rejected(reason)).sum();
    assert_eq!((now.rejected(reason), all), (1, 1));
    assert_eq!((now.accepted, now.departed, now.full), (counters.accepted, counters.departed, counters.full));
    let departure = rig.queue.dequeue().expect("what waited");
    assert_eq!((departure.update, departure.aggregations), (waits, 0));
    assert_eq!(pascaline_buffer::PacketBuf::bytes(&departure.packet)[6..], good);
}

fn wrong(wrong: Update, reason: UpdateRejection) {
    rejected(config(), update(0, 1), wrong, &[2; 8], reason);
}

#[test]
fn cluster_out_of_range() {
    wrong(update(3, 2), UpdateRejection::ClusterOutOfRange);
    wrong(update(u32::MAX, 2), UpdateRejection::ClusterOutOfRange);
}

#[test]
fn count_zero() {
    wrong(Update { count: 0, ..update(0, 2) }, UpdateRejection::CountZero);
}

#[test]
fn count_overflow() {
    let many = Update { count: 65_000, ..update(0, 1) };
    let more = Update { count: 536, ..update(0, 2) };
    rejected(config(), many, more, &[2; 8], UpdateRejection::CountOverflow);
    let mut rig = Rig::new(config());
    assert_eq!(rig.offer(many, 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(Update { count: 535, ..more }, 1.0), EnqueueOutcome::Aggregated);
    assert_eq!(rig.queue.head().map(|head| head.count), Some(u16::MAX));
}

#[test]
fn reward_not_finite() {
    for reward in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        wrong(Update { reward, ..update(0, 2) }, UpdateRejection::RewardNotFinite);
    }
}

#[test]
fn from_the_future() {
    for generated_ns in [NOW + 101, u64::MAX] {
        wrong(Update { generated_ns, ..update(0, 2) }, UpdateRejection::FromTheFuture);
    }
    let mut rig = Rig::new(config());
    assert_eq!(rig.offer(Update { generated_ns: NOW + 100, ..update(0, 2) }, 1.0), EnqueueOutcome::Appended);
}

#[test]
fn longer_than_a_segment() {
    rejected(config(), update(0, 1), Update { len: 20, ..update(0, 2) }, &[2; 20], UpdateRejection::TooLong);
    let mut rig = Rig::new(config());
    assert_eq!(rig.enqueue(Update { len: 16, ..update(0, 2) }, &[2; 16]).outcome, EnqueueOutcome::Appended);
}

#[test]
fn empty_or_in_parts_or_longer_than_its_packet() {
    wrong(Update { len: 0, ..update(0, 2) }, UpdateRejection::BadLength);
    wrong(Update { len: 6, ..update(0, 2) }, UpdateRejection::BadLength);
    // With three bytes of trailer behind the payload.
    wrong(Update { offset: 10, ..update(0, 2) }, UpdateRejection::BadLength);
    wrong(Update { offset: u16::MAX, ..update(0, 2) }, UpdateRejection::BadLength);
}

#[test]
fn elements_that_cannot_be_combined() {
    for op in [Op::Min, Op::Max] {
        let element = Element { dtype: DType::F32, op };
        wrong(Update { element, ..update(0, 2) }, UpdateRejection::ElementUnsupported);
    }
    let means = Config { combine: Combine::Mean, ..config() };
    let integers = Update { element: Element::I32_SUM, ..update(0, 2) };
    rejected(means, update(0, 1), integers, &[2; 8], UpdateRejection::ElementUnsupported);
}

#[test]
fn another_length_or_other_elements_than_what_waits() {
    rejected(
        config(),
        update(0, 1),
        Update { len: 4, ..update(0, 2) },
        &[2; 8],
        UpdateRejection::LengthChanged,
    );
    wrong(Update { element: Element::I32_SUM, ..update(0, 2) }, UpdateRejection::ElementChanged);
    // Nor may a worker change its mind while something waits; of another cluster it may.
    wrong(Update { element: Element::I32_SUM, ..update(0, 1) }, UpdateRejection::ElementChanged);
    let mut rig = Rig::new(config());
    assert_eq!(rig.offer(update(0, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(
        rig.offer(Update { element: Element::I32_SUM, ..update(1, 1) }, 1.0),
        EnqueueOutcome::Appended
    );
}

/// Sums of 16-bit floats need room that a packet does not have: whichever of the two it is.
#[test]
fn no_room_to_add_16_bit_floats() {
    let element = Element { dtype: DType::F16, op: Op::Sum };
    // Longer than the slack that packets on the heap have.
    let half = |worker, count| Update { element, count, len: 80, ..update(0, worker) };
    let (room, none) = (256, 0);
    for (combine, first, second) in [
        (Combine::Sum, (1, none), (1, room)),
        (Combine::Mean, (1, none), (1, room)),
        (Combine::Mean, (3, room), (2, none)),
    ] {
        let mut rig = Rig::new(Config { combine, segment_len: 80, ..config() });
        let packet = rig.pool.alloc(&[7; 86], first.1);
        assert_eq!(rig.queue.enqueue(NOW, half(1, first.0), packet).outcome, EnqueueOutcome::Appended);
        let packet = rig.pool.alloc(&[7; 86], second.1);
        let enqueued = rig.queue.enqueue(NOW, half(2, second.0), packet);
        assert_eq!(enqueued.outcome, EnqueueOutcome::Rejected(UpdateRejection::NoRoom), "{combine:?}");
        let departure = rig.queue.dequeue().unwrap();
        assert_eq!((departure.update, departure.aggregations), (half(1, first.0), 0));
        assert_eq!(pascaline_buffer::PacketBuf::bytes(&departure.packet), [7; 86]);
    }
}

#[test]
fn configurations_that_make_no_queue() {
    let check = |change: fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        config.check()
    };
    assert_eq!(check(|_| ()), Ok(()));
    assert_eq!(check(|config| config.segments = 0), Err(ConfigError::Segments));
    assert_eq!(check(|config| config.segment_len = 0), Err(ConfigError::SegmentLen));
    assert_eq!(check(|config| config.clusters = 0), Err(ConfigError::Clusters(0)));
    assert_eq!(check(|config| config.clusters = 1 << 24), Ok(()));
    assert_eq!(check(|config| config.clusters = (1 << 24) + 1), Err(ConfigError::Clusters((1 << 24) + 1)));
    assert_eq!(check(|config| config.reward_threshold = -0.5), Err(ConfigError::RewardThreshold(-0.5)));
    assert!(check(|config| config.reward_threshold = f32::NAN).is_err());
    let short = Duration::from_micros(999);
    assert_eq!(
        check(|config| config.activity = Duration::from_micros(999)),
        Err(ConfigError::Activity(short))
    );
}
