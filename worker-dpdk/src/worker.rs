//! The session of a member, polled over a port.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::thread;
use std::time::{Instant, SystemTime};

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf as _;
use pascaline_dpdk::Device;
use pascaline_dpdk::{
    Eal, EalConfig, Mbuf, Mempool, PoolConfig, Port, PortConfig, RxQueue, Started, StartedPort, TxQueue,
};
use pascaline_wire::{Mac, header, trailer};
use pascaline_worker::{
    AllreduceError, Config, Counters, Departure, Element, Event, Hints, Identity, Join, Left, Membership, Op,
    Session,
};
use pascaline_worker::{Report, Request, session::Transmit};
use zerocopy::IntoBytes as _;

use crate::config::{DpdkConfig, DpdkJoinError};
use crate::host::{Ends, HEADERS, Heard, Host};

/// Packets moved at once.
const BURST: usize = 32;
/// Descriptors of each ring.
const DESCRIPTORS: u16 = 1024;
/// Packet buffers: rings, bursts, and what drivers keep beyond that (net_af_xdp: 4,096).
const BUFFERS: u32 = 8191;
/// Polls in vain before the first nap.
const PATIENCE: u32 = 64;
/// How often the next hop is asked for.
const QUESTION: Duration = Duration::from_millis(100);
/// Ports below may have a meaning; a rank's own is above.
const FIRST_PORT: u16 = 49_152;

/// A member of a job over a DPDK port; otherwise as [`pascaline_worker::Worker`].
pub struct DpdkWorker {
    config: Config,
    session: Session,
    link: Link,
    origin: Instant,
}

impl core::fmt::Debug for DpdkWorker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DpdkWorker").field("config", &self.config).finish_non_exhaustive()
    }
}

impl DpdkWorker {
    /// Starts DPDK and the port, joins a job and waits until all its ranks have. The calling thread is bound
    /// to the configured core.
    ///
    /// # Errors
    /// See [`DpdkJoinError`]. DPDK starts once per process: what comes after its start is final for this
    /// process.
    pub fn join(config: Config, port: &DpdkConfig) -> Result<Self, DpdkJoinError> {
        config.check()?;
        if config.bind.is_some() {
            return Err(DpdkJoinError::Bind);
        }
        let identity =
            Identity { job: config.job, rank: config.rank, ranks: config.ranks, payload: config.payload };
        let origin = Instant::now();
        let mut link = Link::open(&config, port)?;
        link.find(origin, config.join_deadline, port)?;
        let spread = config.spread.max(config.in_flight);
        let mut join = Join::new(identity, unix_ns(), spread, origin.elapsed(), config.join_deadline);
        let membership = link
            .handshake(&mut join, origin)
            .map_err(|failure| DpdkJoinError::Failed { appliance: config.appliance, failure })?;
        let mut session = Session::new(membership, config.in_flight, 0);
        if config.accept_partial {
            session = session.accept_partial();
        }
        Ok(Self { config, session, link, origin })
    }

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
        let tensor = tensor.as_mut_bytes();
        let request =
            Request { bytes: tensor.len(), dtype: T::DTYPE, op, deadline: self.config.deadline, hints };
        if self.session.start_with(self.origin.elapsed(), &request)?
            && let Event::Failed(failure) = self.drive(tensor)
        {
            return Err(failure.into());
        }
        Ok(*self.session.report())
    }

    /// Runs what the session has begun to its end.
    fn drive(&mut self, tensor: &mut [u8]) -> Event {
        let mut idle = 0_u32;
        loop {
            self.link.send(&mut self.session, self.origin.elapsed(), tensor);
            let (heard, mut event) = self.link.receive(&mut self.session, self.origin, tensor);
            // What lies in the ring is read first, as over a socket.
            if heard < BURST {
                event = event.or_else(|| self.session.handle_timeout(self.origin.elapsed()));
            }
            if let Some(event) = event {
                // Before the tensor goes back to its owner.
                self.link.finish(&mut self.session, self.origin.elapsed(), tensor);
                return event;
            }
            idle = if heard == 0 { idle.saturating_add(1) } else { 0 };
            self.link.rest(idle);
        }
    }

    /// As [`pascaline_worker::Worker::tend`].
    pub fn tend(&mut self) {
        loop {
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

    /// All that the worker has done so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        self.session.counters()
    }
}

