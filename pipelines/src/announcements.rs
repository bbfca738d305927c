//! Own addresses, told to all hosts behind a port without a question: at the start, and when its link comes
//! up. Hosts that knew the address with another MAC, of an appliance that this one replaces, and switches
//! that knew the MAC at another port learn it at once instead of when their entries are old.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use pascaline_wire::frame::Address;

use crate::bridge::Ports;

/// A frame may be lost, or a switch may not forward yet: so often each is sent, so far apart. RFC 5227 has
/// two, RFC 4861 at most three a second apart.
const TIMES: u8 = 3;
const APART: Duration = Duration::from_secs(1);

/// Announcements still to be sent.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    ports: Ports,
    /// How often, from `due` on.
    left: u8,
    due: Duration,
    /// Ports and addresses whose frames have found no room yet.
    waiting: VecDeque<(usize, Address)>,
}

impl Announcements {
    /// Tells hosts behind these ports, at once.
    pub(crate) fn begin(&mut self, now: Duration, ports: Ports) {
        if ports.is_empty() {
            return;
        }
        self.ports = ports.iter().fold(self.ports, Ports::with);
        (self.left, self.due) = (TIMES, now);
    }

    /// Hands out what is due; `send` is false if there is no room, which is tried again then.
    pub(crate) fn turn(
        &mut self,
        now: Duration,
        addresses: &[Address],
        mut send: impl FnMut(usize, Address) -> bool,
    ) {
        if self.left > 0 && self.due <= now {
            let each = |port| addresses.iter().map(move |&address| (port, address));
            self.waiting = self.ports.iter().flat_map(each).collect();
            (self.left, self.due) = (self.left - 1, now.saturating_add(APART));
            if self.left == 0 {
                self.ports = Ports::NONE;
            }
        }
        while let Some(&(port, address)) = self.waiting.front() {
            if !send(port, address) {
                break;
            }
            self.waiting.pop_front();
        }
    }

    /// When something is due, if anything will be.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        (self.left > 0 || !self.waiting.is_empty()).then_some(self.due)
    }
}
