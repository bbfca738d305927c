use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use pascaline_worker::{bf16, f16};

use super::collective::Want;
use super::command::Step;
use super::member::stay_on;
use super::parse::{appliance, bind, duration, size};
use super::report::median;
use super::sample::{Check, Op, Order, Sample, stream};
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
    for text in ["", "30", "s", "1 fortnight", "-1s", "1..s"] {
        assert!(duration(text).is_err(), "{text}");
    }
}

#[test]
fn commands_of_members() {
    use pascaline_worker::Command::{FBcast, Halt, Help, Reset, SetH};
    let sent = |text: &str| match text.parse() {
        Ok(Step::Send(command)) => command,
        other => panic!("{text}: {other:?}"),
    };
    let texts = ["halt", "reset", "seth=3", "fbcast=4711", "help=4294967295"];
    assert_eq!(texts.map(sent), [Halt, Reset, SetH(3), FBcast(4711), Help(u32::MAX)]);
    assert_eq!(texts.map(|text| sent(text).to_string()), texts);
    let ahead = |command: pascaline_worker::Command| (command, command.counted_from(u32::MAX));
    assert!(matches!("help=+5".parse(), Ok(Step::FromFirst(it)) if ahead(it) == (Help(5), Help(4))));
    assert_eq!(SetH(3).counted_from(9), SetH(3));
    assert!(matches!("wait=2s".parse(), Ok(Step::Wait(time)) if time == Duration::from_secs(2)));
    for text in
        ["", "halt=1", "reset=x", "seth", "seth=-1", "fbcast=", "help=+", "help=-1", "wait=2", "leave"]
    {
        assert!(text.parse::<Step>().is_err(), "{text}");
    }
}

#[test]
fn addresses() {
    assert_eq!(appliance("10.77.0.254").unwrap().first.to_string(), "10.77.0.254:16420");
    assert_eq!(appliance("10.77.0.254:5").unwrap().first.to_string(), "10.77.0.254:5");
    assert_eq!(appliance("fd00::1").unwrap().first.to_string(), "[fd00::1]:16420");
    assert_eq!(appliance("[fd00::1]:7").unwrap().first.to_string(), "[fd00::1]:7");
    assert_eq!(appliance("[fd00::1]").unwrap().first.to_string(), "[fd00::1]:16420");
    assert!(["10.77.0.254:0", "[fd00::1]:0", "localhost:0"].iter().all(|name| appliance(name).is_err()));
    assert_eq!(bind("10.0.0.1").unwrap().to_string(), "10.0.0.1:0");
    assert!(bind("nowhere").is_err());
    let by_name = appliance("localhost:9").unwrap().first;
    assert!(by_name.ip().is_loopback() && by_name.port() == 9);
}

/// Ten elements among four ranks: three, three, two, two.
#[test]
fn each_collective_leaves_its_own_elements() {
    let wants = |collective, rank| {
        let wants = CollectiveArgs { collective, root: 2, wire: None, feedback: false }.wants(rank, 4, 10);
        (0..10).map(|index| wants.at(index)).collect::<Vec<_>>()
    };
    let of = |rank| vec![Want::Of(rank); 10];
    assert_eq!(wants(Kind::Allreduce, 1), vec![Want::Combined; 10]);
    assert_eq!(wants(Kind::Reduce, 2), vec![Want::Combined; 10]);
    assert_eq!(wants(Kind::Reduce, 1), of(1));
    assert_eq!(wants(Kind::Broadcast, 3), of(2));
    let parts = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3];
    assert_eq!(wants(Kind::Allgather, 1), parts.map(Want::Of));
    let own = |rank: u16| parts.map(|part| if part == rank { Want::Combined } else { Want::Of(rank) });
    assert_eq!(wants(Kind::ReduceScatter, 2), own(2));
}

/// Every type takes what any order of additions makes of it and refuses what lacks an addend.
fn orders<T: Sample + PartialEq>(add: fn(T, T) -> T) {
    for ranks in [1_u16, 2, 3, 8, 1024] {
        let streams: Vec<u64> = (0..ranks).map(|rank| stream(1, rank, 0)).collect();
        for index in 0..100 {
            let samples: Vec<T> = streams.iter().map(|&s| T::sample(s, index)).collect();
            let check = |got: T, op, order| Check::new::<T>(op, order, ranks).differs(got, &samples);
            // With every addition rounded to the type, which is more than an appliance does to 16-bit ones.
            let forward = samples.iter().copied().reduce(add).unwrap();
            let backward = samples.iter().rev().copied().reduce(add).unwrap();
            assert_eq!(check(forward, Op::Sum, Order::Arrival), None);
            assert_eq!(check(backward, Op::Sum, Order::Arrival), None);
            let exact = T::sum_in_order(&samples);
            let mean = T::nearest(exact.value() / f64::from(ranks));
            for order in [Order::Arrival, Order::Rank] {
                assert_eq!(check(exact, Op::Sum, order), None);
                assert_eq!(check(mean, Op::Mean, order), None, "{ranks} {index} {samples:?}");
            }
            let backward_mean = T::nearest(backward.value() / f64::from(ranks));
            assert_eq!(check(backward_mean, Op::Mean, Order::Arrival), None);
            let sorted = |pick: fn(f64, f64) -> f64| samples.iter().map(|s| s.value()).reduce(pick).unwrap();
            assert_eq!(check(T::nearest(sorted(f64::min)), Op::Min, Order::Arrival), None);
            assert_eq!(check(T::nearest(sorted(f64::max)), Op::Max, Order::Rank), None);

            // A sample of almost nothing may hide in the roundings of many others.
            let lost = T::nearest(exact.value() - samples[0].value());
            let limit = f64::from(ranks) * T::ROUNDOFF * samples.iter().map(|s| s.value().abs()).sum::<f64>();
            if samples[0].value().abs() > 4.0 * limit {
                assert!(check(lost, Op::Sum, Order::Arrival).is_some(), "{ranks} {index}");
                assert!(check(T::nearest(lost.value() / f64::from(ranks)), Op::Mean, Order::Rank).is_some());
            }
            if ranks > 1 {
                assert!(check(T::nearest(sorted(f64::min)), Op::Max, Order::Rank).is_some(), "{samples:?}");
            }
        }
    }
}

