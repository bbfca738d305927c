#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use super::*;
use pascaline_buffer::HeapPool;
use pascaline_queue::EnqueueOutcome;

fn update(cluster: u32) -> Update {
    Update::new(cluster, 0, 0, 100)
}

/// 100 bytes at 1 Gbit/s take 800 ns.
#[test]
fn updates_leave_one_after_the_other_and_give_up_their_segments_as_set() {
    for (hold, third) in
        [(Hold::UntilBegun, EnqueueOutcome::Appended), (Hold::UntilSent, EnqueueOutcome::Full)]
    {
        let pool = HeapPool::new();
        let config = Config { segments: 2, clusters: 4, ..Config::default() };
        let mut bottleneck = Bottleneck::new(&config, 1, hold).unwrap();
        assert_eq!(bottleneck.next(), None);
        for (cluster, outcome) in [(0, EnqueueOutcome::Appended), (1, EnqueueOutcome::Appended), (2, third)] {
            let enqueued = bottleneck.offer(5000, update(cluster), pool.alloc(&[0; 100], 100));
            assert_eq!(enqueued.outcome, outcome);
        }
        assert_eq!(bottleneck.next(), Some(805_000));
        assert_eq!(bottleneck.finish(805_000).map(|sent| sent.update.cluster), Some(0));
        assert_eq!(bottleneck.finish(1_605_000).map(|sent| sent.update.cluster), Some(1));
        let rest = if third == EnqueueOutcome::Appended { Some(2_405_000) } else { None };
        assert_eq!(bottleneck.next(), rest);
        if let Some(now) = rest {
            assert_eq!(bottleneck.finish(now).map(|sent| sent.update.cluster), Some(2));
        }
        assert!(bottleneck.finish(9_000_000).is_none());
        assert_eq!(pool.live(), 0);
    }
}
