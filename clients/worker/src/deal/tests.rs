use proptest::prelude::*;

use super::{GRAIN, LEAST, on_run, runs, within};
use crate::Op;
use crate::collective::{Collective, Parts};

proptest! {
    /// Every byte goes over one tree, in whole elements, and no tree has two runs.
    #[test]
    fn runs_make_up_the_tensor(
        elements in 0usize..200_000, size in 1usize..40, trees in 1usize..9, call: u64,
    ) {
        let bytes = elements * size;
        let all: Vec<_> = runs(bytes, size, trees, call).collect();
        let mut end = 0;
        for (tree, run) in &all {
            prop_assert!(*tree < trees);
            prop_assert_eq!(run.start, end);
            prop_assert!(run.start.is_multiple_of(GRAIN * size));
            end = run.end;
        }
        prop_assert_eq!(end, bytes);
        let mut numbers: Vec<_> = all.iter().map(|run| run.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), all.len());
        prop_assert!(all.len() == 1 || all.iter().all(|run| run.1.len() + GRAIN * size > LEAST));
        let lengths = all.iter().map(|run| run.1.len());
        let (least, most) = (lengths.clone().min().unwrap(), lengths.max().unwrap());
        prop_assert!(most - least <= all.len() * (GRAIN * size + size));
    }

    /// A rank's parts of all runs are its part of the tensor.
    #[test]
    fn parts_of_runs_make_up_the_parts(
        elements in 0usize..60_000, ranks in 1u16..9, trees in 1usize..5, call: u64, even: bool,
    ) {
        let mut uneven = vec![0; usize::from(ranks)];
        uneven[usize::from(ranks) / 2] = elements / 3;
        uneven[0] += elements - elements / 3;
        let parts = if even { Parts::Even } else { Parts::Counts(&uneven) };
        let collective = Collective::ReduceScatter { op: Op::Sum, parts };
        let mut have = vec![0; usize::from(ranks)];
        for (_, run) in runs(elements * 4, 4, trees, call) {
            let run = run.start / 4..run.end / 4;
            let counts = within(&collective, ranks, elements, &run).unwrap();
            prop_assert_eq!(counts.iter().sum::<usize>(), run.len());
            have.iter_mut().zip(&counts).for_each(|(have, count)| *have += count);
            let on_run = on_run(&collective, &counts);
            prop_assert_eq!(on_run, Collective::ReduceScatter { op: Op::Sum, parts: Parts::Counts(&counts) });
        }
        for (rank, have) in (0..ranks).zip(have) {
            prop_assert_eq!(parts.of(rank, ranks, elements).unwrap().len(), have);
        }
    }
}

#[test]
fn small_tensors_take_turns() {
    let over = |call| runs(1000, 4, 3, call).map(|run| run.0).collect::<Vec<_>>();
    assert_eq!([over(0), over(1), over(2), over(3)], [[0], [1], [2], [0]]);
    let large: Vec<_> = runs(1 << 20, 4, 4, 6).map(|(tree, run)| (tree, run.len())).collect();
    assert_eq!(large, [(2, 1 << 18), (3, 1 << 18), (0, 1 << 18), (1, 1 << 18)]);
}