/// A started port and who is at its other end. Fields in the order in which they must go.
struct Link {
    host: Host,
    rx: RxQueue,
    tx: TxQueue,
    /// Made, and not taken by the port yet.
    pending: ArrayVec<Mbuf, BURST>,
    pool: Mempool,
    nap: Duration,
    _port: Port<Started>,
    _eal: Eal,
}

impl Link {
    fn open(config: &Config, port: &DpdkConfig) -> Result<Self, DpdkJoinError> {
        let appliance = match config.appliance {
            SocketAddr::V4(v4) => v4.ip().octets(),
            SocketAddr::V6(v6) => return Err(DpdkJoinError::Family(IpAddr::V6(*v6.ip()))),
        };
        let pci_allow = match &port.device {
            Device::Pci(address) => vec![address.clone()],
            Device::Vdev(_) => Vec::new(),
        };
        let eal = Eal::init(&EalConfig {
            program: "pascaline-worker".to_owned(),
            main_core: port.core,
            memory_mb: port.memory_mb,
            pci_allow,
            ..EalConfig::default()
        })?;
        let longest = HEADERS + usize::from(config.payload) + trailer::MAX_LEN;
        // A power of two, since drivers that copy from a ring of the kernel's want room for a whole slot of
        // it.
        let room =
            u16::try_from(longest).ok().and_then(u16::checked_next_power_of_two).unwrap_or(u16::MAX / 2);
        let (name, room) = ("worker".to_owned(), room.max(2048));
        let pool = Mempool::new(&eal, &PoolConfig { name, count: BUFFERS, cache: 256, room })?;
        let settings = PortConfig { rx_desc: DESCRIPTORS, tx_desc: DESCRIPTORS, ..PortConfig::default() };
        let StartedPort { port: started, mut rx, mut tx } = Port::open(&eal, &port.device)?
            .start(&settings, core::slice::from_ref(&pool))
            .map_err(|failure| failure.error)?;
        let mtu = started.active().mtu;
        let needed = HEADERS - 14 + usize::from(config.payload);
        if needed > usize::from(mtu) {
            return Err(DpdkJoinError::Mtu { needed, mtu });
        }
        let ends = Ends {
            mac: Mac(started.mac().map_err(DpdkJoinError::Mac)?),
            address: port.address.octets(),
            port: FIRST_PORT + config.rank,
            appliance,
            appliance_ports: config.ports()?,
            next_hop: port.next_hop.map_or(appliance, |hop| hop.octets()),
        };
        Ok(Self {
            host: Host::new(ends),
            rx: rx.remove(0),
            tx: tx.remove(0),
            pending: ArrayVec::new(),
            pool,
            nap: port.nap,
            _port: started,
            _eal: eal,
        })
    }

    /// Asks for the next hop until it answers.
    fn find(&mut self, origin: Instant, patience: Duration, port: &DpdkConfig) -> Result<(), DpdkJoinError> {
        let mut asked: Option<Duration> = None;
        while !self.host.is_reachable() {
            let now = origin.elapsed();
            if now > patience {
                let next_hop = port.next_hop.unwrap_or_else(|| self.host.next_hop().into());
                return Err(DpdkJoinError::Unreachable { next_hop, device: port.device.to_string() });
            }
            if asked.is_none_or(|asked| now >= asked + QUESTION) {
                asked = Some(now);
                let question = self.host.question();
                self.put(|packet| packet.write(&question));
            }
            self.flush();
            self.hear(|_| {});
            self.rest(PATIENCE);
        }
        Ok(())
    }

    fn handshake(
        &mut self,
        join: &mut Join,
        origin: Instant,
    ) -> Result<Membership, pascaline_worker::JoinFailure> {
        loop {
            let now = origin.elapsed();
            if let Some(failure) = join.handle_timeout(now) {
                return Err(failure);
            }
            if let Some(request) = join.poll_transmit(now)
                && let Some((head, body)) = request.split_first_chunk::<{ header::LEN }>()
            {
                self.make(head, &[body]);
            }
            self.flush();
            let mut end = None;
            self.hear(|datagram| {
                if end.is_none() {
                    end = join.handle_datagram(datagram);
                }
            });
            if let Some(end) = end {
                return end;
            }
            self.rest(PATIENCE);
        }
    }

