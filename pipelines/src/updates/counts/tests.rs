use super::*;

#[test]
fn each_fate_has_a_place_of_its_own() {
    use Fate::{
        Aggregated, Appended, Departed, Full, LowReward, Outdated, Preferred, Renewed, Replaced, Stale,
        Unsent,
    };
    let plain = [
        Appended, Aggregated, Replaced, Renewed, Preferred, Outdated, LowReward, Full, Departed, Stale,
        Unsent,
    ];
    let fates = plain.into_iter().chain(UpdateRejection::ALL.map(Fate::Rejected));
    let mut places: Vec<_> = fates.map(Fate::index).collect();
    places.sort_unstable();
    assert!(places.iter().copied().eq(0..FATES), "{places:?}");
}

#[test]
fn departures_are_classed_by_their_aggregations() {
    let (mut tally, counts) = (FateCounts::default(), QueueCounts::new(8));
    for aggregations in [0, 0, 1, 5, 6, 8, 9, 64, 65, 60_000] {
        tally.depart(aggregations);
    }
    counts.publish(&mut tally, &Counters::default(), QueueState { clusters: 1, capacity: 8, waiting: 2 });
    let reading = counts.read();
    assert_eq!(reading.classes(), [2, 1, 0, 0, 0, 1, 2, 1, 0, 0, 0, 1, 2]);
    assert_eq!((reading.aggregations(), reading.get(Fate::Departed)), (60_158, 10));
    assert_eq!((reading.clusters, reading.waiting, reading.capacity, reading.received()), (1, 2, 8, 0));
}
