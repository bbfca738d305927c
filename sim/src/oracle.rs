//! What must hold, and how it can be broken.

use pascaline_wire::{DType, Element};

use crate::random::mix;

/// What a schedule has shown to be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A worker finished an allreduce with a wrong sum.
    #[error(
        "wrong sum: job {job} rank {rank}, operation {operation}, element {index} of {elements} is {got}, \
         the contributions make {expected}"
    )]
    WrongSum {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The operation, from 0 in each life.
        operation: usize,
        /// The first wrong element.
        index: usize,
        /// Elements of the operation.
        elements: usize,
        /// What it holds.
        got: String,
        /// What it should hold.
        expected: i64,
    },
    /// A worker finished an allreduce in a generation that not every rank had joined.
    #[error(
        "job {job} rank {rank} finished operation {operation} in generation {epoch}, which rank {missing} has not joined"
    )]
    Incomplete {
        /// The job.
        job: u16,
        /// The rank that finished.
        rank: u16,
        /// The operation.
        operation: usize,
        /// The generation.
        epoch: u8,
        /// A rank that cannot have contributed.
        missing: u16,
    },
    /// Two lives of one rank were admitted to the same generation.
    #[error("job {job} rank {rank}: generation {epoch} has admitted two sessions")]
    SharedGeneration {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The generation.
        epoch: u8,
    },
    /// A worker failed although nothing that excuses it happened to its job.
    #[error("job {job} rank {rank} failed without an excuse: {why}")]
    Unexcused {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The typed error, in words.
        why: String,
    },
    /// A worker was still busy with what had a deadline.
    #[error("job {job} rank {rank} is still {stage} after its deadline")]
    Overdue {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// What it does.
        stage: &'static str,
    },
    /// Received packets that are neither forwarded, absorbed, answered nor dropped (or more of these than received).
    #[error("{packets} packets unaccounted for: {account}")]
    Unaccounted {
        /// How many.
        packets: i128,
        /// The identity, written out.
        account: String,
    },
    /// The appliance has not received what was put in front of its ports.
    #[error(
        "{delivered} frames were put in front of the ports, {received} were received and {backlog} are left"
    )]
    Uncounted {
        /// Frames put in front of the ports.
        delivered: u64,
        /// Frames counted as received.
        received: u64,
        /// Frames not received yet.
        backlog: u64,
    },
    /// Packet buffers that nobody holds, or that somebody holds who should not.
    #[error("{live} {what} buffers are alive, {held} are accounted for")]
    Leak {
        /// Which ones.
        what: &'static str,
        /// Alive.
        live: usize,
        /// Held by slots and by packets that have not been received.
        held: usize,
    },
    /// The schedule goes on and on.
    #[error("no end after {events} events")]
    Endless {
        /// Events so far.
        events: u64,
    },
    /// Something panicked.
    #[error("panic: {message}")]
    Panic {
        /// Its message.
        message: String,
    },
}

/// Who a contribution is from: a life of a rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contributor {
    pub(crate) job: u16,
    pub(crate) rank: u16,
    pub(crate) life: u32,
}

impl Contributor {
    /// The value of an element: a whole number that differs from life to life, and so small that the sums of all ranks are
    /// exact in f32, in any order. Never 0, so that a missing contribution shows.
    pub(crate) fn value(self, operation: usize, index: usize) -> i64 {
        let who = u64::from(self.job) << 48 | u64::from(self.rank) << 40 | u64::from(self.life) << 32;
        let hash = mix(who ^ (operation as u64) << 24 ^ index as u64 ^ 0x9e37_79b9_7f4a_7c15);
        i64::try_from(1 + hash % 60_000).unwrap_or(1)
    }
}

/// A whole number as an element's bytes.
pub(crate) fn encode(element: Element, value: i64) -> [u8; 4] {
    let small = i32::try_from(value).unwrap_or(i32::MAX);
    match element.dtype {
        #[expect(clippy::cast_precision_loss, reason = "below 2²⁴")]
        DType::F32 => (small as f32).to_le_bytes(),
        _ => small.to_le_bytes(),
    }
}

/// An element in words.
pub(crate) fn decode(element: Element, bytes: [u8; 4]) -> String {
    match element.dtype {
        DType::F32 => f32::from_le_bytes(bytes).to_string(),
        _ => i32::from_le_bytes(bytes).to_string(),
    }
}

/// Which lives belong to which generation, as the workers have been told.
#[derive(Debug, Default)]
pub(crate) struct Generations(Vec<Generation>);

#[derive(Debug)]
struct Generation {
    job: u16,
    epoch: u8,
    lives: Vec<Option<u32>>,
}

impl Generations {
    /// Takes note that a life has been admitted. Epochs do not repeat within a schedule: it is too short to wrap, and
    /// each start of the appliance begins elsewhere.
    pub(crate) fn admit(&mut self, who: Contributor, ranks: u16, epoch: u8) -> Result<(), Violation> {
        let Contributor { job, rank, life } = who;
        let known = self.0.iter().position(|one| one.job == job && one.epoch == epoch);
        let at = known.unwrap_or_else(|| {
            self.0.push(Generation { job, epoch, lives: vec![None; usize::from(ranks)] });
            self.0.len() - 1
        });
        match self.0.get_mut(at).and_then(|one| one.lives.get_mut(usize::from(rank))) {
            Some(place) if place.is_none_or(|other| other == life) => *place = Some(life),
            _ => return Err(Violation::SharedGeneration { job, rank, epoch }),
        }
        Ok(())
    }

    /// The lives of a generation by rank; `None` for ranks that have not been admitted.
    pub(crate) fn lives(&self, job: u16, epoch: u8) -> &[Option<u32>] {
        let known = self.0.iter().find(|one| one.job == job && one.epoch == epoch);
        known.map_or(&[], |one| &one.lives)
    }
}
