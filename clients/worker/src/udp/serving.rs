//! Serving a worker's trees during an operation, all in the caller's thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use core::time::Duration;

use nix::poll::PollFlags;

use super::Notice;
use super::socket::Socket;
use super::tree::Exchange;
use super::worker::is_failure;
use crate::membership::Left;
use crate::session::Event;

/// The failed operation of the system, and its error.
pub(super) type Broken = (&'static str, io::Error);

/// How often to check whether the program has aborted.
const LOOK: Duration = Duration::from_millis(100);

/// Serves the trees until the operation has ended over all of them or failed over one. Returns the worst end.
/// `aborted` is the program's: see [`Background::abort`](super::Background::abort).
pub(super) fn serve(
    exchanges: &mut [Exchange<'_>],
    origin: Instant,
    notice: Option<Notice>,
    aborted: &AtomicBool,
) -> Result<Event, Broken> {
    let mut ended: Option<Event> = None;
    loop {
        for exchange in exchanges.iter_mut() {
            exchange.send()?;
        }
        // Only here: a Leave has been sent once by then.
        if aborted.load(Relaxed) {
            return Err(("the operation has been aborted", io::ErrorKind::Interrupted.into()));
        }
        let busy = exchanges.iter().filter(|exchange| exchange.is_busy());
        if let Some(gather) = busy.map(|exchange| exchange.session.may_gather()).min().flatten() {
            thread::sleep(gather);
        }
        let due = exchanges.iter().filter_map(Exchange::poll_timeout).min();
        let patience = due.map_or(LOOK, |due| due.saturating_sub(origin.elapsed()).min(LOOK));
        if !turn(exchanges)? && wait(exchanges, patience)? {
            turn(exchanges)?;
        }
        for exchange in exchanges.iter_mut() {
            if let Some(notice) = notice {
                exchange.notify(notice);
            }
            if let Some(event) = exchange.end()? {
                ended = Some(match ended.take() {
                    Some(other) => worse(event, other),
                    None => event,
                });
            }
        }
        match ended {
            Some(event) if is_failure(&event) || !exchanges.iter().any(Exchange::is_busy) => {
                return Ok(event);
            }
            still => ended = still,
        }
    }
}

/// Handles the datagrams of each tree. True if there were any.
fn turn(exchanges: &mut [Exchange<'_>]) -> Result<bool, Broken> {
    let mut any = false;
    for exchange in exchanges {
        any |= exchange.receive_multicast()?;
        let count = exchange.receive()?;
        any |= count > 0;
        exchange.handle(count);
    }
    Ok(any)
}

fn wait(exchanges: &[Exchange<'_>], patience: Duration) -> Result<bool, Broken> {
    let io = |source| ("cannot wait", source);
    match exchanges {
        [exchange] if exchange.sockets().nth(1).is_none() => {
            exchange.socket.wait(PollFlags::POLLIN, patience).map_err(io)
        }
        _ => Socket::wait_any(exchanges.iter().flat_map(Exchange::sockets), patience).map_err(io),
    }
}

/// Of the ends of one operation over two trees, the one to report.
fn worse(one: Event, other: Event) -> Event {
    match one {
        Event::Failed(_) | Event::Commanded(Err(_)) | Event::Left(Left::Lingered) => one,
        Event::Completed | Event::Commanded(Ok(())) | Event::Left(Left::Everyone) => other,
    }
}