    /// Sends what the session wants to send, as far as there are buffers and room in the ring.
    fn send(&mut self, session: &mut Session, now: Duration, tensor: &[u8]) {
        loop {
            self.flush();
            let room = self.pending.remaining_capacity();
            let mut buffers = ArrayVec::<Mbuf, BURST>::new();
            // Before the session is asked: what it gives out counts as sent.
            if room < BURST || !self.pool.alloc_bulk(&mut buffers, room) {
                return;
            }
            let mut more = true;
            while let (true, Some(mut packet)) = (more, buffers.pop()) {
                match session.poll_transmit(now) {
                    Some(transmit) => {
                        if self.fill(&mut packet, session, &transmit, tensor) {
                            self.pending.push(packet);
                        } else {
                            session.counters_mut().not_sent += 1;
                        }
                    }
                    None => more = false,
                }
            }
            Mbuf::free_bulk(&mut buffers);
            self.flush();
            if !more {
                return;
            }
        }
    }

    /// Makes a frame of what the session gives out.
    fn fill(&self, packet: &mut Mbuf, session: &Session, transmit: &Transmit, tensor: &[u8]) -> bool {
        let parts = [session.payload(transmit, tensor), session.trailer(transmit)];
        write(&self.host, packet, &transmit.header, transmit.psn(), &parts)
    }

    /// A frame from its datagram's parts.
    fn make(&mut self, head: &[u8; header::LEN], parts: &[&[u8]]) {
        let host = self.host.clone();
        self.put(|packet| write(&host, packet, head, None, parts));
    }

    /// One frame to be sent; none without a buffer, or without room among those that wait.
    fn put(&mut self, fill: impl FnOnce(&mut Mbuf) -> bool) {
        if let Some(mut packet) = self.pool.alloc()
            && fill(&mut packet)
        {
            let _ = self.pending.try_push(packet);
        }
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.tx.tx(&mut self.pending);
        }
    }

    /// Sends all that the session has to send, even if the ring is full at first.
    fn finish(&mut self, session: &mut Session, now: Duration, tensor: &[u8]) {
        self.send(session, now, tensor);
        for _ in 0..1000 {
            if self.pending.is_empty() {
                return;
            }
            self.flush();
            core::hint::spin_loop();
        }
    }

    /// A burst for the session: how many frames it was, and what has come to its end.
    fn receive(
        &mut self,
        session: &mut Session,
        origin: Instant,
        tensor: &mut [u8],
    ) -> (usize, Option<Event>) {
        let now = origin.elapsed();
        let mut event = None;
        let heard = self.hear(|datagram| {
            let end = session.handle_datagram(now, datagram, tensor);
            event = event.take().or(end);
        });
        (heard, event)
    }

    /// A burst, its datagrams shown one by one. Tells how many frames it was.
    fn hear(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut frames = ArrayVec::<Mbuf, BURST>::new();
        let count = self.rx.rx(&mut frames);
        for frame in &mut frames {
            match self.host.hear(frame.bytes_mut()) {
                Heard::Datagram(range) => each(frame.bytes().get(range).unwrap_or_default()),
                Heard::Answer => {
                    let answer = frame.bytes();
                    if let Some(mut packet) = self.pool.alloc()
                        && packet.write(answer)
                    {
                        let _ = self.pending.try_push(packet);
                    }
                }
                Heard::Nothing => {}
            }
        }
        Mbuf::free_bulk(&mut frames);
        count
    }

    fn rest(&self, idle: u32) {
        if idle >= PATIENCE && !self.nap.is_zero() {
            thread::sleep(self.nap);
        } else {
            core::hint::spin_loop();
        }
    }
}

fn write(
    host: &Host,
    packet: &mut Mbuf,
    head: &[u8; header::LEN],
    psn: Option<u32>,
    parts: &[&[u8]],
) -> bool {
    let length = HEADERS + parts.iter().map(|part| part.len()).sum::<usize>();
    if !packet.set_len(length) {
        return false;
    }
    let bytes = packet.bytes_mut();
    let mut at = HEADERS;
    for part in parts {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    host.address(bytes, head, psn).is_ok()
}

/// Nanoseconds since 1970: a number that no earlier session of this rank has had.
fn unix_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}
