//! Parts that are stopped for a while, as by SIGSTOP, and resume: frames that arrive meanwhile wait for them.

use super::event::What;
use super::{Node, World};
use crate::clock::Drift;
use crate::faults::Fault;
use crate::plan::Part;
use crate::violation::Violation;
use crate::worker::Worker;

/// Until when parts of the appliance stand still.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    process: u64,
    lcores: [u64; 2],
    server: u64,
}

impl Stopped {
    pub(super) const fn process(&self) -> u64 {
        self.process
    }

    pub(super) fn lcore(&self, lcore: usize) -> u64 {
        self.process.max(self.lcores.get(lcore).copied().unwrap_or(0))
    }

    pub(super) fn server(&self) -> u64 {
        self.process.max(self.server)
    }
}

impl World<'_> {
    /// A part stands still, if it exists.
    pub(super) fn pause(&mut self, part: Part, down: u64) {
        let (until, lcores, now) = (self.now + down, self.plan.lcores, self.now);
        let clock = match part {
            Part::Appliance(node) | Part::Lcore(node, _) => self.plan.clock_of(node),
            Part::Worker(_) | Part::Server => Drift::default(),
        };
        match part {
            Part::Worker(number) => {
                if self.workers.get(number).is_none_or(Worker::is_away) {
                    return;
                }
                for number in self.siblings(number) {
                    let Some(worker) = self.workers.get_mut(number).filter(|one| !one.is_away()) else {
                        continue;
                    };
                    worker.stopped = worker.stopped.max(Some(until));
                    self.wheel.push(until, What::Resume { worker: number });
                }
            }
            Part::Appliance(node) => {
                let Some(Node { appliance: Some(appliance), stopped, .. }) = self.nodes.get_mut(node) else {
                    return;
                };
                appliance.awake.pause(clock.local(now.max(stopped.process)), clock.local(until));
                stopped.process = stopped.process.max(until);
            }
            Part::Lcore(node, lcore) => {
                let Some(Node { appliance: Some(appliance), stopped, .. }) = self.nodes.get_mut(node) else {
                    return;
                };
                appliance.awake.hold_up(clock.local(now), clock.local(until));
                let place = stopped.lcores.get_mut(lcore % lcores);
                place.into_iter().for_each(|place| *place = until.max(*place));
            }
            Part::Server => {
                let Some(Node { appliance: Some(_), stopped, .. }) = self.nodes.first_mut() else { return };
                stopped.server = stopped.server.max(until);
            }
        }
        self.faults.count(Fault::Paused);
    }

    /// A worker resumes: its socket has the datagrams that arrived meanwhile.
    pub(super) fn resume(&mut self, number: usize) -> Result<(), Violation> {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        if worker.stopped.take_if(|until| *until <= now).is_none() {
            return Ok(());
        }
        self.trace.note(now, 25, &[], || format!("worker {number} resumes"));
        for (datagram, by_group) in core::mem::take(&mut worker.socket) {
            self.look_at(number, (&datagram, by_group))?;
        }
        self.settle(number)
    }
}
