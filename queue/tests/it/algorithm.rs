//! Each rule of Olaf's queue by itself: Algorithm 1 by its lines, the appendix, the reward filter of section
//! 3.

use core::time::Duration;

use pascaline_queue::{Config, Discipline, EnqueueOutcome, Update};

use crate::common::{NOW, Rig, update};

fn olaf(segments: u16) -> Rig {
    Rig::new(Config { segments, clusters: 9, ..Config::default() })
}

fn filtered(reward_threshold: f32) -> Rig {
    Rig::new(Config { segments: 8, clusters: 9, reward_threshold, ..Config::default() })
}

fn clusters(rig: &Rig) -> Vec<u32> {
    rig.queue.waiting().map(|update| update.cluster).collect()
}

#[test]
fn line_8_a_workers_newer_update_replaces_its_older_one_in_place() {
    let mut rig = olaf(4);
    assert_eq!(rig.offer(update(0, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(update(1, 1), 2.0), EnqueueOutcome::Appended);
    let newer = Update { generated_ns: NOW + 5, ..update(0, 1) };
    let packet = rig.packet(&[4.0f32; 2].map(f32::to_le_bytes).concat());
    let enqueued = rig.queue.enqueue(NOW + 5, newer, packet);
    assert_eq!(enqueued.outcome, EnqueueOutcome::Replaced);
    let recycled = enqueued.recycled.expect("the older one's packet");
    assert_eq!(pascaline_buffer::PacketBuf::bytes(&recycled)[6..10], 1.0f32.to_le_bytes());
    assert_eq!(clusters(&rig), [0, 1], "it keeps the older one's place");
    assert_eq!(rig.take(), Some((newer, 4.0)), "and stands for one update still");
    assert_eq!(rig.queue.counters().superseded.contributions, 1);
}

#[test]
fn lines_10_and_11_updates_of_two_workers_are_combined_in_place() {
    let mut rig = olaf(4);
    assert_eq!(rig.offer(update(3, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(update(4, 1), 2.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(update(3, 2), 4.0), EnqueueOutcome::Aggregated);
    assert_eq!(clusters(&rig), [3, 4]);
    assert_eq!(rig.take(), Some((Update { count: 2, ..update(3, 1) }, 5.0)));
}

#[test]
fn line_12_once_combined_nothing_is_replaced() {
    let mut rig = olaf(4);
    for (worker, outcome) in
        [(1, EnqueueOutcome::Appended), (2, EnqueueOutcome::Aggregated), (1, EnqueueOutcome::Aggregated)]
    {
        assert_eq!(rig.offer(update(3, worker), 1.0), outcome);
    }
    assert_eq!(rig.take(), Some((Update { count: 3, ..update(3, 1) }, 3.0)), "two of one worker, added up");
}

#[test]
fn line_12_an_update_combined_further_down_neither_replaces_nor_is_replaced() {
    let twice = |worker| Update { count: 2, ..update(3, worker) };
    let mut rig = olaf(4);
    assert_eq!(rig.offer(twice(1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(update(3, 1), 1.0), EnqueueOutcome::Aggregated);
    assert_eq!(rig.offer(update(4, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(Update { cluster: 4, ..twice(1) }, 1.0), EnqueueOutcome::Aggregated);
}

/// Behind an appliance there are several workers: only one's own newer update knows what the older one knew.
#[test]
fn of_one_sender_only_those_of_one_origin_replace_each_other() {
    let of = |origin| Update { origin, ..update(3, 1) };
    for (first, second, outcome) in [
        (5, 5, EnqueueOutcome::Replaced),
        (5, 6, EnqueueOutcome::Aggregated),
        (0, 5, EnqueueOutcome::Aggregated),
        (Update::ANYBODY, Update::ANYBODY, EnqueueOutcome::Aggregated),
    ] {
        let mut rig = olaf(4);
        assert_eq!(rig.offer(of(first), 1.0), EnqueueOutcome::Appended);
        assert_eq!(rig.offer(of(second), 2.0), outcome, "{first}, {second}");
    }
}

#[test]
fn lines_16_to_19_what_has_no_update_of_its_cluster_goes_to_the_tail() {
    let mut rig = olaf(4);
    for cluster in [5, 2, 8] {
        assert_eq!(rig.offer(update(cluster, 1), 1.0), EnqueueOutcome::Appended);
    }
    assert_eq!(clusters(&rig), [5, 2, 8]);
    assert_eq!(rig.take().map(|(update, _)| update.cluster), Some(5), "first in, first out");
    assert_eq!(
        rig.offer(update(5, 1), 1.0),
        EnqueueOutcome::Appended,
        "what has departed is not met any more"
    );
    assert_eq!(clusters(&rig), [2, 8, 5]);
}

#[test]
fn line_22_a_full_queue_drops_only_what_meets_no_update_of_its_cluster() {
    let mut rig = olaf(2);
    assert_eq!(rig.offer(update(0, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(update(1, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(update(2, 1), 1.0), EnqueueOutcome::Full);
    assert_eq!(rig.offer(update(1, 2), 1.0), EnqueueOutcome::Aggregated);
    assert_eq!(rig.offer(update(0, 1), 1.0), EnqueueOutcome::Replaced);
    assert_eq!(rig.queue.counters().full.updates, 1);
    assert_eq!(rig.pool.live(), 2);
}

#[test]
fn a_combined_update_carries_the_newest_time_of_generation() {
    let mut rig = olaf(4);
    let at = |worker, ns| Update { generated_ns: NOW - ns, ..update(0, worker) };
    for (worker, ns) in [(1, 30), (2, 10), (3, 20)] {
        let _ = rig.offer(at(worker, ns), 1.0);
    }
    assert_eq!(rig.take().map(|(update, _)| update.generated_ns), Some(NOW - 10));
}

#[test]
fn a_combined_update_carries_the_newest_number_of_the_worker_whose_place_it_has() {
    let mut rig = olaf(4);
    let numbered = |worker, psn| Update { psn, ..update(0, worker) };
    for (worker, psn) in [(1, u32::MAX), (2, 70), (1, 1), (1, 0), (2, 71)] {
        let _ = rig.offer(numbered(worker, psn), 1.0);
    }
    assert_eq!(rig.take().map(|(update, _)| (update.worker, update.psn)), Some((1, 1)));
}

#[test]
fn an_update_of_another_generation_is_replaced_whatever_it_is() {
    let mut rig = Rig::new(Config { segments: 1, clusters: 9, reward_threshold: 1.0, ..Config::default() });
    let of = |epoch, worker| Update { epoch, ..update(0, worker) };
    let _ = rig.offer(Update { reward: 100.0, ..of(7, 1) }, 1.0);
    let _ = rig.offer(Update { reward: 100.0, ..of(7, 2) }, 1.0);
    let shorter = Update { len: 4, ..of(8, 2) };
    assert_eq!(rig.enqueue(shorter, &3.0f32.to_le_bytes()).outcome, EnqueueOutcome::Renewed);
    assert_eq!(rig.queue.counters().superseded.contributions, 2);
    assert_eq!(rig.take(), Some((shorter, 3.0)));
}

#[test]
fn a_workers_older_update_that_comes_late_does_not_undo_the_newer_one() {
    let mut rig = olaf(4);
    assert_eq!(rig.offer(update(0, 1), 4.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(Update { generated_ns: NOW - 1, ..update(0, 1) }, 1.0), EnqueueOutcome::Outdated);
    assert_eq!(rig.take(), Some((update(0, 1), 4.0)));
    assert_eq!(rig.queue.counters().superseded.updates, 1);
}

#[test]
fn appendix_a_locked_head_is_left_alone_and_its_cluster_may_have_a_second_update() {
    let mut rig = olaf(3);
    assert_eq!(rig.offer(update(0, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(update(1, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.queue.lock(), Some(update(0, 1)));
    assert_eq!(rig.offer(update(0, 1), 2.0), EnqueueOutcome::Appended, "not even its own worker replaces it");
    assert_eq!(rig.offer(update(0, 2), 4.0), EnqueueOutcome::Aggregated, "the second one is like any other");
    assert_eq!(clusters(&rig), [0, 1, 0]);
    assert_eq!(rig.queue.lock(), Some(update(0, 1)), "locking twice is locking once");
    assert_eq!(rig.offer(update(2, 1), 1.0), EnqueueOutcome::Full, "the locked one takes up its segment");
    assert_eq!(rig.take(), Some((update(0, 1), 1.0)), "unchanged");
    assert_eq!(rig.offer(update(1, 1), 8.0), EnqueueOutcome::Replaced, "the next head is not locked");
    assert_eq!(rig.take(), Some((update(1, 1), 8.0)));
    assert_eq!(rig.take(), Some((Update { count: 2, ..update(0, 1) }, 6.0)));
}

#[test]
fn appendix_a_locked_head_without_a_free_segment_makes_its_own_cluster_lose() {
    let mut rig = olaf(1);
    assert_eq!(rig.offer(update(0, 1), 1.0), EnqueueOutcome::Appended);
    let _ = rig.queue.lock();
    assert_eq!(rig.offer(update(0, 2), 1.0), EnqueueOutcome::Full);
}

#[test]
fn locking_nothing_locks_nothing() {
    let mut rig = olaf(2);
    assert_eq!(rig.queue.lock(), None);
    assert_eq!(rig.offer(update(0, 1), 1.0), EnqueueOutcome::Appended);
    assert_eq!(rig.offer(update(0, 2), 1.0), EnqueueOutcome::Aggregated);
}

#[test]
fn filter_rewards_as_far_apart_as_the_threshold_are_combined() {
    let mut rig = filtered(2.0);
    for (worker, reward, outcome) in
        [(1, 10.0, EnqueueOutcome::Appended), (2, 8.0, EnqueueOutcome::Aggregated)]
    {
        assert_eq!(rig.offer(Update { reward, ..update(0, worker) }, 1.0), outcome);
    }
    // The mean is 9 now.
    assert_eq!(rig.offer(Update { reward: 11.0, ..update(0, 3) }, 1.0), EnqueueOutcome::Aggregated);
    let (departed, _) = rig.take().unwrap();
    assert_eq!((departed.count, departed.reward), (3, 29.0 / 3.0), "the mean of all inside");
}

#[test]
fn filter_means_of_rewards_are_weighted_by_count() {
    let mut rig = filtered(f32::INFINITY);
    let _ = rig.offer(Update { reward: 1.0, count: 3, ..update(0, 1) }, 1.0);
    let _ = rig.offer(Update { reward: 5.0, ..update(0, 2) }, 1.0);
    assert_eq!(rig.queue.head().map(|head| head.reward), Some(2.0));
}

#[test]
fn filter_a_much_higher_reward_takes_the_place_of_what_waits() {
    let mut rig = filtered(2.0);
    let _ = rig.offer(update(0, 1), 1.0);
    let _ = rig.offer(update(0, 2), 1.0);
    let _ = rig.offer(update(1, 1), 1.0);
    let better = Update { reward: 2.5, generated_ns: NOW - 9, ..update(0, 3) };
    assert_eq!(rig.offer(better, 4.0), EnqueueOutcome::Preferred);
    assert_eq!(clusters(&rig), [0, 1]);
    assert_eq!(rig.queue.counters().displaced.contributions, 2);
    assert_eq!(rig.queue.head(), Some(better), "its time is what it contains, not what it has displaced");
    assert_eq!(
        rig.offer(Update { reward: -50.0, ..update(0, 3) }, 8.0),
        EnqueueOutcome::Replaced,
        "it is single again"
    );
    assert_eq!(rig.take().map(|(update, value)| (update.count, value)), Some((1, 8.0)));
}

#[test]
fn filter_a_much_lower_reward_is_dropped() {
    let mut rig = filtered(2.0);
    let _ = rig.offer(update(0, 1), 1.0);
    assert_eq!(rig.offer(Update { reward: -2.5, ..update(0, 2) }, 4.0), EnqueueOutcome::LowReward);
    assert_eq!(rig.queue.counters().low_reward.contributions, 1);
    assert_eq!(rig.take(), Some((update(0, 1), 1.0)));
}

#[test]
fn filter_does_not_come_between_two_updates_of_one_worker() {
    let mut rig = filtered(2.0);
    let _ = rig.offer(update(0, 1), 1.0);
    assert_eq!(rig.offer(Update { reward: -9.0, ..update(0, 1) }, 4.0), EnqueueOutcome::Replaced);
}

#[test]
fn filter_can_be_turned_off() {
    let mut rig = filtered(f32::INFINITY);
    let _ = rig.offer(Update { reward: f32::MAX, ..update(0, 1) }, 1.0);
    assert_eq!(rig.offer(Update { reward: f32::MIN, ..update(0, 2) }, 1.0), EnqueueOutcome::Aggregated);
    assert_eq!(rig.take().map(|(update, _)| update.reward), Some(0.0));
}

#[test]
fn first_in_first_out_combines_nothing() {
    let mut rig =
        Rig::new(Config { discipline: Discipline::Fifo, segments: 3, clusters: 9, ..Config::default() });
    for value in [1.0, 2.0, 4.0] {
        assert_eq!(rig.offer(update(0, 1), value), EnqueueOutcome::Appended);
    }
    assert_eq!(rig.offer(update(0, 1), 8.0), EnqueueOutcome::Full);
    assert_eq!(rig.offer(update(1, 1), 8.0), EnqueueOutcome::Full);
    for value in [1.0, 2.0, 4.0] {
        assert_eq!(rig.take(), Some((update(0, 1), value)));
    }
    assert_eq!(rig.take(), None);
}

#[test]
fn the_state_that_acknowledgements_carry() {
    let activity = Duration::from_millis(1);
    let mut rig = Rig::new(Config { segments: 2, clusters: 9, activity, ..Config::default() });
    for cluster in [0, 1, 2, 2] {
        let _ = rig.offer(update(cluster, 1), 1.0);
    }
    let state = rig.queue.state(NOW);
    assert_eq!((state.clusters, state.capacity, state.waiting), (3, 2, 2), "dropped clusters are active too");
    let state = rig.queue.state(NOW + 2_000_000);
    assert_eq!((state.clusters, state.capacity, state.waiting), (0, 2, 2));
}

#[test]
fn a_queue_that_goes_gives_back_what_waits() {
    let mut rig = olaf(4);
    let _ = rig.offer(update(0, 1), 1.0);
    let _ = rig.offer(update(1, 1), 1.0);
    let Rig { pool, queue } = rig;
    assert_eq!(pool.live(), 2);
    drop(queue);
    assert_eq!(pool.live(), 0);
}

#[test]
fn a_cluster_finds_its_update_at_any_place_and_after_any_time() {
    let mut rig = Rig::new(Config { segments: 5, clusters: 9, ..Config::default() });
    for turn in 0..10_000u32 {
        let cluster = turn * 7 % 9;
        let waits = clusters(&rig).contains(&cluster);
        let full = rig.queue.is_full();
        let expected = match (waits, full) {
            (true, _) => EnqueueOutcome::Replaced,
            (false, false) => EnqueueOutcome::Appended,
            (false, true) => EnqueueOutcome::Full,
        };
        assert_eq!(rig.offer(update(cluster, 1), 1.0), expected, "turn {turn}");
        if turn % 3 == 0 {
            let _ = rig.take();
        }
    }
}
