//! Ranks whose packets hold unlike much, and what they agree on.

use pascaline_pipelines::membership::{JobSpec, OnDeath};
use pascaline_testkit::{JOB, Worker};
use pascaline_wire::control::{AT_MOST, Action, Status, generation};

use super::plane::{Plane, early, ranks};
use Action::{Join, Leave};
use Status::{Ok, PayloadMismatch, Pending};

/// Ranks that say this when they join.
fn saying<const N: usize>(payloads: [u16; N]) -> Vec<Worker> {
    let workers = ranks(N.try_into().unwrap());
    workers.into_iter().zip(payloads).map(|(worker, payload)| Worker { payload, ..worker }).collect()
}

fn jumbo(ranks: usize) -> JobSpec {
    JobSpec { max_payload: 8944, ..JobSpec::new(JOB, ranks.try_into().unwrap()) }
}

/// What all are told, and lcores too.
fn agreed<const N: usize>(spec: JobSpec, payloads: [u16; N]) -> u16 {
    let (mut plane, mut workers) = (Plane::new(spec), saying(payloads));
    plane.form(&mut workers);
    let payload = plane.table().get(JOB).unwrap().payload;
    assert_eq!(plane.status().payload, payload);
    for worker in &workers {
        assert_eq!(plane.join(worker).control.payload, payload);
    }
    payload
}

#[test]
fn ranks_agree_on_what_all_of_them_and_the_ports_take() {
    assert_eq!(agreed(jumbo(3), [8944 | AT_MOST; 3]), 8896);
    for order in [[8944, 1448, 8944], [1448, 8944, 8944], [8944, 8944, 1448]] {
        assert_eq!(agreed(jumbo(3), order.map(|most| most | AT_MOST)), 1408);
    }
    assert_eq!(agreed(JobSpec::new(JOB, 2), [65_280 | AT_MOST, 8944 | AT_MOST]), 1408);
    // One was told, and the others follow it, whoever comes first.
    for order in [[1000, 8944 | AT_MOST, 1448 | AT_MOST], [8944 | AT_MOST, 1448 | AT_MOST, 1000]] {
        assert_eq!(agreed(jumbo(3), order), 1000);
    }
}

/// With 1,024 ranks their names take 132 bytes behind a result, of 1,448 in all.
#[test]
fn there_is_room_for_the_names_of_ranks_that_a_result_lacks() {
    let spec = JobSpec { max_payload: 1448, ..early(1024, 1024) };
    let (mut plane, worker) = (Plane::new(spec), Worker { payload: 1448 | AT_MOST, ..Worker::new(0, 1024) });
    assert_eq!(plane.ask(&worker, Join, 0, 0).control.payload, 1280);
}

/// Two ranks' names take 12 bytes: results of 1,448 bytes that lack one would not fit the ports, and those
/// who wait for them would ask in vain.
#[test]
fn who_was_told_a_payload_leaves_room_for_them_too() {
    let job = JobSpec { max_payload: 1448, ..JobSpec::new(JOB, 2) };
    assert_eq!(agreed(job.clone(), [1448, 1448]), 1448);
    for spec in
        [JobSpec { max_payload: 1448, ..early(2, 2) }, JobSpec { on_death: OnDeath::Continue, ..job.clone() }]
    {
        let mut plane = Plane::new(spec.clone());
        for worker in saying([1448, 1440]) {
            let told = (PayloadMismatch, 1432, worker.payload.into());
            plane.refuses_values(&worker, Join, (0, 0), told);
        }
        assert_eq!(agreed(spec, [1432, 1448 | AT_MOST]), 1432);
    }
}

/// Ranks come from an appliance that took longer packets. With these they would be refused later on, as soon
/// as they say that they are there.
#[test]
fn nobody_goes_on_with_packets_that_are_too_long() {
    let job = JobSpec { max_payload: 1448, ..JobSpec::new(JOB, 2) };
    for (on_death, resumed) in [(OnDeath::Fail, true), (OnDeath::Continue, false)] {
        let (mut plane, workers) = (Plane::new(JobSpec { on_death, ..job.clone() }), saying([1448; 2]));
        let told = plane.ask(&workers[0], Join, generation(7), 0).control;
        assert_eq!((told.status, told.payload), if resumed { (Pending, 1448) } else { (Ok, 0) });
    }
}

#[test]
fn who_was_told_otherwise_is_refused_by_name() {
    let mut plane = Plane::new(jumbo(3));
    let [a, b, c] = saying([8944 | AT_MOST, 1448 | AT_MOST, 4096]).try_into().unwrap();
    assert_eq!(plane.ask(&a, Join, 0, 0).control.payload, 8896);
    assert_eq!(plane.ask(&b, Join, 0, 0).control.payload, 1408);
    plane.refuses_values(&c, Join, (0, 0), (PayloadMismatch, 1408, 4096));
    // The other way round.
    let mut plane = Plane::new(jumbo(3));
    plane.ask(&c, Join, 0, 0);
    plane.refuses_values(&b, Join, (0, 0), (PayloadMismatch, 4096, 1448));
    assert_eq!(plane.ask(&a, Join, 0, 0).control.payload, 4096);
    let other = Worker { payload: 1024, ..b };
    plane.refuses_values(&other, Join, (0, 0), (PayloadMismatch, 4096, 1024));
    plane.refuses_values(&Worker { payload: AT_MOST, ..b }, Join, (0, 0), (PayloadMismatch, 8944, 1));
    // Who leaves does not bind the others.
    plane.ask(&c, Leave, 0, 0);
    assert_eq!(plane.ask(&Worker { session: 9, ..b }, Join, 0, 0).control.payload, 1408);
}

/// A rank comes back on a way with a smaller MTU. The other asks to go on, in a generation that the first has
/// begun or at an appliance that was started anew.
#[test]
fn a_rank_that_starts_anew_on_a_narrower_path_takes_the_others_with_it() {
    for first in [true, false] {
        let (mut plane, mut workers) = (Plane::new(jumbo(2)), saying([8944 | AT_MOST; 2]));
        if first {
            plane.form(&mut workers);
        }
        let [a, b] = workers.try_into().unwrap();
        let bound = Worker { payload: 8896, ..a };
        let again = Worker { session: 2000, payload: 1448 | AT_MOST, ..b };
        if !first {
            assert_eq!(plane.ask(&bound, Join, generation(7), 0).control.payload, 8896);
        }
        assert_eq!(plane.ask(&again, Join, 0, 0).control.status, Pending);
        // It cannot go on, and is told so.
        let told = plane.ask(&bound, Join, generation(7), 0).control;
        assert_eq!((told.status, told.expected, told.payload), (Ok, 0, 0), "{first}");
        let told = plane.ask(&Worker { payload: 8896 | AT_MOST, ..a }, Join, 0, 0).control;
        assert_eq!((told.status, told.payload), (Ok, 1408), "{first}");
    }
}
