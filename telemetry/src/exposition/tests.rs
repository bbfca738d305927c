use super::*;
use crate::census::Surveyor;
use crate::counters::Tally;
use crate::recorder::recorder;

#[derive(Debug)]
struct Fixed;

impl Gauges for Fixed {
    fn gauges(&self) -> Vec<Gauge> {
        vec![
            Gauge { name: "buffers", help: "b", counter: false, samples: vec![(vec![], 3.0)] },
            Gauge {
                name: "port_missed_packets",
                help: "m",
                counter: true,
                samples: vec![(vec![("port", "p0".to_owned())], 7.0), (vec![("port", "p1".to_owned())], 8.0)],
            },
        ]
    }

    fn exemplars(&self) -> Vec<Exemplar> {
        let one = |value| Exemplar {
            metric: "contribution_spread_seconds",
            labels: vec![("job_id", "7".to_owned()), ("rank", "2".to_owned())],
            value,
            at: std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_500),
        };
        // A value, one of a bucket that has counted nothing, one beyond the last bound.
        vec![one(4e-7), one(0.002), one(60.0)]
    }

    fn distributions(&self) -> Vec<Distribution> {
        let counted = Classes { sum: 30, classes: vec![(0, 4), (2, 3)], beyond: 1 };
        let samples = vec![(vec![("port", "p0".to_owned())], counted)];
        vec![Distribution { name: "inside", help: "i", samples }]
    }
}

#[test]
fn a_scrape_carries_every_counter_reason_histogram_and_gauge() {
    let lcore = Arc::new(LcoreCounters::default());
    let mut tally = Tally::default();
    tally.add(Counter::Received, 12);
    tally.drop_one(DropReason::Conflict);
    lcore.publish(&mut tally);
    let (mut spread, spread_reader) = recorder().unwrap();
    let (_, service_reader) = recorder().unwrap();
    spread.record(400, 2);
    spread.record(90_000_000_000, 1);
    spread.publish();
    let (_, census) = Surveyor::new(4);
    let histograms = vec![LcoreReaders { spread: spread_reader, service: service_reader, census }];
    let telemetry = Telemetry::new(vec![lcore], histograms, Box::new(Fixed));
    let text = telemetry.scrape(Format::OpenMetrics).unwrap();
    for line in [
        "pascaline_received_packets_total{lcore=\"0\"} 12",
        "pascaline_dropped_packets_total{lcore=\"0\",reason=\"conflict\"} 1",
        "pascaline_contribution_spread_seconds_count 3",
        "pascaline_contribution_spread_seconds_bucket{le=\"2.5e-7\"} 0\n",
        "bucket{le=\"5e-7\"} 2 # {job_id=\"7\",rank=\"2\"} 0.0000004 1.500\n",
        "bucket{le=\"0.0025\"} 2\n",
        "bucket{le=\"+Inf\"} 3 # {job_id=\"7\",rank=\"2\"} 60 1.500\n",
        "pascaline_buffers 3.0",
        "pascaline_port_missed_packets_total{port=\"p1\"} 8.0",
        "pascaline_inside_sum{port=\"p0\"} 30.0",
        "pascaline_inside_count{port=\"p0\"} 8",
        "pascaline_inside_bucket{le=\"0.0\",port=\"p0\"} 4",
        "pascaline_inside_bucket{le=\"2.0\",port=\"p0\"} 7",
        "pascaline_inside_bucket{le=\"+Inf\",port=\"p0\"} 8",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    for &counter in Counter::ALL {
        assert!(text.contains(&format!("pascaline_{}_total{{", counter.name())), "{}", counter.name());
    }
    for reason in DropReason::ALL {
        assert!(text.contains(&format!("reason=\"{}\"", reason.name())));
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_older_format_names_counters_with_their_suffix() {
    let lcore = Arc::new(LcoreCounters::default());
    let telemetry = Telemetry::new(vec![lcore], Vec::new(), Box::new(Fixed));
    let text = telemetry.scrape(Format::Plain).unwrap();
    for line in [
        "# HELP pascaline_port_missed_packets_total m\n# TYPE pascaline_port_missed_packets_total counter\n",
        "\npascaline_port_missed_packets_total{port=\"p1\"} 8.0\n",
        "# HELP pascaline_buffers b\n# TYPE pascaline_buffers gauge\npascaline_buffers 3.0\n",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("EOF") && !text.contains("job_id"), "{text}");
}

#[test]
fn openmetrics_is_for_those_who_ask_for_it() {
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
    for other in ["", "*/*", "text/html,application/xhtml+xml,*/*;q=0.8"] {
        assert_eq!(Format::accepted(other), Format::Plain, "{other}");
    }
}
