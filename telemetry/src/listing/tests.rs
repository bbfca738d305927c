use super::*;

fn sent(contributions: u64) -> JobTotals {
    JobTotals { contributions, ..JobTotals::default() }
}

fn look(listing: &mut Listing, second: u64, jobs: &[(u16, u64)]) -> (Vec<(u16, u64)>, u64) {
    let jobs = jobs.iter().map(|&(id, count)| (id, sent(count)));
    let Listed { jobs, others } = listing.look(Duration::from_secs(second), jobs);
    (jobs.into_iter().map(|(id, totals)| (id, totals.contributions)).collect(), others.contributions)
}

#[test]
fn the_busiest_get_the_places_and_keep_them() {
    let mut listing = Listing::new(2);
    assert_eq!(look(&mut listing, 1, &[(1, 5), (2, 0), (3, 9), (4, 7)]), (vec![(3, 9), (4, 7)], 5));
    assert_eq!(look(&mut listing, 2, &[(1, 500), (2, 0), (3, 10), (4, 8)]), (vec![(3, 10), (4, 8)], 500));
}

#[test]
fn a_job_that_is_gone_leaves_its_place_and_the_others_sum_does_not_change() {
    let mut listing = Listing::new(1);
    look(&mut listing, 1, &[(1, 10)]);
    assert_eq!(look(&mut listing, 2, &[(1, 15), (2, 3)]), (vec![(1, 15)], 3));
    assert_eq!(look(&mut listing, 3, &[(2, 4)]), (vec![(2, 1)], 3));
    assert_eq!(look(&mut listing, 4, &[(2, 4), (1, 2)]), (vec![(2, 1)], 5), "number 1 is another job now");
}

#[test]
fn a_silent_job_gives_its_place_to_one_that_waits() {
    let mut listing = Listing::new(1);
    look(&mut listing, 1, &[(1, 10)]);
    assert_eq!(look(&mut listing, 2, &[(1, 12), (2, 1)]), (vec![(1, 12)], 1));
    assert_eq!(look(&mut listing, 301, &[(1, 12), (2, 5)]), (vec![(1, 12)], 5), "not silent for long enough");
    assert_eq!(look(&mut listing, 303, &[(1, 12), (2, 9)]), (vec![(2, 4)], 5));
    assert_eq!(look(&mut listing, 304, &[(1, 13), (2, 10)]), (vec![(2, 5)], 6));
}

/// Whatever jobs come, go and fall silent, no counter goes back and nothing is counted twice or lost.
#[test]
fn counters_never_go_back_and_lose_nothing() {
    let mut listing = Listing::new(3);
    let mut jobs: BTreeMap<u16, u64> = BTreeMap::new();
    let (mut others, mut all, mut said) = (0, 0u64, 0u64);
    let mut before: BTreeMap<u16, u64> = BTreeMap::new();
    let mut random = 1u64;
    for second in 0..2_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = u16::try_from((random >> 33) % 12).unwrap();
        match (random >> 50) % 8 {
            0 => drop(jobs.remove(&id)),
            more => {
                *jobs.entry(id).or_default() += more;
                all += more;
            }
        }
        let list: Vec<_> = jobs.iter().map(|(&id, &count)| (id, count)).collect();
        let (listed, sum) = look(&mut listing, second * 40, &list);
        assert!(sum >= others && listed.len() <= 3);
        others = sum;
        let now: BTreeMap<u16, u64> = listed.into_iter().collect();
        for (id, count) in &now {
            // A series that is new begins with nothing.
            let former = before.get(id).copied().filter(|former| former <= count).unwrap_or(0);
            said += count - former;
        }
        before = now;
        assert!(others + said <= all, "{others} + {said} of {all}");
    }
    // Counts between the last reading of a job and its end belong to no series.
    assert!(others + said > all * 9 / 10, "{others} + {said} of {all}");
}
