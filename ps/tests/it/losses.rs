//! DSA, sections IV.A and IV.C: every way to lose a packet.

use core::time::Duration;

use pascaline_ps::{JobParams, Order};
use pascaline_wire::{Flags, Kind};

use crate::appliance::SlotOutcome;
use crate::packets::{EPOCH, PSN, ms, server_with};
use crate::world::{Hop, World, first};

const ORDERS: [Order; 2] = [Order::Arrival, Order::Rank];

#[test]
fn type_i_one_gradient_is_lost() {
    let mut world = World::new(4, Order::Arrival)
        .losing(first(1, |hop, header| hop == Hop::WorkerToAppliance && header.rank == 2));
    world.contribute_all(PSN);
    world.run();
    assert_eq!(world.appliance.completed_here, 1, "by retransmission alone");
    assert_eq!(world.server.counters().received, 0);
}

#[test]
fn type_i_all_results_are_lost() {
    let mut world =
        World::new(4, Order::Arrival).losing(first(4, |hop, _| matches!(hop, Hop::ApplianceToWorker(_))));
    world.contribute_all(PSN);
    world.run();
    assert_eq!(world.appliance.completed_here, 2, "done once more");
    assert_eq!(world.server.counters().received, 0);
}

/// The retransmissions can never complete: only a reminder helps, and only the cached result of another rank.
#[test]
fn type_i_some_results_are_lost_and_the_slot_is_free() {
    let lost = |hop, _: &_| matches!(hop, Hop::ApplianceToWorker(0 | 1));
    let mut world = World::new(4, Order::Arrival).losing(first(2, lost));
    world.contribute_all(PSN);
    world.run();
    let counters = world.server.counters();
    assert_eq!((counters.completed, counters.finished), (1, 1));
    assert!(counters.reminded >= 1);
}

#[test]
fn type_i_some_results_are_lost_and_the_appliance_has_kept_it() {
    let lost = |hop, _: &_| matches!(hop, Hop::ApplianceToWorker(0 | 1));
    let mut world = World::new(4, Order::Arrival).losing(first(2, lost));
    world.appliance.keeps_results = true;
    world.contribute_all(PSN);
    world.run();
    assert_eq!(world.server.counters().received, 0, "a retransmission is answered with it");
}

/// PSN + 1 takes the slot of PSN from it, whose contributions end at the server, and loses this.
fn winner(lost: impl FnMut(Hop, &pascaline_wire::Header) -> bool + 'static) -> World {
    let mut world = World::new(4, Order::Arrival).losing(lost);
    world.contribute(0, PSN);
    world.contribute(1, PSN);
    world.run_for(ms(1));
    world.preempt(PSN);
    world.appliance.script = Box::new(|header| match header.psn {
        PSN => SlotOutcome::FallBack,
        _ => SlotOutcome::Aggregate,
    });
    world.contribute_all(PSN + 1);
    world.contribute(2, PSN);
    world.contribute(3, PSN);
    world.run();
    world
}

#[test]
fn type_ii_one_gradient_is_lost() {
    let lost = |hop, header: &pascaline_wire::Header| {
        hop == Hop::WorkerToAppliance && (header.psn, header.rank) == (PSN + 1, 2)
    };
    let world = winner(first(1, lost));
    assert_eq!(world.appliance.completed_here, 1, "by retransmission alone");
    assert_eq!(world.server.counters().finished, 1, "the loser");
}

#[test]
fn type_ii_all_results_are_lost() {
    let lost = |hop, header: &pascaline_wire::Header| {
        matches!(hop, Hop::ApplianceToWorker(_)) && (header.psn, header.kind) == (PSN + 1, Kind::Result)
    };
    let world = winner(first(4, lost));
    assert_eq!(world.appliance.completed_here, 2, "done once more");
    assert_eq!(world.server.counters().finished, 1, "the loser");
}

#[test]
fn type_ii_some_results_are_lost() {
    let lost = |hop, header: &pascaline_wire::Header| {
        matches!(hop, Hop::ApplianceToWorker(0 | 1)) && (header.psn, header.kind) == (PSN + 1, Kind::Result)
    };
    let world = winner(first(2, lost));
    let counters = world.server.counters();
    assert_eq!(counters.finished, 2, "the loser, and the winner by what another rank has kept");
    assert!(counters.reminded >= 1);
}

/// The retransmissions are lost too, so the reminder arrives first: the server fetches the appliance's
/// result.
#[test]
fn all_contributions_in_the_appliance_and_the_result_is_fetched() {
    let mut world = World::new(4, Order::Arrival).losing(|hop, header| {
        matches!(hop, Hop::ApplianceToWorker(0)) && header.kind == Kind::Result
            || header.flags.has(Flags::RETRANSMISSION)
    });
    world.appliance.keeps_results = true;
    world.contribute_all(PSN);
    world.run_for(ms(250));
    world.network =
        Box::new(|_, header| (u32::from(!header.flags.has(Flags::RETRANSMISSION)), Duration::ZERO));
    world.run();
    let counters = world.server.counters();
    assert!(counters.fetches_sent >= 1);
    assert_eq!(counters.completed, 1);
    assert_eq!(counters.added, 0, "no original was needed");
}

#[test]
fn type_iii_a_loser_is_lost_before_the_appliance() {
    for order in ORDERS {
        let mut world = World::new(4, order)
            .with_script(|_| SlotOutcome::FallBack)
            .losing(first(1, |hop, header| hop == Hop::WorkerToAppliance && header.rank == 3));
        world.contribute_all(PSN);
        world.run();
        assert!(world.now < ms(50), "the server asks before the worker's timeout");
        assert_eq!(world.server.counters().added, 4);
    }
}

