use std::time::Duration;

use num_traits::ToPrimitive as _;
use pascaline_ps::asynchronous::Age;

use super::*;
use crate::Scenario;

fn scenario(queue: &str, clusters: &str) -> Scenario {
    let text = format!(
        "horizon = \"1s\"\n[queue]\n{queue}\n{clusters}\n[[query]]\nmeasure = \"mean\"\nbound = \"1s\"\n"
    );
    Scenario::parse(&text, "test".as_ref()).unwrap()
}

fn limits() -> Limits {
    let deadline = Deadline::within(Duration::from_secs(600));
    Limits { updates: MOST_UPDATES, events: usize::MAX, deadline }
}

fn run(scenario: &Scenario) -> Run {
    evaluate(scenario, &Choice::lowest(scenario), &limits()).unwrap()
}

fn millis(run: &Run, cluster: usize, measure: Measure) -> f64 {
    run.measure(cluster, measure).to_f64().unwrap() / 1e6
}

#[test]
fn one_cluster_alone_has_the_ages_that_its_period_and_the_line_give() {
    let scenario = scenario(
        "length = 1\nservice = \"10ms\"",
        "[[clusters]]\nname = \"a\"\nperiod = \"100ms\"\nphase = \"100ms\"",
    );
    let run = run(&scenario);
    // Peaks at 110, 210, … 910 ms, of 110 ms each: the first model's age was 0 at 0.
    assert_eq!(millis(&run, 0, Measure::Peak), 110.0);
    assert_eq!(millis(&run, 0, Measure::Highest), 110.0);
    // One triangle to 110, eight trapezoids from 10 to 110, and from 10 to 100 at the end.
    let area = 110.0 * 110.0 / 2.0 + 8.0 * 100.0 * 60.0 + 90.0 * 55.0;
    assert!((millis(&run, 0, Measure::Mean) - area / 1000.0).abs() < 1e-9);
    let totals = Totals { generated: 10, arrived: 9, ..Totals::default() };
    assert_eq!(run.totals[0], totals);
}

#[test]
fn updates_merge_while_they_wait_and_not_once_they_leave() {
    let clusters = "[[clusters]]\nname = \"a\"\nperiod = \"400ms\"\n\
                    [[clusters]]\nname = \"b\"\nworkers = 2\nperiod = \"200ms\"";
    let run = run(&scenario("length = 4\nservice = \"150ms\"", clusters));
    // a leaves at 0; b waits from 0 on, its second update comes at 100 and is merged; at 150 it leaves.
    let merged = run.events.iter().find(|event| event.what == Happening::Merged).unwrap();
    assert_eq!((run.nanos(merged.at), merged.cluster), (Exact::from_integer(100_000_000.into()), 1));
    let arrives = run.events.iter().find_map(|event| match event.what {
        Happening::Arrives(generated) if event.cluster == 1 => Some((run.nanos(event.at), generated)),
        _ => None,
    });
    let (at, generated) = arrives.unwrap();
    assert_eq!(at, Exact::from_integer(300_000_000.into()));
    assert_eq!(run.nanos(generated), Exact::from_integer(100_000_000.into()));
}

#[test]
fn a_segment_that_is_held_leaves_room_for_one_less() {
    let clusters = "[[clusters]]\nname = \"c\"\ncount = 2\nperiod = \"100ms\"";
    for (held, dropped) in [(false, 0), (true, 10)] {
        let queue = format!("length = 1\nservice = \"10ms\"\nheld = {held}");
        let run = run(&scenario(&queue, clusters));
        // At 0, 100, … 1,000: the second finds the first leaving.
        assert_eq!(run.totals[1].dropped, if held { dropped + 1 } else { dropped }, "held: {held}");
        assert_eq!(run.totals[0].dropped, 0);
    }
}

