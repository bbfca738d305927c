use super::*;

/// A worker's connection: a process that is started again has another one.
fn peer(number: u16) -> Peer {
    Some(SocketAddr::from(([192, 0, 2, 1], number)))
}

fn barrier(meeting: &mut Meeting, number: u16, workers: u16) -> Wait<()> {
    meeting.barrier(peer(number), workers.into(), workers).unwrap()
}

fn broadcast(meeting: &mut Meeting, (number, rank): (u16, u32), workers: u16, value: u64) -> Wait<u64> {
    meeting.broadcast(peer(number), (rank, 0), (workers.into(), workers), value).unwrap()
}

#[test]
fn a_barrier_lets_all_go_together_and_counts_nobody_who_is_gone() {
    let mut meeting = Meeting::default();
    let mut first = barrier(&mut meeting, 1, 3);
    drop(barrier(&mut meeting, 2, 3));
    let mut second = barrier(&mut meeting, 3, 3);
    assert!(first.try_recv().is_err() && second.try_recv().is_err(), "one of the three is gone");
    let mut third = barrier(&mut meeting, 4, 3);
    for waits in [&mut first, &mut second, &mut third] {
        assert_eq!(waits.try_recv(), Ok(()));
    }
    assert!(barrier(&mut meeting, 1, 3).try_recv().is_err(), "the next group");
}

/// All go through their first barrier.
fn meet(meeting: &mut Meeting, peers: [u16; 3]) {
    let waits = peers.map(|number| barrier(meeting, number, 3));
    waits.into_iter().for_each(|mut wait| assert_eq!(wait.try_recv(), Ok(())));
}

#[test]
fn all_get_the_roots_value_whoever_comes_first() {
    let mut meeting = Meeting::default();
    for (value, at) in [(7, 10), (8, 20)] {
        let mut early = broadcast(&mut meeting, (at + 2, 2), 3, 99);
        assert!(early.try_recv().is_err());
        assert_eq!(broadcast(&mut meeting, (at, 0), 3, value).try_recv(), Ok(value));
        assert_eq!(early.try_recv(), Ok(value));
        assert_eq!(broadcast(&mut meeting, (at + 1, 1), 3, 99).try_recv(), Ok(value));
        meet(&mut meeting, [at, at + 1, at + 2]);
    }
}

#[test]
fn a_run_that_begins_anew_leaves_the_former_behind() {
    let mut meeting = Meeting::default();
    for rank in 0..3 {
        assert_eq!(broadcast(&mut meeting, (10 + rank, rank.into()), 3, 1).try_recv(), Ok(1));
    }
    meet(&mut meeting, [10, 11, 12]);
    let mut former = barrier(&mut meeting, 11, 3);
    // Rank 0 has died before the second barrier. All are started again.
    assert_eq!(broadcast(&mut meeting, (20, 0), 3, 2).try_recv(), Ok(2));
    assert!(matches!(former.try_recv(), Err(oneshot::error::TryRecvError::Closed)), "told that it is over");
    for rank in [1, 2] {
        assert_eq!(broadcast(&mut meeting, (20 + rank, rank.into()), 3, 0).try_recv(), Ok(2));
    }
    meet(&mut meeting, [20, 21, 22]);
}

/// A worker dies while it waits, and is started again: in whatever order they come, all go on.
#[test]
fn before_all_have_met_any_worker_may_be_started_again() {
    for dies in [0, 1] {
        for order in [[0, 1], [1, 0]] {
            let mut meeting = Meeting::default();
            assert_eq!(broadcast(&mut meeting, (10, 0), 2, 1).try_recv(), Ok(1));
            if dies == 1 {
                assert_eq!(broadcast(&mut meeting, (11, 1), 2, 0).try_recv(), Ok(1));
            }
            let lonely = barrier(&mut meeting, 10 + dies, 2);
            assert_eq!(meeting.waiting(), BTreeSet::from([dies.into()]));
            drop(lonely);
            assert!(meeting.waiting().is_empty());
            let mut waits: Vec<_> = order
                .into_iter()
                .map(|rank| {
                    let wait = broadcast(&mut meeting, (20 + rank, rank.into()), 2, 2);
                    assert!({ wait }.try_recv().is_ok(), "rank {rank} of {order:?}");
                    barrier(&mut meeting, 20 + rank, 2)
                })
                .collect();
            waits.iter_mut().for_each(|wait| assert_eq!(wait.try_recv(), Ok(()), "the first barrier"));
            let mut second = [20, 21].map(|at| barrier(&mut meeting, at, 2));
            second.iter_mut().for_each(|wait| assert_eq!(wait.try_recv(), Ok(()), "the second"));
        }
    }
}

#[test]
fn who_is_started_again_does_not_count_twice() {
    let mut meeting = Meeting::default();
    assert_eq!(broadcast(&mut meeting, (10, 0), 3, 1).try_recv(), Ok(1));
    let mut root = barrier(&mut meeting, 10, 3);
    assert_eq!(broadcast(&mut meeting, (11, 1), 3, 0).try_recv(), Ok(1));
    let _dead = barrier(&mut meeting, 11, 3);
    // Rank 1's host died, so its connection is still there.
    assert_eq!(broadcast(&mut meeting, (21, 1), 3, 0).try_recv(), Ok(1));
    let mut again = barrier(&mut meeting, 21, 3);
    assert!(root.try_recv().is_err() && again.try_recv().is_err(), "two of three");
    // So does the root's.
    assert_eq!(broadcast(&mut meeting, (20, 0), 3, 2).try_recv(), Ok(2));
    let mut root_again = barrier(&mut meeting, 20, 3);
    assert!(again.try_recv().is_err(), "two of three");
    assert_eq!(broadcast(&mut meeting, (22, 2), 3, 0).try_recv(), Ok(2));
    let mut last = barrier(&mut meeting, 22, 3);
    for wait in [&mut again, &mut root_again, &mut last] {
        assert_eq!(wait.try_recv(), Ok(()));
    }
    assert!(matches!(root.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    // What this run's root has said does not outlive it.
    assert!(broadcast(&mut meeting, (31, 1), 3, 0).try_recv().is_err(), "the next run's");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut meeting = Meeting::default();
    let workers = |said, fan_in| Some(Refused::Workers { said, fan_in });
    for (said, fan_in) in [(0, 4), (3, 4), (5, 4), (1000, 4), (40, 40)] {
        assert_eq!(meeting.barrier(None, said, fan_in).err(), workers(said, fan_in));
        assert_eq!(meeting.broadcast(None, (0, 0), (said, fan_in), 1).err(), workers(said, fan_in));
    }
    assert_eq!(meeting.broadcast(None, (4, 0), (4, 4), 1).err(), Some(Refused::Rank { fan_in: 4 }));
    assert_eq!(meeting.broadcast(None, (0, 4), (4, 4), 1).err(), Some(Refused::Rank { fan_in: 4 }));
    let waiting: Vec<_> = (0..MOST).map(|_| meeting.broadcast(None, (1, 0), (4, 4), 1).unwrap()).collect();
    assert_eq!(meeting.broadcast(None, (1, 0), (4, 4), 1).err(), Some(Refused::Crowded));
    drop(waiting);
    assert!(meeting.broadcast(None, (1, 0), (4, 4), 1).is_ok());
}
