//! The allreduces, one after the other.

use indicatif::ProgressBar;
use pascaline_shared::eprintln;
use pascaline_worker::masked::Key;
use pascaline_worker::{AllreduceError, Collective, Feedback, Narrow};
use serde_json::json;
use zerocopy::IntoBytes as _;

use super::check::first_mismatch;
use super::member::Member;
use super::report::gigabits;
use super::sample::{self, Sample};
use super::{AllreduceArgs, Outcome, Progress, cpu_seconds};

/// Runs the allreduces, and checks and notes each result.
pub(super) fn iterate<T: Sample>(
    args: &AllreduceArgs,
    (elements, key): (usize, Option<&Key>),
    worker: &mut Member,
    bar: &ProgressBar,
    outcome: &mut Outcome,
) -> Result<(), AllreduceError> {
    let narrow = args.collective.wire.map(Narrow::from);
    let mut feedback = args.collective.feedback.then(Feedback::default);
    let mut tensor = vec![T::default(); if narrow.is_some() { elements / T::NUMBERS } else { elements }];
    for iteration in 0..args.iterations.get() {
        let mine = sample::stream(args.seed, args.below.number(args.who.rank), iteration);
        for (index, place) in (0_u64..).zip(&mut tensor) {
            *place = T::sample(mine, index);
        }
        // Ranks that are still busy with their check must not count as time of this iteration...
        let op = args.op.into();
        worker.collective(&Collective::Allreduce(op), &mut [T::default()])?;
        let before = cpu_seconds();
        let call = args.collective.call(op);
        let report = match (narrow, &mut feedback) {
            (None, _) => worker.hidden(key, &call, &mut tensor)?,
            (Some(narrow), None) => worker.narrowed(&call, &mut tensor, narrow.into())?,
            (Some(narrow), Some(feedback)) => worker.narrowed(&call, &mut tensor, narrow.with(feedback))?,
        };
        outcome.cpu_seconds += cpu_seconds() - before;
        let seconds = report.elapsed.as_secs_f64();
        // ... nor may the checks of those who are done take the processor from those who are not.
        let met = worker.collective(&Collective::Allreduce(op), &mut [T::default()]);
        outcome.note(seconds, tensor.as_bytes(), report.partial.as_ref());
        if !args.no_verify && report.partial.is_none() {
            match first_mismatch(args, iteration, &tensor, worker) {
                None => outcome.verified += 1,
                Some((index, got, expected)) => {
                    outcome.mismatches += 1;
                    bar.suspend(|| {
                        eprintln!("iteration {iteration}: element {index} is {got:?}, expected {expected}");
                    });
                }
            }
        }
        if args.progress == Progress::Lines {
            eprintln!("{}", json!({"rank": args.who.rank, "iteration": iteration, "seconds": seconds}));
        }
        // What this rank has is checked and told in any case.
        met?;
        bar.set_message(format!("{:.3} Gbit/s", gigabits(elements * args.dtype.size(), seconds)));
        bar.inc(1);
    }
    Ok(())
}
