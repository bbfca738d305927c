//! An appliance with workers: what the API says of their job, and what abuse of it does to them.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::site::ask;
use crate::common::appliance::{Appliance, SOON, Wanted};
use crate::common::net::{Network, possible};
use crate::common::until;

/// Enough iterations that nobody is done before the test interferes.
const LONG: [&str; 6] = ["--iterations", "100000", "--bytes", "256Ki", "--progress", "lines"];

fn explain(appliance: &Appliance<'_>, job: &str) -> Value {
    let path = format!("/api/v1/jobs/{job}/explain");
    let response = ask(&appliance.admin(), "GET", &path, "").expect("an answer");
    assert_eq!(response.status, 200, "{response:?}");
    response.json()
}

fn explain_until(appliance: &Appliance<'_>, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    until(what, SOON, || Some(explain(appliance, "1")).filter(|told| holds(told)))
}

fn first_reason(told: &Value) -> &Value {
    &told["reasons"][0]
}

#[test]
fn explain_follows_a_job_from_its_first_rank_to_its_last() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    let told = explain(&appliance, "job1");
    assert_eq!(
        (&told["aggregated"], &first_reason(&told)["kind"]),
        (&json!("nothing"), &json!("not-member"))
    );
    let mut stays = appliance.worker(1, 0, &LONG);
    let told = explain_until(&appliance, "a rank that has joined", |told| told["job"]["joined"] == 1);
    assert_eq!(
        first_reason(&told)["text"],
        "1 of 2 ranks are not here: the others wait: rank 1 has never joined."
    );
    let mut goes = appliance.worker(1, 1, &LONG);
    stays.wait_for("\"iteration\":0", SOON);
    goes.wait_for("\"iteration\":0", SOON);
    let told = explain(&appliance, "1");
    assert_eq!(
        (&told["aggregated"], &told["share"], &told["job"]["state"]),
        (&json!("yes"), &json!(1.0), &json!("running"))
    );
    let least = 2 * 256 * 1024;
    assert!(told["bytes"]["aggregated"].as_u64() >= Some(least), "{told}");
    // Nobody has said that it goes: the other waits for it.
    drop(goes);
    let told = explain_until(&appliance, "a straggler", |told| {
        first_reason(told)["kind"] == "straggler" && first_reason(told)["seconds"].as_f64() > Some(0.5)
    });
    assert_eq!(first_reason(&told)["rank"], 1);
    let summary = told["summary"].as_str().unwrap();
    assert!(summary.contains("Rank 1 is a straggler: the others have waited for it for"), "{summary}");
    // Another job has nothing to do with it.
    assert_eq!(explain(&appliance, "2")["aggregated"], "nothing");
}

/// The packets of a pcap file with nanoseconds.
fn packets(pcap: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 1), "nanoseconds, Ethernet");
    let (mut at, mut found) = (24, Vec::new());
    while at < pcap.len() {
        let (nanos, kept, len) = (word(at + 4), word(at + 8) as usize, word(at + 12) as usize);
        assert!(nanos < 1_000_000_000 && kept == len, "{nanos} {kept} {len}");
        found.push(&pcap[at + 16..at + 16 + kept]);
        at += 16 + kept;
    }
    assert_eq!(at, pcap.len());
    found
}

#[test]
fn a_capture_has_the_packets_of_its_job_and_no_others() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted::default());
    let mut workers: Vec<_> =
        [1, 2].into_iter().flat_map(|job| [0, 1].map(|rank| appliance.worker(job, rank, &LONG))).collect();
    workers.iter_mut().for_each(|worker| worker.wait_for("\"iteration\":0", SOON));
    let body = r#"{"packets": 300, "seconds": 20}"#;
    let response = ask(&appliance.admin(), "POST", "/api/v1/jobs/2/capture", body).unwrap();
    assert_eq!(response.status, 200, "{}", response.head);
    assert!(response.head.contains("pascaline-packets: 300"), "{}", response.head);
    let packets = packets(&response.body);
    assert_eq!(packets.len(), 300);
    let mut ranks = std::collections::BTreeSet::new();
    for packet in packets {
        // Ethernet 14, IPv4 20, UDP 8; then version, kind, flags, element, job, rank.
        assert_eq!((&packet[12..14], packet[23]), (&[8, 0][..], 17));
        assert_eq!(
            (&packet[36..38], packet[42], &packet[46..48]),
            (&16420_u16.to_be_bytes()[..], pascaline_wire::VERSION, &[0, 2][..])
        );
        ranks.insert(u16::from_be_bytes([packet[48], packet[49]]));
    }
    assert_eq!(ranks.into_iter().collect::<Vec<_>>(), [0, 1]);
    assert!(workers.iter_mut().all(crate::common::Process::is_running));
}

#[test]
fn abuse_of_the_api_does_not_disturb_an_allreduce() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let mut appliance = Appliance::start(&network, Wanted::default());
    let socket = appliance.admin();
    std::thread::scope(|scope| {
        let abuse = scope.spawn(|| {
            let mut open = Vec::new();
            for number in 0..1000 {
                let Ok(mut stream) = UnixStream::connect(&socket) else { continue };
                stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
                let _ = stream.write_all(b"POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 9\r\n");
                if number % 10 == 0 {
                    let _ = stream.write_all(&[b'a'; 100_000]);
                }
                open.push(stream);
            }
            open
        });
        appliance.allreduce(1, 10, &["--bytes", "256Ki"]);
        drop(abuse.join().unwrap());
    });
    let status = until("an answer", SOON, || ask(&socket, "GET", "/api/v1/status", "")).json();
    assert!(status["admin"]["connections_refused"].as_u64() > Some(0), "{status}");
    let metrics =
        appliance.metrics_when("no partial left", |m| m.sum("pool_slots_used", "state=\"open\"") == 0);
    assert_eq!(metrics.unaccounted(), 0);
    appliance.terminate();
    appliance.ends_well();
}
