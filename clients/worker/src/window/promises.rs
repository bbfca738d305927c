//! What a worker has promised of a PSN that is put to the vote.

use super::Window;

impl Window {
    /// Promises to take no result of an outstanding PSN but of this round.
    pub fn promise(&mut self, psn: u32, round: u16) {
        self.slots[(psn & self.mask) as usize].promised = round;
    }

    /// What has been promised of an outstanding PSN, in this generation.
    #[must_use]
    pub fn promised(&self, psn: u32) -> u16 {
        self.slots[(psn & self.mask) as usize].promised
    }
}
