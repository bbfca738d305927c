//! Which of a fixed number of sources of events is the next: a tournament.

/// The time of a source that has nothing to come.
pub(super) const NEVER: u64 = u64::MAX;

/// The next time of each source, and the earliest of them. Among equals it is the source of the lowest
/// number.
///
/// A heap of all packets under way would move each packet a dozen times; here a packet waits in the queue of
/// its line, and only the heads of the queues compete.
#[derive(Debug)]
pub(super) struct Agenda {
    times: Box<[u64]>,
    /// A tree in an array: the children of `n` are `2n` and `2n + 1`, the sources are the leaves. Each place
    /// has the winner below it.
    winners: Box<[u16]>,
}

impl Agenda {
    /// Nothing is to come of any of so many sources.
    pub(super) fn new(sources: u16) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let mut winners: Box<[u16]> = (0..leaves).chain(0..leaves).collect();
        for place in (1..usize::from(leaves)).rev() {
            winners[place] = winners[2 * place];
        }
        Self { times: (0..leaves).map(|_| NEVER).collect(), winners }
    }

    /// Says when the next event of a source comes.
    pub(super) fn set(&mut self, source: u16, time: u64) {
        self.times[usize::from(source)] = time;
        let mut place = (self.times.len() + usize::from(source)) / 2;
        while place > 0 {
            let (left, right) = (self.winners[2 * place], self.winners[2 * place + 1]);
            let first = self.times[usize::from(left)] <= self.times[usize::from(right)];
            let winner = if first { left } else { right };
            // Above nothing changes, if it was another one that won before and wins now.
            if core::mem::replace(&mut self.winners[place], winner) == winner && winner != source {
                break;
            }
            place /= 2;
        }
    }

    /// When the next event comes, and of which source.
    pub(super) fn next(&self) -> (u64, u16) {
        let source = self.winners[1];
        (self.times[usize::from(source)], source)
    }
}

#[cfg(test)]
mod tests;
