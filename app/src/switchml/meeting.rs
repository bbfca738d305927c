//! Where the workers of one job meet: who waits for whom, without I/O.
//!
//! Neither a barrier nor a broadcast has a number, and a barrier does not say whose it is. A worker's calls
//! come by one connection, and the root's broadcast begins a run. Until the first barrier of a run has let
//! its workers go, none of them has got further than any other: whichever of them dies may be started again,
//! and the others wait for it. Later, one that waits when the root begins again belongs to a run that is
//! over, and gets an error.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use pascaline_wire::switchml::MOST_WORKERS;
use tokio::sync::oneshot::{self, Receiver, Sender};

/// Most workers that may wait at a time: those of a run, and of one before it that are not gone yet.
const MOST: usize = 2 * MOST_WORKERS as usize;

/// Why somebody waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// Too many wait.
    #[error("too many workers wait already")]
    Crowded,
    /// It names another number of workers than the job has.
    #[error("{said} workers, and the job has fan_in = {fan_in}")]
    Workers { said: u32, fan_in: u16 },
    /// Its rank is not below the number of workers.
    #[error("the rank or the root is not below {fan_in}, the number of workers")]
    Rank { fan_in: u16 },
}

/// What one worker waits for; an error if its run is over.
pub(super) type Wait<T> = Receiver<T>;

/// The other end of a worker's connection.
pub(super) type Peer = Option<SocketAddr>;

#[derive(Debug, Default)]
pub(super) struct Meeting {
    barrier: Vec<(Peer, Sender<()>)>,
    /// Those that wait for the root's value.
    listeners: Vec<(u32, Peer, Sender<u64>)>,
    run: Option<Run>,
}

/// What the root's latest broadcast has begun.
#[derive(Debug)]
struct Run {
    value: u64,
    /// Who has the value, the root among them.
    have: BTreeMap<u32, Peer>,
    root: u32,
    /// A barrier has let all go: a worker that asks for a value from now on wants that of the next run.
    met: bool,
}

impl Meeting {
    /// Has a worker wait until all workers of the job wait.
    pub(super) fn barrier(&mut self, peer: Peer, workers: u32, fan_in: u16) -> Result<Wait<()>, Refused> {
        let workers = usize::from(agreed(workers, fan_in)?);
        // Those that are gone do not count.
        self.barrier.retain(|(_, waits)| !waits.is_closed());
        if self.barrier.len() >= MOST {
            return Err(Refused::Crowded);
        }
        let (sender, receiver) = oneshot::channel();
        self.barrier.push((peer, sender));
        if self.barrier.len() >= workers {
            self.barrier.drain(..).for_each(|(_, waits)| _ = waits.send(()));
            if let Some(run) = &mut self.run {
                run.met = true;
            }
        }
        Ok(receiver)
    }

    /// A worker gives the root's value, or waits for it.
    pub(super) fn broadcast(
        &mut self,
        peer: Peer,
        (rank, root): (u32, u32),
        (workers, fan_in): (u32, u16),
        value: u64,
    ) -> Result<Wait<u64>, Refused> {
        agreed(workers, fan_in)?;
        if rank >= workers || root >= workers {
            return Err(Refused::Rank { fan_in });
        }
        let (sender, receiver) = oneshot::channel();
        if rank == root {
            self.begin(peer, root, value);
            _ = sender.send(value);
            return Ok(receiver);
        }
        if let Some(run) = self.run.as_mut().filter(|run| !run.met) {
            // Started again: what its former process waits for does not count.
            let former = run.have.insert(rank, peer);
            self.barrier.retain(|(waits, _)| *waits == peer || former != Some(*waits));
            _ = sender.send(run.value);
            return Ok(receiver);
        }
        self.listeners.retain(|(.., waits)| !waits.is_closed());
        if self.listeners.len() >= MOST {
            return Err(Refused::Crowded);
        }
        self.listeners.push((rank, peer, sender));
        Ok(receiver)
    }

    /// The ranks that wait here.
    pub(super) fn waiting(&self) -> BTreeSet<u32> {
        let listen = self.listeners.iter().filter(|(.., waits)| !waits.is_closed());
        let waits = |peer: &Peer| self.barrier.iter().any(|(at, waits)| at == peer && !waits.is_closed());
        let have = self.run.iter().flat_map(|run| &run.have).filter(|(_, peer)| waits(peer));
        listen.map(|(rank, ..)| *rank).chain(have.map(|(rank, _)| *rank)).collect()
    }

    /// Begins a run. Workers that wait in one that has not met continue in this one, since its root was
    /// started again. They hold another value than later ones: each only repeats its own.
    fn begin(&mut self, peer: Peer, root: u32, value: u64) {
        let mut have = BTreeMap::new();
        match self.run.take().filter(|run| !run.met) {
            Some(former) => {
                let gone = former.have.get(&former.root);
                self.barrier.retain(|(waits, sender)| !sender.is_closed() && Some(waits) != gone);
                have = former.have;
                have.retain(|_, peer| self.barrier.iter().any(|(waits, _)| waits == peer));
            }
            None => self.barrier.clear(),
        }
        have.insert(root, peer);
        for (rank, peer, waits) in self.listeners.drain(..) {
            if waits.send(value).is_ok() {
                have.insert(rank, peer);
            }
        }
        self.run = Some(Run { value, have, root, met: false });
    }
}

/// The number of workers, if it is the job's.
fn agreed(said: u32, fan_in: u16) -> Result<u16, Refused> {
    let right = said == u32::from(fan_in) && (1..=MOST_WORKERS).contains(&fan_in);
    if right { Ok(fan_in) } else { Err(Refused::Workers { said, fan_in }) }
}

#[cfg(test)]
mod tests;
