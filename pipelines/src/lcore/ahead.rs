//! In line: what passes through does not wait behind what is for the appliance.
//!
//! An lcore looks ahead. What it receives from a port in line and what is certainly on its way to another
//! host leaves at once; all else waits in order, and is taken a burst at a time. While the frames of the
//! appliance's own leave, a few at a time, it looks again: what passes waits for a few frames, not a turn.

use core::mem;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::Counter;
use pascaline_wire::frame::is_for_another;

use super::Lcore;
use crate::io::{BURST, Io};
use crate::setup::{Passing, Setup};

/// How many received packets of a port an lcore holds at most. When it holds them, later packets stay with
/// the driver, even those that would pass.
pub const AHEAD: usize = 4 * BURST;

/// What an lcore has received and not yet taken, by port; of no port if none is in line.
#[derive(Debug)]
pub(super) struct Ahead<B>(Vec<ArrayVec<B, AHEAD>>);

impl<B> Ahead<B> {
    /// For an appliance's ports. Where what passes leaves in turn, nothing overtakes.
    pub(super) fn of(setup: &Setup) -> Self {
        let ports = if setup.is_in_line() && setup.passing == Passing::First { setup.ports.len() } else { 0 };
        Self((0..ports).map(|_| ArrayVec::new()).collect())
    }

    /// Whether it is of any use.
    #[inline(always)]
    pub(super) fn looks(&self) -> bool {
        !self.0.is_empty()
    }

    /// The next ones of a port, one burst at the most.
    fn take(&mut self, port: usize, into: &mut ArrayVec<B, BURST>) {
        let Some(waiting) = self.0.get_mut(port) else { return };
        let most = into.remaining_capacity().min(waiting.len());
        into.extend(waiting.drain(..most));
    }
}

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Looks at a port in line, then takes what waits of it; or, where transit traffic leaves in turn,
    /// receives a burst. Returns how many packets have passed.
    #[cold]
    #[inline(never)]
    pub(super) fn receive_in_line(&mut self, port: usize, into: &mut ArrayVec<I::Buf, BURST>) -> usize {
        if !self.ahead.looks() {
            self.receive(port, into);
            return 0;
        }
        let (passed, busy) = self.look(port);
        if passed > 0 {
            self.emitter.tally.burst(passed, busy);
        }
        self.ahead.take(port, into);
        passed
    }

    /// Sends off what is staged, a few frames at a time, and looks at all ports in between.
    #[cold]
    #[inline(never)]
    pub(super) fn flush_looking(&mut self) {
        let ports = self.setup.ports.len();
        for port in 0..ports {
            while self.emitter.send_some(port) {
                for each in 0..ports {
                    // The time that it takes is that of the burst whose results are sent.
                    let (passed, _) = self.look(each);
                    if passed > 0 {
                        self.emitter.tally.burst(passed, 0);
                    }
                }
            }
        }
        self.emitter.flush();
    }

    /// Receives a burst, if there is room for one: sends off at once what is certainly on its way to another
    /// host, and puts all else behind what waits. Returns how many have passed, and in how many nanoseconds.
    fn look(&mut self, port: usize) -> (usize, u64) {
        let mut packets = ArrayVec::<I::Buf, BURST>::new();
        let has_room = self.ahead.0.get(port).is_some_and(|waiting| waiting.remaining_capacity() >= BURST);
        let Some(now) = has_room.then(|| self.receive(port, &mut packets)).flatten() else { return (0, 0) };
        let mac = self.setup.ports.get(port).map(|own| own.mac).unwrap_or_default();
        // Clients of SwitchML's may send to another MAC than the port's.
        let certain = !self.table.has_foreign();
        let (mut passed, mut bytes) = (0, 0);
        let mut ahead = mem::replace(&mut self.ahead, Ahead(Vec::new()));
        for packet in packets {
            if certain && is_for_another(mac, packet.bytes()) {
                (passed, bytes) = (passed + 1, bytes + packet.total_len());
                self.bypass(port, now, packet);
            } else if let Some(waiting) = ahead.0.get_mut(port) {
                waiting.push(packet);
            }
        }
        self.ahead = ahead;
        if passed == 0 {
            return (0, 0);
        }
        self.emitter.flush_passing();
        self.emitter.tally.add(Counter::Received, passed as u64);
        self.emitter.tally.add(Counter::ReceivedBytes, bytes as u64);
        let busy = self.emitter.io.now().saturating_sub(now);
        self.service.record(busy, passed as u64);
        (passed, busy)
    }

    /// Receives a burst from a port in line, and notes who has sent it. Gives the time, unless nothing came.
    fn receive(&mut self, port: usize, packets: &mut ArrayVec<I::Buf, BURST>) -> Option<u64> {
        self.emitter.io.receive(port, packets);
        if packets.is_empty() {
            return None;
        }
        let now = self.emitter.io.now();
        if let Some(job) = self.end.capture().wanted() {
            self.end.capture().copy_burst(job, (&self.setup, &self.table), now, packets);
        }
        self.learn(port, now, packets);
        Some(now)
    }

    /// Takes all that waits, without looking for more: the end of the lcore.
    pub(super) fn take_rest(&mut self) {
        // Without a place for what waits, `flush` does not look.
        let mut rest = mem::replace(&mut self.ahead, Ahead(Vec::new()));
        for port in 0..rest.0.len() {
            loop {
                let mut packets = ArrayVec::new();
                rest.take(port, &mut packets);
                if packets.is_empty() {
                    break;
                }
                self.handle(port, packets);
            }
        }
    }
}
