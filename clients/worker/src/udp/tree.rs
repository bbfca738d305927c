//! One tree of a worker: the socket to its appliance, and the session there.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use core::time::Duration;

use pascaline_wire::{UdpPorts, control, header, trailer};

use super::group::Listener;
use super::handshake::handshake;
use super::outgoing::Cutting;
use super::sealing::Sealing;
use super::socket::{PLACE, PLACES, Socket};
use super::transfer::Transfer;
use super::worker::session_number;
use super::{Config, ConfigError, JoinError, Notice};
use crate::membership::{Join, JoinFailure};
use crate::pieces::Pieces;
use crate::places::Places;
use crate::session::{Event, Session};

/// The most full batches before timeouts are checked.
const FULL_BATCHES: u32 = 16;

/// An appliance and its UDP ports.
pub(super) type Peer = (SocketAddr, UdpPorts);

pub(super) struct Tree {
    /// All times count from here.
    origin: Instant,
    socket: Socket,
    listener: Listener,
    /// Its appliances, and which of them the socket talks to.
    peers: Vec<Peer>,
    place: usize,
    pub(super) session: Session,
    cutting: Cutting,
    sealing: Option<Sealing>,
    buffer: Vec<u8>,
}

impl Tree {
    /// Joins a job as `config` says, all times counted from `origin`, and waits until all its ranks have. The
    /// trees `before` have been joined already.
    pub(super) fn join(config: &Config, origin: Instant, before: &mut [Self]) -> Result<Self, JoinError> {
        let peers = config.peers()?;
        let io = |what| move |source| JoinError::Io { what, source };
        let spread = config.spread.max(config.in_flight);
        let socket = Socket::open_to(config.bind, config.appliance, config.ports()?)
            .map_err(io("cannot open a UDP socket"))?;
        socket.set_dscp(config.dscp).map_err(io("cannot set the DSCP"))?;
        let (identity, flexible) = config.offer(socket.path_mtu());
        let mut buffer = vec![0; PLACE * PLACES];
        let places = Places::new(peers.len(), config.silence);
        let (number, now) = (session_number(), origin.elapsed());
        let mut sealing = Sealing::of(config, number, now);
        let join = Join::new(identity, number, spread, now, config.join_deadline);
        let join = if flexible { join.flexible().longer(config.longer()) } else { join };
        let mut join = join.at(config.appliance).among(places);
        let hooks = (config.notice, config.interrupt);
        let (ways, joining) = ((&socket, &peers[..]), (&mut join, before));
        let membership = handshake(ways, joining, sealing.as_mut(), origin, &mut buffer, hooks)
            .map_err(io("cannot use the UDP socket"))?
            .map_err(|failure| failed(&peers, join.places(), failure))?;
        let payload = membership.identity.payload;
        let stride = usize::from(payload).max(control::LEN) + header::LEN + trailer::MAX_LEN;
        // The system accounts for about twice a small packet's length.
        let room = usize::from(membership.spread) * stride * 4;
        socket.make_room(room);
        let place = join.places().at();
        let appliance = peers.get(place).map_or(config.appliance, |peer| peer.0);
        let session = Session::new(membership, config.in_flight).at(appliance).longer(config.longer());
        let mut session = session.among(*join.places());
        if let Some(control) = config.congestion {
            session = session.controlled(control);
        }
        if config.accept_partial {
            session = session.accept_partial();
        }
        socket.join_datagrams();
        let listener = Listener::new(room);
        let cutting = Cutting::new(payload.saturating_add(config.longer()));
        if let Some(sealing) = &mut sealing {
            sealing.make_room(stride);
            *session.counters_mut() = sealing.take_early();
        }
        Ok(Self { origin, socket, listener, peers, place, session, cutting, sealing, buffer })
    }

    /// The address that the appliance sees, unless it is translated on the way.
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The appliance that it talks to.
    pub(super) fn appliance(&self) -> Option<SocketAddr> {
        self.peers.get(self.place).map(|peer| peer.0)
    }

