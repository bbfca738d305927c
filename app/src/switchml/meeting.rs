//! Where the workers of one job meet: who waits for whom, without I/O.
//!
//! Neither a barrier nor a broadcast has a number, so a worker that dies in between leaves the count wrong.
//! The root's broadcast is the first thing of a run that anybody gets an answer to: whoever waits in a
//! barrier then belongs to a run that is over, and is told so.

use std::collections::BTreeSet;

use pascaline_wire::switchml::MOST_WORKERS;
use tokio::sync::oneshot::{self, Receiver, Sender};

/// Most workers that may wait at a time: those of a run, and of one before it that are not gone yet.
const MOST: usize = 2 * MOST_WORKERS as usize;

/// Why somebody waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too many wait.
    Crowded,
    /// It names another number of workers than the job has.
    Workers { said: u32, fan_in: u16 },
    /// Its rank is not below the number of workers.
    Rank,
}

/// What one worker waits for; an error if its run is over.
pub(super) type Wait<T> = Receiver<T>;

#[derive(Debug, Default)]
pub(super) struct Meeting {
    barrier: Vec<Sender<()>>,
    /// Those that wait for the root's value.
    listeners: Vec<(u32, Sender<u64>)>,
    /// The root's value, and who has it.
    told: Option<(u64, BTreeSet<u32>)>,
}

impl Meeting {
    /// Has a worker wait until all workers of the job wait.
    pub(super) fn barrier(&mut self, workers: u32, fan_in: u16) -> Result<Wait<()>, Refused> {
        let workers = usize::from(agreed(workers, fan_in)?);
        // Those that are gone do not count.
        self.barrier.retain(|waits| !waits.is_closed());
        if self.barrier.len() >= MOST {
            return Err(Refused::Crowded);
        }
        let (sender, receiver) = oneshot::channel();
        self.barrier.push(sender);
        if self.barrier.len() >= workers {
            self.barrier.drain(..).for_each(|waits| _ = waits.send(()));
        }
        Ok(receiver)
    }

    /// A worker gives the root's value, or waits for it.
    pub(super) fn broadcast(
        &mut self,
        rank: u32,
        root: u32,
        (workers, fan_in): (u32, u16),
        value: u64,
    ) -> Result<Wait<u64>, Refused> {
        agreed(workers, fan_in)?;
        if rank >= workers || root >= workers {
            return Err(Refused::Rank);
        }
        let (sender, receiver) = oneshot::channel();
        if rank == root {
            // A run begins: nobody waits in a barrier of it yet.
            self.barrier.clear();
            let mut have = BTreeSet::from([rank]);
            for (rank, waits) in self.listeners.drain(..) {
                if waits.send(value).is_ok() {
                    have.insert(rank);
                }
            }
            self.told = Some((value, have));
            self.forget_if_all_have_it(workers);
            _ = sender.send(value);
            return Ok(receiver);
        }
        if let Some((value, have)) = &mut self.told
            && have.insert(rank)
        {
            _ = sender.send(*value);
            self.forget_if_all_have_it(workers);
            return Ok(receiver);
        }
        // Whoever has it already wants that of the next run.
        self.listeners.retain(|(_, waits)| !waits.is_closed());
        if self.listeners.len() >= MOST {
            return Err(Refused::Crowded);
        }
        self.listeners.push((rank, sender));
        Ok(receiver)
    }

    fn forget_if_all_have_it(&mut self, workers: u32) {
        self.told.take_if(|(_, have)| u32::try_from(have.len()).is_ok_and(|count| count >= workers));
    }
}

/// The number of workers, if it is the job's.
fn agreed(said: u32, fan_in: u16) -> Result<u16, Refused> {
    let right = said == u32::from(fan_in) && (1..=MOST_WORKERS).contains(&fan_in);
    if right { Ok(fan_in) } else { Err(Refused::Workers { said, fan_in }) }
}

#[cfg(test)]
mod tests;
