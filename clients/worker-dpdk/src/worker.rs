//! DPDK in this process, and the session of a member, polled over a port.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Instant;

use pascaline_dpdk::{Device, Eal, EalConfig, EalError};
use pascaline_worker::element::DType;
use pascaline_worker::masked::{self, Key};
use pascaline_worker::mean;
use pascaline_worker::narrow::{self, Narrowing};
use pascaline_worker::pieces::Pieces;
use pascaline_worker::{
    AllreduceError, Collective, Config, CongestionControl, Counters, Departure, Element, Event, Hints, Join,
    Left, Membership, Op, Report, Request, Sealing, Session,
};
use zerocopy::IntoBytes as _;

use crate::config::{DpdkConfig, DpdkJoinError};
use crate::link::{BURST, Link};

/// Packets that seem late may be in the ring, if the thread was not scheduled: at most this many full bursts
/// are read before due timeouts are handled.
const FULL_BURSTS: u32 = 64;

/// A member of a job over a DPDK port, by [`Dpdk::join`]; otherwise as [`pascaline_worker::Worker`].
pub struct DpdkWorker {
    config: Config,
    session: Session,
    link: Link,
    origin: Instant,
    narrowed: Vec<u16>,
    masked: Vec<u32>,
}

impl core::fmt::Debug for DpdkWorker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DpdkWorker").field("config", &self.config).finish_non_exhaustive()
    }
}

/// DPDK, started in this process. Workers join over its ports, each on a thread of its own.
///
/// Memory is freed if this is dropped last, on the thread that started it; otherwise when the process ends.
#[derive(Debug)]
pub struct Dpdk {
    eal: Arc<Eal>,
    /// Workers so far: each has a pool with a unique name.
    workers: AtomicU32,
}

impl Dpdk {
    /// Starts DPDK for workers on `ports`, with `memory_mb` megabytes for packets: 64 for one worker with
    /// frames of 1,500 bytes, 24 for each further one; with jumbo frames, 192 and 144. The calling thread is
    /// bound to `core`, and so are the threads that it starts from now on, unless they choose another.
    ///
    /// # Errors [`EalError`]. DPDK starts once per process: after DPDK's refusal only a new process can try
    /// again.
    pub fn start(ports: &[DpdkConfig], core: usize, memory_mb: u32) -> Result<Self, EalError> {
        let pci = |port: &DpdkConfig| match &port.device {
            Device::Pci(address) => Some(address.clone()),
            Device::Vdev(_) => None,
        };
        let eal = Eal::init(&EalConfig {
            program: "pascaline-worker".to_owned(),
            main_core: core,
            memory_mb,
            pci_allow: ports.iter().filter_map(pci).collect(),
            ..EalConfig::default()
        })?;
        Ok(Self { eal: Arc::new(eal), workers: AtomicU32::new(0) })
    }

    /// Starts the port, joins a job and waits until all its ranks have: ranks of one job that share the
    /// process join on threads of their own.
    ///
    /// # Errors
    /// See [`DpdkJoinError`].
    pub fn join(&self, config: Config, port: &DpdkConfig) -> Result<DpdkWorker, DpdkJoinError> {
        let config = config.of_family(port.address.is_ipv4());
        config.check()?;
        if config.bind.is_some() {
            return Err(DpdkJoinError::Bind);
        }
        if !config.backups.is_empty() {
            return Err(DpdkJoinError::Backups);
        }
        if !config.trees.is_empty() {
            return Err(DpdkJoinError::Trees);
        }
        let (origin, number) = (Instant::now(), pascaline_worker::session_number());
        let pool = format!("worker{}", self.workers.fetch_add(1, Ordering::Relaxed));
        let sealing = Sealing::of(&config, number, origin.elapsed());
        let (mut link, mtu) = Link::open(&self.eal, pool, (&config, port), sealing)?;
        let (identity, flexible) = config.offer(Some(mtu));
        link.find(origin, &config, port)?;
        let spread = config.spread.max(config.in_flight);
        let join = Join::new(identity, number, spread, origin.elapsed(), config.join_deadline);
        let join = if flexible { join.flexible().longer(config.longer()) } else { join };
        let (membership, early) = link.handshake(&mut join.at(config.appliance), origin, &config)?;
        let session = Session::new(membership, config.in_flight).at(config.appliance);
        let mut session = session.longer(config.longer());
        *session.counters_mut() = early;
        if let Some(control) = config.congestion {
            session = session.controlled(control);
        }
        if config.accept_partial {
            session = session.accept_partial();
        }
        Ok(DpdkWorker { config, session, link, origin, narrowed: Vec::new(), masked: Vec::new() })
    }
}

impl DpdkWorker {
    /// As [`pascaline_worker::Worker::allreduce_with`].
    ///
    /// # Errors
    /// As there.
    pub fn allreduce_with<T: Element>(
        &mut self,
        tensor: &mut [T],
        op: Op,
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        self.collective(&Collective::Allreduce(op), T::DTYPE, tensor.as_mut_bytes(), hints)
    }

