use super::parse::{appliance, bind, duration, size};
use super::sample::{Sample, stream};
use super::*;

#[test]
fn sizes() {
    for (text, expected) in [
        ("0", 0),
        ("4096", 4096),
        ("16MiB", 16 << 20),
        ("4Mi", 4 << 20),
        ("2k", 2000),
        ("1GB", 1_000_000_000),
    ] {
        assert_eq!(size(text), Ok(expected), "{text}");
    }
    for text in ["", "MiB", "1.5Mi", "16MiX", "-1", "99999999999999999999", "18446744073709551615Ki"] {
        assert!(size(text).is_err(), "{text}");
    }
}

#[test]
fn durations() {
    for (text, millis) in [("30s", 30_000), ("500ms", 500), ("1.5s", 1500), ("2m", 120_000), ("0s", 0)] {
        assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
    }
    for text in ["", "30", "s", "1h", "-1s", "1..s"] {
        assert!(duration(text).is_err(), "{text}");
    }
}

#[test]
fn addresses() {
    assert_eq!(appliance("10.77.0.254").unwrap().to_string(), "10.77.0.254:16420");
    assert_eq!(appliance("10.77.0.254:5").unwrap().to_string(), "10.77.0.254:5");
    assert_eq!(appliance("fd00::1").unwrap().to_string(), "[fd00::1]:16420");
    assert_eq!(appliance("[fd00::1]:7").unwrap().to_string(), "[fd00::1]:7");
    assert_eq!(bind("10.0.0.1").unwrap().to_string(), "10.0.0.1:0");
    assert!(bind("nowhere").is_err());
}

#[test]
fn any_order_of_f32_additions_is_within_the_bound_and_a_lost_addend_is_not() {
    for ranks in [1_u16, 2, 3, 8, 1024] {
        let streams: Vec<u64> = (0..ranks).map(|rank| stream(1, rank, 0)).collect();
        for index in 0..200 {
            let addends: Vec<f32> = streams.iter().map(|&s| f32::sample(s, index)).collect();
            let forward: f32 = addends.iter().sum();
            let backward: f32 = addends.iter().rev().sum();
            assert_eq!(forward.differs(addends.iter().copied()), None);
            assert_eq!(backward.differs(addends.iter().copied()), None);
            let lost = forward - addends[0];
            // A sample of almost nothing may hide in the rounding of a thousand others.
            if addends[0].abs() > 0.1 {
                assert!(lost.differs(addends.iter().copied()).is_some(), "{ranks} {index}");
            }
            assert!(f32::NAN.differs(addends.into_iter()).is_some());
        }
    }
}

#[test]
fn i32_samples_are_small_enough_and_checked_bit_by_bit() {
    let stream = stream(7, 3, 2);
    assert!((0..10_000).all(|index| i32::sample(stream, index).unsigned_abs() <= 1 << 20));
    assert_eq!(6.differs([1, 2, 3].into_iter()), None);
    assert_eq!(7.differs([1, 2, 3].into_iter()), Some(6.0));
}

#[test]
fn medians() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
}
