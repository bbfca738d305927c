use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Instant, SystemTime};

use core::time::Duration;

use nix::poll::PollFlags;
use pascaline_wire::{CongestionControl, UdpPorts, control, header, trailer};
use zerocopy::IntoBytes as _;

use super::outgoing::Cutting;
use super::socket::{PLACE, PLACES, Socket};
use super::transfer::{Transfer, transient};
use super::{AllreduceError, CommandError, Config, JoinError, Notice};
use crate::Op;
use crate::allreduce::Report;
use crate::collective::Collective;
use crate::counters::Counters;
use crate::element::Element;
use crate::identity::Membership;
use crate::membership::{Join, JoinFailure, Left};
use crate::places::Places;
use crate::priority::Hints;
use crate::session::{Command, Event, Session};

/// Full batches after which the driver looks at timeouts at the latest.
const FULL_BATCHES: u32 = 16;
/// An appliance and its UDP ports.
type Peer = (SocketAddr, UdpPorts);
type Peers = Vec<Peer>;

/// How often a worker that has not joined says that it gives up: nobody asks for an answer.
const FAREWELLS: usize = 2;

/// A member of a job, connected to its appliance.
///
/// All ranks must call [`allreduce`](Self::allreduce) and the other collectives with tensors of the same type
/// and length, and the same operation, in the same order. Between calls, reminders from other ranks wait in
/// the socket; in long pauses [`tend`](Self::tend) answers them. Dropping a worker without
/// [`leave`](Self::leave) is like a crash: the others may miss results that only it had.
///
/// If the appliance restarts, or goes on without a dead rank, the worker joins again and the allreduce goes
/// on, within the deadline.
pub struct Worker {
    pub(super) config: Config,
    socket: Socket,
    /// Its appliances, and which of them the socket talks to.
    peers: Peers,
    place: usize,
    pub(super) session: Session,
    pub(super) origin: Instant,
    cutting: Cutting,
    buffer: Vec<u8>,
    /// A tensor in 16 bits.
    pub(super) narrowed: Vec<u16>,
}

impl core::fmt::Debug for Worker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Worker").field("config", &self.config).finish_non_exhaustive()
    }
}

/// How a worker left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Whether everyone had left.
    pub left: Left,
    /// All that the worker did.
    pub counters: Counters,
}

impl Worker {
    /// Joins a job and waits until all its ranks have.
    ///
    /// # Errors
    /// See [`JoinError`]; a refusal says what disagreed.
    pub fn join(config: Config) -> Result<Self, JoinError> {
        config.check()?;
        let peers = config.peers()?;
        let io = |what| move |source| JoinError::Io { what, source };
        let spread = config.spread.max(config.in_flight);
        let socket = Socket::open_to(config.bind, config.appliance, config.ports()?)
            .map_err(io("cannot open a UDP socket"))?;
        socket.carry(config.dscp).map_err(io("cannot set the DSCP"))?;
        let (identity, flexible) = config.offer(socket.path_mtu());
        let number = session_number();
        let origin = Instant::now();
        let mut buffer = vec![0; PLACE * PLACES];
        let places = Places::new(1 + config.backups.len(), config.silence);
        let join = Join::new(identity, number, spread, Duration::ZERO, config.join_deadline);
        let join = if flexible { join.flexible() } else { join };
        let mut join = join.at(config.appliance).among(places);
        let membership = handshake((&socket, &peers), &mut join, origin, &mut buffer, config.notice)
            .map_err(io("cannot use the UDP socket"))?
            .map_err(|failure| JoinError::Failed { appliance: config.appliance, failure })?;
        let payload = membership.identity.payload;
        let stride = usize::from(payload).max(control::LEN) + header::LEN + trailer::MAX_LEN;
        // The system accounts for about twice a small packet's length.
        socket.make_room(usize::from(spread) * stride * 4);
        let place = join.places().at();
        let appliance = peers.get(place).map_or(config.appliance, |peer| peer.0);
        let session = Session::new(membership, config.in_flight).at(appliance);
        let mut session = session.among(*join.places());
        if let Some(control) = config.congestion {
            session = session.controlled(control);
        }
        if config.accept_partial {
            session = session.accept_partial();
        }
        socket.join_datagrams();
        let cutting = Cutting::new(payload);
        Ok(Self { config, socket, peers, place, session, origin, cutting, buffer, narrowed: Vec::new() })
    }

