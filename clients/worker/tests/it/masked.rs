//! Masked operations over loopback sockets.

use std::sync::Barrier;
use std::time::Duration;

use pascaline_worker::masked::{Fault, Key};
use pascaline_worker::{AllreduceError, Collective, Element, Hints, Op, Parts, Report, Worker, bf16};
use zerocopy::IntoBytes as _;

use crate::adversary::Conditions;
use crate::driver::{Appliance, RANKS, on_every_rank};

const SUM: Collective<'_> = Collective::Allreduce(Op::Sum);

fn masked<T: Element>(
    worker: &mut Worker,
    key: u8,
    call: &Collective<'_>,
    tensor: &mut [T],
) -> Result<Report, AllreduceError> {
    let key = Key::new(&[key; 32]).unwrap();
    worker.collective_masked(&key, call, (T::DTYPE, tensor.as_mut_bytes()), Hints::default())
}

/// The same as without masks, bit by bit, where nothing is rounded; between others and again.
#[test]
fn every_collective_gives_what_it_gives_without_masks() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    on_every_rank(&appliance, |rank, mut worker| {
        let own: Vec<f32> = (0..3000_u16).map(|at| f32::from(at) / 8.0 - f32::from(rank)).collect();
        let parts = Parts::Even;
        let calls = [
            SUM,
            Collective::Allreduce(Op::Mean),
            Collective::Reduce { op: Op::Sum, root: 1 },
            Collective::Broadcast { root: 2 },
            Collective::Barrier,
            Collective::ReduceScatter { op: Op::Mean, parts },
            Collective::Allgather { parts },
        ];
        for call in calls.iter().chain(&calls) {
            let none = call == &Collective::Barrier;
            let [mut plain, mut hidden] = [(); 2].map(|()| if none { Vec::new() } else { own.clone() });
            let bytes = plain.as_mut_bytes();
            worker.collective(call, f32::DTYPE, bytes, Hints::default()).unwrap();
            let report = masked(&mut worker, 1, call, &mut hidden).unwrap();
            assert_eq!((plain, report.bytes), (hidden, if none { 0 } else { 12_000 }), "{call:?}");
            // 16-bit elements, of odd number.
            let mut few = vec![bf16::from_f32(f32::from(rank)); if none { 0 } else { 7 }];
            let mut hidden = few.clone();
            worker.collective(call, bf16::DTYPE, few.as_mut_bytes(), Hints::default()).unwrap();
            masked(&mut worker, 1, call, &mut hidden).unwrap();
            assert_eq!(few, hidden, "{call:?}");
        }
        masked::<f32>(&mut worker, 1, &SUM, &mut []).unwrap();
        worker.leave();
    });
}

/// Each fault is known before anything that depends on it goes out, so that the next operation works.
#[test]
fn ranks_that_fail_alike_go_on_together() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    on_every_rank(&appliance, |rank, mut worker| {
        let bad = if rank == 1 { f32::NAN } else { 1.0 };
        let failed = masked(&mut worker, 1, &SUM, &mut [1.0, bad]).unwrap_err();
        assert!(matches!(failed, AllreduceError::Masked(Fault::NotFinite { ranks }) if ranks.iter().eq([1])));
        let key = if rank == 2 { 2 } else { 1 };
        let failed = masked(&mut worker, key, &SUM, &mut [1.0_f32]).unwrap_err();
        let others = (0..RANKS).filter(|&other| (other == 2) != (rank == 2));
        assert!(
            matches!(failed, AllreduceError::Masked(Fault::Foreign { ranks }) if ranks.iter().eq(others))
        );
        let call = Collective::Allreduce(if rank == 0 { Op::Mean } else { Op::Sum });
        let failed = masked(&mut worker, 1, &call, &mut [1_i32]).unwrap_err();
        assert!(matches!(failed, AllreduceError::Masked(Fault::Calls { .. })));
        let failed = masked(&mut worker, 1, &SUM, &mut [1.0_f64]).unwrap_err();
        assert!(matches!(failed, AllreduceError::Masked(Fault::Unmaskable { .. })));
        let mut last = [i32::from(rank)];
        masked(&mut worker, 1, &SUM, &mut last).unwrap();
        assert_eq!(last, [(0..i32::from(RANKS)).sum::<i32>()]);
        worker.leave();
    });
}

/// Both operations of a call have one deadline together.
#[test]
fn the_next_call_has_the_whole_deadline_again() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    let failed = Barrier::new(RANKS.into());
    on_every_rank(&appliance, |rank, mut worker| {
        masked(&mut worker, 1, &SUM, &mut [1.0_f32]).unwrap();
        let usual = worker.set_deadline(Duration::from_millis(300));
        if rank != 0 {
            // The others never call, and stay until that has failed.
            let _ = failed.wait();
            return;
        }
        let outcome = masked(&mut worker, 1, &SUM, &mut [1.0_f32]);
        let _ = failed.wait();
        assert!(matches!(outcome, Err(AllreduceError::Failed(_))), "{outcome:?}");
        assert_eq!(worker.set_deadline(usual), Duration::from_millis(300));
    });
}
