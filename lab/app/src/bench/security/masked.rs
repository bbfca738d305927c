//! Masked sums without a network.

use anyhow::Context as _;
use pascaline_wire::{DType, Op};
use pascaline_worker::identity::Identity;
use pascaline_worker::{Collective, Report, masked};

use crate::bench::fixture::median;

const ELEMENTS: usize = 4 << 20;
const TURNS: usize = 9;

/// Nanoseconds to mask and unmask an element of f32, the median of turns. In a job of one rank what it sends
/// is the sum; its masks are those of rank 0 in any job: two edges' and the common one.
pub(super) fn measure() -> anyhow::Result<f64> {
    let key = masked::Key::new(&[7; pascaline_seal::secret::LEAST]).context("a key of the least length")?;
    let identity = Identity { job: 1, rank: 0, ranks: 1, payload: 1024 };
    let (mut tensor, mut room) = (1.5_f32.to_le_bytes().repeat(ELEMENTS), Vec::new());
    let mut times = Vec::new();
    for turn in 0..=TURNS {
        let done = masked::through(
            (&key, &identity),
            (&Collective::Allreduce(Op::Sum), DType::F32),
            &mut tensor,
            &mut room,
            |_, _, travels, pieces| {
                if let Some(pieces) = pieces {
                    pieces.fill(travels, travels.len());
                }
                Ok::<_, anyhow::Error>(Report::default())
            },
        )?;
        // The first one makes the room.
        if turn > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a number of elements")]
            times.push(done.elapsed.as_secs_f64() * 1e9 / ELEMENTS as f64);
        }
    }
    let right = tensor.as_chunks::<4>().0.iter().all(|bytes| (f32::from_le_bytes(*bytes) - 1.5).abs() < 1e-6);
    anyhow::ensure!(right, "the masks did not cancel: the measurement is void");
    Ok(median(times))
}
