//! A started port and the host at its other end.

use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf as _;
use pascaline_buffer::prefetch::prefetch_first;
use pascaline_dpdk::{
    Eal, Mbuf, Mempool, PoolConfig, Port, PortConfig, RxQueue, Started, StartedPort, TxQueue,
};
use pascaline_wire::{Address, Mac, control, header, trailer};
use pascaline_worker::membership::FAREWELLS;
use pascaline_worker::session::Transmit;
use pascaline_worker::{
    Config, Counters, Event, Ignored, Interrupt, Join, Membership, Notice, Sealing, Session,
};

use crate::config::{DpdkConfig, DpdkJoinError};
use crate::host::{ETHERNET, Ends, Host, Received};

/// Packets moved at once.
pub(crate) const BURST: usize = 32;
/// Descriptors of each ring.
const DESCRIPTORS: u16 = 1024;
/// Packet buffers: rings, bursts, and those that drivers keep beyond that (net_af_xdp: 4,096).
const BUFFERS: u32 = 8191;
/// How many packets ahead payloads are prefetched. The processor itself prefetches no further than a page's
/// end, and a page holds less than three payloads. Over net_memif, a worker with 64 MiB sends 3.3 million
/// packets a second with this, 2.2 million without.
const AHEAD: usize = 4;
/// The most cache lines of a payload that are prefetched. The processor prefetches the rest by itself.
const LINES: usize = 32;
/// Empty polls before the first nap.
const PATIENCE: u32 = 64;
/// Bytes by which a seal makes a packet longer.
const SEAL: usize = pascaline_worker::udp::SEAL as usize;
/// Lower ports may be registered; a rank's own is above.
const FIRST_PORT: u16 = 49_152;

/// A started port and the host at its other end. Fields are in the order in which they must be dropped.
pub(crate) struct Link {
    host: Host,
    rx: RxQueue,
    tx: TxQueue,
    /// Frames that the port has not taken yet.
    pending: ArrayVec<Mbuf, BURST>,
    pool: Mempool,
    sealing: Option<Sealing>,
    nap: Duration,
    _port: Port<Started>,
    _eal: Arc<Eal>,
}

impl Link {
    /// Opens the port, with packets from a pool of this name, which are sealed or not, and returns its MTU.
    pub(crate) fn open(
        eal: &Arc<Eal>,
        name: String,
        (config, port): (&Config, &DpdkConfig),
        sealing: Option<Sealing>,
    ) -> Result<(Self, usize), DpdkJoinError> {
        let appliance = config.appliance.ip();
        let next_hop = port.next_hop.unwrap_or(appliance);
        if let Some(own) =
            [port.address, next_hop].into_iter().find(|own| own.is_ipv4() != appliance.is_ipv4())
        {
            return Err(DpdkJoinError::Family { own, appliance });
        }
        let host = |mac| {
            Ok::<_, DpdkJoinError>(Host::new(Ends {
                mac,
                address: Address::from(port.address),
                port: FIRST_PORT + config.rank,
                appliance: Address::from(appliance),
                appliance_ports: config.ports()?,
                dscp: config.dscp,
                next_hop: Address::from(next_hop),
            }))
        };
        let headers = host(Mac::default())?.headers();
        let (identity, flexible) = config.offer(port.mtu.map(usize::from));
        let longer = usize::from(config.longer());
        let packet = headers + usize::from(identity.payload) + longer;
        // A result may have a bitmap; an Ack may have a longer trailer, but is short.
        let longest = (packet + trailer::BITMAP_LEN).max(headers + control::LEN + trailer::MAX_LEN + longer);
        let (room, most) = buffers(longest);
        let pool = Mempool::new(eal, &PoolConfig { name, count: BUFFERS, cache: 256, room })?;
        let (mtu, rx_desc, tx_desc) = (port.mtu, DESCRIPTORS, DESCRIPTORS);
        let settings = PortConfig { mtu, rx_desc, tx_desc, ..PortConfig::default() };
        let StartedPort { port: started, mut rx, mut tx } = Port::open(eal, &port.device)?
            .start(&settings, core::slice::from_ref(&pool))
            .map_err(|failure| failure.error)?;
        let mtu = started.active().mtu.min(most);
        // Buffers have room for no longer packets than these, whatever the port's MTU.
        let needed = packet - ETHERNET;
        if needed > usize::from(mtu) && !flexible {
            return Err(DpdkJoinError::Mtu { needed, mtu });
        }
        let longest = needed.min(mtu.into());
        let host = host(Mac(started.mac().map_err(DpdkJoinError::Mac)?))?;
        let link = Self {
            host,
            rx: rx.remove(0),
            tx: tx.remove(0),
            pending: ArrayVec::new(),
            pool,
            sealing,
            nap: port.nap,
            _port: started,
            _eal: Arc::clone(eal),
        };
        Ok((link, longest))
    }

