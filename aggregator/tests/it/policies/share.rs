//! What a job gets of the shared pool, whatever the others do there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use pascaline_aggregator::{
    Cause, ConflictPolicy, Key, Policy, PoolConfig, Rejection, Rules, Shares, Tenant,
};

use super::{half, opened, served};
use crate::common::{Event, Parcel, Rig, TICK, Who, config};

/// The contribution of a rank of a job, which is the tenant of its number.
fn of_job(job: u16, psn: u32, rank: u16, policy: &Policy) -> Parcel {
    let tenant = Tenant(u8::try_from(job).unwrap());
    half(Key::new(job, 1, psn), rank, policy).with(|r| r.rules = Rules::of(policy).of_tenant(tenant))
}

fn limited(job: u16, psn: u32) -> Event {
    Event::Rejected(Who { key: Key::new(job, 1, psn), rank: 0 }, Rejection::Share)
}

/// A pool that jobs with these weights share.
fn shared(slots: usize, ways: usize, weights: &[(u8, u16)], fast: bool) -> Rig {
    let mut rig = Rig::new(slots, ways).by_way(fast);
    rig.session.set_shares(&Shares::by_weight(weights.iter().map(|&(n, weight)| (Tenant(n), weight))));
    rig
}

#[test]
fn what_is_borrowed_is_given_back_at_once_to_its_owner_and_no_more_than_that() {
    for (fast, conflict) in [(false, ConflictPolicy::FirstCome), (true, ConflictPolicy::Preempt)] {
        let (mut rig, policy) = (shared(4, 4, &[(1, 1), (2, 1)], fast), served(conflict));
        // While the other one does not want its share, all slots are to be had.
        for psn in 0..4 {
            assert_eq!(rig.one(&of_job(1, psn, 0, &policy).at(TICK)), opened(Key::new(1, 1, psn), 0));
        }
        for psn in 0..2 {
            let events = rig.offer(&of_job(2, psn, 0, &policy).at(2 * TICK));
            assert!(matches!(events[0], Event::Evicted { cause: Cause::Share, .. }), "{events:?}");
            assert_eq!(events[1], opened(Key::new(2, 1, psn), 0));
        }
        // Beyond its share a job competes with itself alone, whatever its priority.
        assert_eq!(rig.one(&of_job(2, 9, 0, &policy).at(3 * TICK)), limited(2, 9));
        assert_eq!(rig.one(&of_job(1, 9, 0, &policy).at(3 * TICK)), limited(1, 9));
        let events = rig.offer(&of_job(1, 9, 0, &policy).at(3 * TICK).priority(9));
        if conflict == ConflictPolicy::Preempt {
            let Event::Evicted { cause: Cause::Preempted, sum, .. } = &events[0] else {
                panic!("{events:?}")
            };
            assert_eq!(sum.key.job(), 1);
        } else {
            assert_eq!(events, [limited(1, 9)]);
        }
        rig.close();
    }
}

#[test]
fn results_are_borrowed_once_they_are_of_no_more_use() {
    let config = PoolConfig { age_limit: Duration::from_millis(800), ..config(4, 4) };
    let (mut rig, policy) = (Rig::<1>::of(&config), Policy::default());
    rig.session.set_shares(&Shares::by_weight([(Tenant(1), 1), (Tenant(2), 1)]));
    for psn in 0..2 {
        rig.one(&of_job(1, psn, 0, &policy));
        rig.one(&of_job(1, psn, 1, &policy));
        rig.one(&of_job(2, psn, 0, &policy));
    }
    assert_eq!(
        rig.one(&of_job(2, 2, 0, &policy).at(TICK)),
        limited(2, 2),
        "a result of a job within its share"
    );
    // Its own it may replace.
    let events = rig.offer(&of_job(1, 2, 0, &policy).at(TICK));
    assert_eq!(events, [Event::EvictedResult(Key::new(1, 1, 0)), opened(Key::new(1, 1, 2), 0)]);
    let late = 200_000 * TICK;
    let events = rig.offer(&of_job(2, 2, 0, &policy).at(late));
    assert_eq!(events.last(), Some(&opened(Key::new(2, 1, 2), 0)), "long after, all is to be had again");
    rig.close();
}

#[test]
fn who_has_borrowed_most_gives_way_first() {
    let (mut rig, policy) = (shared(4, 4, &[(1, 1), (2, 1), (3, 1), (4, 1)], false), Policy::default());
    for psn in 0..3 {
        let parcel = of_job(1, psn, 0, &policy).at(u64::from(psn) * TICK);
        assert_eq!(rig.one(&parcel), opened(Key::new(1, 1, psn), 0));
    }
    rig.one(&of_job(2, 0, 0, &policy).at(3 * TICK));
    let events = rig.offer(&of_job(2, 1, 0, &policy).at(4 * TICK));
    assert_eq!(events, [Event::EvictedPartial(Key::new(1, 1, 0)), opened(Key::new(2, 1, 1), 0)]);
    assert_eq!(
        rig.one(&of_job(2, 2, 0, &policy).at(4 * TICK)),
        limited(2, 2),
        "they have borrowed equally much"
    );
    let events = rig.offer(&of_job(3, 0, 0, &policy).at(5 * TICK));
    assert_eq!(events.last(), Some(&opened(Key::new(3, 1, 0), 0)), "who is under its share comes first");
    rig.close();
}

