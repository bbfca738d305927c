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
    let text = Telemetry::new(vec![lcore], histograms, Box::new(Fixed)).scrape().unwrap();
    for line in [
        "pascaline_received_packets_total{lcore=\"0\"} 12",
        "pascaline_dropped_packets_total{lcore=\"0\",reason=\"conflict\"} 1",
        "pascaline_contribution_spread_seconds_count 3",
        "pascaline_contribution_spread_seconds_bucket{le=\"5e-7\"} 2",
        "pascaline_contribution_spread_seconds_bucket{le=\"+Inf\"} 3",
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
