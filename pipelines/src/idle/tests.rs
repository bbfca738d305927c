use super::*;

#[test]
fn backing_off_grows_to_the_limit_and_ends_with_the_first_packet() {
    let limit = Duration::from_micros(100);
    let mut idle = Idle::new(IdlePolicy::Backoff { longest_nap: limit });
    let rests: Vec<Rest> = (0..200).map(|_| idle.polled(false)).collect();
    assert_eq!(rests[0], Rest::Spin);
    assert!(rests.contains(&Rest::Yield));
    assert_eq!(rests[199], Rest::Nap(limit));
    assert_eq!(idle.polled(true), Rest::Spin);
    assert_eq!(idle.polled(false), Rest::Spin);
}

#[test]
fn spinning_never_rests() {
    let mut idle = Idle::new(IdlePolicy::Spin);
    assert!((0..10_000).all(|_| idle.polled(false) == Rest::Spin));
}
