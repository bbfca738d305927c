//! What happens to frames, and to the lcores and the control plane that handle them.

use super::{EPOCH, World};
use crate::faults::Fault;
use crate::host::Host;
use crate::io::Mood;
use crate::plan::{MICRO, MILLI};
use crate::queue::What;
use crate::sabotage::Sabotage;

impl World<'_> {
    /// The network, upwards: what becomes of a frame that a worker sends.
    pub(super) fn send_up(&mut self, worker: usize, mut bytes: Vec<u8>) {
        self.trace.note(self.now, 2, &bytes, || format!("worker {worker} sends {}", words(&bytes)));
        let extra = self.saboteur.tamper_up(worker, &mut bytes, &self.workers, &mut self.random);
        if let Some((worker, bytes)) = extra {
            self.queue.push(self.now, What::Up { worker, bytes, bad_checksum: false });
        }
        let Some(link) = self.up.get_mut(worker) else { return };
        for arrival in link.send(self.now, bytes, &mut self.random, &mut self.faults) {
            let what = What::Up { worker, bytes: arrival.bytes, bad_checksum: arrival.bad_checksum };
            self.queue.push(arrival.at, what);
        }
    }

    /// A frame reaches the appliance.
    pub(super) fn arrive(&mut self, worker: usize, bytes: &[u8], bad_checksum: bool) {
        self.trace.note(self.now, 3, bytes, || format!("appliance receives {}", words(bytes)));
        let lcore =
            if self.plan.spray { self.random.index(self.plan.lcores) } else { worker % self.plan.lcores };
        let (Some(appliance), Some(worker)) = (&mut self.appliance, self.workers.get(worker)) else { return };
        if self.saboteur.what == Sabotage::SwallowPacket && self.random.chance(20_000) {
            return appliance.swallow();
        }
        appliance.arrive(lcore, worker.host.port, bytes, bad_checksum);
        self.arrange_turn(lcore);
    }

    /// Makes sure that an lcore will turn soon.
    fn arrange_turn(&mut self, lcore: usize) {
        let Some(turning) = self.turning.get_mut(lcore) else { return };
        if !core::mem::replace(turning, true) {
            let mut after = self.random.below(5 * MICRO);
            if self.random.chance(self.plan.turns.held_up) {
                self.faults.count(Fault::LcoreHeldUp);
                after += self.random.below(2 * MILLI);
            }
            self.queue.push(self.now + after, What::Turn { lcore });
        }
    }

    pub(super) fn turn(&mut self, lcore: usize) {
        if let Some(turning) = self.turning.get_mut(lcore) {
            *turning = false;
        }
        let Some(appliance) = &mut self.appliance else { return };
        let mood = Mood {
            stalled: self.random.chance(self.plan.turns.stalled),
            starved: self.random.chance(self.plan.turns.starved),
            leaks: self.saboteur.what == Sabotage::LeakPacket,
        };
        if mood.stalled {
            self.faults.count(Fault::TransmitStalled);
        }
        if mood.starved {
            self.faults.count(Fault::BuffersExhausted);
        }
        // A real lcore turns all the time, so now and then its housekeeping is due.
        let idle = if self.random.chance(50_000) { 64 } else { 0 };
        self.clock.set(EPOCH + self.now);
        let (sent, more) = appliance.turn(lcore, mood, idle);
        let control = appliance.control_is_due();
        self.trace.note(self.now, 4, &[], || format!("lcore {lcore} turns and sends {} frames", sent.len()));
        for bytes in sent {
            self.send_down(bytes);
        }
        if more {
            self.arrange_turn(lcore);
        }
        if control {
            self.arrange_control();
        }
    }

    fn arrange_control(&mut self) {
        if !core::mem::replace(&mut self.controlling, true) {
            self.queue.push(self.now + self.random.below(MILLI), What::Control);
        }
    }

    pub(super) fn control(&mut self) {
        self.controlling = false;
        let Some(appliance) = &mut self.appliance else { return };
        let again = appliance.control();
        self.trace.note(self.now, 5, &[], || "the control plane turns".to_owned());
        // For a new table, and for answers.
        (0..self.plan.lcores).for_each(|lcore| self.arrange_turn(lcore));
        if again {
            self.arrange_control();
        }
    }

    /// The network, downwards.
    fn send_down(&mut self, mut bytes: Vec<u8>) {
        self.trace.note(self.now, 6, &bytes, || format!("appliance sends {}", words(&bytes)));
        // What is forwarded to a host that does not exist goes nowhere.
        let Some(worker) = Host::number_in(&bytes).filter(|&number| number < self.workers.len()) else {
            return;
        };
        if let Some((other, forged)) = self.saboteur.tamper_down(worker, &mut bytes, &self.workers) {
            let framed = self.workers.get(other).map(|other| other.host.forge(&forged)).unwrap_or_default();
            self.queue.push(self.now, What::Down { worker: other, bytes: framed });
        }
        let Some(link) = self.down.get_mut(worker) else { return };
        for arrival in link.send(self.now, bytes, &mut self.random, &mut self.faults) {
            self.queue.push(arrival.at, What::Down { worker, bytes: arrival.bytes });
        }
    }
}

/// A frame in words.
pub(super) fn words(bytes: &[u8]) -> String {
    use pascaline_wire::frame::{Frame, Net};
    let parsed = Frame::parse(bytes).map(|frame| match frame.net {
        Net::Ip(ip) => ip.udp(bytes).ok().and_then(|udp| bytes.get(udp.body..udp.body + udp.body_len)),
        _ => None,
    });
    match parsed {
        Err(why) => format!("{} bytes, {why:?}", bytes.len()),
        Ok(None) => format!("{} bytes that are no datagram", bytes.len()),
        Ok(Some(datagram)) => match pascaline_wire::Header::parse(datagram) {
            Err(why) => format!("a datagram of {} bytes, {why:?}", datagram.len()),
            Ok((header, body)) if header.kind == pascaline_wire::Kind::Control => {
                let control = pascaline_wire::control::Control::parse(body);
                format!("job {} rank {} epoch {} {control:?}", header.job, header.rank, header.epoch)
            }
            Ok((header, body)) => format!(
                "{:?} job {} rank {} psn {} epoch {} count {} flags {:#x} payload {}",
                header.kind,
                header.job,
                header.rank,
                header.psn,
                header.epoch,
                header.count,
                header.flags.bits(),
                body.len()
            ),
        },
    }
}
