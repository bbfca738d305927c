//! A worker's promises about a PSN that is put to the vote.

use super::Window;

impl Window {
    /// Promises to take only this round's result of an outstanding PSN.
    pub fn promise(&mut self, psn: u32, round: u16) {
        self.slots[(psn & self.mask) as usize].promised = round;
    }

    /// The promise about an outstanding PSN, in this generation.
    #[must_use]
    pub fn promised(&self, psn: u32) -> u16 {
        self.slots[(psn & self.mask) as usize].promised
    }
}
