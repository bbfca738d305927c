//! Events of the separate parameter server.

use super::World;
use super::event::What;
use crate::faults::Fault;
use crate::outside::{Away, Outside};
use crate::violation::Violation;

impl World<'_> {
    /// It handles its timers, and is woken again.
    pub(super) fn outside_turn(&mut self) -> Result<(), Violation> {
        let now = self.now;
        let due = self.outside.as_mut().is_some_and(|outside| outside.wake.expire(now));
        if due { self.settle_outside() } else { Ok(()) }
    }

    /// A frame reaches its host.
    pub(super) fn deliver_outside(&mut self, frame: &[u8]) -> Result<(), Violation> {
        let now = self.clock_of(self.up.len() - 1).local(self.now);
        if let Some(outside) = &mut self.outside {
            outside.deliver(now, frame);
        }
        self.settle_outside()
    }

    pub(super) fn outside_away(&mut self, how: Away, down: u64) {
        let Some(outside) = &mut self.outside else { return };
        self.faults.count(Fault::ServerAway);
        outside.go_away(how);
        self.wheel.push(self.now + down, What::OutsideBack);
    }

    pub(super) fn outside_back(&mut self) -> Result<(), Violation> {
        let now = self.now;
        self.trace.note(now, 13, &[], || "the separate parameter server is back".to_owned());
        let now = self.clock_of(self.up.len() - 1).local(now);
        if let Some(outside) = &mut self.outside {
            outside.come_back(now);
        }
        self.settle_outside()
    }

    fn settle_outside(&mut self) -> Result<(), Violation> {
        let (clock, sabotage) = (self.clock_of(self.up.len() - 1), self.saboteur.what);
        let now = clock.local(self.now);
        let Some(outside) = &mut self.outside else { return Ok(()) };
        let frames = outside.turn(now, sabotage)?;
        let due = clock.global(outside.due(now, sabotage)).max(self.now + 1);
        if outside.wake.set_earlier(due) {
            self.wheel.push(due, What::Outside);
        }
        let number = self.up.len() - 1;
        for frame in frames {
            self.send_up(number, frame);
        }
        Ok(())
    }

    /// The separate server with its host, if this is its number.
    pub(super) fn outside(&self, number: usize) -> Option<&Outside> {
        self.outside.as_ref().filter(|_| number + 1 == self.up.len())
    }
}
