//! Fewer than all ranks complete a PSN.

use super::*;

#[test]
fn h_of_n_complete_a_psn_and_every_frame_says_which() {
    // One rank of each kind; behind ports that can send several segments, and that cannot.
    let mixed = || {
        vec![
            Worker::new(0, 4),
            Worker::new(1, 4).v6().at(1),
            Worker::new(2, 4).tagged(0x8100, 0xa064).at(1),
            Worker::new(3, 4).v6().tagged(0x88a8, 0x0064).tagged(0x8100, 0x2007),
        ]
    };
    for (multi_segment, late) in [(true, 0), (true, 3), (false, 2), (false, 1)] {
        let mut bench = Bench::new(&Plan { peers: vec![None, None], ..threshold(3, 0) });
        bench.io().ports.iter_mut().for_each(|port| port.multi_segment = multi_segment);
        let mut workers = mixed();
        bench.join(&mut workers);
        let early: Vec<u16> = (0..4).filter(|&rank| rank != late).collect();
        for psn in [9, 300] {
            contribute(&mut bench, &workers, &early, psn);
            assert_partials(&mut bench, &workers, psn, &early);
            // The late one is not added any more: it gets what the others got, and so does whoever asks.
            contribute(&mut bench, &workers, &[late], psn);
            let worker = workers[usize::from(late)];
            assert_partials(&mut bench, &[worker], psn, &early);
            bench.feed(worker.port, [&worker.reminder(psn)]);
            assert_partials(&mut bench, &[worker], psn, &early);
        }
        assert_eq!(bench.appliance.get(Counter::Completed), 2);
        assert_eq!(bench.appliance.get(Counter::Replayed), 4);
        bench.end();
    }
}

#[test]
fn seth_lowers_the_threshold_for_what_is_there_as_well() {
    let (mut bench, workers) = four(&threshold(4, 0));
    contribute(&mut bench, &workers, &[0, 3], 1);
    contribute(&mut bench, &workers, &[1, 2], 2);
    bench.feed(0, [&workers[1].set_h(2)]);
    assert_eq!(bench.heard(0)[0].control().status, Status::Ok);
    // The next sign of life of each: a retransmission, a reminder.
    contribute(&mut bench, &workers, &[3], 1);
    assert_partials(&mut bench, &workers, 1, &[0, 3]);
    assert_eq!(bench.appliance.dropped(DropReason::Duplicate), 1);
    bench.feed(0, [&workers[1].reminder(2)]);
    let (answer, released): (Vec<Heard>, Vec<Heard>) = {
        let mut heard = bench.heard(0);
        (heard.split_off(4), heard)
    };
    assert_eq!((released.len(), answer.len()), (4, 1), "to all, and to the one that asked");
    assert!(released.iter().chain(&answer).all(|heard| heard.contents().1 == Some(vec![1, 2])));
    contribute(&mut bench, &workers, &[2, 0], 3);
    assert_partials(&mut bench, &workers, 3, &[0, 2]);
    assert_eq!(bench.appliance.get(Counter::Released), 2);
    assert_eq!(bench.appliance.get(Counter::Completed), 3);
    assert_eq!(bench.appliance.reading().open_slots(), 0);
    bench.end();
}