/// A job with as many PSNs in each set as it is guaranteed, beside others that never complete one.
pub(crate) fn disturbed(seed: u64, fast: bool) -> bool {
    let mut rng = Rng::with_seed(seed);
    let (ways, others) = ([1, 2, 4, 8][rng.usize(..4)], rng.u16(1..4));
    let weights: Vec<_> = (1..=others + 1).map(|job| (u8::try_from(job).unwrap(), rng.u16(1..4))).collect();
    let sets = 16;
    let mut rig = shared(sets * ways, ways, &weights, fast);
    let shares = Shares::by_weight(weights.iter().map(|&(n, weight)| (Tenant(n), weight)));
    // Where a job has no way of its own, it may have one of the others'.
    let each = |set| weights.iter().all(|&(job, _)| shares.guaranteed_ways(Tenant(job), set, ways) > 0);
    let sure = |set| if each(set) { shares.guaranteed_ways(Tenant(1), set, ways) as usize } else { 0 };
    let conflict = ConflictPolicy::ALL[rng.usize(..ConflictPolicy::ALL.len())];
    let policy = if rng.bool() { served(conflict) } else { Policy { conflict, ..Policy::default() } };
    let mut open: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    let mut disturbed = false;
    for step in 0..400 {
        let now = TICK * u64::from(step);
        let (parcel, mine) = if rng.bool() {
            let psn = step;
            let set = Key::new(1, 1, psn).place(sets);
            let here = open.entry(set).or_default();
            match here.pop_first() {
                Some(oldest) if here.len() + 1 >= sure(set) => (of_job(1, oldest, 1, &policy), false),
                Some(oldest) => {
                    here.extend([oldest, psn]);
                    (of_job(1, psn, 0, &policy), true)
                }
                None if sure(set) == 0 => continue,
                None => {
                    here.insert(psn);
                    (of_job(1, psn, 0, &policy), true)
                }
            }
        } else {
            let priority = rng.u16(..);
            (of_job(rng.u16(2..=others + 1), rng.u32(..64), 0, &policy).priority(priority), false)
        };
        let job = parcel.request.key.job();
        let events = rig.offer(&parcel.at(now));
        disturbed |= mine && !matches!(events.last(), Some(Event::Opened(_)));
        disturbed |= job == 1 && !mine && !matches!(events.last(), Some(Event::Completed { .. }));
        disturbed |= job != 1
            && events.iter().any(|event| match event {
                Event::EvictedPartial(key) => key.job() == 1,
                Event::Evicted { sum, .. } => sum.key.job() == 1,
                _ => false,
            });
    }
    rig.close();
    disturbed
}

#[test]
fn a_job_within_its_share_is_not_disturbed() {
    for seed in 0..400 {
        assert!(!disturbed(seed, seed % 2 == 0), "seed {seed}");
    }
}

/// There are more jobs than ways, and one of them always has something to do.
#[test]
fn a_job_without_a_way_of_its_own_completes_beside_one_that_is_busy() {
    for fast in [false, true] {
        let mut rig = shared(1, 1, &[(1, 1), (2, 1)], fast);
        let policy = Policy::default();
        let mut completed = [0; 2];
        for step in 0..100 {
            // Each rank of a job sends its oldest PSN again until it is complete.
            for (rank, job) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
                let psn = completed[usize::from(job - 1)];
                let events = rig.offer(&of_job(job, psn, rank, &policy).at(TICK * step));
                let done = matches!(events.last(), Some(Event::Completed { .. }));
                completed[usize::from(job - 1)] += u32::from(done);
            }
        }
        assert!(completed.iter().all(|&completed| completed >= 30), "{completed:?}");
        rig.close();
    }
}

/// There are more jobs than ways, and the others go on sending what never completes.
#[test]
fn a_job_without_a_way_of_its_own_completes_beside_those_that_never_do() {
    for fast in [false, true] {
        let config = PoolConfig { age_limit: Duration::from_nanos(20 * TICK), ..config(1, 1) };
        let (mut rig, policy) = (Rig::<1>::of(&config).by_way(fast), Policy::default());
        rig.session.set_shares(&Shares::by_weight([(Tenant(1), 1), (Tenant(2), 1), (Tenant(3), 1)]));
        let mut completed = 0;
        for step in 0..400_u16 {
            // No job's packets always come first.
            for job in [0, 1, 2].map(|job| (job + step) % 3 + 1) {
                if job != 1 {
                    rig.offer(&of_job(job, 0, 0, &policy).at(TICK * u64::from(step)));
                    continue;
                }
                for rank in [0, 1] {
                    let events = rig.offer(&of_job(1, completed, rank, &policy).at(TICK * u64::from(step)));
                    completed += u32::from(matches!(events.last(), Some(Event::Completed { .. })));
                }
            }
        }
        assert!(completed >= 5, "by the fast path: {fast}: {completed}");
        rig.close();
    }
}

#[cfg(feature = "sabotage")]
#[test]
fn a_share_that_is_not_given_back_is_found_out() {
    let fault = pascaline_aggregator::Sabotage::ShareKept;
    for fast in [false, true] {
        assert!((0..40).any(|seed| fault.during(|| disturbed(seed, fast))), "by the fast path: {fast}");
    }
}
