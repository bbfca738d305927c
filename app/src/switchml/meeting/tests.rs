use super::*;

#[test]
fn a_barrier_lets_all_go_together_and_counts_nobody_who_is_gone() {
    let mut meeting = Meeting::default();
    let mut first = meeting.barrier(3, 3).unwrap();
    drop(meeting.barrier(3, 3).unwrap());
    let mut second = meeting.barrier(3, 3).unwrap();
    assert!(first.try_recv().is_err() && second.try_recv().is_err(), "one of the three is gone");
    let mut third = meeting.barrier(3, 3).unwrap();
    for waits in [&mut first, &mut second, &mut third] {
        assert_eq!(waits.try_recv(), Ok(()));
    }
    assert!(meeting.barrier(3, 3).unwrap().try_recv().is_err(), "the next group");
}

#[test]
fn all_get_the_roots_value_whoever_comes_first() {
    let mut meeting = Meeting::default();
    for value in [7, 8] {
        let mut early = meeting.broadcast(2, 0, (3, 3), 99).unwrap();
        assert!(early.try_recv().is_err());
        assert_eq!(meeting.broadcast(0, 0, (3, 3), value).unwrap().try_recv(), Ok(value));
        assert_eq!(early.try_recv(), Ok(value));
        assert_eq!(meeting.broadcast(1, 0, (3, 3), 99).unwrap().try_recv(), Ok(value));
    }
}

#[test]
fn a_run_that_begins_anew_leaves_the_former_behind() {
    let mut meeting = Meeting::default();
    assert_eq!(meeting.broadcast(0, 0, (2, 2), 1).unwrap().try_recv(), Ok(1));
    let mut former = meeting.barrier(2, 2).unwrap();
    // Rank 1 never came. Everybody is started again.
    assert_eq!(meeting.broadcast(0, 0, (2, 2), 2).unwrap().try_recv(), Ok(2));
    assert!(matches!(former.try_recv(), Err(oneshot::error::TryRecvError::Closed)), "told that it is over");
    assert_eq!(meeting.broadcast(1, 0, (2, 2), 0).unwrap().try_recv(), Ok(2));
    let mut one = meeting.barrier(2, 2).unwrap();
    assert!(one.try_recv().is_err());
    meeting.barrier(2, 2).unwrap();
    assert_eq!(one.try_recv(), Ok(()));
}

#[test]
fn what_cannot_be_is_refused() {
    let mut meeting = Meeting::default();
    let workers = |said, fan_in| Some(Refused::Workers { said, fan_in });
    for (said, fan_in) in [(0, 4), (3, 4), (5, 4), (1000, 4), (40, 40)] {
        assert_eq!(meeting.barrier(said, fan_in).err(), workers(said, fan_in));
        assert_eq!(meeting.broadcast(0, 0, (said, fan_in), 1).err(), workers(said, fan_in));
    }
    assert_eq!(meeting.broadcast(4, 0, (4, 4), 1).err(), Some(Refused::Rank));
    assert_eq!(meeting.broadcast(0, 4, (4, 4), 1).err(), Some(Refused::Rank));
    let waiting: Vec<_> = (0..MOST).map(|_| meeting.broadcast(1, 0, (4, 4), 1).unwrap()).collect();
    assert_eq!(meeting.broadcast(1, 0, (4, 4), 1).err(), Some(Refused::Crowded));
    drop(waiting);
    assert!(meeting.broadcast(1, 0, (4, 4), 1).is_ok());
}
