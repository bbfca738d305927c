use super::*;

#[test]
fn a_publication_is_seen_whole_or_not_at_all() {
    let counters = LcoreCounters::default();
    let done = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut tally = Tally::default();
            for round in 0..20_000u64 {
                tally.add(Counter::Received, 3);
                tally.add(Counter::Absorbed, 2);
                if round % 2 == 0 {
                    tally.drop_one(DropReason::Duplicate);
                } else {
                    tally.add(Counter::Answered, 1);
                }
                counters.publish(&mut tally);
            }
            done.store(true, Ordering::Release);
        });
        let mut readings = 0u64;
        while !done.load(Ordering::Acquire) || readings == 0 {
            assert_eq!(counters.read().unaccounted(), 0);
            readings += 1;
        }
    });
    let last = counters.read();
    assert_eq!(last.get(Counter::Received), 60_000);
    assert_eq!(last.dropped(DropReason::Duplicate), 10_000);
}

#[test]
fn a_forwarded_packet_that_did_not_fit_is_a_drop() {
    let mut tally = Tally::default();
    tally.add(Counter::Received, 1);
    tally.add(Counter::Forwarded, 1);
    tally.forward_failed();
    let counters = LcoreCounters::default();
    counters.publish(&mut tally);
    let reading = counters.read();
    assert_eq!(reading.get(Counter::Forwarded), 0);
    assert_eq!(reading.dropped(DropReason::TransmitFull), 1);
    assert_eq!(reading.unaccounted(), 0);
}

#[test]
fn bursts_are_counted_by_size_and_added_up() {
    let counters = LcoreCounters::default();
    let mut tally = Tally::default();
    for packets in [1, 2, 3, 4, 5, 32, 32, 64] {
        tally.burst(packets, 10);
    }
    counters.publish(&mut tally);
    let mut both = counters.read();
    both.merge(&counters.read());
    let Load { bursts, packets, busy_ns } = both.load();
    assert_eq!((bursts, packets, busy_ns), ([2, 2, 4, 2, 0, 6], 286, 160));
}

#[test]
fn publishing_clears_the_tally() {
    let counters = LcoreCounters::default();
    let mut tally = Tally::default();
    tally.add(Counter::Sent, 5);
    counters.publish(&mut tally);
    counters.publish(&mut tally);
    assert_eq!(counters.read().get(Counter::Sent), 5);
}
