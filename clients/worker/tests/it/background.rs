//! Several operations in flight on one worker, over loopback sockets.

use core::sync::atomic::{AtomicU32, Ordering};
use std::io::ErrorKind;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pascaline_worker::{
    AllreduceError, Background, Collective, Config, Failure, Handle, Hints, Interrupt, JoinError, Left, Op,
    Parts, Reason, StartError, Worker,
};

use crate::adversary::Conditions;
use crate::driver::{Appliance, RANKS, on_every_rank};

fn started(worker: &Background, collective: &Collective<'_>, value: i32) -> Handle<i32> {
    worker.start(collective, vec![value; 1000], Hints::default())
}

#[test]
fn operations_are_started_together_and_end_in_order() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    on_every_rank(&appliance, |rank, worker| {
        let worker = worker.into_background().unwrap();
        let start = |collective: Collective<'_>, value| started(&worker, &collective, value);
        let own = i32::from(rank) + 1;
        let sum = start(Collective::Allreduce(Op::Sum), own);
        let largest = start(Collective::Allreduce(Op::Max), own);
        let sent = start(Collective::Broadcast { root: 1 }, own);
        // What they borrow need not live until they begin.
        let counts = vec![0, 999, 1];
        let parts = start(Collective::Allgather { parts: Parts::Counts(&counts) }, own);
        drop(counts);
        let wrong = start(Collective::Broadcast { root: RANKS }, own);
        let mut last: Handle<f32> = worker.start(&Collective::Barrier, Vec::new(), Hints::default());

        let whole = |handle: Handle<i32>| {
            let finished = handle.wait();
            assert!(finished.outcome.is_ok(), "{:?}", finished.outcome);
            finished.tensor
        };
        while !last.test() {
            std::thread::yield_now();
        }
        // Those before it have ended, too.
        let mut sum = sum;
        assert!(sum.test() && sum.test());
        assert_eq!(whole(sum), [6; 1000]);
        assert_eq!(whole(largest), [3; 1000]);
        assert_eq!(whole(sent), [2; 1000]);
        let gathered = whole(parts);
        assert!(gathered[..999] == [2; 999] && gathered[999] == 3);
        let refused = wrong.wait();
        let root = StartError::Root { root: RANKS, ranks: RANKS };
        assert!(matches!(refused.outcome, Err(AllreduceError::Start(error)) if error == root));
        assert_eq!(refused.tensor, [own; 1000]);
        assert_eq!(last.wait().outcome.unwrap().packets, 1);
        // A rank that does not wait for the last one leaves after it nevertheless.
        drop(worker.start(&Collective::Barrier, Vec::<f32>::new(), Hints::default()));
        assert_eq!(worker.leave().unwrap().left, Left::Everyone);
    });
}

/// An operation started before its user could see the end fails with it: it would be the first operation of
/// the next generation at this rank only.
#[test]
fn a_rank_that_starts_anew_ends_what_runs_and_no_worker() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    let sum = Collective::Allreduce(Op::Sum);
    on_every_rank(&appliance, |rank, mut worker| {
        // All are there.
        worker.allreduce(&mut [1]).unwrap();
        let worker = if rank == 2 {
            // It crashes: no rank hears that it leaves.
            std::mem::forget(worker);
            Worker::join(appliance.config(rank)).unwrap().into_background().unwrap()
        } else {
            let worker = worker.into_background().unwrap();
            let [first, second] = [10, 20].map(|value| started(&worker, &sum, value));
            // Both have failed when the thread gets here, and no call has looked.
            let (done, failed) = channel();
            drop(worker.submit(move |_| done.send(()).unwrap()));
            failed.recv().unwrap();
            let mut third = started(&worker, &sum, 30);
            while !third.test() {
                std::thread::yield_now();
            }
            let fourth = started(&worker, &sum, 40);
            for handle in [first, second, third, fourth] {
                let outcome = handle.wait().outcome;
                let ended = match &outcome {
                    Err(AllreduceError::Start(error)) => matches!(error, StartError::Ended { .. }),
                    Err(AllreduceError::Failed(Failure::Rejected { rejection, .. })) => {
                        rejection.reason == Reason::Generation
                    }
                    _ => false,
                };
                assert!(ended, "rank {rank}: {outcome:?}");
            }
            worker
        };
        let finished = started(&worker, &sum, i32::from(rank) + 1).wait();
        assert!(finished.outcome.is_ok(), "{:?}", finished.outcome);
        assert!(finished.tensor == [6; 1000], "rank {rank}: {}", finished.tensor[0]);
        assert_eq!(worker.leave().unwrap().left, Left::Everyone);
    });
}

#[test]
fn a_program_that_does_not_want_to_join_any_more_need_not_wait() {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    let interrupt = Some(Interrupt(|| ASKED.fetch_add(1, Ordering::Relaxed) >= 3));
    let begun = Instant::now();
    // No other rank joins.
    let joined = Worker::join(Config { interrupt, ..appliance.config(0) });
    let Err(JoinError::Io { source, .. }) = joined else { panic!("{joined:?}") };
    assert_eq!(source.kind(), ErrorKind::Interrupted);
    assert!(begun.elapsed() < Duration::from_secs(10));
}
