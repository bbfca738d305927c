//! The appliance in the middle: one real lcore and the real control plane.

use core::time::Duration;
use std::sync::Arc;

use pascaline_aggregator::{Policy, Pool, PoolConfig, Region};
use pascaline_buffer::HeapPool;
use pascaline_buffer::combine::Kernels;
use pascaline_pipelines::membership::{JobSpec, Secret};
use pascaline_pipelines::{ControlPlane, Lcore, LcoreParts, Membership, PortSetup, Setup};
use pascaline_telemetry::{LcoreCounters, Surveyor, recorder};
use pascaline_wire::UdpPorts;

use super::{Setting, Sharer};
use crate::host::{OWN_V4, OWN_V6, UDP_PORT, port_mac};
use crate::io::{Clock, MemoryIo};

fn policy(first: u32, sets: u32) -> Policy {
    Policy { region: Some(Region { first, sets }), ..Policy::default() }
}

pub(super) struct Centre {
    lcore: Lcore<MemoryIo>,
    plane: ControlPlane,
    clock: Clock,
}

impl Centre {
    /// Each job has a region of twice its window, so that jobs meet nowhere but on the links. `None` if
    /// no appliance can be made for that.
    pub(super) fn new(setting: &Setting) -> Option<Self> {
        let slots = (2 * u32::from(setting.window)).next_power_of_two();
        let spec = |(number, sharer): (u32, &Sharer)| JobSpec {
            window: setting.window,
            max_payload: setting.payload,
            policy: policy(number * slots, slots),
            congestion: Some(sharer.control),
            dead_after: None,
            ..JobSpec::new(u16::try_from(number + 1).unwrap_or(u16::MAX), setting.hosts)
        };
        let specs: Vec<JobSpec> = (0..).zip(&setting.jobs).map(spec).collect();
        let all = (slots as usize * specs.len().max(1)).next_power_of_two();
        let reserved = slots as usize * specs.len();
        let pool = PoolConfig { slots: all, reserved, ways: 1, ..PoolConfig::default() };
        let ports = vec![PortSetup { mac: port_mac(0), peer: None, mtu: u16::MAX }];
        let setup = Arc::new(Setup::new(vec![OWN_V4, OWN_V6], UdpPorts::single(UDP_PORT), ports));
        let membership = Membership::new(specs, Secret::new([7; 16]), 1);
        let (plane, mut ends) = ControlPlane::new(membership, Arc::clone(&setup), 1);
        let mut sessions = Pool::sessions(&pool, Kernels::detect(), 1).ok()?;
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

    /// A frame arrives. What leaves for it.
    pub(super) fn receive(&mut self, now: u64, frame: &[u8]) -> Vec<Vec<u8>> {
        self.clock.set(now);
        self.lcore.io().arrive(0, frame, false);
        self.turn()
    }

    /// The control plane takes its turn. What leaves for it.
    pub(super) fn control(&mut self, now: u64) -> Vec<Vec<u8>> {
        self.clock.set(now);
        self.plane.turn(Duration::from_nanos(now));
        self.turn()
    }

    fn turn(&mut self) -> Vec<Vec<u8>> {
        self.lcore.turn();
        self.lcore.io().take_sent()
    }
}