#[test]
fn a_fifo_merges_nothing() {
    let clusters = "[[clusters]]\nname = \"a\"\nworkers = 5\nspread = \"together\"\nperiod = \"500ms\"";
    let fifo = run(&scenario("discipline = \"fifo\"\nlength = 3\nservice = \"10ms\"", clusters));
    // The first leaves at once, three wait, the fifth is dropped; three times.
    assert_eq!((fifo.totals[0].merged, fifo.totals[0].dropped, fifo.totals[0].generated), (0, 3, 15));
    let olaf = run(&scenario("length = 3\nservice = \"10ms\"", clusters));
    assert_eq!((olaf.totals[0].merged, olaf.totals[0].dropped), (9, 0));
}

#[test]
fn a_cluster_that_nothing_reaches_has_the_age_of_the_first_model() {
    let clusters = "[[clusters]]\nname = \"c\"\ncount = 3\nperiod = \"100ms\"";
    let run = run(&scenario("length = 1\nservice = \"10ms\"", clusters));
    assert_eq!(run.totals[2].arrived, 0);
    assert_eq!(millis(&run, 2, Measure::Peak), 1000.0);
    assert_eq!(millis(&run, 2, Measure::Highest), 1000.0);
    assert_eq!(millis(&run, 2, Measure::Mean), 500.0);
}

/// One early update does not help: the age at the horizon counts, where the model is oldest.
#[test]
fn a_cluster_that_starves_after_an_update_is_as_old_as_it_gets() {
    let clusters = "[[clusters]]\nname = \"flood\"\nperiod = \"10ms\"\nphase = \"100ms\"\n\
                    [[clusters]]\nname = \"victim\"\nperiod = \"100ms\"";
    let run = run(&scenario("discipline = \"fifo\"\nlength = 1\nservice = \"20ms\"", clusters));
    // The update of time 0 is no news, the one of 100 ms arrives last: behind the flood's first.
    assert!((1..=2).contains(&run.totals[1].arrived), "{:?}", run.totals[1]);
    assert_eq!(millis(&run, 1, Measure::Highest), 900.0);
    assert_eq!(millis(&run, 1, Measure::Peak), f64::midpoint(140.0, 900.0));
}

/// The ages are those that the parameter server measures.
#[test]
fn ages_are_those_of_the_parameter_server() {
    let clusters = "[[clusters]]\nname = \"c\"\ncount = 6\nworkers = 3\nperiod = \"97ms\"\n\
                    [[clusters]]\nname = \"d\"\nperiod = \"31ms\"\nphase = \"5ms\"";
    let scenario = scenario("length = 4\nservice = \"13ms\"", clusters);
    let run = run(&scenario);
    for cluster in 0..scenario.clusters.len() {
        let mut age = Age::new(0);
        for event in run.events.iter().filter(|event| event.cluster == cluster) {
            if let Happening::Arrives(generated) = event.what {
                age.receive(u64::try_from(event.at).unwrap(), u64::try_from(generated).unwrap());
            }
        }
        let ticks = |measure| run.measure(cluster, measure).to_f64().unwrap() * run.scale as f64;
        let near = |a: f64, b: f64| assert!((a - b).abs() <= 1.0, "{a} and {b}");
        near(ticks(Measure::Mean), age.average(u64::try_from(run.horizon).unwrap()));
        // At the horizon nothing arrives: the server has no peak there.
        let last = age.current(u64::try_from(run.horizon).unwrap()) as f64;
        near(ticks(Measure::Highest), last.max(age.highest_peak() as f64));
        let (peaks, mean) = (run.totals[cluster].arrived as f64, age.mean_peak());
        let with_last = (mean * peaks + last) / (peaks + 1.0);
        near(ticks(Measure::Peak), mean.max(with_last));
    }
}

