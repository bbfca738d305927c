//! What is sampled, and how it is served.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pascaline_pipelines::membership::{JobState, JobStatus};
use pascaline_shared::http::names::Names;
use pascaline_shared::http::server::{Plan, Server};
use pascaline_telemetry::{Counter, JobCells, JobEvent, LcoreCounters, Made, Moment, Tally};

use pascaline_wire::trailer::RankReports;

use super::*;
use super::{JOBS, RANKS};
use crate::observe::endpoints::Pages;
use crate::observe::explain::Terms;
use crate::observe::page::Live;

const STATUS: JobStatus = JobStatus {
    id: 1,
    fan_in: 2,
    joined: 2,
    epoch: 1,
    payload: 0,
    multicast: None,
    needed: 2,
    lost: 0,
    complete: true,
    halted: false,
    broken: false,
    formed: false,
    server: pascaline_pipelines::membership::ServerState::None,
    uplink: None,
};

fn job(status: JobStatus, cells: &Arc<JobCells>) -> JobInput {
    let (name, terms) = (String::new(), Terms::default());
    JobInput {
        status,
        name,
        terms,
        missing: RankReports::EMPTY,
        reading: cells.read(),
        cells: Arc::clone(cells),
    }
}

fn cells(ranks: u16) -> Arc<JobCells> {
    Arc::new(JobCells::new(1, ranks))
}

fn hear(cells: &JobCells, rank: u16, psn: u32, now: u64) {
    assert!(cells.ranks_of(0).heard(rank, psn, Moment::at(now)));
}

fn at(seconds: u64, jobs: Vec<JobInput>) -> Inputs {
    Inputs { at: Duration::from_secs(seconds), healthy: true, jobs, ..Inputs::default() }
}

fn sampler() -> Sampler {
    Sampler::new("test".to_owned())
}

#[test]
fn rates_are_of_the_time_between_two_samples() {
    let (mut sampler, cells, lcore) = (sampler(), cells(2), LcoreCounters::default());
    let count = |packets: u64| {
        let mut tally = Tally::default();
        tally.add(Counter::Received, packets);
        tally.add(Counter::ReceivedBytes, 100 * packets);
        tally.burst(8, 500_000_000);
        lcore.publish(&mut tally);
        vec![lcore.read()]
    };
    hear(&cells, 0, 0, 5);
    let first = sampler.take(Inputs { readings: count(8), ..at(1, vec![job(STATUS, &cells)]) });
    assert_eq!((first.interval_seconds, first.traffic.received.packets), (0.0, 8));
    assert_eq!(first.traffic.received.packets_per_second, 0.0, "nothing to compare with");

    for psn in 1..=4 {
        hear(&cells, 0, psn, 6);
        hear(&cells, 1, psn, 7);
        cells.completed(0, 1, Made { contributions: 2, bytes: 1000 }, 2_000_000);
    }
    let next = sampler.take(Inputs { readings: count(24), ..at(3, vec![job(STATUS, &cells)]) });
    assert_eq!(next.traffic.received.bytes_per_second, 1200.0);
    assert_eq!(next.traffic.contributions.bytes_per_second, 4000.0);
    assert_eq!(next.traffic.results.bytes_per_second, 2000.0);
    assert_eq!(next.traffic.reduction, Some(2.0));
    assert_eq!((next.lcores[0].busy, next.lcores[0].burst_packets), (0.25, 8.0));
    let job = &next.jobs[0];
    assert_eq!((job.state, job.waited_seconds, job.front), (JobState::Running, 0.002, Some(4)));
    assert_eq!((job.progress[1].last_share, job.progress[0].last_share), (1.0, 0.0));
}

#[test]
fn a_job_is_finished_when_all_have_left_after_results() {
    let (mut sampler, cells) = (sampler(), cells(2));
    let mut state = |seconds, status| sampler.take(at(seconds, vec![job(status, &cells)])).jobs[0].state;
    let gone = JobStatus { joined: 0, complete: false, ..STATUS };
    assert_eq!(state(1, gone), JobState::Empty);
    assert_eq!(state(2, JobStatus { joined: 1, ..gone }), JobState::Forming);
    assert_eq!(state(3, STATUS), JobState::Quiet);
    hear(&cells, 0, 0, 1);
    assert_eq!(state(4, STATUS), JobState::Running);
    cells.completed(0, 0, Made { contributions: 2, bytes: 8 }, 1);
    assert_eq!(state(5, gone), JobState::Finished);
    assert_eq!(state(6, JobStatus { halted: true, ..STATUS }), JobState::Halted);
    assert_eq!(state(7, JobStatus { lost: 1, ..STATUS }), JobState::Lost);
}

#[test]
fn whom_the_others_wait_for_is_named() {
    let (mut sampler, cells) = (sampler(), cells(2));
    hear(&cells, 0, 500, 3_000_000_000);
    hear(&cells, 1, 100, 1_000_000_000);
    cells.late(0, 1, 3_800_000_000, 3_899_999_999);
    let at = |lcore_ns| Inputs { lcore_ns, ..at(1, vec![job(STATUS, &cells)]) };
    assert_eq!(sampler.take(at(4_000_000_000)).jobs[0].straggler, None, "not for long");
    cells.late(0, 1, 3_800_000_000, 3_900_000_000);
    let job = sampler.take(at(4_000_000_000)).jobs.remove(0);
    assert_eq!((job.straggler, job.behind), (Some(1), 400));
    assert!((job.progress[1].silent_seconds.unwrap() - 3.0).abs() < 0.02);
}

