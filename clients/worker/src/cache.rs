//! Cached results of finished operations, for ranks that have lost theirs.
//!
//! A rank that waits for PSN p sends nothing at or beyond p + spread, so no rank can have completed more than
//! `spread` PSNs from p on: others can only ask for the last `spread` results.

use core::time::Duration;

use pascaline_wire::{Element, Flags};

/// A cached result without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its element type and operation.
    pub element: Element,
    /// Its flags: whether an element saturated, whether it is the last one of its operation.
    pub flags: Flags,
    /// When it was last sent in answer to a reminder.
    pub reminded_at: Option<Duration>,
    psn: u32,
    len: u16,
}

/// The last results, by PSN.
#[derive(Debug)]
pub struct ResultCache {
    entries: Box<[Option<Entry>]>,
    bytes: Box<[u8]>,
    payload: usize,
    mask: u32,
}

impl ResultCache {
    /// Room for `spread` results of up to `payload` bytes.
    ///
    /// Memory: `spread` rounded up to a power of two, times `payload`.
    #[must_use]
    pub fn new(spread: u16, payload: u16) -> Self {
        let ring = u32::from(spread.max(1)).next_power_of_two();
        let payload = usize::from(payload);
        Self {
            entries: vec![None; ring as usize].into_boxed_slice(),
            bytes: vec![0; ring as usize * payload].into_boxed_slice(),
            payload,
            mask: ring - 1,
        }
    }

    /// Caches a result in place of the one that is a ring's length older. Cuts `bytes` at the payload length.
    pub fn insert(&mut self, psn: u32, element: Element, flags: Flags, bytes: &[u8]) {
        let at = (psn & self.mask) as usize;
        let bytes = &bytes[..bytes.len().min(self.payload)];
        self.bytes[at * self.payload..][..bytes.len()].copy_from_slice(bytes);
        // Never more than `payload`, which came as u16.
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.entries[at] = Some(Entry { element, flags, reminded_at: None, psn, len });
    }

    /// The entry of a PSN's result, if it is cached.
    #[must_use]
    pub fn entry(&self, psn: u32) -> Option<&Entry> {
        self.entries[(psn & self.mask) as usize].as_ref().filter(|entry| entry.psn == psn)
    }

    /// Notes that a reminder is being answered.
    pub fn note_answer(&mut self, psn: u32, now: Duration) {
        if let Some(entry) =
            self.entries[(psn & self.mask) as usize].as_mut().filter(|entry| entry.psn == psn)
        {
            entry.reminded_at = Some(now);
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.entries.fill(None);
    }

    /// The bytes of a cached result; empty if it is not cached.
    #[must_use]
    pub fn bytes(&self, psn: u32) -> &[u8] {
        let at = (psn & self.mask) as usize;
        self.entry(psn).map_or(&[], |entry| &self.bytes[at * self.payload..][..usize::from(entry.len)])
    }
}