    /// Replaces every element of `tensor` by the sum of that element over all ranks: [`allreduce_with`]
    /// without hints.
    ///
    /// # Errors
    /// As `allreduce_with`.
    ///
    /// [`allreduce_with`]: Self::allreduce_with
    pub fn allreduce<T: Element>(&mut self, tensor: &mut [T]) -> Result<Report, AllreduceError> {
        self.allreduce_with(tensor, Op::Sum, Hints::default())
    }

    /// Replaces every element of `tensor` by what `op` makes of that element of all ranks. An empty tensor is
    /// done at once.
    ///
    /// `f32` and `f64` sums are rounded after each addition, in the order that the appliance is configured
    /// for; `f16` and `bf16` sums are made in `f32` and rounded at the end, and once for each part that was
    /// evicted from the pool; `i32` sums saturate, which [`Counters::overflows`] tells.
    ///
    /// `hints` and the time between calls make the priority with which the tensor contends for the
    /// appliance's memory: see [`priority`](crate::priority).
    ///
    /// # Errors
    /// See [`AllreduceError`]. It never waits beyond [`Config::deadline`].
    pub fn allreduce_with<T: Element>(
        &mut self,
        tensor: &mut [T],
        op: Op,
        hints: Hints,
    ) -> Result<Report, AllreduceError> {
        self.collective(&Collective::Allreduce(op), T::DTYPE, tensor.as_mut_bytes(), hints)
    }

    /// Runs what the session has begun to its end.
    pub(super) fn drive(&mut self, tensor: &mut [u8]) -> Result<Event, (&'static str, io::Error)> {
        let io = |what| move |source| (what, source);
        let Self { config, socket, peers, place, session, origin, cutting, buffer, .. } = self;
        socket.heed_marks(session.control().heeds_marks());
        let mut transfer = Transfer::new(socket, ports(config, peers, *place), origin, cutting, buffer);
        let mut full_batches = 0;
        loop {
            follow(&mut transfer, peers, place, session).map_err(io("cannot turn to another appliance"))?;
            transfer.flush(session, tensor).map_err(io("cannot send"))?;
            if let Some(gather) = session.may_gather() {
                thread::sleep(gather);
            }
            let mut event = None;
            // While something is under way, there is always a timeout: its deadline.
            let patience = session.poll_timeout().unwrap_or_default().saturating_sub(origin.elapsed());
            let mut count = transfer.receive().map_err(io("cannot receive"))?;
            if count == 0 && socket.wait(PollFlags::POLLIN, patience).map_err(io("cannot wait"))? {
                count = transfer.receive().map_err(io("cannot receive"))?;
            }
            let now = origin.elapsed();
            if let Some(report) = socket.report() {
                session.note_unreachable(now, report);
            }
            for (datagram, marked) in (0..count).flat_map(|place| transfer.datagrams(place)) {
                let end = session.handle_marked(now, datagram, marked, tensor);
                event = event.or(end);
            }
            // If this thread was not scheduled, results that seem late may lie in the socket: read them
            // first, but not for ever.
            full_batches = if count == PLACES { full_batches + 1 } else { 0 };
            if full_batches % FULL_BATCHES == 0 {
                event = event.or_else(|| session.handle_timeout(origin.elapsed()));
            }
            if let (Some(why), Some(Notice(tell))) = (transfer.news(), config.notice) {
                tell(&format_args!("packets are sent one by one, which takes more processor time: {why}"));
            }
            if let Some(Notice(tell)) = config.notice
                && let Some(progress) = session.stalled(origin.elapsed())
            {
                tell(&format_args!("an allreduce does not get on: {progress}"));
            }
            if let Some(event) = event {
                // Before the tensor goes back to its owner.
                transfer.flush(session, tensor).map_err(io("cannot send"))?;
                return Ok(event);
            }
        }
    }

    /// Answers the reminders that have come since the last call, and shows that this worker is alive, without
    /// waiting: for long pauses between allreduces. Meanwhile other ranks may miss a result that the
    /// appliance has evicted, and the appliance declares a worker dead that is silent for the job's
    /// `dead_after` while others wait.
    ///
    /// # Errors
    /// The operating system's, from sending or receiving.
    pub fn tend(&mut self) -> io::Result<()> {
        let Self { config, socket, peers, place, session, origin, cutting, buffer, .. } = self;
        let mut transfer = Transfer::new(socket, ports(config, peers, *place), origin, cutting, buffer);
        // Bounded by what the socket can hold, even if more keeps coming.
        for _ in 0..64 {
            let count = transfer.receive()?;
            let now = origin.elapsed();
            for (datagram, marked) in (0..count).flat_map(|place| transfer.datagrams(place)) {
                session.handle_marked(now, datagram, marked, &mut []);
            }
            transfer.flush(session, &[])?;
            if count < PLACES {
                break;
            }
        }
        Ok(())
    }

