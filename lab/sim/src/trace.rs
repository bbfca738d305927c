//! The trace of a schedule: a hash of all events, and the last ones as text.

use std::collections::VecDeque;

use crate::random::mix;

/// Lines that are kept for a report.
const TAIL: usize = 120;

/// How much is written as text.
///
/// Text costs more than the schedule itself. A schedule runs without it, and again with it for a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    None,
    Tail,
    All,
}

/// The record of one schedule.
#[derive(Debug)]
pub(crate) struct Trace {
    words: Words,
    hash: u64,
    events: u64,
    lines: VecDeque<String>,
}

impl Trace {
    pub(crate) fn new(words: Words) -> Self {
        Self { words, hash: 0, events: 0, lines: VecDeque::new() }
    }

    /// Notes an event: time, code, and the bytes that it concerns. Calls `words` only if text is wanted.
    pub(crate) fn note(&mut self, now: u64, code: u64, bytes: &[u8], words: impl FnOnce() -> String) {
        let mut hash = mix(self.hash ^ now.rotate_left(8) ^ code);
        let (chunks, rest) = bytes.as_chunks::<8>();
        for &chunk in chunks {
            hash = (hash.rotate_left(5) ^ u64::from_le_bytes(chunk)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        for &byte in rest {
            hash = (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        self.hash = hash;
        self.events += 1;
        if self.words != Words::None {
            if self.words == Words::Tail && self.lines.len() == TAIL {
                self.lines.pop_front();
            }
            let micros = now / 1000;
            self.lines.push_back(format!("{:>6}.{:03} ms  {}", micros / 1000, micros % 1000, words()));
        }
    }

    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn finish(self) -> (u64, Vec<String>) {
        (mix(self.hash ^ self.events), self.lines.into())
    }
}
