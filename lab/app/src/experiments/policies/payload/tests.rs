use super::*;

fn add(to: Payload, more: Payload) -> Payload {
    Payload([to.0[0] + more.0[0], to.0[1] + more.0[1]])
}

#[test]
fn the_sum_is_that_of_each_rank_once() {
    for ranks in 1..=MAX_RANKS {
        let all = (0..ranks).map(|rank| Payload::of(3, rank, 77)).fold(Payload::default(), add);
        assert_eq!(all.check(3, 0, ranks, 77), Ok(()));
        for rank in 0..ranks {
            let twice = add(all, Payload::of(3, rank, 77));
            assert!(twice.check(3, 0, ranks, 77).is_err(), "rank {rank} twice");
        }
        assert!(all.check(3, 0, ranks, 78).is_err(), "another PSN");
        assert!(all.check(4, 0, ranks, 77).is_err(), "another job");
    }
}

#[test]
fn bytes_come_back() {
    let payload = Payload::of(1, 7, 9);
    assert_eq!(Payload::from_bytes(&payload.to_bytes()), Some(payload));
    assert_eq!(Payload::from_bytes(&[0; 7]), None);
}
