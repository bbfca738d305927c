//! `pascaline ps` as a process, and beside it a double of the appliance, both on loopback addresses of their
//! own. Needs no privileges.

mod pair;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pair::{Hosts, Pair, RANKS, SOON, configuration, gradient, partial};
use pascaline_wire::control::Status;
use pascaline_wire::{Flags, Header, Kind};

use crate::common::{Files, Process, pascaline, until};

#[test]
fn a_partial_and_an_original_become_the_result() {
    let mut pair = Pair::start("");
    pair.begin(9);
    let (header, body) = partial(5, 9, 3.0);
    pair.send(&header, &body);
    // Nobody else comes of himself: the server asks the appliance and the rank that is missing.
    let mut asked: Vec<_> = (0..2).map(|_| pair.hear().0).map(|it| (it.kind, it.rank, it.psn)).collect();
    asked.sort_by_key(|&(kind, ..)| kind as u8);
    assert_eq!(asked, [(Kind::Reminder, 2, 5), (Kind::Fetch, 0, 5)]);
    pair.send(&gradient(2, 5, 9), &4.0_f32.to_le_bytes());
    let (result, payload) =
        until("a result", SOON, || Some(pair.hear()).filter(|it| it.0.kind == Kind::Result));
    assert_eq!((result.psn, result.count, result.epoch, result.flags), (5, RANKS, 9, Flags::NONE));
    assert_eq!(payload, 7.0_f32.to_le_bytes());

    let report = pair.ends_well();
    assert_eq!(report["handled_packets"]["added"], 1, "{report}");
    assert_eq!(report["handled_packets"]["merged"], 1, "{report}");
    assert_eq!(report["entries_ended"]["finished"], 1, "{report}");
    assert_eq!(report["sent_packets"]["result"], 1, "{report}");
    assert!(report["serves_answered"].as_u64() >= Some(2), "{report}");
}

#[test]
fn batches_of_datagrams_are_served_in_both_directions() {
    let mut pair = Pair::start("");
    pair.begin(1);
    for round in 0..5 {
        let psns = round * 100..(round + 1) * 100;
        for psn in psns.clone() {
            for rank in 0..RANKS {
                pair.send(&gradient(rank, psn, 1), &1.0_f32.to_le_bytes());
            }
        }
        let mut results: Vec<u32> = Vec::new();
        while results.len() < 100 {
            let (header, payload) = pair.hear();
            if header.kind == Kind::Result {
                assert_eq!(payload, 3.0_f32.to_le_bytes());
                results.push(header.psn);
            }
        }
        results.sort_unstable();
        assert!(results.into_iter().eq(psns), "each once");
    }
    assert_eq!(pair.ends_well()["handled_packets"]["added"], 5 * 100 * u32::from(RANKS));
}

#[test]
fn strangers_and_nonsense_change_nothing_and_are_counted() {
    let mut pair = Pair::start("");
    pair.begin(9);
    let send = |from: &UdpSocket, header: &Header| {
        let datagram = [&header.to_bytes()[..], &1.0_f32.to_le_bytes()].concat();
        from.send_to(&datagram, pair.hosts.server()).unwrap();
    };
    // Another host; another port of the appliance's.
    let (elsewhere, same) = (pair.hosts.host(Hosts::STRANGER), pair.hosts.appliance().ip());
    for stranger in [UdpSocket::bind((elsewhere, 16420)), UdpSocket::bind((same, 0))] {
        let stranger = stranger.unwrap();
        (0..RANKS).for_each(|rank| send(&stranger, &gradient(rank, 5, 9)));
    }
    pair.appliance.send_to(&gradient(0, 5, 9).to_bytes()[..10], pair.hosts.server()).unwrap();
    pair.appliance.send_to(&[], pair.hosts.server()).unwrap();
    send(&pair.appliance, &Header { epoch: 8, ..gradient(0, 5, 9) });
    // Last, and of another PSN: when its result is here, all before it has been dealt with.
    (0..RANKS).for_each(|rank| send(&pair.appliance, &gradient(rank, 6, 9)));
    let (result, _) = pair.hear();
    assert_eq!((result.kind, result.psn), (Kind::Result, 6));

    let report = pair.ends_well();
    assert_eq!(report["sources_refused"], 2 * RANKS, "{report}");
    assert_eq!(report["malformed_packets"]["truncated"], 2, "{report}");
    assert_eq!(report["refused_packets"]["wrong_epoch"], 1, "{report}");
    assert_eq!(report["entries_opened"], 1, "{report}");
}

#[test]
fn the_next_generation_is_served_and_the_one_before_forgotten() {
    let mut pair = Pair::start("");
    pair.begin(1);
    pair.send(&gradient(0, 5, 1), &1.0_f32.to_le_bytes());
    let (fetch, _) = pair.hear();
    assert_eq!((fetch.kind, fetch.epoch), (Kind::Fetch, 1));
    pair.acknowledge(2, Status::Ok);
    (1..RANKS).for_each(|rank| pair.send(&gradient(rank, 5, 2), &1.0_f32.to_le_bytes()));
    let fetch = until("a fetch", SOON, || {
        let heard = pair.hear().0;
        assert_ne!(heard.kind, Kind::Result, "rank 0 is of the generation before");
        (heard.kind == Kind::Fetch && heard.epoch == 2).then_some(heard)
    });
    assert_eq!(fetch.psn, 5);
    pair.send(&gradient(0, 5, 2), &1.0_f32.to_le_bytes());
    until("a result", SOON, || (pair.hear().0.kind == Kind::Result).then_some(()));
    // An appliance that knows the job no longer.
    pair.acknowledge(2, Status::UnknownJob);
    pair.send(&gradient(0, 6, 2), &1.0_f32.to_le_bytes());
    pair.acknowledge(2, Status::Ok);
    let report = pair.ends_well();
    assert_eq!(report["entries_ended"]["forgotten"], 1, "{report}");
    assert_eq!(report["refused_packets"]["unknown_job"], 1, "{report}");
}

