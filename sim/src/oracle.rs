//! What is right: what each rank contributes, and who belongs to which generation.

use pascaline_wire::{DType, Element, Op};
use pascaline_worker::{bf16, f16};

use crate::random::mix;
use crate::violation::Violation;

/// Who a contribution is from: a rank, and how often it had begun from the first PSN by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contributor {
    pub(crate) job: u16,
    pub(crate) rank: u16,
    pub(crate) take: u32,
}

impl Contributor {
    /// The value of an element: a whole number that differs from take to take, and so small that the sums of all ranks are
    /// exact, in any order. Never 0, so that a missing contribution shows.
    pub(crate) fn value(self, element: Element, operation: usize, index: usize) -> i64 {
        let who = u64::from(self.job) << 48 | u64::from(self.rank) << 40 | u64::from(self.take) << 32;
        let hash = mix(who ^ (operation as u64) << 24 ^ index as u64 ^ 0x9e37_79b9_7f4a_7c15);
        i64::try_from(1 + hash % most(element)).unwrap_or(1)
    }
}

/// The largest contribution: that of eight ranks must not need more bits than the type has.
const fn most(element: Element) -> u64 {
    match element.dtype {
        DType::F32 | DType::F64 | DType::I32 => 60_000,
        DType::F16 => 255,
        DType::Bf16 => 31,
    }
}

/// What an operation makes of the ranks' values; 0 of none.
pub(crate) fn combine(element: Element, values: impl Iterator<Item = i64>) -> i64 {
    match element.op {
        Op::Sum => values.sum(),
        Op::Min => values.min().unwrap_or(0),
        Op::Max => values.max().unwrap_or(0),
    }
}

/// Appends a whole number as an element's bytes.
pub(crate) fn encode(element: Element, value: i64, into: &mut Vec<u8>) {
    let small = i32::try_from(value).unwrap_or(i32::MAX);
    #[expect(clippy::cast_precision_loss, reason = "below 2²⁴")]
    let single = small as f32;
    match element.dtype {
        DType::F32 => into.extend(single.to_le_bytes()),
        DType::F64 => into.extend(f64::from(small).to_le_bytes()),
        DType::F16 => into.extend(f16::from_f32(single).to_le_bytes()),
        DType::Bf16 => into.extend(bf16::from_f32(single).to_le_bytes()),
        DType::I32 => into.extend(small.to_le_bytes()),
    }
}

/// An element in words.
pub(crate) fn decode(element: Element, bytes: &[u8]) -> String {
    match (element.dtype, bytes) {
        (DType::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).to_string(),
        (DType::I32, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]).to_string(),
        (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_string(),
        (DType::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).to_string(),
        _ => format!("{bytes:02x?}"),
    }
}

/// A generation of a job, as its workers have been told.
#[derive(Debug)]
struct Generation {
    job: u16,
    epoch: u8,
    /// The generation in which its PSNs began.
    root: u8,
    /// The takes that belong to it, by rank.
    takes: Vec<Option<u32>>,
}

/// All generations that workers have been told of. Epochs do not repeat within a schedule: it is too short to wrap, and
/// each start of the appliance begins elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Generations(Vec<Generation>);

impl Generations {
    fn find(&self, job: u16, epoch: u8) -> Option<&Generation> {
        self.0.iter().find(|one| one.job == job && one.epoch == epoch)
    }

    /// Takes note that a rank has been told to go in a generation whose PSNs began in `root`: itself, if it starts from
    /// nothing. One is resumed for all its ranks or for none, and has one take of each.
    pub(crate) fn admit(
        &mut self,
        who: Contributor,
        ranks: u16,
        epoch: u8,
        root: u8,
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
    pub(crate) fn takes(&self, job: u16, epoch: u8) -> &[Option<u32>] {
        self.find(job, epoch).map_or(&[], |one| &one.takes)
    }
}
