//! An appliance of a simulation without an adversary: one real lcore and the real control plane, which take
//! no time.

use core::time::Duration;
use std::sync::Arc;

use pascaline_aggregator::{Pool, PoolConfig};
use pascaline_buffer::HeapPool;
use pascaline_buffer::combine::Kernels;
use pascaline_pipelines::membership::{JobSpec, Secret};
use pascaline_pipelines::{ControlPlane, Lcore, LcoreParts, Membership, PortSetup, Ports, Setup};
use pascaline_telemetry::{LcoreCounters, Surveyor, recorder};
use pascaline_wire::UdpPorts;

use crate::host::{OWN_V4, OWN_V6, UDP_PORT, node_address, port_mac};
use crate::io::{Clock, MemoryIo};

pub(crate) struct Centre {
    lcore: Lcore<MemoryIo>,
    plane: ControlPlane,
    clock: Clock,
}

impl Centre {
    /// An appliance for these jobs, whose number among several is `node`. `None` if no pool can be made.
    pub(crate) fn new(specs: Vec<JobSpec>, pool: &PoolConfig, node: usize) -> Option<Self> {
        let ports = vec![PortSetup { mac: port_mac(0), beyond: Ports::NONE, mtu: u16::MAX }];
        let setup =
            Arc::new(Setup::new(vec![OWN_V4, OWN_V6, node_address(node)], UdpPorts::single(UDP_PORT), ports));
        let membership = Membership::new(specs, Secret::new([7; 16]), 1);
        let (plane, mut ends) = ControlPlane::new(membership, Arc::clone(&setup), 1);
        let mut sessions = Pool::sessions(pool, Kernels::detect(), 1).ok()?;
        let (clock, frames, headers) = (Clock::default(), HeapPool::new(), HeapPool::new());
        let lcore = Lcore::new(LcoreParts {
            number: 0,
            io: MemoryIo::new(1, true, (&frames, &headers), &clock),
            session: sessions.pop()?,
            setup,
            end: ends.pop()?,
            server: None,
            updates: None,
            counters: Arc::new(LcoreCounters::default()),
            spread: recorder().ok()?.0,
            service: recorder().ok()?.0,
            surveyor: Surveyor::default(),
        });
        Some(Self { lcore, plane, clock })
    }

    /// A frame arrives. Returns the frames sent for it.
    pub(crate) fn receive(&mut self, now: u64, frame: &[u8]) -> Vec<Vec<u8>> {
        self.clock.set(now);
        self.lcore.io().arrive(0, frame, false);
        self.turn()
    }

    /// The control plane takes its turn. Returns the frames sent by it.
    pub(crate) fn control(&mut self, now: u64) -> Vec<Vec<u8>> {
        self.clock.set(now);
        self.plane.turn(Duration::from_nanos(now));
        self.turn()
    }

    /// True if the control plane has work.
    pub(crate) fn control_is_due(&self) -> bool {
        self.plane.is_due()
    }

    /// When time alone changes something for it.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.plane.poll_timeout()
    }

    /// Packets that its pool holds.
    pub(crate) fn held(&self) -> usize {
        self.lcore.packets_held()
    }

    fn turn(&mut self) -> Vec<Vec<u8>> {
        self.lcore.turn();
        self.lcore.io().take_sent()
    }
}