    /// Asks for the next hop until it answers.
    pub(crate) fn find(
        &mut self,
        origin: Instant,
        config: &Config,
        port: &DpdkConfig,
    ) -> Result<(), DpdkJoinError> {
        while !self.host.is_reachable() {
            let now = origin.elapsed();
            if is_over(config) {
                return Err(DpdkJoinError::Interrupted);
            }
            if now > config.join_deadline {
                let next_hop = self.host.next_hop().into();
                return Err(DpdkJoinError::Unreachable { next_hop, device: port.device.to_string() });
            }
            self.ask(now);
            self.flush();
            self.poll_frames(now, |_| {});
            self.rest(PATIENCE);
        }
        Ok(())
    }

    /// Asks for the next hop, if it is time for that.
    pub(crate) fn ask(&mut self, now: Duration) {
        if let Some(question) = self.host.question_by(now) {
            self.put(|packet| packet.write(&question));
        }
    }

    pub(crate) fn handshake(
        &mut self,
        join: &mut Join,
        origin: Instant,
        config: &Config,
    ) -> Result<(Membership, Counters), DpdkJoinError> {
        let mut early = Counters::default();
        let (appliance, notice) = (config.appliance, config.notice);
        let failed = |failure| DpdkJoinError::Failed { appliance, failure };
        loop {
            let now = origin.elapsed();
            let late = join.handle_timeout(now);
            let unproven = self.sealing.as_ref().and_then(|seals| seals.failure(join, now, late.is_some()));
            let end = unproven.or(late).map(failed);
            if let Some(end) = end.or_else(|| is_over(config).then_some(DpdkJoinError::Interrupted)) {
                for farewell in (0..FAREWELLS).filter_map(|_| join.farewell()) {
                    self.send_datagram(&farewell);
                }
                self.empty();
                return Err(end);
            }
            self.ask(now);
            // Until it counts that packets are not proven, their silence is no other one's.
            let is_in_doubt = self.sealing.as_ref().is_some_and(Sealing::is_in_doubt);
            if let Some(notice) = notice.filter(|_| !is_in_doubt) {
                notice.of_join(join, now);
            }
            if let Some(sealing) = &mut self.sealing {
                // Joins are repeated anyway.
                let _ = sealing.renew(now);
            }
            if let Some(request) = join.poll_transmit(now) {
                self.send_datagram(request);
            }
            self.flush();
            let mut end = None;
            self.poll_frames(now, |datagram| match datagram {
                Ok(datagram) if end.is_none() => end = join.handle_datagram(datagram),
                Ok(_) => {}
                Err(why) => early.ignore(why),
            });
            if let Some(end) = end {
                if let (Some(Notice(tell)), Some(shortened)) = (notice, join.shortened()) {
                    tell(&shortened);
                }
                return end.map(|membership| (membership, early)).map_err(failed);
            }
            self.rest(PATIENCE);
        }
    }