#[test]
fn it_is_told_whether_a_job_is_aggregated_and_if_not_why() {
    let (mut sampler, cells) = (sampler(), cells(2));
    cells.completed(0, 1, Made { contributions: 2, bytes: 8 }, 1);
    cells.count(0, JobEvent::Spilled, 2);
    cells.count(0, JobEvent::SpilledBytes, 16);
    cells.count(0, JobEvent::Collisions, 2);
    cells.late(0, 1, 1_000_000_000, 3_000_000_000);
    let inputs = Inputs { lcore_ns: 3_500_000_000, ..at(1, vec![job(STATUS, &cells)]) };
    let told = sampler.take(inputs).jobs.remove(0).told;
    assert_eq!((&*told.aggregated, told.share), ("partly", Some(0.5)));
    let kinds: Vec<&str> = told.reasons.iter().map(|reason| &*reason.kind).collect();
    assert_eq!(kinds, ["straggler", "collision"]);
    assert!(told.summary.starts_with("Job 1 is partly aggregated here: 50.0 % of its bytes. Rank 1"));
}

#[test]
fn a_thousand_jobs_of_a_thousand_ranks_make_a_short_snapshot() {
    let (mut sampler, quiet, wide) = (sampler(), cells(2), cells(1000));
    hear(&wide, 999, 7, 1);
    let mut jobs: Vec<_> = (1..1000).map(|id| job(JobStatus { id, ..STATUS }, &quiet)).collect();
    sampler.take(at(1, jobs.clone()));
    jobs.push(job(JobStatus { id: 1000, fan_in: 1000, ..STATUS }, &wide));
    let snapshot = sampler.take(at(2, jobs));
    assert_eq!((snapshot.jobs.len(), snapshot.jobs_total), (JOBS, 1000));
    let busiest = snapshot.jobs.last().unwrap();
    assert_eq!((busiest.id, busiest.progress.len()), (1000, RANKS));
    assert!(serde_json::to_string(&snapshot).unwrap().len() < 100_000);
}

#[test]
fn a_snapshot_survives_its_way_to_the_terminal() {
    let (mut sampler, cells) = (sampler(), cells(2));
    hear(&cells, 1, 3, 1);
    let snapshot = sampler.take(at(1, vec![job(STATUS, &cells)]));
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
}

fn server() -> (Server, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let pages = Pages {
        scrape: Box::new(|_| Ok(String::new())),
        healthy: Box::new(|| true),
        unready: Box::new(|| Some("not ready\n".to_owned())),
    };
    let live = Live::new(sampler(), || at(1, Vec::new()));
    let (page, task) = live.start();
    (
        Plan::pages(listener, Names::new(&[]), pages.router().merge(page), Some(Box::pin(task)))
            .start()
            .unwrap(),
        address,
    )
}

/// The status line and the headers, and where the body begins.
fn get(address: SocketAddr, path: &str) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{path}: {head}");
    }
    (head, reader)
}

#[test]
fn the_page_and_all_that_it_names_are_served_with_a_strict_policy() {
    let (_server, address) = server();
    let page = include_str!("../page/index.html");
    let named = page.split('"').filter(|text| text.starts_with('/') && !text.starts_with("/metrics"));
    let scripts = ["main", "draw", "format", "jobs", "tables"].map(|name| format!("/page/{name}.js"));
    let paths: Vec<String> = named.map(str::to_owned).chain(scripts).chain(["/".to_owned()]).collect();
    assert!(paths.len() > 8, "{paths:?}");
    for path in paths {
        let (head, _) = get(address, &path);
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
        assert!(!head.contains("unsafe"), "{head}");
    }
    let (head, _) = get(address, "/page/../../etc/passwd");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
}

#[test]
fn streams_begin_at_once_are_bounded_and_end_with_the_server() {
    let (server, address) = server();
    let mut streams = Vec::new();
    for _ in 0..32 {
        let (head, mut body) = get(address, "/live");
        assert!(head.contains("text/event-stream"), "{head}");
        let mut line = String::new();
        while !line.starts_with("data: {") {
            line.clear();
            assert!(body.read_line(&mut line).unwrap() > 0);
        }
        streams.push(body);
    }
    assert!(get(address, "/live").0.starts_with("HTTP/1.1 503"), "one too many");
    assert!(get(address, "/api/v1/snapshot").0.starts_with("HTTP/1.1 200"), "still answers others");
    // Nobody reads these any more; that must not keep the server from ending.
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_place_is_free_again_when_a_viewer_has_gone() {
    let (_server, address) = server();
    let held: Vec<_> = (0..32).map(|_| get(address, "/live")).collect();
    assert!(get(address, "/live").0.starts_with("HTTP/1.1 503"));
    drop(held);
    // The server notices when it sends them the next snapshot, or sooner.
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !get(address, "/live").0.starts_with("HTTP/1.1 200") {
        assert!(std::time::Instant::now() < end);
    }
}
