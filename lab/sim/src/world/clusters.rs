//! Events of the asynchronous job's hosts.

use super::event::What;
use super::network::datagram;
use super::{EPOCH, World};
use crate::violation::Violation;

impl World<'_> {
    /// A host handles its timers, and is woken again.
    pub(super) fn cluster_turn(&mut self, host: usize) -> Result<(), Violation> {
        if let Some(wake) = self.cluster.as_mut().and_then(|cluster| cluster.wakes.get_mut(host)) {
            wake.ring(self.now);
        }
        self.settle_cluster(host)
    }

    /// A frame reaches a host.
    pub(super) fn deliver_to_cluster(&mut self, host: usize, frame: &[u8]) -> Result<(), Violation> {
        let now = self.clock_of(self.workers.len() + host).local(self.now);
        let unix_ns = EPOCH + now;
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        cluster.deliver(host, now, unix_ns, frame)?;
        self.settle_cluster(host)
    }

    /// A frame leaves an appliance for a host.
    pub(super) fn departs_for_cluster(&mut self, host: usize, frame: &[u8]) -> Result<(), Violation> {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        datagram(frame).map_or(Ok(()), |datagram| cluster.departs(host, datagram))
    }

    fn settle_cluster(&mut self, host: usize) -> Result<(), Violation> {
        let clock = self.clock_of(self.workers.len() + host);
        let now = clock.local(self.now);
        let unix_ns = EPOCH + now;
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let frames = cluster.turn(host, now, unix_ns, &mut self.random)?;
        let due = cluster.due(host, now).map(|due| clock.global(due));
        if let (Some(due), Some(wake)) = (due, cluster.wakes.get_mut(host))
            && let Some(at) = wake.set_earlier(due, due.max(self.now + 1))
        {
            self.wheel.push(at, What::Cluster { host });
        }
        for frame in frames {
            self.send_up(self.workers.len() + host, frame);
        }
        Ok(())
    }
}
