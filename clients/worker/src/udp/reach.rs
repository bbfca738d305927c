//! Which address of an appliance packets go to, where its name has several: the first at which one answers.
//!
//! Any appliance answers a Query of a stranger, and keeps nothing of it.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use core::time::Duration;

use pascaline_seal::Holder;
use pascaline_wire::control::{Action, Control};
use pascaline_wire::{Header, Kind};

use super::handshake::ASK;
use super::sealing::Sealing;
use super::socket::Socket;
use super::worker::session_number;
use super::{Addresses, Config, Interrupt, JoinError, Notice};
use crate::identity::Identity;
use crate::inquiry::query;
use crate::membership::JoinFailure;
use crate::way::Unreachable;

/// Time until the next address is asked as well (RFC 8305, section 5).
const APART: Duration = Duration::from_millis(250);
/// Time until each is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the addresses of an appliance are tried that others can replace.
const REPLACEABLE: Duration = Duration::from_secs(1);
/// When the user learns that none answers.
const STALLED: Duration = Duration::from_secs(1);

/// The configuration of the search, and its time limit.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    pub(super) identity: Identity,
    pub(super) bind: Option<SocketAddr>,
    pub(super) dscp: u8,
    pub(super) limit: Duration,
    pub(super) notice: Option<Notice>,
    pub(super) interrupt: Option<Interrupt>,
    /// Where the job's packets are sealed.
    pub(super) holder: Option<Holder>,
}

impl Config {
    /// With one address for each appliance: of [`several`](Self::several) the first at which an appliance
    /// answers. Joining does this by itself.
    ///
    /// # Errors
    /// As joining: [`JoinError::Failed`] if none answers before the deadline for joining.
    pub fn settled(mut self) -> Result<Self, JoinError> {
        let begun = Instant::now();
        // The only appliance may start late. Others are replaced by the next in their list.
        let alone = self.backups.is_empty() && self.trees.is_empty();
        let limit = if alone { self.join_deadline } else { self.silence.max(REPLACEABLE) };
        let Self { job, rank, ranks, bind, dscp, notice, interrupt, .. } = self;
        let identity = Identity { job, rank, ranks, payload: 0 };
        let (limit, holder) = (limit.min(self.join_deadline), self.key().map(|(holder, _)| holder.clone()));
        let asker = Asker { identity, bind, dscp, limit, notice, interrupt, holder };
        // One socket talks to all appliances of a tree. The first one's addresses come first.
        let named = self.several.first().is_some_and(|name| name.first == self.appliance);
        let literal = (!named).then_some(self.appliance);
        let mut ipv4 = bind.or(literal).map(|address| address.is_ipv4());
        for mut name in core::mem::take(&mut self.several) {
            let written = name.first;
            name.keep(ipv4);
            let found = match asker.find(&name) {
                Err(JoinError::Failed { .. }) if !alone => name.first,
                found => found?,
            };
            ipv4 = ipv4.or(Some(found.is_ipv4()));
            self.replace(written, found);
        }
        self.join_deadline = self.join_deadline.saturating_sub(begun.elapsed());
        Ok(self)
    }

    /// The same if this host has addresses of one family only, and cannot ask: the first of each appliance.
    #[must_use]
    pub fn of_family(mut self, ipv4: bool) -> Self {
        for mut name in core::mem::take(&mut self.several) {
            let written = name.first;
            name.keep(Some(ipv4));
            self.replace(written, name.first);
        }
        self
    }

    fn replace(&mut self, written: SocketAddr, found: SocketAddr) {
        let others = self.backups.iter_mut().chain(self.trees.iter_mut().flatten());
        let places = core::iter::once(&mut self.appliance).chain(others);
        places.filter(|place| **place == written).for_each(|place| *place = found);
    }
}

/// An address, and the socket to it, once there is a route.
struct Candidate {
    address: SocketAddr,
    socket: Option<Socket>,
    due: Duration,
    session: u64,
    sealing: Option<Sealing>,
}

