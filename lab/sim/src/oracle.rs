//! The expected contributions of each rank (`values`), and the members of each generation.

use crate::violation::Violation;

mod values;

pub(crate) use values::{Values, decode};

/// The source of a contribution: a rank, and how often it had begun from the first PSN by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contributor {
    pub(crate) job: u16,
    pub(crate) rank: u16,
    pub(crate) take: u32,
}

/// A generation of a job, by its workers' reports.
#[derive(Debug)]
struct Generation {
    job: u16,
    epoch: u16,
    /// The generation in which its PSNs began.
    root: u16,
    /// The takes that belong to it, by rank.
    takes: Vec<Option<u32>>,
}

/// All generations that workers have had.
///
/// Epochs do not repeat within a schedule: it is too short to wrap, and each start of the appliance begins
/// elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Generations(Vec<Generation>);

impl Generations {
    fn find(&self, job: u16, epoch: u16) -> Option<&Generation> {
        self.0.iter().find(|one| one.job == job && one.epoch == epoch)
    }

    /// Notes that a rank was admitted to a generation whose PSNs began in `root`: itself, if it starts from
    /// nothing.
    ///
    /// All ranks of a generation resume or none does, and each has one take in it. Holds R9.8 of protocol.md.
    pub(crate) fn admit(
        &mut self,
        who: Contributor,
        ranks: u16,
        epoch: u16,
        root: u16,
    ) -> Result<(), Violation> {
        let Contributor { job, rank, take } = who;
        let known = self.0.iter().position(|one| one.job == job && one.epoch == epoch);
        let at = known.unwrap_or_else(|| {
            self.0.push(Generation { job, epoch, root, takes: vec![None; usize::from(ranks)] });
            self.0.len() - 1
        });
        let Some(generation) = self.0.get_mut(at) else { return Ok(()) };
        if generation.root != root {
            return Err(Violation::HalfResumed { job, rank, epoch, one: generation.root, other: root });
        }
        match generation.takes.get_mut(usize::from(rank)) {
            Some(place) if place.is_none_or(|other| other == take) => *place = Some(take),
            _ => return Err(Violation::SharedGeneration { job, rank, epoch }),
        }
        Ok(())
    }

    /// The takes of a generation by rank; `None` for ranks that have not been admitted.
    pub(crate) fn takes(&self, job: u16, epoch: u16) -> &[Option<u32>] {
        self.find(job, epoch).map_or(&[], |one| &one.takes)
    }
}
