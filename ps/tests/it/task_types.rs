//! DSA, section IV.C: tasks that are not preempted (I), that win (II) and that lose (III), without loss.

use pascaline_ps::Order;
use pascaline_wire::Kind;

use crate::appliance::SlotOutcome;
use crate::packets::{PSN, ms};
use crate::world::{Hop, World};

fn to_server(hop: Hop) -> bool {
    hop == Hop::ApplianceToServer
}

fn from_server(hop: Hop) -> bool {
    hop == Hop::ServerToAppliance
}

#[test]
fn type_i_completes_in_the_appliance_and_the_server_sees_nothing() {
    let mut world = World::new(4, Order::Arrival);
    world.contribute_all(PSN);
    world.run();
    assert_eq!(world.appliance.completed_here, 1);
    assert_eq!(world.server.counters().received, 0);
}

#[test]
fn type_ii_wins_and_the_loser_completes_at_the_server() {
    // PSN + 1 takes the slot of PSN, which holds two contributions, and the other two find it taken.
    let mut world = World::new(4, Order::Arrival);
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
    assert_eq!(world.appliance.completed_here, 1, "the winner");
    let counters = world.server.counters();
    assert_eq!((counters.merged, counters.added, counters.finished), (1, 2, 1));
    assert_eq!(counters.asked, 0, "nothing was late");
}

#[test]
fn type_iii_all_contributions_fall_back_to_the_server() {
    for order in [Order::Arrival, Order::Rank] {
        let mut world = World::new(4, order).with_script(|_| SlotOutcome::FallBack);
        world.contribute_all(PSN);
        world.run();
        let counters = world.server.counters();
        assert_eq!((counters.added, counters.finished, counters.asked), (4, 1, 0));
        assert_eq!(world.sent(from_server, Kind::Result), 1, "one result, multiplied by the appliance");
    }
}

#[test]
fn type_iii_the_first_are_evicted_and_the_last_fall_back() {
    let mut world = World::new(4, Order::Arrival);
    world.contribute(0, PSN);
    world.contribute(1, PSN);
    world.run_for(ms(1));
    world.preempt(PSN);
    world.appliance.script = Box::new(|_| SlotOutcome::FallBack);
    world.contribute(2, PSN);
    world.contribute(3, PSN);
    world.run();
    let counters = world.server.counters();
    assert_eq!((counters.merged, counters.added, counters.finished, counters.asked), (1, 2, 1, 0));
}

/// Section IV.A, "protocol suspension", and Figure 3: two partials wait for each other.
#[test]
fn type_iii_a_second_partial_in_the_appliance_is_fetched() {
    for order in [Order::Arrival, Order::Rank] {
        let mut world = World::new(4, order);
        world.contribute(0, PSN);
        world.contribute(1, PSN);
        world.run_for(ms(1));
        world.preempt(PSN);
        world.contribute(2, PSN);
        world.contribute(3, PSN);
        world.run();
        let counters = world.server.counters();
        assert_eq!(counters.fetches_sent, 1);
        assert_eq!(counters.finished, 1);
        assert!(world.now < ms(50), "before any worker's timeout");
        assert_eq!(world.sent(to_server, Kind::Reminder), 0, "the server noticed by itself");
    }
}

/// Section IV.D, Figure 4: g1 fell back, g2 and g3 wait in the appliance.
#[test]
fn figure_4_the_fetched_partial_completes_the_entry() {
    let mut world = World::new(3, Order::Arrival).with_script(|header| match header.rank {
        0 => SlotOutcome::FallBack,
        _ => SlotOutcome::Aggregate,
    });
    world.contribute_all(PSN);
    world.run();
    let counters = world.server.counters();
    assert_eq!((counters.opened, counters.fetches_sent, counters.merged), (1, 1, 1));
}

#[test]
fn type_iii_is_evicted_again_and_again() {
    let mut world = World::new(5, Order::Arrival).with_script(|_| SlotOutcome::EvictFirst);
    world.contribute_all(PSN);
    world.run();
    let counters = world.server.counters();
    assert_eq!(counters.merged, 5, "four evicted, the last one fetched");
    assert_eq!(counters.fetches_sent, 1);
}

#[test]
fn a_straggler_is_waited_for_and_not_made_up() {
    let mut world = World::new(3, Order::Arrival).with_script(|_| SlotOutcome::FallBack);
    world.contribute(0, PSN);
    world.contribute(1, PSN);
    world.run_for(ms(400));
    assert!(world.workers.iter().all(|worker| worker.results.is_empty()));
    world.contribute(2, PSN);
    world.run();
    assert_eq!(world.server.counters().finished, 1);
}