    /// Gives up, even with an operation in flight, and reports it if the socket accepts that. Does nothing if
    /// the session has ended already.
    pub(super) fn abandon(&mut self) {
        self.session.abandon(self.origin.elapsed());
        let _ = self.exchange(None).send();
    }

    /// Answers waiting datagrams, without blocking.
    pub(super) fn tend(&mut self) -> io::Result<()> {
        let mut exchange = self.exchange(None);
        let told = |(_, source)| source;
        // Bounded by what the socket can hold, even if more keeps coming.
        for _ in 0..64 {
            exchange.receive_multicast().map_err(told)?;
            let count = exchange.receive().map_err(told)?;
            exchange.take(count);
            exchange.send().map_err(told)?;
            if count < PLACES {
                break;
            }
        }
        Ok(())
    }

    /// Handles waiting datagrams and what is due, without blocking, while the worker waits at another tree.
    pub(super) fn serve_beside(&mut self) -> io::Result<()> {
        let mut exchange = self.exchange(None);
        let told = |(_, source)| source;
        exchange.receive_multicast().map_err(told)?;
        let count = exchange.receive().map_err(told)?;
        exchange.handle(count);
        exchange.send().map_err(told)
    }

    /// Moves its packets while an operation is in flight: with `tensor`, one of this tree.
    pub(super) fn exchange<'a>(&'a mut self, tensor: Option<&'a mut [u8]>) -> Exchange<'a> {
        let Self { origin, socket, listener, peers, place, session, cutting, sealing, buffer } = self;
        socket.read_marks(session.control().reacts_to_marks());
        let first = UdpPorts::single(peers.first().map_or(0, |peer| peer.0.port()));
        let ports = peers.get(*place).map_or(first, |peer| peer.1);
        Exchange {
            socket,
            listener,
            peers,
            place,
            session,
            origin,
            transfer: Transfer::new(socket, ports, origin, (cutting, sealing.as_mut()), buffer),
            is_busy: tensor.is_some(),
            tensor: tensor.unwrap_or_default(),
            pieces: None,
            event: None,
            full_batches: 0,
        }
    }
}

/// Why it could not join, and where: at the appliance that refused, or at all if none has answered.
fn failed(peers: &[Peer], places: &Places, failure: JoinFailure) -> JoinError {
    let address = |place: usize| peers.get(place).map(|peer| peer.0);
    let silent = matches!(failure, JoinFailure::NoAnswer { .. });
    let asked = |&place: &usize| silent && place != places.at() && places.has_tried(place);
    let others = (0..peers.len()).filter(asked).filter_map(address).collect();
    match address(places.at()) {
        Some(appliance) => JoinError::Failed { appliance, others, failure },
        None => JoinError::Config(ConfigError::NoAppliance { tree: 0 }),
    }
}

impl Drop for Tree {
    /// No rank has to wait for a dropped worker, and its rank is free for the next one.
    fn drop(&mut self) {
        self.abandon();
    }
}

/// A tree during an operation, over it or over another one.
pub(super) struct Exchange<'a> {
    pub(super) socket: &'a Socket,
    listener: &'a mut Listener,
    peers: &'a [Peer],
    place: &'a mut usize,
    pub(super) session: &'a mut Session,
    origin: &'a Instant,
    transfer: Transfer<'a>,
    tensor: &'a mut [u8],
    /// If the tensor is made while it is sent.
    pub(super) pieces: Option<&'a mut dyn Pieces>,
    is_busy: bool,
    event: Option<Event>,
    full_batches: u32,
}

