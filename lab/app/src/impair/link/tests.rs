use super::*;

const ALL: Rates = Rates { loss: 5.0, duplicate: 5.0, reorder: 5.0 };

/// Sends `frames` numbered frames, one a microsecond, and returns what came out (flushed) and the link.
fn send(rates: Rates, seed: u64, frames: u64) -> (Vec<u64>, Impairment<u64>) {
    let mut link = Impairment::new(rates, seed);
    let mut out = Vec::new();
    let start = Instant::now();
    for frame in 0..frames {
        let now = start + Duration::from_micros(frame);
        link.release_due(now, &mut out);
        link.offer(now, frame, &mut out);
    }
    link.flush(&mut out);
    (out, link)
}

/// The bounds of five standard deviations: a fair coin leaves them once in two million runs, and the seed is
/// fixed.
fn close(count: u64, frames: u64, percent: f64) -> bool {
    let (count, frames, p) = (count as f64, frames as f64, percent / 100.0);
    (count - frames * p).abs() <= 5.0 * (frames * p * (1.0 - p)).sqrt()
}

#[test]
fn a_perfect_link_changes_nothing() {
    let (out, link) = send(Rates::default(), 1, 1000);
    assert_eq!(out, (0..1000).collect::<Vec<_>>());
    assert_eq!(link.counters(), Counters { received: 1000, forwarded: 1000, ..Counters::default() });
}

#[test]
fn every_frame_is_accounted_for() {
    for seed in 0..32 {
        let (out, link) = send(ALL, seed, 2000);
        let c = link.counters();
        assert_eq!(c.received, 2000);
        assert_eq!(c.forwarded, out.len() as u64);
        assert_eq!(c.received, c.forwarded - c.duplicated + c.lost);
        let mut distinct = out.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len() as u64, c.received - c.lost, "each survivor comes out, none is made up");
        assert_eq!(
            out.len() - distinct.len(),
            usize::try_from(c.duplicated).unwrap(),
            "no frame comes three times"
        );
    }
}

#[test]
fn the_rates_are_those_asked_for() {
    let frames = 200_000;
    let rates = Rates { loss: 1.0, duplicate: 2.0, reorder: 3.0 };
    let (_, link) = send(rates, 7, frames);
    let c = link.counters();
    assert!(close(c.lost, frames, 1.0), "{c:?}");
    let survivors = frames - c.lost;
    assert!(close(c.duplicated, survivors, 2.0), "{c:?}");
    assert!(close(c.reordered, survivors, 3.0), "{c:?}");
}

#[test]
fn all_and_nothing_are_possible() {
    let (out, link) = send(Rates { loss: 100.0, ..Rates::default() }, 1, 100);
    assert!(out.is_empty());
    assert_eq!(link.counters().lost, 100);
    let (out, link) = send(Rates { duplicate: 100.0, ..Rates::default() }, 1, 100);
    assert_eq!(out.len(), 200);
    assert_eq!(link.counters().duplicated, 100);
    let (out, _) = send(Rates { reorder: 100.0, ..Rates::default() }, 1, 1000);
    assert_eq!(out.len(), 1000, "the held frames are bounded, the frames are not lost");
}

#[test]
fn reordered_frames_are_really_overtaken() {
    let (out, link) = send(Rates { reorder: 5.0, ..Rates::default() }, 3, 10_000);
    let overtaken = (0..out.len()).filter(|&i| out[..i].iter().rev().take(8).any(|&x| x > out[i])).count();
    assert!(overtaken > 0);
    assert_eq!(overtaken as u64, link.counters().reordered);
    let furthest = out.iter().zip(0_u64..).map(|(&x, i)| i.abs_diff(x)).max().unwrap();
    assert!(furthest <= 2 * MAX_OVERTAKERS, "moved by {furthest}");
}

#[test]
fn the_same_seed_decides_the_same_whatever_the_clock_says() {
    let (a, _) = send(ALL, 42, 5000);
    let (b, _) = send(ALL, 42, 5000);
    assert_eq!(a, b);
    let (c, _) = send(ALL, 43, 5000);
    assert_ne!(a, c);

    // A slow link releases held frames by time instead of by later frames; the lost and doubled frames stay
    // the same.
    let mut slow = Impairment::new(ALL, 42);
    let mut out = Vec::new();
    let start = Instant::now();
    for frame in 0..5000_u32 {
        let now = start + MAX_HOLD * 2 * frame;
        slow.release_due(now, &mut out);
        slow.offer(now, u64::from(frame), &mut out);
    }
    slow.flush(&mut out);
    let sorted = |mut frames: Vec<u64>| {
        frames.sort_unstable();
        frames
    };
    assert_eq!(sorted(a), sorted(out));
    assert_eq!(slow.counters().reordered, 0, "delayed, but overtaken by none");
}

#[test]
fn a_held_frame_comes_out_in_bounded_time_without_any_other() {
    let mut link = Impairment::new(Rates { reorder: 100.0, ..Rates::default() }, 1);
    let mut out = Vec::new();
    let start = Instant::now();
    link.offer(start, 'a', &mut out);
    assert!(out.is_empty());
    assert_eq!(link.next_due(), Some(start + MAX_HOLD));
    link.release_due(start + MAX_HOLD - Duration::from_nanos(1), &mut out);
    assert!(out.is_empty());
    link.release_due(start + MAX_HOLD, &mut out);
    assert_eq!(out, ['a']);
    assert_eq!(link.next_due(), None);
    let c = link.counters();
    assert_eq!((c.received, c.forwarded, c.reordered), (1, 1, 0));
}

#[test]
fn frames_that_could_not_be_sent_are_not_called_forwarded() {
    let mut link = Impairment::new(Rates::default(), 1);
    let mut out = Vec::new();
    for frame in 0..10 {
        link.offer(Instant::now(), frame, &mut out);
    }
    link.not_sent(3);
    link.not_taken(2);
    assert_eq!(link.counters(), Counters { received: 12, forwarded: 7, overflow: 5, ..Counters::default() });
}
