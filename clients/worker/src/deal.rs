//! An operation over several trees, each with a session of its own: which part of the tensor goes over which
//! of them.
//!
//! All ranks deal by one rule, which needs the tensor's length, the number of trees and the number of the
//! call alone, so ranks need not agree on it. A tensor is cut into runs of equal length, one for each tree,
//! of `LEAST` bytes at least. The first run of call c goes over tree c mod T, the next one over the next
//! tree, and so on: small tensors, of which there is one run, take turns. A tree gets a run, not every T-th
//! packet, so that each tree can have packets of its own length, and their boundaries do not depend on
//! another tree's.

use core::ops::Range;
use core::time::Duration;

use crate::allreduce::Request;
use crate::collective::{Collective, Parts};
use crate::session::{Session, StartError};

/// What each tree has to do of an operation: a part of the tensor, which may be empty, or nothing.
pub type Work<'a> = Vec<Option<&'a mut [u8]>>;

/// The shortest run, except for shorter tensors: the packets of another tree cost as much time as shorter
/// runs would save on a link.
const LEAST: usize = 16 << 10;
/// Each run begins at a multiple of this many elements, which is a whole number of blocks and of cache lines.
const GRAIN: usize = 64;

/// The runs of a tensor of `bytes` bytes, in elements of `size`, in their order: each with its tree's
/// number.
pub fn runs(
    bytes: usize,
    size: usize,
    trees: usize,
    call: u64,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let grain = GRAIN * size.max(1);
    let count = (bytes / LEAST).clamp(1, trees.max(1));
    let each = bytes / count / grain * grain;
    let count = if each == 0 { 1 } else { count };
    let first = usize::try_from(call % trees.max(1) as u64).unwrap_or(0);
    (0..count).map(move |at| {
        let end = if at + 1 == count { bytes } else { (at + 1) * each };
        ((first + at) % trees.max(1), at * each..end)
    })
}

/// Begins a collective at the sessions of all trees, each with its run of the tensor, as the request says
/// except for its `bytes` and `op`. All ranks name the same number of the call. One tree gets the whole
/// tensor, and the collective unchanged.
///
/// # Errors
/// See [`StartError`]. Operations that have begun over other trees cannot be taken back, and a generation
/// ends with all: then the sessions of several trees have given up.
pub fn start<'a>(
    sessions: &mut [&mut Session],
    now: Duration,
    call: u64,
    request: &Request,
    collective: &Collective<'_>,
    tensor: &'a mut [u8],
) -> Result<Work<'a>, StartError> {
    let (count, size, elements) = (sessions.len(), request.dtype.size(), tensor.len() / request.dtype.size());
    let ranks = sessions.first().map_or(0, |session| session.membership().identity.ranks);
    let counted = |(tree, run): (usize, Range<usize>)| {
        let counts = match count {
            1 => Vec::new(),
            _ => within(collective, ranks, elements, &(run.start / size..run.end / size))?,
        };
        Ok((tree, run.len(), counts))
    };
    let runs = runs(tensor.len(), size, count, call).map(counted).collect::<Result<Vec<_>, _>>()?;
    let (mut work, mut rest): (Work<'_>, _) = ((0..count).map(|_| None).collect(), tensor);
    for (tree, length, counts) in &runs {
        let (part, behind) = rest.split_at_mut(*length);
        rest = behind;
        let on_run = on_run(collective, counts);
        let on_run = if count == 1 { collective } else { &on_run };
        match sessions[*tree].start_collective(now, request, on_run, part) {
            Ok(started) => work[*tree] = started.then_some(part),
            Err(error) => {
                let ended = matches!(error, StartError::Ended { .. });
                if count > 1 && (ended || work.iter().any(Option::is_some)) {
                    sessions.iter_mut().for_each(|session| session.abandon(now));
                }
                return Err(error);
            }
        }
    }
    if count > 1 {
        sessions.iter_mut().for_each(|session| session.attend(now, true));
    }
    Ok(work)
}

/// How many elements of each rank's part lie within a run; empty if the collective has no parts.
fn within(
    collective: &Collective<'_>,
    ranks: u16,
    elements: usize,
    run: &Range<usize>,
) -> Result<Vec<usize>, StartError> {
    let (Collective::ReduceScatter { parts, .. } | Collective::Allgather { parts }) = collective else {
        return Ok(Vec::new());
    };
    // Checked once that they make up the tensor. So each part begins where the one before it ends.
    parts.of(0, ranks, elements)?;
    let mut begin = 0;
    let lies = |rank| {
        let len = match parts {
            Parts::Counts(counts) => counts.get(usize::from(rank)).copied().unwrap_or(0),
            Parts::Even => parts.of(rank, ranks, elements)?.len(),
        };
        let (start, end) = (begin, begin + len);
        begin = end;
        Ok(end.min(run.end).saturating_sub(start.max(run.start)))
    };
    (0..ranks).map(lies).collect()
}

/// A collective on a run, with the counts from [`within`].
const fn on_run<'a>(collective: &Collective<'_>, counts: &'a [usize]) -> Collective<'a> {
    let parts = Parts::Counts(counts);
    match *collective {
        Collective::Allreduce(op) => Collective::Allreduce(op),
        Collective::Reduce { op, root } => Collective::Reduce { op, root },
        Collective::Broadcast { root } => Collective::Broadcast { root },
        Collective::Barrier => Collective::Barrier,
        Collective::ReduceScatter { op, .. } => Collective::ReduceScatter { op, parts },
        Collective::Allgather { .. } => Collective::Allgather { parts },
    }
}

#[cfg(test)]
mod tests;
