//! The updates of an asynchronous job's workers, and how often each leaves for the parameter server.
//!
//! An update is a power of eight in one of its floats. Power and float identify the worker and the update's
//! number, modulo the number that there is room for. So the digits of a sum say which updates are inside, and
//! how often. No float gets so large that adding rounds. A queue that waits for long may hold several updates
//! whose numbers have the same digit: up to seven are counted. If there are more, the digits are not read:
//! they run into each other.

use std::collections::BTreeSet;

use pascaline_wire::{Header, Kind};

/// Digits in a float, whose 24 bits they fill, and bits of each.
const DIGITS: usize = 8;
const BITS: usize = 3;
/// The most updates with one digit that can be counted, and a float that takes more: all bits and one.
const MOST: u32 = (1 << BITS) - 1;
const LARGEST: f32 = 16_777_216.0;

/// The updates of a cluster, and the models that they have made.
pub(super) struct Ledger {
    floats: usize,
    ranks: usize,
    /// By rank and number: how many updates were sent, and how many have left for the server.
    updates: Vec<(u32, u32)>,
    /// The bits of all weights that the server has had.
    models: BTreeSet<Vec<u32>>,
}

impl Ledger {
    pub(super) fn new(floats: u16, ranks: u16) -> Self {
        let (floats, ranks) = (usize::from(floats), usize::from(ranks).max(1));
        Self { floats, ranks, updates: vec![(0, 0); floats * DIGITS], models: BTreeSet::new() }
    }

    /// The digit of a rank's update.
    fn digit(&self, rank: usize, number: u32) -> usize {
        let each = self.floats * DIGITS / self.ranks;
        rank * each + number as usize % each
    }

    /// A rank's update of this number.
    pub(super) fn gradient(&self, rank: usize, number: u32) -> Vec<f32> {
        let digit = self.digit(rank, number);
        let mut gradient = vec![0.0; self.floats];
        if let (Some(value), Ok(power)) = (gradient.get_mut(digit / DIGITS), i32::try_from(digit % DIGITS)) {
            *value = 8f32.powi(power);
        }
        gradient
    }

    /// A rank sends its update of this number.
    pub(super) fn sent(&mut self, rank: usize, number: u32) {
        let digit = self.digit(rank, number);
        if let Some((sent, _)) = self.updates.get_mut(digit) {
            *sent += 1;
        }
    }

    /// A datagram leaves the appliance for the server: the updates in it are as many as its count, and none
    /// of them has left before. Otherwise returns the error.
    pub(super) fn departs(&mut self, header: &Header, body: &[u8]) -> Result<(), String> {
        if header.kind != Kind::Update {
            return Ok(());
        }
        let (payload, _) = header.payload(body).map_err(|why| format!("an update is malformed: {why:?}"))?;
        let values = || payload.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).enumerate();
        let count = u32::from(header.count);
        if count > MOST && values().any(|(_, value)| value >= LARGEST) {
            return Ok(());
        }
        let mut all = Vec::new();
        for (at, value) in values() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as compared below")]
            let digits = value as u32;
            #[expect(clippy::cast_precision_loss, reason = "as compared here")]
            if digits as f32 != value || value >= LARGEST {
                return Err(format!("float {at} of an update is {value}, which no sum of updates is"));
            }
            all.extend((0..DIGITS).map(|place| digits >> (BITS * place) & MOST));
        }
        let inside: u32 = all.iter().sum();
        // Each time that a digit is full it counts one in the next, instead of eight.
        if count > inside && count > MOST && (count - inside).is_multiple_of(MOST) {
            return Ok(());
        }
        if inside != count {
            return Err(format!("an update says {count}, and {inside} are inside"));
        }
        for (digit, ((sent, left), times)) in self.updates.iter_mut().zip(all).enumerate() {
            *left += times;
            if times > 0 && left > sent {
                let (at, place) = (digit / DIGITS, digit % DIGITS);
                return Err(format!("of {sent} updates with digit {place} of float {at}, {left} have left"));
            }
        }
        Ok(())
    }

    /// The server has these weights now.
    pub(super) fn became(&mut self, weights: &[f32]) {
        self.models.insert(bits(weights));
    }

    /// True if the server has had these weights.
    pub(super) fn knows(&self, weights: &[f32]) -> bool {
        self.models.contains(&bits(weights))
    }
}

fn bits(weights: &[f32]) -> Vec<u32> {
    weights.iter().map(|weight| weight.to_bits()).collect()
}

#[cfg(test)]
mod tests;
