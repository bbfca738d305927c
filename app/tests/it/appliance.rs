//! An appliance on real DPDK ports and real workers, each in a network namespace of its own.

use crate::common::appliance::{Appliance, DRAIN, MARGIN, SOON, Wanted};
use crate::common::net::{Network, possible};
use crate::common::until;

/// Enough iterations that nobody is done before the test interferes.
const LONG: [&str; 6] = ["--iterations", "100000", "--bytes", "256Ki", "--progress", "lines"];

#[test]
fn sums_are_exact_whatever_the_size() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    // One element; less than, exactly, and one more than a packet; many packets and a rest.
    for (dtype, elements) in
        [("f32", "1"), ("i32", "255"), ("f32", "256"), ("i32", "257"), ("f32", "100003"), ("i32", "100003")]
    {
        appliance.allreduce(1, 2, &["--dtype", dtype, "--elements", elements]);
    }
    appliance.allreduce(2, 2, &["--dtype", "f32", "--elements", "4099", "--payload", "1424"]);
    let metrics =
        appliance.metrics_when("all slots settled", |m| m.sum("pool_slots_used", "state=\"open\"") == 0);
    assert!(metrics.sum("results_total", "") > 800, "{}", metrics.text);
    assert_eq!(metrics.packets("forwarded"), 0);
}

#[test]
fn a_worker_that_disagrees_is_told_what_about() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    let small = ["--elements", "10", "--iterations", "1"];
    let ended = appliance.worker_that_believes("3", 1, 0, &small).wait(SOON);
    ended.refused(2, &["job 1 has 2 ranks", "started with 3"]);
    let ended = appliance.worker(99, 0, &small).wait(SOON);
    ended.refused(2, &["no job 99"]);
    let told = ["--elements", "10", "--iterations", "1", "--payload", "1024"];
    let mut first = appliance.worker(1, 0, &told);
    appliance.metrics_when("a rank has joined", |m| m.sum("job_members", "job_id=\"1\"") == 1);
    let ended =
        appliance.worker(1, 1, &["--elements", "10", "--iterations", "1", "--payload", "512"]).wait(SOON);
    ended.refused(2, &["takes 1024 payload bytes", "started with 512"]);
    // Nobody has been harmed: the job forms, and does its work.
    let mut second = appliance.worker(1, 1, &small);
    assert_eq!((first.wait(SOON).code, second.wait(SOON).code), (Some(0), Some(0)));
}

#[test]
fn it_ends_in_order_when_idle() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let mut appliance = Appliance::start(&network, Wanted::default());
    assert!(network.workers[0].ping("10.77.0.254") && network.workers[1].ping("10.77.0.254"));
    appliance.allreduce(1, 1, &["--elements", "1000"]);
    appliance.terminate();
    appliance.ends_well();
    assert_eq!(appliance.get("/healthz"), None, "it still listens");
}

#[test]
fn it_ends_in_order_during_an_allreduce() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let mut appliance = Appliance::start(&network, Wanted::default());
    let mut workers = [0, 1].map(|rank| appliance.worker(1, rank, &LONG));
    workers.iter_mut().for_each(|worker| worker.wait_for("\"iteration\":0", SOON));
    appliance.terminate();
    // Within drain time and margin: ends_well sees to that.
    appliance.ends_well();
}

#[test]
fn an_aggregate_that_cannot_finish_holds_up_the_end_no_longer_than_the_drain_time() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let mut appliance = Appliance::start(&network, Wanted::default());
    let mut stays = appliance.worker(1, 0, &LONG);
    let mut goes = appliance.worker(1, 1, &LONG);
    stays.wait_for("\"iteration\":0", SOON);
    goes.wait_for("\"iteration\":0", SOON);
    drop(goes);
    // What the one that stays has sent and the other never will.
    let mut before = 0;
    until("contributions that wait", SOON, || {
        let metrics = appliance.metrics();
        let absorbed = metrics.packets("absorbed");
        let still = std::mem::replace(&mut before, absorbed) == absorbed;
        (still && metrics.sum("pool_slots_used", "state=\"open\"") > 0).then_some(())
    });
    let asked = std::time::Instant::now();
    appliance.terminate();
    let draining =
        until("draining", DRAIN, || appliance.get("/healthz").filter(|(status, _)| *status != 200));
    assert_eq!(draining.0, 503, "{}", draining.1);
    assert_eq!(appliance.get("/readyz"), Some((503, "not ready\n".to_owned())));
    let ended = appliance.ends_well();
    assert!(asked.elapsed() >= DRAIN && asked.elapsed() < DRAIN + MARGIN, "{:?}", asked.elapsed());
    assert!(ended.err.contains("draining"), "{}", ended.err);
}