impl Asker {
    /// The first address at which an appliance answers; the only one, unasked.
    pub(super) fn find(&self, name: &Addresses) -> Result<SocketAddr, JoinError> {
        if name.others.is_empty() {
            return Ok(name.first);
        }
        let mut candidates: Vec<_> = core::iter::once(&name.first)
            .chain(&name.others)
            .zip(0..)
            .map(|(&address, at)| {
                let session = session_number();
                let key = self.holder.as_ref().map(|holder| (holder, None));
                let sealing = key.map(|key| Sealing::new(key, session, Duration::ZERO));
                Candidate { address, socket: None, due: APART * at, session, sealing }
            })
            .collect();
        let (begun, mut told, mut report) = (Instant::now(), false, None);
        let mut buffer = [0; 2048];
        loop {
            let now = begun.elapsed();
            let answered = candidates.iter_mut().find_map(|candidate| candidate.answered(&mut buffer));
            if let Some(address) = answered {
                return Ok(address);
            }
            if now >= self.limit {
                let failure = JoinFailure::NoAnswer { waited: now, appliance: Some(name.first), report };
                return Err(JoinError::Failed {
                    appliance: name.first,
                    others: name.others.clone(),
                    failure,
                });
            }
            let io = |source| JoinError::Io { what: "cannot ask the addresses of a name", source };
            if self.interrupt.is_some_and(|Interrupt(ask)| ask()) {
                return Err(io(io::ErrorKind::Interrupted.into()));
            }
            if let Some(Notice(tell)) = self.notice.filter(|_| !told && now >= STALLED) {
                told = true;
                let count = candidates.len();
                tell(&format_args!("joining is stalled: none of the {count} addresses of the name answers"));
            }
            for candidate in candidates.iter_mut().filter(|candidate| candidate.due <= now) {
                candidate.due = now + AGAIN;
                report = self.ask(candidate).or(report);
            }
            let next = candidates.iter().map(|candidate| candidate.due).fold(self.limit, Duration::min);
            let sockets = candidates.iter().filter_map(|candidate| candidate.socket.as_ref());
            Socket::wait_any(sockets, next.saturating_sub(now).min(ASK)).map_err(io)?;
            let reports = candidates.iter().filter_map(|candidate| candidate.socket.as_ref()?.report());
            report = reports.last().or(report);
        }
    }

    /// Asks at an address. Returns this host's report if the way there is closed.
    fn ask(&self, candidate: &mut Candidate) -> Option<Unreachable> {
        // The port is the worker's own.
        let bind = self.bind.map(|bind| SocketAddr::new(bind.ip(), 0));
        let opened =
            || Socket::open(bind, candidate.address).ok().filter(|socket| socket.set_dscp(self.dscp).is_ok());
        // There may be a route by the next time.
        let socket = candidate.socket.take().or_else(opened)?;
        let (header, body) = query(&self.identity, 0, 0, candidate.session, 0);
        let request = [&header.to_bytes()[..], &body.to_bytes()].concat();
        let sealed = candidate.sealing.as_mut().map(|sealing| sealing.seal(&request));
        let _ = socket.send(sealed.unwrap_or(&request));
        let report = socket.report();
        candidate.socket = Some(socket);
        report
    }
}

impl Candidate {
    /// Its address, if an appliance has answered there, whatever its answer about the job.
    fn answered(&mut self, buffer: &mut [u8]) -> Option<SocketAddr> {
        let length = self.socket.as_ref()?.receive(buffer).ok()?;
        let datagram = buffer.get_mut(..length)?;
        let length = match &mut self.sealing {
            None => length,
            // Also one that only says that it does not take the question as proven.
            Some(sealing) => match sealing.open(Duration::ZERO, datagram) {
                Err(_) if !sealing.is_in_doubt() => return None,
                opened => opened.unwrap_or(length),
            },
        };
        let (header, body) = Header::parse(datagram.get(..length)?).ok()?;
        let control = header.kind == Kind::Control;
        let is_ack = control && Control::parse(body).is_ok_and(|ack| ack.action == Action::Ack);
        is_ack.then_some(self.address)
    }
}

#[cfg(test)]
mod tests;
