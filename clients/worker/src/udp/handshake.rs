//! Joining over a socket.

use std::io;
use std::time::Instant;

use core::time::Duration;

use nix::poll::PollFlags;

use super::sealing::Sealing;
use super::socket::Socket;
use super::transfer::transient;
use super::tree::{Peer, Tree};
use super::{Interrupt, Notice};
use crate::identity::Membership;
use crate::membership::{FAREWELLS, Join, JoinFailure};

/// How often the program is asked whether to give up.
pub(super) const ASK: Duration = Duration::from_millis(100);

/// Runs the join handshake to its end, and serves the trees that have been joined before: their appliances
/// may forget this worker, and ranks that join there more slowly would wait for it.
pub(super) fn handshake(
    (socket, peers): (&Socket, &[Peer]),
    (join, before): (&mut Join, &mut [Tree]),
    mut sealing: Option<&mut Sealing>,
    origin: Instant,
    buffer: &mut [u8],
    (notice, interrupt): (Option<Notice>, Option<Interrupt>),
) -> io::Result<Result<Membership, JoinFailure>> {
    let mut place = join.places().at();
    loop {
        let now = origin.elapsed();
        let late = join.handle_timeout(now);
        let unproven = sealing.as_deref().and_then(|sealing| sealing.failure(join, now, late.is_some()));
        if let Some(failure) = unproven.or(late) {
            part(join, socket, sealing);
            return Ok(Err(failure));
        }
        if interrupt.is_some_and(|Interrupt(ask)| ask()) {
            part(join, socket, sealing);
            return Err(io::ErrorKind::Interrupted.into());
        }
        // Until it counts that packets are not proven, their silence is no other one's.
        let is_in_doubt = sealing.as_deref().is_some_and(Sealing::is_in_doubt);
        if let Some(notice) = notice.filter(|_| !is_in_doubt) {
            notice.of_join(join, now);
        }
        for tree in before.iter_mut() {
            tree.serve_beside()?;
        }
        if let Some(sealing) = sealing.as_deref_mut() {
            // Joins are repeated anyway.
            let _ = sealing.renew(now);
        }
        if let Some(request) = join.poll_transmit(now).map(<[u8]>::to_vec) {
            let turned = join.places().at();
            if core::mem::replace(&mut place, turned) != turned
                && let Some(&(appliance, ports)) = peers.get(turned)
            {
                transient(socket.turn_to(appliance, ports))?;
                join.turned_to(appliance);
            }
            transient(send(socket, &mut sealing, &request))?;
        }
        let next = join.poll_timeout().saturating_sub(now);
        let next = if interrupt.is_some() || !before.is_empty() { next.min(ASK) } else { next };
        let doubt = sealing.as_deref().and_then(Sealing::poll_timeout);
        let next = doubt.map_or(next, |doubt| next.min(doubt.saturating_sub(now)));
        let ready = socket.wait(PollFlags::POLLIN, next)?;
        if let Some(report) = socket.report() {
            join.note_unreachable(origin.elapsed(), report);
        }
        if ready
            && let Some(length) = transient(socket.receive(buffer))?
            && let Some(length) = match sealing.as_deref_mut() {
                Some(sealing) => sealing.open_early(origin.elapsed(), &mut buffer[..length]),
                None => Some(length),
            }
            && let Some(end) = join.handle_datagram(&buffer[..length])
        {
            return Ok(end);
        }
    }
}

fn send(socket: &Socket, sealing: &mut Option<&mut Sealing>, request: &[u8]) -> io::Result<usize> {
    socket.send(sealing.as_deref_mut().map_or(request, |sealing| sealing.seal(request)))
}

/// Says that the worker gives up.
fn part(join: &mut Join, socket: &Socket, mut sealing: Option<&mut Sealing>) {
    for farewell in (0..FAREWELLS).filter_map(|_| join.farewell()) {
        let _ = send(socket, &mut sealing, &farewell);
    }
}
