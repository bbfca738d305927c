use fastrand::Rng;

use super::Lane;
use crate::handoff::{Receiver, ring};
use crate::share::Tenant;

const PLACES: usize = 64;
const HOG: Tenant = Tenant(1);
const OTHER: Tenant = Tenant(2);
const THIRD: Tenant = Tenant(255);

fn lane() -> (Lane<u32>, Receiver<u32>) {
    let (sender, receiver) = ring(PLACES);
    (Lane::new(sender), receiver)
}

/// How many of these attempts find room.
fn put(lane: &mut Lane<u32>, tenant: Tenant, attempts: usize) -> usize {
    let put = (0..attempts).filter(|_| lane.push(tenant, 0).is_ok()).count();
    lane.ring().publish();
    put
}

fn take(receiver: &mut Receiver<u32>, most: usize) -> usize {
    let there = receiver.available().min(most);
    let taken = (0..there).filter_map(|_| receiver.pop()).count();
    receiver.acknowledge();
    taken
}

#[test]
fn who_sends_without_end_leaves_as_much_as_he_takes() {
    let (mut lane, mut receiver) = lane();
    assert_eq!(put(&mut lane, HOG, 1000), PLACES / 2);
    assert_eq!(put(&mut lane, OTHER, 1000), PLACES / 4);
    assert_eq!(put(&mut lane, THIRD, 1000), PLACES / 8);
    assert_eq!(put(&mut lane, HOG, 1000), 0);
    // A removed packet makes room for a tenant that has less in it than its part.
    assert_eq!(take(&mut receiver, PLACES / 2), PLACES / 2);
    assert_eq!(put(&mut lane, OTHER, 1000), 12);
    assert_eq!(put(&mut lane, HOG, 1000), 14);
}

/// One job has a few packets in flight, beside one that sends all the time, whatever the receiver does.
#[test]
fn a_few_packets_find_room_beside_any_number_of_others() {
    for seed in 0..200 {
        let (mut rng, (mut lane, mut receiver)) = (Rng::with_seed(seed), lane());
        let mut under_way = 0_usize;
        let mut whose = std::collections::VecDeque::new();
        for _ in 0..200 {
            let hog = put(&mut lane, HOG, rng.usize(..2 * PLACES));
            whose.extend(std::iter::repeat_n(HOG, hog));
            let wanted = rng.usize(..=PLACES / 4 - under_way);
            assert_eq!(put(&mut lane, OTHER, wanted), wanted, "seed {seed}");
            whose.extend(std::iter::repeat_n(OTHER, wanted));
            under_way += wanted;
            let taken = take(&mut receiver, rng.usize(..PLACES));
            under_way -= whose.drain(..taken).filter(|tenant| *tenant == OTHER).count();
        }
        assert!(whose.len() <= PLACES);
    }
}