#[test]
fn a_session_may_follow_another() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    appliance.allreduce(1, 2, &["--elements", "5000", "--dtype", "i32"]);
    let first = appliance.metrics().epoch(1);
    // PSNs begin anew, and the results of the first session are still in the pool.
    appliance.allreduce(1, 2, &["--elements", "5000", "--dtype", "i32", "--seed", "2"]);
    let second = appliance.metrics().epoch(1);
    assert_eq!(second, first.wrapping_add(1));
    appliance.allreduce(1, 2, &["--elements", "5000", "--payload", "512"]);
    assert_eq!(appliance.metrics().epoch(1), second.wrapping_add(1));
}

#[test]
fn a_rank_that_starts_anew_ends_the_allreduce_of_the_others() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    let mut stays = appliance.worker(1, 0, &LONG);
    let mut goes = appliance.worker(1, 1, &LONG);
    stays.wait_for("\"iteration\":0", SOON);
    goes.wait_for("\"iteration\":0", SOON);
    let asked = std::time::Instant::now();
    drop(goes);
    let few = ["--elements", "100", "--iterations", "1"];
    let mut anew = appliance.worker(1, 1, &few);
    let ended = stays.wait(SOON);
    ended.refused(2, &["allreduce failed: rejected", "generation"]);
    assert!(ended.json()["error"].as_str().is_some_and(|error| error.contains("rejected")), "{ended:?}");
    assert!(asked.elapsed() < SOON, "that is the deadline's work, not the appliance's");
    // The one that came anew is waiting for the other, who may come back.
    let mut again = appliance.worker(1, 0, &few);
    assert_eq!((anew.wait(SOON).code, again.wait(SOON).code), (Some(0), Some(0)));
}

#[test]
fn metrics_have_their_names_and_add_up() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    appliance.allreduce(1, 2, &["--elements", "20000", "--payload", "1024"]);
    assert!(network.workers[0].ping("10.77.0.254"));
    let metrics =
        appliance.metrics_when("no partial left", |m| m.sum("pool_slots_used", "state=\"open\"") == 0);
    for what in ["received", "forwarded", "absorbed", "answered"] {
        assert!(
            metrics.text.contains(&format!("\npascaline_{what}_packets_total{{lcore=\"0\"}} ")),
            "{what}"
        );
    }
    for name in [
        "pascaline_dropped_packets_total{lcore=\"0\",reason=\"duplicate\"}",
        "pascaline_results_total{",
        "pascaline_results_sent_packets_total{",
        "pascaline_tx_dropped_packets_total{",
        "pascaline_pool_slots ",
        "pascaline_pool_slots_used{state=\"open\"}",
        "pascaline_pool_slots_used{state=\"done\"}",
        "pascaline_contribution_spread_seconds_bucket{le=\"+Inf\"}",
        "pascaline_contribution_spread_seconds_count",
        "pascaline_packet_service_seconds_bucket{le=\"+Inf\"}",
        "pascaline_packet_service_seconds_sum",
        "pascaline_job_members{job_id=\"1\",name=\"job1\"}",
        "pascaline_port_up{port=\"p1\"}",
        "pascaline_build_info{version=\"",
        "pascaline_packet_buffers_in_use{pool=\"frames\"}",
    ] {
        assert!(metrics.text.contains(&format!("\n{name}")), "{name} is missing:\n{}", metrics.text);
    }
    assert!(metrics.text.contains("\n# TYPE pascaline_results_total counter\n"), "{}", metrics.text);
    // Every PSN has one result, and each result goes to each rank; the ranks' requests and the echo are
    // answered.
    let results = metrics.sum("results_total", "");
    assert!(results >= 2 * (1 + 79), "{results}");
    let fanned_out = results + metrics.sum("results_installed_total", "");
    let replayed = metrics.sum("results_replayed_total", "");
    assert_eq!(metrics.packets("results_sent"), 2 * fanned_out + replayed);
    assert!(metrics.packets("absorbed") >= 2 * results && metrics.packets("answered") > 0);
    assert_eq!(metrics.sum("pool_slots", ""), 1024);
    let done = metrics.sum("pool_slots_used", "state=\"done\"");
    assert!((1..=1024).contains(&done), "{done}");
    assert_eq!(appliance.get("/healthz"), Some((200, "ok\n".to_owned())));
    assert_eq!(appliance.get("/readyz"), Some((200, "ready\n".to_owned())));
    assert_eq!(appliance.get("/nothing").map(|(status, _)| status), Some(404));
}
