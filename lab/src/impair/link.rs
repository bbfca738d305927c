//! What happens to each frame: the decisions of an imperfect link, with no socket and no clock of its own.
//!
//! Frames go in with the time, frames come out in the order in which they are to be sent. Nothing else happens, so the
//! same seed gives the same decisions for the same sequence of frames, on any machine and at any speed.
//!
//! What always holds, whatever the rates: `received = forwarded - duplicated + lost + overflow + held`, and a frame that is
//! held back comes out after [`MAX_HOLD`] at the latest, or when the link is [flushed](Impairment::flush).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

/// A frame is held back until this many later frames have passed it, at most: enough to arrive out of order, little
/// enough not to look like loss.
const MAX_OVERTAKERS: u64 = 3;

/// A frame is held back for this long at most: nothing may follow it, and then nobody would ever let it go.
pub(crate) const MAX_HOLD: Duration = Duration::from_millis(3);

/// Frames held back at a time in one direction. Beyond it a frame passes unharmed, so memory stays bounded.
const MAX_HELD: usize = 64;

/// How often each thing happens to a frame, each in percent of all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// The frame disappears.
    pub(crate) loss: f64,
    /// The frame arrives twice.
    pub(crate) duplicate: f64,
    /// The frame arrives after frames that were sent later.
    pub(crate) reorder: f64,
}

/// What was done to the frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counters {
    /// Frames that came in.
    pub(crate) received: u64,
    /// Frames that went out, duplicates included.
    pub(crate) forwarded: u64,
    /// Frames that disappeared on purpose.
    pub(crate) lost: u64,
    /// Additional copies that went out.
    pub(crate) duplicated: u64,
    /// Frames that were really overtaken by a later one.
    pub(crate) reordered: u64,
    /// Frames that could not be taken or sent: lost, but not on purpose.
    pub(crate) overflow: u64,
}

/// A frame that waits to be overtaken.
#[derive(Debug)]
struct Held<F> {
    frame: F,
    /// Later frames that have still to pass it.
    waits_for: u64,
    overtaken: bool,
    until: Instant,
}

/// One direction of an imperfect link. `F` is a frame: anything that can be sent twice.
#[derive(Debug)]
pub(crate) struct Impairment<F> {
    rates: Rates,
    random: SplitMix64,
    /// Oldest first; every frame is held for the same time, so the first one is also the first to be due.
    held: VecDeque<Held<F>>,
    counters: Counters,
}

impl<F: Clone> Impairment<F> {
    /// A link that decides by `seed`.
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        Self {
            rates,
            random: SplitMix64(seed),
            held: VecDeque::with_capacity(MAX_HELD),
            counters: Counters::default(),
        }
    }

    /// Takes a frame that arrived at `now` and appends to `out` what leaves because of it: nothing, the frame, the
    /// frame twice, and any held frames that it has overtaken.
    pub(crate) fn offer(&mut self, now: Instant, frame: F, out: &mut Vec<F>) {
        self.counters.received += 1;
        // Four draws for every frame, needed or not: the fate of the n-th frame then depends on the seed and on n alone.
        let lost = self.random.happens(self.rates.loss);
        let duplicated = self.random.happens(self.rates.duplicate);
        let reordered = self.random.happens(self.rates.reorder);
        let overtakers = 1 + self.random.next() % MAX_OVERTAKERS;

        if lost {
            self.counters.lost += 1;
            return;
        }
        if reordered && self.held.len() < MAX_HELD {
            // Its duplicate, if it has one, goes ahead: two copies held side by side would come out in order again.
            if duplicated {
                self.counters.duplicated += 1;
                self.emit(frame.clone(), out);
                self.overtake(out);
            }
            let until = now + MAX_HOLD;
            self.held.push_back(Held { frame, waits_for: overtakers, overtaken: false, until });
            return;
        }
        if duplicated {
            self.counters.duplicated += 1;
            self.emit(frame.clone(), out);
        }
        self.emit(frame, out);
        self.overtake(out);
    }

    /// Appends to `out` the frames that have been held for long enough.
    pub(crate) fn release_due(&mut self, now: Instant, out: &mut Vec<F>) {
        while self.held.front().is_some_and(|held| held.until <= now) {
            self.release_first(out);
        }
    }

    /// When [`release_due`](Self::release_due) will next have something to do.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.held.front().map(|held| held.until)
    }

    /// Appends every held frame to `out`: nothing is lost that was not meant to be.
    pub(crate) fn flush(&mut self, out: &mut Vec<F>) {
        while !self.held.is_empty() {
            self.release_first(out);
        }
    }

    /// What was done so far.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes back `frames` that were to leave but could not: the device refused them.
    pub(crate) fn not_sent(&mut self, frames: u64) {
        self.counters.forwarded -= frames;
        self.counters.overflow += frames;
    }

    /// Counts `frames` that came to the interface but could not be taken: too long, or no room in the kernel's queue.
    pub(crate) fn not_taken(&mut self, frames: u64) {
        self.counters.received += frames;
        self.counters.overflow += frames;
    }

    fn emit(&mut self, frame: F, out: &mut Vec<F>) {
        self.counters.forwarded += 1;
        out.push(frame);
    }

    /// A frame has just passed all those that are held: lets go of the ones that were waiting only for it.
    fn overtake(&mut self, out: &mut Vec<F>) {
        for held in &mut self.held {
            held.waits_for -= 1;
            held.overtaken = true;
        }
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].waits_for > 0 {
                index += 1;
            } else if let Some(held) = self.held.remove(index) {
                self.let_go(held, out);
            }
        }
    }

    fn release_first(&mut self, out: &mut Vec<F>) {
        if let Some(held) = self.held.pop_front() {
            self.let_go(held, out);
        }
    }

    fn let_go(&mut self, held: Held<F>, out: &mut Vec<F>) {
        self.counters.reordered += u64::from(held.overtaken);
        self.emit(held.frame, out);
    }
}

/// Steele, Lea and Flood's `SplitMix64`: eight bytes of state and good enough to toss coins with.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True in `percent` of all cases.
    fn happens(&mut self, percent: f64) -> bool {
        // 2^53 equally likely numbers are what an f64 holds exactly.
        #[allow(clippy::cast_precision_loss)]
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        uniform * 100.0 < percent
    }
}

#[cfg(test)]
mod tests {
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

    /// The bounds of five standard deviations: a fair coin leaves them once in two million runs, and the seed is fixed.
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
            assert_eq!(
                distinct.len() as u64,
                c.received - c.lost,
                "each survivor comes out, none is made up"
            );
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
        let overtaken =
            (0..out.len()).filter(|&i| out[..i].iter().rev().take(8).any(|&x| x > out[i])).count();
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

        // A slow link releases held frames by time instead of by later frames; who is lost or doubled stays the same.
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
        assert_eq!(
            link.counters(),
            Counters { received: 12, forwarded: 7, overflow: 5, ..Counters::default() }
        );
    }
}
