//! Losses that no example names: each single one, and many at random.

use core::time::Duration;

use pascaline_ps::Order;
use proptest::prelude::*;

use crate::appliance::SlotOutcome;
use crate::packets::PSN;
use crate::world::World;

/// Not an example but all of them: whichever single packet is lost, every rank gets the result.
#[test]
fn every_single_loss_is_recovered_from() {
    for order in [Order::Arrival, Order::Rank] {
        for keeps_results in [false, true] {
            for script in 0..4 {
                let mut nth = 0;
                loop {
                    let mut at = 0;
                    let mut world = World::new(4, order)
                        .losing(move |_, _| {
                            at += 1;
                            at == nth + 1
                        })
                        .with_script(move |header| match script {
                            0 => SlotOutcome::Aggregate,
                            1 => SlotOutcome::FallBack,
                            2 if header.rank % 2 == 0 => SlotOutcome::FallBack,
                            2 => SlotOutcome::Aggregate,
                            _ => SlotOutcome::EvictFirst,
                        });
                    world.appliance.keeps_results = keeps_results;
                    world.contribute_all(PSN);
                    world.run();
                    nth += 1;
                    if nth > world.log.len() {
                        break;
                    }
                }
                assert!(nth > 8);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Loss, repetition and reordering on every hop, conflicts at random; the sums are checked by the world.
    #[test]
    fn any_loss_is_recovered_from(
        ranks in 1_u16..9,
        rank_order: bool,
        keeps_results: bool,
        conflicts in prop::collection::vec(0_u8..6, 64),
        fates in prop::collection::vec((0_u8..100, 0_u64..3000), 512),
        psns in 1_u32..5,
    ) {
        let order = if rank_order { Order::Rank } else { Order::Arrival };
        let mut conflicts = conflicts.into_iter().cycle();
        let mut world = World::new(ranks, order).with_script(move |_| match conflicts.next() {
            Some(0) => SlotOutcome::FallBack,
            Some(1) => SlotOutcome::EvictFirst,
            _ => SlotOutcome::Aggregate,
        });
        world.appliance.keeps_results = keeps_results;
        let mut fates = fates.into_iter().cycle();
        world.network = Box::new(move |_, _| {
            let (fate, micros) = fates.next().unwrap();
            let copies = match fate { 0..15 => 0, 15..25 => 2, _ => 1 };
            (copies, Duration::from_micros(micros * u64::from(fate % 3 == 0)))
        });
        for psn in PSN..PSN + psns {
            world.contribute_all(psn);
        }
        world.run();
    }
}