fn differs<T: Sample>(got: T, op: Op, order: Order, samples: &[T]) -> Option<f64> {
    Check::new::<T>(op, order, u16::try_from(samples.len()).unwrap()).differs(got, samples)
}

#[test]
fn what_is_no_number_is_no_result() {
    for op in [Op::Sum, Op::Min, Op::Max, Op::Mean] {
        for order in [Order::Arrival, Order::Rank] {
            for got in [f64::NAN, f64::INFINITY] {
                assert!(differs(got, op, order, &[1.0, 2.0]).is_some(), "{op:?} {order:?} {got}");
                assert!(differs(bf16::from_f64(got), op, order, &[bf16::ONE; 2]).is_some());
            }
        }
    }
}

#[test]
fn every_order_of_additions_is_within_the_bounds() {
    orders::<f32>(|a, b| a + b);
    orders::<f64>(|a, b| a + b);
    orders::<i32>(|a, b| a + b);
    orders::<f16>(|a, b| f16::from_f64(a.to_f64() + b.to_f64()));
    orders::<bf16>(|a, b| bf16::from_f64(a.to_f64() + b.to_f64()));
}

#[test]
fn the_order_of_ranks_is_checked_bit_by_bit() {
    // 1 + 2⁻²⁴ + 2⁻²⁴ is 1 in this order, and a bit more in the other.
    let samples = [1.0_f32, f32::powi(2.0, -24), f32::powi(2.0, -24)];
    let other = 1.0 + f32::EPSILON;
    assert_eq!(differs(1.0_f32, Op::Sum, Order::Rank, &samples), None);
    assert_eq!(differs(other, Op::Sum, Order::Rank, &samples), Some(1.0));
    assert_eq!(differs(other, Op::Sum, Order::Arrival, &samples), None);
    // 16-bit sums are rounded once: 256 + 1 + 1 is 258 in bf16, though 256 + 1 is 256.
    let samples = [256.0, 1.0, 1.0].map(bf16::from_f32);
    assert_eq!(differs(bf16::from_f32(258.0), Op::Sum, Order::Rank, &samples), None);
    assert_eq!(differs(bf16::from_f32(256.0), Op::Sum, Order::Rank, &samples), Some(258.0));
    assert_eq!(differs(bf16::from_f32(256.0), Op::Sum, Order::Arrival, &samples), None);
}

#[test]
fn i32_samples_are_small_enough_and_checked_bit_by_bit() {
    let stream = stream(7, 3, 2);
    assert!((0..10_000).all(|index| i32::sample(stream, index).unsigned_abs() <= 1 << 20));
    assert_eq!(differs(6, Op::Sum, Order::Arrival, &[1, 2, 3]), None);
    assert_eq!(differs(7, Op::Sum, Order::Arrival, &[1, 2, 3]), Some(6.0));
    assert_eq!(differs(3, Op::Mean, Order::Arrival, &[1, 2, 5]), None);
    assert_eq!(differs(2, Op::Mean, Order::Arrival, &[1, 4]), None, "2.5, to even");
    assert_eq!(differs(3, Op::Mean, Order::Arrival, &[1, 4]), Some(2.0));
}

#[test]
fn the_checksum_tells_bits_apart_and_not_pieces() {
    let checksum = |pieces: &[&[u8]]| {
        let mut outcome = Outcome::new(2);
        pieces.iter().for_each(|piece| outcome.note(1.0, piece, None));
        outcome.checksum.finish()
    };
    assert_eq!(checksum(&[b"abcd", b"efgh"]), checksum(&[b"abcdefgh"]));
    assert_ne!(checksum(&[b"abcdefgh"]), checksum(&[b"abcdefgi"]));
    // XXH64 of nothing with seed 0, as its specification has it: the same in every release.
    assert_eq!(checksum(&[]), 0xef46_db37_51d8_e999);
}

#[test]
fn medians() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
}

#[test]
fn a_thread_stays_on_a_core() {
    let here = Pid::from_raw(0);
    // A thread of its own: others of this process shall go where they like.
    std::thread::spawn(move || {
        let allowed = sched_getaffinity(here).unwrap();
        let is = |core: &usize| allowed.is_set(*core).unwrap_or(false);
        let last = (0..CpuSet::count()).rfind(is).unwrap();
        stay_on(last).unwrap();
        let now = sched_getaffinity(here).unwrap();
        let cores: Vec<_> = (0..CpuSet::count()).filter(|&core| now.is_set(core).unwrap()).collect();
        assert_eq!(cores, [last]);
        // More than a set has places for, and a place without a core.
        for core in [CpuSet::count(), CpuSet::count() - 1] {
            let why = stay_on(core).unwrap_err().to_string();
            assert!(why.starts_with(&format!("--core {core}: EINVAL")), "{why}");
        }
    })
    .join()
    .unwrap();
}