/// The shipping worker's control has the same probabilities.
#[test]
fn probabilities_are_those_of_the_worker() {
    use pascaline_wire::trailer::QueueState;
    use pascaline_worker::asynchronous::{Heard, Policy, Slope};
    let threshold = Duration::from_millis(400);
    for (slope, word) in [(Slope::Urgency, "urgency"), (Slope::Fairness, "fairness")] {
        let clusters = format!(
            "[[clusters]]\nname = \"c\"\ncount = 5\nperiod = \"100ms\"\n[clusters.control]\n\
             threshold = \"400ms\"\nslope = \"{word}\""
        );
        let scenario = scenario("length = 2\nservice = \"10ms\"", &clusters);
        let control = scenario.tosses(&scenario.clusters[0]).unwrap();
        let mut shipped = pascaline_worker::asynchronous::Control::new(Policy::Olaf { slope, threshold }, 0);
        let queue = QueueState { clusters: 5, capacity: 2, waiting: 0 };
        shipped.on_ack(Duration::ZERO, Heard { queue, pause: Duration::ZERO });
        for millis in [0, 399, 400, 401, 500, 640, 900] {
            let ours =
                probability(control, &scenario.share(), &Exact::from_integer((millis * 1_000_000).into()));
            let theirs = shipped.probability(Duration::from_millis(millis));
            assert!((ours.to_f64().unwrap().min(1.0) - theirs).abs() < 1e-9, "{word} after {millis} ms");
        }
    }
}

#[test]
fn coins_of_a_seed_are_the_same_each_time_and_hold_back_about_their_share() {
    let clusters = "[[clusters]]\nname = \"c\"\ncount = 4\nperiod = \"5ms\"\n[clusters.control]\n\
                    threshold = \"400ms\"\nslope = \"urgency\"\ncoins = 7";
    let scenario = scenario("length = 2\nservice = \"1ms\"", clusters);
    assert!(scenario.is_determined());
    let (first, second) = (run(&scenario), run(&scenario));
    assert_eq!(first.events, second.events);
    let held: u64 = first.totals.iter().map(|totals| totals.held_back).sum();
    let generated: u64 = first.totals.iter().map(|totals| totals.generated).sum();
    // Q_max / N is a half; 804 updates, so a standard deviation is 1.8 %.
    let share = held as f64 / generated as f64;
    assert!((0.43..0.57).contains(&share), "{share}");
}

#[test]
fn times_without_a_common_grain_are_an_error_and_so_are_too_many_updates() {
    let primes = [65_521, 65_519, 65_497, 65_479, 65_449];
    let clusters: String = primes
        .map(|prime| format!("[[clusters]]\nname = \"c{prime}\"\nworkers = {prime}\nperiod = \"1s\"\n"))
        .concat();
    let scenario_of_primes = scenario("length = 2\nservice = \"1ms\"", &clusters);
    let error = evaluate(&scenario_of_primes, &Choice::lowest(&scenario_of_primes), &limits()).unwrap_err();
    assert!(matches!(error, VerifyError::TooFine), "{error}");
    let many = scenario("length = 2\nservice = \"1ms\"", "[[clusters]]\nname = \"c\"\nperiod = \"1ns\"");
    let error = evaluate(&many, &Choice::lowest(&many), &limits()).unwrap_err();
    assert!(matches!(error, VerifyError::TooMany { .. }), "{error}");
}

#[test]
fn an_evaluation_ends_with_its_time_and_keeps_the_first_events() {
    let clusters = "[[clusters]]\nname = \"c\"\ncount = 3\nworkers = 2\nperiod = \"7ms\"";
    let scenario = scenario("length = 2\nservice = \"3ms\"", clusters);
    let (choice, all) = (Choice::lowest(&scenario), run(&scenario));
    let few = evaluate(&scenario, &choice, &Limits { events: 20, ..limits() }).unwrap();
    assert_eq!(few.events, all.events[..20]);
    assert_eq!((few.happened, all.happened), (all.events.len(), all.events.len()));
    let late = Limits { deadline: Deadline::within(Duration::ZERO), ..limits() };
    let error = evaluate(&scenario, &choice, &late).unwrap_err();
    assert!(matches!(error, VerifyError::TimeLimit(0)), "{error}");
}

/// Any time is accepted as a limit.
#[test]
fn a_limit_of_ages_is_none() {
    let scenario = scenario("length = 1\nservice = \"1ms\"", "[[clusters]]\nname = \"a\"\nperiod = \"1ms\"");
    let options = crate::Options { time_limit: Duration::MAX, ..crate::Options::default() };
    assert!(crate::verify(&scenario, &options).is_ok());
}
