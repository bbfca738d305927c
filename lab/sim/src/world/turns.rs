//! The appliance's turns: of its lcores, its control plane and its parameter server.

use core::time::Duration;

use pascaline_pipelines::membership::{Event, Secret};

use super::event::What;
use super::network::datagram;
use super::pauses::Stopped;
use super::{EPOCH, World};
use crate::appliance::Appliance;
use crate::faults::{Fault, Reach};
use crate::io::Mood;
use crate::plan::{MICRO, MILLI, STUCK_FOR, STUCK_TIMES};
use crate::sabotage::Sabotage;
use crate::violation::Violation;
use crate::wheel::nanos;

impl World<'_> {
    pub(super) fn start_appliance(&mut self, at: usize) {
        let hosts = self.workers.iter().map(|worker| &worker.host);
        let others = (self.cluster.as_ref(), self.outside.as_ref().map(|outside| &outside.host));
        let machine = self.machine(at);
        self.clock.set(EPOCH + machine);
        let Some(node) = self.nodes.get_mut(at) else { return };
        (node.stopped, node.life) = (Stopped::default(), node.life + 1);
        let epoch = node.first_epoch;
        let alike = self.saboteur.what.needs_equal_bases();
        let secret = if alike { Secret::NONE } else { Secret::new(u128::from(epoch).to_le_bytes()) };
        let first_psn = self.plan.first_psn.filter(|_| !alike && (self.now, at) == (0, 0));
        let time = (&self.clock, machine);
        node.appliance = Appliance::new((self.plan, at), hosts, others, (epoch, secret, first_psn), time);
        if let Some(appliance) = &mut node.appliance {
            appliance.awake.sleepless = self.saboteur.what == Sabotage::SleepThrough;
            for plan in self.plan.jobs.iter().filter(|plan| self.rekeyed.contains(&plan.id)) {
                let _ = plan.keys(0, true).map(|keys| appliance.rekey(machine, plan.id, keys));
            }
        }
        self.trace.note(self.now, 7, &[], || format!("appliance {at} starts with generation {epoch}"));
        self.start_clients();
    }

    pub(super) fn start_server(&mut self) {
        let root = self.nodes.first_mut().and_then(|root| root.appliance.as_mut());
        let Some(server) = root.and_then(|appliance| appliance.server.as_mut()) else { return };
        server.come_back();
        self.trace.note(self.now, 10, &[], || "the parameter server is back".to_owned());
        self.arrange_service(self.now);
    }

    /// A frame of a host reaches its appliance.
    pub(super) fn arrive(&mut self, worker: usize, bytes: &[u8], bad_checksum: bool) {
        let lcore =
            if self.plan.spray { self.random.index(self.plan.lcores) } else { worker % self.plan.lcores };
        let node = self.target(worker, bytes);
        let Some(port) = self.port(worker) else { return };
        self.arrive_at((node, lcore, port), bytes, bad_checksum);
        if self.client(worker).is_some() {
            // The lcore that has the slot may have no frames of its own. A real one turns all the time.
            (0..self.plan.lcores).for_each(|lcore| self.arrange_turn(node, lcore));
        }
    }

    /// A frame of another appliance reaches this one.
    pub(super) fn arrive_across(&mut self, node: usize, bytes: &[u8]) {
        let lcore = if self.plan.spray { self.random.index(self.plan.lcores) } else { 0 };
        self.arrive_at((node, lcore, 0), bytes, false);
    }

    fn arrive_at(&mut self, (node, lcore, port): (usize, usize, usize), bytes: &[u8], bad_checksum: bool) {
        self.trace.note(self.now, 3, bytes, || {
            format!("appliance {node} receives {}", super::network::words(bytes))
        });
        let machine = self.machine(node);
        let Some(appliance) = self.nodes.get_mut(node).and_then(|node| node.appliance.as_mut()) else {
            return;
        };
        if self.saboteur.what == Sabotage::SwallowPacket && self.random.chance(20_000) {
            return appliance.swallow();
        }
        let deaf = self.saboteur.what == Sabotage::DeafToHeartbeats;
        if deaf
            && datagram(bytes).is_some_and(|datagram| {
                let now = appliance.awake.turn(machine);
                appliance.overhear(now, datagram)
            })
        {
            return;
        }
        if !appliance.arrive(lcore, port, bytes, bad_checksum) {
            self.faults.count(Fault::Overrun);
        }
        self.arrange_turn(node, lcore);
    }

    /// The port that a host is behind.
    fn port(&self, number: usize) -> Option<usize> {
        let cluster = || self.cluster.as_ref()?.hosts.get(number - self.workers.len());
        if let Some(outside) = self.outside(number) {
            return Some(outside.host.port);
        }
        if self.client(number).is_some() {
            return Some(0);
        }
        self.workers.get(number).map(|worker| &worker.host).or_else(cluster).map(|host| host.port)
    }

    /// Makes sure that an lcore will turn soon.
    fn arrange_turn(&mut self, at: usize, lcore: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if node.turning.get(lcore).is_some_and(|turning| !turning.is_set()) {
            let mut after = self.random.below(5 * MICRO);
            if self.random.chance(self.plan.turns.held_up) {
                self.faults.count(Fault::LcoreHeldUp);
                after += self.random.below(2 * MILLI);
            }
            if node.stuck < STUCK_TIMES && self.random.chance(self.plan.turns.stuck) {
                self.faults.count(Fault::LcoreHeldUp);
                node.stuck += 1;
                node.stuck_until = self.now + self.random.between(20 * MILLI, STUCK_FOR);
            }
            let then = u64::max(self.now + after, node.stuck_until);
            self.push_turn((at, lcore), then);
        }
    }

    fn push_turn(&mut self, (at, lcore): (usize, usize), then: u64) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        let then = then.max(node.stopped.lcore(lcore));
        if node.turning.get_mut(lcore).is_some_and(|turning| turning.set(then)) {
            self.wheel.push(then, What::Turn { node: at, lcore });
        }
    }

    pub(super) fn turn(&mut self, at: usize, lcore: usize) -> Result<(), Violation> {
        let (now, machine) = (self.now, self.machine(at));
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        if !node.turning.get_mut(lcore).is_some_and(|turning| turning.expire(now)) {
            return Ok(());
        }
        if now < node.stopped.lcore(lcore) {
            self.push_turn((at, lcore), now);
            return Ok(());
        }
        let Some(appliance) = &mut node.appliance else { return Ok(()) };
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
        self.clock.set(EPOCH + machine);
        let (sent, more) = appliance.turn(lcore, mood, idle);
        let control = appliance.control_is_due();
        let serve = appliance.server.as_ref().is_some_and(crate::server::Server::is_wanted);
        self.trace.note(self.now, 4, &[], || {
            format!("appliance {at}: lcore {lcore} turns and sends {} frames", sent.len())
        });
        for bytes in sent {
            self.send_down(at, bytes)?;
        }
        if more {
            self.arrange_turn(at, lcore);
        }
        if control {
            self.arrange_control(at, self.now);
        }
        if serve {
            self.arrange_service(self.now);
        }
        Ok(())
    }

    /// Makes sure that a control plane turns soon after this time.
    pub(super) fn arrange_control(&mut self, node: usize, at: u64) {
        let at = at.max(self.now) + self.random.below(MILLI);
        if self.nodes.get_mut(node).is_some_and(|node| node.controlling.set_earlier(at)) {
            self.wheel.push(at, What::Control { node });
        }
    }

    pub(super) fn control(&mut self, at: usize) -> Result<(), Violation> {
        let (now, machine) = (self.now, self.machine(at));
        let Some(node) = self.nodes.get_mut(at) else { return Ok(()) };
        // Another turn has come before this one, or another appliance.
        if !node.controlling.expire(now) {
            return Ok(());
        }
        let stopped = node.stopped.process();
        if now < stopped {
            self.arrange_control(at, stopped);
            return Ok(());
        }
        let Some(appliance) = &mut node.appliance else { return Ok(()) };
        let controlled = appliance.control(machine)?;
        let due = controlled.due.map(|due| appliance.awake.local(nanos(due)));
        self.trace.note(self.now, 5, &[], || format!("the control plane of appliance {at} turns"));
        controlled.events.iter().for_each(|event| self.note_event(at, event));
        // For a new table, and for answers.
        (0..self.plan.lcores).for_each(|lcore| self.arrange_turn(at, lcore));
        if controlled.again {
            self.arrange_control(at, self.now);
        }
        if let Some(due) = due {
            self.arrange_control(at, self.plan.clock_of(at).global(due));
        }
        Ok(())
    }

    /// Notes an event caused by time.
    fn note_event(&mut self, node: usize, event: &Event) {
        self.trace.note(self.now, 11, &[], || format!("appliance {node}: {event:?}"));
        let &Event::Lost { job, ref ranks, .. } = event else { return };
        let Some(at) = self.plan.jobs.iter().position(|plan| plan.id == job) else { return };
        let ranks = self.plan.ranks_of(node, ranks);
        for worker in self.workers.iter().filter(|worker| worker.job == at && ranks.contains(&worker.rank)) {
            self.reached.count(if worker.is_gone() { Reach::Died } else { Reach::TakenForDead });
        }
        if let Some(story) = self.jobs.get_mut(at) {
            story.losses.push(ranks);
        }
    }

    /// Makes sure that the parameter server turns soon after this time.
    pub(super) fn arrange_service(&mut self, at: u64) {
        let mut at = at.max(self.now) + self.random.below(MILLI);
        if self.random.chance(self.plan.turns.server_held_up) {
            self.faults.count(Fault::ServerHeldUp);
            at += self.random.below(20 * MILLI);
        }
        if self.serving.set_earlier(at) {
            self.wheel.push(at, What::Serve);
        }
    }

    pub(super) fn serve(&mut self) -> Result<(), Violation> {
        if !self.serving.expire(self.now) {
            return Ok(());
        }
        let stopped = self.nodes.first().map_or(0, |root| root.stopped.server());
        if self.now < stopped {
            self.arrange_service(stopped);
            return Ok(());
        }
        let now = Duration::from_nanos(self.machine(0));
        let starved = self.random.chance(self.plan.turns.starved);
        if starved {
            self.faults.count(Fault::BuffersExhausted);
        }
        let Some(appliance) = self.nodes.first_mut().and_then(|root| root.appliance.as_mut()) else {
            return Ok(());
        };
        let turn = appliance.serve(now, starved, self.saboteur.what)?;
        self.trace.note(self.now, 12, &[], || format!("the parameter server turns: {turn:?}"));
        if turn.sent > 0 {
            (0..self.plan.lcores).for_each(|lcore| self.arrange_turn(0, lcore));
        }
        if let Some(next) = turn.next {
            self.arrange_service(self.plan.clock.global(nanos(next)));
        }
        Ok(())
    }
}