#[test]
fn type_iii_a_loser_is_lost_between_appliance_and_server() {
    for order in ORDERS {
        let mut world = World::new(4, order)
            .with_script(|_| SlotOutcome::FallBack)
            .losing(first(1, |hop, _| hop == Hop::ApplianceToServer));
        world.contribute_all(PSN);
        world.run();
        assert_eq!(world.server.counters().added, 4);
    }
}

#[test]
fn type_iii_the_only_partial_is_lost_and_the_server_knows_nothing() {
    let mut world = World::new(4, Order::Arrival).losing(first(1, |hop, _| hop == Hop::ApplianceToServer));
    world.contribute_all(PSN - 1);
    world.run();
    world.contribute(0, PSN);
    world.contribute(1, PSN);
    world.run_for(ms(1));
    world.preempt(PSN);
    world.contribute(2, PSN);
    world.contribute(3, PSN);
    world.run();
    assert_eq!(world.appliance.completed_here, 2, "by the retransmissions of 0 and 1");
}

/// Two partials wait for each other, and one packet of the reminder mechanism is lost.
fn suspended(lost: impl FnMut(Hop, &pascaline_wire::Header) -> bool + 'static, order: Order) -> World {
    let mut world = World::new(4, order);
    world.contribute(0, PSN);
    world.contribute(1, PSN);
    world.run_for(ms(1));
    world.preempt(PSN);
    world.run_for(ms(1));
    let mut world = world.losing(lost);
    world.contribute(2, PSN);
    world.contribute(3, PSN);
    world.run();
    // If the workers' retransmissions have completed it in the appliance, the entry still ends: with a kept
    // result.
    world.run_for(ms(500));
    assert_eq!(world.server.counters().finished, 1);
    world
}

#[test]
fn type_iii_the_fetch_is_lost() {
    for order in ORDERS {
        let world = suspended(first(1, |_, header| header.kind == Kind::Fetch), order);
        assert_eq!(world.server.counters().added, if order == Order::Rank { 4 } else { 2 }, "originals");
    }
}

#[test]
fn type_iii_fetch_and_reminders_are_lost() {
    for order in ORDERS {
        let world = suspended(first(3, |hop, _| hop == Hop::ServerToAppliance), order);
        assert!(world.server.counters().asked >= 2);
    }
}

#[test]
fn type_iii_the_fetched_content_is_lost() {
    for order in ORDERS {
        suspended(
            first(2, |hop, header| hop == Hop::ApplianceToServer && !header.flags.has(Flags::BYPASS)),
            order,
        );
    }
}

#[test]
fn type_iii_the_originals_are_lost() {
    for order in ORDERS {
        suspended(first(4, |_, header| header.kind == Kind::Fetch || header.flags.has(Flags::BYPASS)), order);
    }
}

#[test]
fn type_iii_the_result_is_lost_before_the_appliance() {
    for order in ORDERS {
        let world = suspended(first(1, |_, header| header.kind == Kind::Result), order);
        let counters = world.server.counters();
        assert_eq!(counters.finished, 1, "not added up anew");
        assert!(counters.late > 0, "answered from what is kept");
    }
}

#[test]
fn type_iii_the_result_is_lost_on_the_way_to_some_ranks() {
    for order in ORDERS {
        suspended(first(1, |hop, _| matches!(hop, Hop::ApplianceToWorker(1 | 3))), order);
    }
}

#[test]
fn the_workers_reminder_is_lost() {
    let lost = |hop, header: &pascaline_wire::Header| {
        matches!(hop, Hop::ApplianceToWorker(0)) && header.kind == Kind::Result
            || header.kind == Kind::Reminder && hop == Hop::WorkerToAppliance
    };
    let mut world = World::new(4, Order::Arrival).losing(first(3, lost));
    world.contribute_all(PSN);
    world.run();
    assert_eq!(world.server.counters().finished, 1);
}

/// Section IV.A, "memory leak": a retransmission that comes after the result occupies a slot; it is evicted
/// in the end.
#[test]
fn a_stale_retransmission_is_evicted_and_forgotten() {
    for kept in [true, false] {
        let mut world = World::new(3, Order::Arrival);
        if kept {
            world.appliance.script = Box::new(|_| SlotOutcome::FallBack);
        }
        world.contribute_all(PSN);
        world.run();
        world.appliance.script = Box::new(|_| SlotOutcome::Aggregate);
        world.contribute(1, PSN);
        world.run_for(ms(1));
        world.preempt(PSN);
        world.run();
        world.run_for(ms(5));
        assert_eq!(world.server.usage(crate::packets::JOB).unwrap().open, 0);
        let counters = world.server.counters();
        assert_eq!((counters.late, counters.completed), if kept { (1, 0) } else { (0, 1) });
    }
}

#[test]
fn the_server_is_restarted() {
    for order in ORDERS {
        let mut world = World::new(4, order).with_script(|_| SlotOutcome::FallBack);
        world.contribute(0, PSN);
        world.contribute(1, PSN);
        world.run_for(ms(1));
        world.server = server_with(JobParams { order, ..JobParams::new(4, EPOCH) });
        world.contribute(2, PSN);
        world.contribute(3, PSN);
        world.run();
    }
}

#[test]
fn the_appliance_is_restarted() {
    for order in ORDERS {
        let mut world = World::new(4, order);
        world.contribute(0, PSN);
        world.contribute(1, PSN);
        world.run_for(ms(1));
        world.appliance.slots.clear();
        world.contribute(2, PSN);
        world.contribute(3, PSN);
        world.run();
    }
}
