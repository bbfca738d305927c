//! On one link with others, in virtual time.

use std::collections::VecDeque;

use super::super::Signal;
use super::*;

/// The time of a packet on the link: 1.5 KB at 100 Mbit/s.
const PACKET: Duration = Duration::from_micros(120);
const SECOND: Duration = Duration::from_secs(1);
/// Packets that wait from which on some are marked, and all.
const MARKS: (usize, usize) = (80, 240);

/// A sender.
trait Flow {
    /// How many packets may be in flight.
    fn window(&self) -> usize;
    /// One has come through.
    fn on_result(&mut self, now: Duration, sent_at: Duration, marked: bool);
}

impl Flow for Delay {
    fn window(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let whole = self.window() as usize;
        whole
    }

    fn on_result(&mut self, now: Duration, sent_at: Duration, marked: bool) {
        let signal = Signal { marked, cap: u16::MAX };
        self.on_result(&Sample { now, sent_at, ambiguous: false, signal, limited: true }, 512.0);
    }
}

/// Holds queues as BBR, version 1, does: it ignores marks. It has in flight twice the empty path's capacity
/// by the best rate of ten rounds and the shortest time, and a bunch more. Each ten seconds it has 4 in
/// flight for 200 ms, and takes the shortest time from then.
struct Deaf {
    shortest: Duration,
    looks_at: Duration,
    seen: Duration,
    round: Duration,
    results: u32,
    rates: VecDeque<f64>,
}

impl Deaf {
    const BUNCHES: f64 = 18.0;

    fn new() -> Self {
        let rates = VecDeque::from([1.0 / PACKET.as_secs_f64()]);
        let shortest = PACKET * 2;
        Self {
            shortest,
            looks_at: 10 * SECOND,
            seen: Duration::MAX,
            round: Duration::ZERO,
            results: 0,
            rates,
        }
    }
}

impl Flow for Deaf {
    fn window(&self) -> usize {
        let rate = self.rates.iter().copied().fold(0.0, f64::max);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let whole = (2.0 * rate * self.shortest.as_secs_f64() + Self::BUNCHES) as usize;
        if self.round >= self.looks_at { 4 } else { whole.max(4) }
    }

    fn on_result(&mut self, now: Duration, sent_at: Duration, _: bool) {
        self.results += 1;
        if sent_at < self.round {
            return;
        }
        if self.round >= self.looks_at {
            self.seen = self.seen.min(now - sent_at);
            if now > self.looks_at + SECOND / 5 {
                (self.shortest, self.looks_at, self.seen) = (self.seen, now + 10 * SECOND, Duration::MAX);
            }
        }
        self.rates.push_back(f64::from(self.results) / (now - self.round).as_secs_f64());
        if self.rates.len() > 10 {
            self.rates.pop_front();
        }
        (self.round, self.results) = (now, 0);
    }
}

/// A link and its queue: what waits, who sent it, when, and whether it is marked.
#[derive(Default)]
struct Link {
    waiting: VecDeque<(usize, Duration, bool)>,
    marks: f64,
}

impl Link {
    /// The more wait, the more are marked.
    fn push(&mut self, who: usize, now: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let part = self.waiting.len().saturating_sub(MARKS.0) as f64 / (MARKS.1 - MARKS.0) as f64;
        self.marks += part;
        let marked = self.marks >= 1.0;
        self.marks = if marked { 0.0 } else { self.marks };
        self.waiting.push_back((who, now, marked));
    }
}

/// What part of the link the first of two has in each ten seconds.
fn parts(mut flows: [&mut dyn Flow; 2], tens: u32) -> Vec<f64> {
    let (mut link, mut now, mut in_flight) = (Link::default(), Duration::ZERO, [0, 0]);
    let mut parts = Vec::new();
    for ten in 1..=tens {
        let mut results = [0_u32; 2];
        while now < 10 * SECOND * ten {
            now += PACKET;
            if let Some((who, sent_at, marked)) = link.waiting.pop_front() {
                flows[who].on_result(now, sent_at, marked);
                in_flight[who] -= 1;
                results[who] += 1;
            }
            // Room of the result, and one packet more: a window grows by one with each result.
            for (who, flow) in flows.iter_mut().enumerate() {
                for _ in in_flight[who]..flow.window().min(in_flight[who] + 2) {
                    link.push(who, now);
                    in_flight[who] += 1;
                }
            }
        }
        parts.push(f64::from(results[0]) / f64::from(results[0] + results[1]));
    }
    parts
}

/// A flow that reacts only to what it measures when it leaves the queues.
#[test]
fn beside_a_flow_that_heeds_no_marks_it_has_half_in_the_mean() {
    let mut delay = Delay::default();
    let parts = parts([&mut delay, &mut Deaf::new()], 10);
    println!("{parts:.2?}");
    let mean = parts[2..].iter().sum::<f64>() / 8.0;
    assert!((0.40..0.60).contains(&mean), "{mean:.2} of {parts:.2?}");
}

/// The largest window once it has found its size, without other senders, of results from a host that works on
/// half of the packets in flight at a time. Each batch takes it 50 µs, and 2 µs for each packet. It hands
/// results on at once, or as a link would, one after the other.
fn largest(at_once: bool) -> f64 {
    let mut delay = Delay::default();
    let (mut waiting, mut now, mut largest) = (VecDeque::new(), Duration::ZERO, 0.0_f64);
    while now < SECOND {
        while waiting.len() < Flow::window(&delay) {
            waiting.push_back(now);
        }
        let bunch: Vec<_> = waiting.drain(..waiting.len() / 2).collect();
        let count = u32::try_from(bunch.len()).unwrap();
        let each = Duration::from_micros(50) / count + Duration::from_micros(2);
        let end = now + each * count;
        for sent_at in bunch {
            now += each;
            Flow::on_result(&mut delay, if at_once { end } else { now }, sent_at, false);
        }
        now = end;
        if now > SECOND / 2 {
            largest = largest.max(delay.window);
        }
    }
    largest
}

/// More of its packets may wait where the larger bunch is less work for each, and nowhere else.
#[test]
fn where_hosts_handle_packets_in_bunches_the_window_is_larger() {
    let (bunches, link) = (largest(true), largest(false));
    println!("{bunches:.0} and {link:.0}");
    assert!((200.0..=400.0).contains(&bunches), "{bunches:.0}");
    assert!((64.0..160.0).contains(&link), "{link:.0}");
}
