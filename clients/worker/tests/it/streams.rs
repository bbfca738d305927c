//! Several streams of operations, over loopback sockets.

use std::sync::Barrier;
use std::time::Duration;

use pascaline_worker::{Collective, Config, Hints, Left, Op, Streams};

use crate::adversary::Conditions;
use crate::aggregator::Aggregator;
use crate::driver::{Appliance, JOB, RANKS};

/// One with the jobs of two streams.
fn appliance() -> Appliance {
    Appliance::of_jobs(
        "127.0.0.1:0",
        Conditions::IDEAL,
        [JOB, JOB + 1].map(|job| Aggregator::new(job, RANKS, 64)),
    )
}

#[test]
fn an_urgent_operation_overtakes_one_that_waits() {
    let appliance = appliance();
    let overtaken = Barrier::new(usize::from(RANKS));
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let config = Config { linger: Duration::from_secs(5), ..appliance.config(rank) };
            let overtaken = &overtaken;
            scope.spawn(move || {
                let streams = Streams::join(&config, 2).unwrap();
                assert_eq!(streams.count(), 2);
                let sum = Collective::Allreduce(Op::Sum);
                let start = |stream, elements| {
                    streams.start(stream, &sum, vec![i32::from(rank) + 1; elements], Hints::default())
                };
                // The last rank comes to the large one only after all have the small one's sum.
                let early = (rank + 1 < RANKS).then(|| start(0, 50_000));
                assert_eq!(start(1, 10).wait().tensor, [6; 10]);
                overtaken.wait();
                let mut large = early.unwrap_or_else(|| start(0, 50_000));
                large.test();
                let large = large.wait();
                assert!(large.outcome.is_ok(), "{:?}", large.outcome);
                assert_eq!(large.tensor, [6; 50_000]);
                for departure in streams.leave() {
                    assert_eq!(departure.unwrap().left, Left::Everyone);
                }
            });
        }
    });
}
