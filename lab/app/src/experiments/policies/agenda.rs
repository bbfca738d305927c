//! Finds the next event among a fixed number of sources: a tournament.

/// The time of a source without events.
pub(super) const NEVER: u64 = u64::MAX;

/// The next time of each source, and the earliest of them; among equals the lowest source wins.
///
/// In a heap, each packet under way would move a dozen times. Here it waits in the queue of its line, and
/// only the queues' heads compete.
#[derive(Debug)]
pub(super) struct Agenda {
    times: Box<[u64]>,
    /// A tree in an array: node `n` has children `2n` and `2n + 1`, and the sources are the leaves. Each node
    /// holds the winner below it.
    winners: Box<[u16]>,
}

impl Agenda {
    /// This many sources without events.
    pub(super) fn new(sources: u16) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let mut winners: Box<[u16]> = (0..leaves).chain(0..leaves).collect();
        for place in (1..usize::from(leaves)).rev() {
            winners[place] = winners[2 * place];
        }
        Self { times: (0..leaves).map(|_| NEVER).collect(), winners }
    }

    /// Sets the time of a source's next event.
    pub(super) fn set(&mut self, source: u16, time: u64) {
        self.times[usize::from(source)] = time;
        let mut place = (self.times.len() + usize::from(source)) / 2;
        while place > 0 {
            let (left, right) = (self.winners[2 * place], self.winners[2 * place + 1]);
            let first = self.times[usize::from(left)] <= self.times[usize::from(right)];
            let winner = if first { left } else { right };
            // Nothing changes above if another source won before and still wins.
            if core::mem::replace(&mut self.winners[place], winner) == winner && winner != source {
                break;
            }
            place /= 2;
        }
    }

    /// Time and source of the next event.
    pub(super) fn next(&self) -> (u64, u16) {
        let source = self.winners[1];
        (self.times[usize::from(source)], source)
    }
}

#[cfg(test)]
mod tests;