    /// Leaves the job. Answers reminders until everyone has left, or nobody has needed it for
    /// [`Config::linger`].
    ///
    /// Errors of the socket end the wait.
    pub fn leave(mut self) -> Departure {
        self.session.leave(self.origin.elapsed(), self.config.linger);
        let left = match self.drive(&mut []) {
            Ok(Event::Left(left)) => left,
            _ => Left::Lingered,
        };
        Departure { left, counters: *self.session.counters() }
    }

    /// Commands the job: see [`Command`]. Waits for the answer, for at most [`Config::deadline`].
    ///
    /// # Errors
    /// See [`CommandError`].
    pub fn command(&mut self, command: Command) -> Result<(), CommandError> {
        self.session.command(self.origin.elapsed(), command, self.config.deadline)?;
        match self.drive(&mut []).map_err(|(what, source)| CommandError::Io { what, source })? {
            Event::Commanded(outcome) => Ok(outcome?),
            Event::Completed | Event::Failed(_) | Event::Left(_) => Ok(()),
        }
    }

    /// Changes [`Config::deadline`] for the allreduces to come. Returns what it was.
    pub const fn set_deadline(&mut self, deadline: Duration) -> Duration {
        core::mem::replace(&mut self.config.deadline, deadline)
    }

    /// What the appliance agreed to.
    #[must_use]
    pub const fn membership(&self) -> &Membership {
        self.session.membership()
    }

    /// The congestion control that it follows.
    #[must_use]
    pub const fn control(&self) -> CongestionControl {
        self.session.control()
    }

    /// All that the worker has done so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        self.session.counters()
    }

    /// The address that the appliance sees, unless it is translated on the way.
    ///
    /// # Errors
    /// The operating system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// A random number: nobody else knows it, and no other session of the rank has had it.
#[must_use]
pub fn session_number() -> u64 {
    // Where the system has no random numbers to give, one that at least differs.
    getrandom::u64().unwrap_or_else(|_| unix_ns())
}

/// Nanoseconds since 1970.
pub(super) fn unix_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}

/// The UDP ports of the appliance that a socket talks to.
fn ports(config: &Config, peers: &Peers, place: usize) -> UdpPorts {
    peers.get(place).map_or(UdpPorts::single(config.appliance.port()), |peer| peer.1)
}

/// Turns the socket to the appliance that the session has turned to.
fn follow(
    transfer: &mut Transfer<'_>,
    peers: &Peers,
    place: &mut usize,
    session: &mut Session,
) -> io::Result<()> {
    let turned = session.places().at();
    if core::mem::replace(place, turned) != turned
        && let Some(&(appliance, ports)) = peers.get(turned)
    {
        transfer.turn_to(appliance, ports)?;
        session.turned_to(appliance);
    }
    Ok(())
}

/// Runs the join handshake to its end.
pub(super) fn handshake(
    (socket, peers): (&Socket, &[Peer]),
    join: &mut Join,
    origin: Instant,
    buffer: &mut [u8],
    notice: Option<Notice>,
) -> io::Result<Result<Membership, JoinFailure>> {
    let mut place = join.places().at();
    loop {
        let now = origin.elapsed();
        if let Some(failure) = join.handle_timeout(now) {
            for farewell in (0..FAREWELLS).filter_map(|_| join.farewell()) {
                let _ = socket.send(&farewell);
            }
            return Ok(Err(failure));
        }
        if let Some(Notice(tell)) = notice
            && let Some(waiting) = join.stalled(now)
        {
            tell(&format_args!("joining takes its time: {waiting}"));
        }
        if let (Some(Notice(tell)), Some(shortened)) = (notice, join.shortened()) {
            tell(&shortened);
        }
        if let Some(request) = join.poll_transmit(now).map(<[u8]>::to_vec) {
            let turned = join.places().at();
            if core::mem::replace(&mut place, turned) != turned
                && let Some(&(appliance, ports)) = peers.get(turned)
            {
                transient(socket.turn_to(appliance, ports))?;
            }
            transient(socket.send(&request))?;
        }
        let ready = socket.wait(PollFlags::POLLIN, join.poll_timeout().saturating_sub(now))?;
        if let Some(report) = socket.report() {
            join.note_unreachable(origin.elapsed(), report);
        }
        if ready
            && let Some(length) = transient(socket.receive(buffer))?
            && let Some(end) = join.handle_datagram(&buffer[..length])
        {
            return Ok(end);
        }
    }
}