impl Exchange<'_> {
    /// Whether an operation is in flight here.
    pub(super) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Sends all packets that the session has ready, to the appliance that it has turned to.
    pub(super) fn send(&mut self) -> Result<(), (&'static str, io::Error)> {
        let turned = self.session.places().at();
        if core::mem::replace(self.place, turned) != turned
            && let Some(&(appliance, ports)) = self.peers.get(turned)
        {
            let io = |source| ("cannot turn to another appliance", source);
            self.transfer.turn_to(appliance, ports).map_err(io)?;
            self.session.turned_to(appliance);
        }
        if let Some(&(appliance, _)) = self.peers.get(turned) {
            self.listener.follow(self.session, self.socket, appliance);
        }
        let pieces = self.pieces.as_deref_mut();
        self.transfer.flush(self.session, self.tensor, pieces).map_err(|source| ("cannot send", source))
    }

    /// Receives waiting datagrams, without blocking. Returns how many places are filled.
    pub(super) fn receive(&mut self) -> Result<usize, (&'static str, io::Error)> {
        self.transfer.receive().map_err(|source| ("cannot receive", source))
    }

    /// The sockets on which its answers arrive.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &Socket> {
        core::iter::once(self.socket).chain(self.listener.socket())
    }

    /// Handles datagrams of the job's multicast group, without waiting: all of them, so that no received
    /// result seems late, but not without end. True if there were any.
    pub(super) fn receive_multicast(&mut self) -> Result<bool, (&'static str, io::Error)> {
        let mut any = false;
        for _ in 0..FULL_BATCHES {
            let Some(socket) = self.listener.socket() else { break };
            let io = |source| ("cannot receive from a multicast group", source);
            let count = self.transfer.receive_at(socket).map_err(io)?;
            any |= count > 0;
            let (now, Self { transfer, session, tensor, event, .. }) = (self.origin.elapsed(), &mut *self);
            transfer.each(count, |datagram, marked| match datagram {
                Ok(datagram) => {
                    let end = session.handle_by_group(now, datagram, marked, tensor);
                    *event = event.take().or(end);
                }
                Err(why) => session.counters_mut().ignore(why),
            });
            self.take_pieces();
            if count < PLACES {
                break;
            }
        }
        Ok(any)
    }

    /// Handles the datagrams of the first `count` places, which `receive` has filled, and due timeouts.
    pub(super) fn handle(&mut self, count: usize) {
        if let Some(report) = self.socket.report() {
            self.session.note_unreachable(self.origin.elapsed(), report);
        }
        self.take(count);
        // If this thread was not scheduled, results that seem late may lie in the socket: read them first,
        // but not without end.
        self.full_batches = if count == PLACES { self.full_batches + 1 } else { 0 };
        if self.full_batches.is_multiple_of(FULL_BATCHES) {
            let end = self.session.handle_timeout(self.origin.elapsed());
            self.event = self.event.take().or(end);
        }
    }

    fn take(&mut self, count: usize) {
        let (now, Self { transfer, session, tensor, event, .. }) = (self.origin.elapsed(), &mut *self);
        transfer.each(count, |datagram, marked| match datagram {
            Ok(datagram) => {
                let end = session.handle_marked(now, datagram, marked, tensor);
                *event = event.take().or(end);
            }
            Err(why) => session.counters_mut().ignore(why),
        });
        self.take_pieces();
    }

    /// Uses the results that have arrived.
    fn take_pieces(&mut self) {
        if let Some(pieces) = &mut self.pieces {
            pieces.take(self.tensor, self.session.settled());
        }
    }

    /// Reports warnings to the user.
    pub(super) fn notify(&mut self, notice: Notice) {
        let Notice(tell) = notice;
        if let Some(why) = self.transfer.take_warning() {
            tell(&format_args!("packets are sent one by one, which takes more processor time: {why}"));
        }
        self.transfer.notify(notice, &self.session.membership().identity);
        if let Some((group, why)) = self.listener.trouble() {
            tell(&format_args!("cannot listen to multicast group {group}: {why}"));
        }
        if let Some(unheard) = self.session.unheard() {
            tell(&unheard);
        }
        notice.of_session(self.session, self.origin.elapsed());
    }

    /// The end of the operation here, once, after its last packets were sent: then the tensor may return to
    /// its owner.
    pub(super) fn end(&mut self) -> Result<Option<Event>, (&'static str, io::Error)> {
        let Some(event) = self.event.take().filter(|_| self.is_busy) else { return Ok(None) };
        self.send()?;
        self.is_busy = false;
        self.tensor = &mut [];
        self.pieces = None;
        Ok(Some(event))
    }

    /// When to call the session next.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.session.poll_timeout()
    }
}