    /// As [`pascaline_worker::Worker::collective_narrow`].
    ///
    /// # Errors
    /// As there.
    pub fn collective_narrow<'n>(
        &mut self,
        collective: &Collective<'_>,
        tensor: &mut [f32],
        narrowing: impl Into<Narrowing<'n>>,
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        let mut room = core::mem::take(&mut self.narrowed);
        let identity = self.session.membership().identity;
        let run =
            |call: &Collective<'_>, dtype, bytes: &mut [u8]| self.run_collective(call, dtype, bytes, hints);
        let outcome = narrow::through(&identity, collective, (tensor, narrowing.into()), &mut room, run);
        self.narrowed = room;
        outcome
    }

    /// As [`pascaline_worker::Worker::collective_masked`].
    ///
    /// # Errors
    /// As there.
    pub fn collective_masked(
        &mut self,
        key: &Key,
        collective: &Collective<'_>,
        (dtype, tensor): (DType, &mut [u8]),
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        let mut room = core::mem::take(&mut self.masked);
        let identity = self.session.membership().identity;
        let (deadline, begun) = (self.config.deadline, self.origin.elapsed());
        let run = |call: &Collective<'_>, dtype, bytes: &mut [u8], pieces: Option<&mut dyn Pieces>| {
            if let Some(pieces) = pieces {
                pieces.fill(bytes, bytes.len());
            }
            self.config.deadline = deadline.saturating_sub(self.origin.elapsed().saturating_sub(begun));
            self.run_collective(call, dtype, bytes, hints)
        };
        let outcome = masked::through((key, &identity), (collective, dtype), tensor, &mut room, run);
        (self.masked, self.config.deadline) = (room, deadline);
        outcome
    }

    /// As [`pascaline_worker::Worker::collective`].
    ///
    /// # Errors
    /// As there.
    pub fn collective(
        &mut self,
        collective: &Collective<'_>,
        dtype: DType,
        tensor: &mut [u8],
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        let mut room = core::mem::take(&mut self.narrowed);
        let identity = self.session.membership().identity;
        let run = |bytes: &mut [u8]| self.run_collective(collective, dtype, bytes, hints);
        let outcome = mean::guarded(&identity, (collective, dtype), tensor, &mut room, run);
        self.narrowed = room;
        outcome
    }

    /// Any collective operation, on a tensor that travels as it is.
    fn run_collective(
        &mut self,
        collective: &Collective<'_>,
        dtype: DType,
        tensor: &mut [u8],
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        let (bytes, op, deadline) = (tensor.len(), Op::Sum, self.config.deadline);
        let request = Request { bytes, dtype, op, deadline, hints };
        if self.session.start_collective(self.origin.elapsed(), &request, collective, tensor)?
            && let Event::Failed(failure) = self.drive(tensor)
        {
            return Err(failure.into());
        }
        Ok(*self.session.report())
    }

    /// Runs the session's operation to its end.
    fn drive(&mut self, tensor: &mut [u8]) -> Event {
        let (mut idle, mut full) = (0_u32, 0_u32);
        loop {
            self.link.ask(self.origin.elapsed());
            self.link.renew(&mut self.session, self.origin.elapsed());
            self.link.send(&mut self.session, self.origin.elapsed(), tensor);
            let (heard, mut event) = self.link.receive(&mut self.session, self.origin, tensor);
            full = if heard < BURST { 0 } else { full + 1 };
            if full.is_multiple_of(FULL_BURSTS) {
                full = 0;
                event = event.or_else(|| self.session.handle_timeout(self.origin.elapsed()));
            }
            if let Some(event) = event {
                // Before the tensor returns to its owner.
                self.link.finish(&mut self.session, self.origin.elapsed(), tensor);
                return event;
            }
            if let Some(notice) = self.config.notice.filter(|_| heard == 0) {
                notice.of_session(&mut self.session, self.origin.elapsed());
                self.link.notify(notice, &self.session, self.origin.elapsed());
            }
            idle = if heard == 0 { idle.saturating_add(1) } else { 0 };
            self.link.rest(idle);
        }
    }

    /// As [`pascaline_worker::Worker::tend`].
    pub fn tend(&mut self) {
        for _ in 0..FULL_BURSTS {
            let (heard, _) = self.link.receive(&mut self.session, self.origin, &mut []);
            self.link.send(&mut self.session, self.origin.elapsed(), &[]);
            if heard < BURST {
                return;
            }
        }
    }

    /// As [`pascaline_worker::Worker::leave`].
    #[must_use]
    pub fn leave(mut self) -> Departure {
        self.session.leave(self.origin.elapsed(), self.config.linger);
        let left = match self.drive(&mut []) {
            Event::Left(left) => left,
            _ => Left::Lingered,
        };
        Departure { left, counters: *self.session.counters() }
    }

    /// The terms that the appliance agreed to.
    #[must_use]
    pub const fn membership(&self) -> &Membership {
        self.session.membership()
    }

    /// The congestion control that it uses.
    #[must_use]
    pub const fn control(&self) -> CongestionControl {
        self.session.control()
    }

    /// The counters so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        self.session.counters()
    }
}

impl Drop for DpdkWorker {
    /// No rank has to wait for a dropped worker, and its rank is free for the next one.
    fn drop(&mut self) {
        let now = self.origin.elapsed();
        self.session.abandon(now);
        self.link.finish(&mut self.session, now, &[]);
    }
}