    /// Sends the session's packets, as far as there are buffers and room in the ring.
    pub(crate) fn send(&mut self, session: &mut Session, now: Duration, tensor: &[u8]) {
        loop {
            self.flush();
            let room = self.pending.remaining_capacity();
            let mut buffers = ArrayVec::<Mbuf, BURST>::new();
            // Before polling the session: packets that it returns count as sent.
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

    /// Looks for another key from time to time, and has the session ask the appliance about it.
    pub(crate) fn renew(&mut self, session: &mut Session, now: Duration) {
        if self.sealing.as_mut().is_some_and(|sealing| sealing.renew(now)) {
            session.ask_soon(now);
        }
    }

    /// Reports to the user what hinders seals.
    pub(crate) fn notify(&mut self, notice: Notice, session: &Session, now: Duration) {
        if let Some(sealing) = &mut self.sealing {
            sealing.notify(notice, &session.membership().identity, now);
        }
    }

    /// Makes a frame of the session's packet.
    fn fill(&mut self, packet: &mut Mbuf, session: &Session, transmit: &Transmit, tensor: &[u8]) -> bool {
        prefetch_first(transmit.ahead(tensor, AHEAD), LINES);
        let parts = [session.payload(transmit, tensor), session.trailer(transmit)];
        write((&self.host, self.sealing.as_mut()), packet, &transmit.header, transmit.psn(), &parts)
    }

    /// Makes a frame of a datagram without a PSN.
    fn send_datagram(&mut self, datagram: &[u8]) {
        let (host, mut sealing) = (self.host.clone(), self.sealing.take());
        if let Some((head, body)) = datagram.split_first_chunk() {
            self.put(|packet| write((&host, sealing.as_mut()), packet, head, None, &[body]));
        }
        self.sealing = sealing;
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

    /// Sends all of the session's packets, even if the ring is full at first.
    pub(crate) fn finish(&mut self, session: &mut Session, now: Duration, tensor: &[u8]) {
        self.send(session, now, tensor);
        self.empty();
    }

    /// Sends all waiting frames, even if the ring is full at first.
    fn empty(&mut self) {
        for _ in 0..1000 {
            if self.pending.is_empty() {
                return;
            }
            self.flush();
            core::hint::spin_loop();
        }
    }

    /// Handles a burst for the session. Returns the number of frames, and the end of an operation.
    pub(crate) fn receive(
        &mut self,
        session: &mut Session,
        origin: Instant,
        tensor: &mut [u8],
    ) -> (usize, Option<Event>) {
        let now = origin.elapsed();
        let mut event = None;
        let heard = self.poll_frames(now, |datagram| match datagram {
            Ok(datagram) => {
                let end = session.handle_datagram(now, datagram, tensor);
                event = event.take().or(end);
            }
            Err(why) => session.counters_mut().ignore(why),
        });
        (heard, event)
    }

    /// Receives a burst and passes on its datagrams one by one, opened, or why one does not open. Returns the
    /// number of frames.
    fn poll_frames(&mut self, now: Duration, mut each: impl FnMut(Result<&[u8], Ignored>)) -> usize {
        let mut frames = ArrayVec::<Mbuf, BURST>::new();
        let count = self.rx.rx(&mut frames);
        for frame in &mut frames {
            match self.host.handle_frame(now, frame.bytes(), frame.bad_checksum()) {
                Received::Datagram(range) => {
                    let datagram = frame.bytes_mut().get_mut(range).unwrap_or_default();
                    let opened = match &mut self.sealing {
                        Some(sealing) => sealing.open(now, datagram),
                        None => Ok(datagram.len()),
                    };
                    each(opened.map(|length| &datagram[..length]));
                }
                Received::Answer(answer) => {
                    if let Some(mut packet) = self.pool.alloc()
                        && packet.write(&answer)
                    {
                        let _ = self.pending.try_push(packet);
                    }
                }
                Received::Nothing => {}
            }
        }
        Mbuf::free_bulk(&mut frames);
        count
    }

    pub(crate) fn rest(&self, idle: u32) {
        if idle >= PATIENCE && !self.nap.is_zero() {
            thread::sleep(self.nap);
        } else {
            core::hint::spin_loop();
        }
    }
}

/// Room of a buffer for frames of this length, if there are such buffers, and the longest IP packet in it,
/// given that a result adds a bitmap.
fn buffers(longest: usize) -> (u16, u16) {
    // A power of two, since drivers that copy from a ring of the kernel's need room for a whole slot of it.
    let room = u16::try_from(longest).ok().and_then(u16::checked_next_power_of_two).unwrap_or(u16::MAX / 2);
    let room = room.max(2048);
    (room, room - u16::try_from(ETHERNET + trailer::BITMAP_LEN).unwrap_or(0))
}

/// Whether the program wants to give up joining.
fn is_over(config: &Config) -> bool {
    config.interrupt.is_some_and(|Interrupt(ask)| ask())
}

/// Makes a frame of a datagram of these parts, sealed or not.
fn write(
    (host, sealing): (&Host, Option<&mut Sealing>),
    packet: &mut Mbuf,
    head: &[u8; header::LEN],
    psn: Option<u32>,
    parts: &[&[u8]],
) -> bool {
    let headers = host.headers();
    let length = headers + parts.iter().map(|part| part.len()).sum::<usize>();
    let longer = if sealing.is_some() { SEAL } else { 0 };
    if !packet.set_len(length + longer) {
        return false;
    }
    let bytes = packet.bytes_mut();
    let mut at = headers;
    for part in parts {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    let Some(sealing) = sealing else { return host.address(bytes, head, psn).is_ok() };
    let datagram = &mut bytes[headers - header::LEN..];
    datagram[..header::LEN].copy_from_slice(head);
    if sealing.seal_in_place(datagram, length + header::LEN - headers) != Some(datagram.len()) {
        return false;
    }
    // The header says so, too.
    let head = datagram.first_chunk().copied().unwrap_or_default();
    host.address(bytes, &head, psn).is_ok()
}

#[cfg(test)]
mod tests;
