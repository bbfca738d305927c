use super::*;

const MICRO: Duration = Duration::from_micros(1);
const MANY: f64 = 1e6;

fn sample(now: Duration, took: Duration, marked: bool, cap: u16) -> Sample {
    let signal = Signal { marked, cap };
    Sample { now, sent_at: now.saturating_sub(took), ambiguous: false, signal, limited: true }
}

/// As many results as the window holds, of which this many are marked.
fn panama_window(panama: &mut panama::Panama, marked: u32) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    let results = panama.window() as u32;
    for number in 0..results {
        panama.on_result(&sample(MICRO, MICRO, number < marked, u16::MAX), MANY);
    }
}

/// Figure 5, step by step.
#[test]
fn panama_doubles_to_ssthresh_and_shrinks_by_half_of_alpha() {
    let mut panama = panama::Panama::default();
    let windows: Vec<f64> = (0..8)
        .map(|_| {
            panama_window(&mut panama, 0);
            panama.window()
        })
        .collect();
    assert_eq!(windows, [4.0, 8.0, 16.0, 32.0, 64.0, 65.0, 66.0, 67.0]);
    let (g, mut alpha) = (panama::WEIGHT, (1.0 - panama::WEIGHT).powi(8));
    panama_window(&mut panama, 20);
    alpha = alpha * (1.0 - g) + g * 20.0 / 67.0;
    let after = 67.0 * (1.0 - alpha / 2.0);
    assert!((panama.window() - after).abs() < 1e-9);
    panama_window(&mut panama, 0);
    assert!((panama.window() - after - 1.0).abs() < 1e-9, "ssthresh is where it shrank to");
}

#[test]
fn panama_heeds_the_cap_at_once_and_never_stops() {
    let mut panama = panama::Panama::default();
    (0..6).for_each(|_| panama_window(&mut panama, 0));
    panama.on_result(&sample(MICRO, MICRO, false, 10), MANY);
    assert!((panama.window() - 10.0).abs() < 1e-9);
    panama.on_result(&sample(MICRO, MICRO, false, 0), MANY);
    (0..20).for_each(|_| panama_window(&mut panama, 1));
    assert!((panama.window() - 1.0).abs() < 1e-9);
}

#[test]
fn a_window_that_does_not_limit_does_not_grow() {
    for control in CongestionControl::ALL {
        let mut congestion = Congestion::new(control, 4096, 1088);
        let before = congestion.window();
        for number in 1..10_000 {
            let now = MICRO * 10 * number;
            congestion.on_result(&Sample { limited: false, ..sample(now, MICRO * 100, false, u16::MAX) });
        }
        assert_eq!(congestion.window(), before, "{}", control.name());
    }
}

#[test]
fn dsa_begins_with_60_kb_grows_by_one_a_window_and_halves_once_for_each() {
    let mut dsa = dsa::Dsa::new(1000);
    assert!((dsa.window() - 60.0).abs() < 1e-9);
    for _ in 0..60 {
        dsa.on_result(&sample(MICRO, MICRO, false, 5), MANY);
    }
    assert!((60.9..61.0).contains(&dsa.window()), "{}", dsa.window());
    for number in 0..30 {
        // All of them sent before the first mark came.
        dsa.on_result(&sample(MICRO * (100 + number), MICRO * (100 + number), true, 5), MANY);
    }
    assert!((30.4..30.5).contains(&dsa.window()), "{}", dsa.window());
    dsa.on_result(&sample(MICRO * 300, MICRO * 100, true, 5), MANY);
    assert!((15.2..15.3).contains(&dsa.window()), "{}", dsa.window());
}

/// A path that delivers a packet each microsecond, rounds of results that took this long; after a stall those
/// of a round come at once. This many of each round are lost.
fn delay_after(rounds: &[u32], stalled: Option<usize>, losses: u32) -> f64 {
    let mut delay = delay::Delay::default();
    delay.begin();
    let mut now = MICRO * 1000;
    for (number, &took) in rounds.iter().enumerate() {
        delay.on_loss(losses);
        let (results, step) = if stalled == Some(number) { (100, 0) } else { (took, 1) };
        now += if step == 0 { MICRO * (took - 100) } else { Duration::ZERO };
        for _ in 0..results {
            now += MICRO * step;
            delay.on_result(&sample(now, MICRO * took, false, u16::MAX), MANY);
        }
    }
    delay.window()
}

#[test]
fn delay_halves_when_two_rounds_are_slow_and_not_for_one() {
    let quick = [100].repeat(6);
    let grown = delay_after(&quick, None, 0);
    assert!(grown >= 256.0, "it doubles: {grown}");
    let stalled = delay_after(&[&quick[..], &[400], &quick].concat(), Some(6), 0);
    assert!(stalled > grown, "one slow round ends the doubling alone: {grown} {stalled}");
    let queued = delay_after(&[&quick[..], &[400].repeat(5)].concat(), None, 0);
    assert!(queued < grown, "{grown} {queued}");
}

#[test]
fn delay_takes_few_losses_for_accidents_and_many_for_a_full_queue() {
    let after = |losses| delay_after(&[100; 8], None, losses);
    let (none, few, many) = (after(0), after(5), after(50));
    assert!((none - few).abs() < 1e-9, "{none} {few}");
    assert!((many - delay::LEAST).abs() < 1e-9, "{many}");
}

/// An operation's first packets wait for the slowest rank.
#[test]
fn delay_learns_nothing_from_a_late_rank() {
    let mut delay = delay::Delay::default();
    for operation in 1..20 {
        let begins = MICRO * 1_000_000 * operation;
        delay.begin();
        for number in 0..200 {
            // The first 64 come late, all at once.
            let (now, took) = if number < 64 { (50_000, 50_000) } else { (50_000 + number, 100) };
            delay.on_result(&sample(begins + MICRO * now, MICRO * took, false, u16::MAX), 512.0);
        }
    }
    assert!((delay.window() - 512.0).abs() < 1e-9, "{}", delay.window());
}