#[test]
fn a_server_that_the_appliance_does_not_take_says_so_once() {
    let mut pair = Pair::start("");
    pair.acknowledge(1, Status::SourceRefused);
    pair.acknowledge(1, Status::SourceRefused);
    pair.acknowledge(1, Status::Ok);
    let said = "the appliance knows this server";
    pair.process.wait_for(said, SOON);
    assert_eq!(pair.process.err().matches("does not take this server").count(), 1, "{}", pair.process.err());
    pair.ends_well();
}

#[test]
fn a_silent_appliance_is_worth_a_warning() {
    let mut pair = Pair::start("");
    let started = Instant::now();
    pair.process.wait_for("the appliance has not answered", SOON);
    assert!(started.elapsed() >= Duration::from_secs(1), "it may take its time to start");
    pair.acknowledge(1, Status::Ok);
    pair.process.wait_for("the appliance answers again", SOON);
    pair.ends_well();
}

#[test]
fn a_server_that_was_stopped_forgets_what_it_had_collected() {
    let mut pair = Pair::start("");
    pair.begin(9);
    pair.send(&gradient(0, 5, 9), &1.0_f32.to_le_bytes());
    let _ = pair.hear();
    pair.process.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(700));
    // They wait in its socket: the appliance takes it for gone, and has sent them before.
    (1..RANKS).for_each(|rank| pair.send(&gradient(rank, 5, 9), &1.0_f32.to_le_bytes()));
    pair.process.signal(Signal::SIGCONT);
    pair.process.wait_for("no longer serving", SOON);
    pair.acknowledge(9, Status::Ok);
    (0..RANKS).for_each(|rank| pair.send(&gradient(rank, 6, 9), &1.0_f32.to_le_bytes()));
    // It does not know what was given out meanwhile, and of PSN 5 nothing at all.
    until("a vote", SOON, || {
        let (header, _) = pair.hear();
        assert_eq!(header.psn, 6);
        (header.kind == Kind::Reminder && header.own.round() > 0).then_some(())
    });
    let report = pair.ends_well();
    assert_eq!(report["entries_ended"]["forgotten"], 1, "{report}");
}

#[test]
fn metrics_are_served_where_the_configuration_says() {
    let hosts = Hosts::new();
    let listen = SocketAddr::from((hosts.host(Hosts::SCRAPED), 9465));
    let mut pair = Pair::start_at(hosts, &format!("listen = \"{listen}\"\n"));
    pair.acknowledge(1, Status::Ok);
    pair.send(&gradient(0, 5, 1), &1.0_f32.to_le_bytes());
    let get = |path: &str| {
        let mut stream = TcpStream::connect(listen).ok()?;
        stream.set_read_timeout(Some(SOON)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {listen}\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    until("a scrape that shows the open entry", SOON, || {
        let scrape = get("/metrics")?;
        let lines = [
            "pascaline_ps_serves_answered_total ",
            "pascaline_ps_handled_packets_total{outcome=\"added\"} 1.0\n",
            "pascaline_ps_open_entries{job_id=\"7\"} 1.0\n",
        ];
        lines.iter().all(|line| scrape.contains(line)).then_some(())
    });
    assert!(get("/healthz").is_some_and(|answer| answer.contains("200 OK")));
    pair.ends_well();
    assert_eq!(get("/healthz"), None, "it still listens");
}

#[test]
fn without_json_the_counters_are_lines() {
    let files = Files::new();
    let config = files.write("appliance.toml", &configuration(Hosts::new(), "kind = \"dsa\""));
    let mut process = Process::start(None, &["ps", "-c", config.to_str().unwrap()]);
    process.wait_for("ready", SOON);
    process.signal(Signal::SIGTERM);
    let ended = process.wait(SOON);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.lines().all(|line| line.starts_with("serves_sent ")), "{ended:?}");
}

#[test]
fn a_configuration_that_it_cannot_use_is_refused_with_its_place() {
    let refused = |text: &str, says: &[&str]| {
        let files = Files::new();
        let file = files.write("appliance.toml", text);
        let file = file.to_str().unwrap();
        let ended = pascaline(&["ps", "-c", file]);
        ended.refused(2, &[&[file, "remedy: "], says].concat());
    };
    let hosts = Hosts::new();
    let good = configuration(hosts, "kind = \"dsa\"");
    refused(&good.replacen("mode = \"external\"", "mode = \"embedded\"", 1), &["address is for"]);
    let address = format!("address = \"{}\"\n", hosts.server().ip());
    let embedded = good.replacen(&address, "", 1).replacen("mode = \"external\"", "mode = \"embedded\"", 1);
    refused(&embedded, &[":18:8:", "no parameter server that is a process of its own"]);
    refused(&configuration(hosts, ""), &["no job uses a parameter server"]);
    let elsewhere = good.replacen(&address, "address = \"192.0.2.1\"\n", 1);
    refused(&elsewhere, &["cannot receive at 192.0.2.1:16421", "an address of this host"]);
    let taken = UdpSocket::bind(hosts.server()).unwrap();
    refused(&good, &["in use"]);
    drop(taken);
    pascaline(&["ps"]).refused(2, &["--config"]);
    pascaline(&["ps", "-c", "/nonexistent/appliance.toml"]).refused(2, &["/nonexistent/appliance.toml"]);
}
