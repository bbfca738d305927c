//! What is drawn, on a terminal in memory.

use std::time::Duration;

use pascaline_pipelines::membership::JobState;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::interactive::press;
use super::*;
use crate::observe::snapshot::Snapshot;
use crate::observe::snapshot::{Drop, Explained, Flow, Job, Lcore, Pool, Port, Rank, Series, Traffic};
use crate::observe::top::interval;

fn snapshot() -> Snapshot {
    let flow = |bytes_per_second| Flow { bytes_per_second, packets_per_second: 1000.0, ..Flow::default() };
    let rank = |rank, behind| Rank { rank, psn: Some(70), behind, last_share: 0.5, ..Rank::default() };
    let job = |id, name: &str, state, straggler| Job {
        id,
        name: name.to_owned(),
        state,
        ranks: 2,
        joined: 2,
        results: Flow { packets: 61_440, ..flow(1.25e8) },
        straggler,
        progress: vec![rank(0, 0), rank(1, 40)],
        told: Explained { summary: format!("Job {id} is aggregated here."), ..Explained::default() },
        ..Job::default()
    };
    Snapshot {
        name: "rack 7".to_owned(),
        version: "1.2.3".to_owned(),
        healthy: true,
        uptime_seconds: 3725.0,
        traffic: Traffic {
            received: flow(1.25e9),
            sent: flow(6.25e8),
            reduction: Some(4.0),
            absorbed_packets: 245_760,
            ..Traffic::default()
        },
        jobs: vec![job(1, "resnet", JobState::Running, Some(1)), job(2, "llama", JobState::Finished, None)],
        jobs_total: 70,
        pool: Pool {
            slots: 128,
            open: 3,
            done: 60,
            slots_per_cell: 2,
            cells: [(1, 1), (0, 2), (0, 0), (0, 1)].repeat(16),
            ..Pool::default()
        },
        drops: vec![Drop { reason: "not_member".to_owned(), packets: 12, ..Drop::default() }],
        lcores: vec![Lcore { busy: 0.5, burst_packets: 8.5, ..Lcore::default() }],
        ..Snapshot::default()
    }
}

#[test]
fn an_asynchronous_job_has_updates_and_a_model() {
    let mut view = view();
    let mut snapshot = snapshot();
    snapshot.uptime_seconds += 1.0;
    let told = Explained { aggregated: "updates".to_owned(), ..Explained::default() };
    let contributions = Flow { packets: 77, bytes_per_second: 1e3, ..Flow::default() };
    snapshot.jobs[1] =
        Job { told, contributions, model_age_seconds: Some(0.25), ..core::mem::take(&mut snapshot.jobs[1]) };
    let series = |name: &str, value| Series { name: name.to_owned(), labels: Vec::new(), value };
    snapshot.olaf = vec![series("olaf_received", 5.0), series("olaf_departed", 0.0)];
    view.show(snapshot);
    let text = view.to_text(120, 40).unwrap();
    for said in ["8.00 kbit/s", "77", "model 250", "olaf received"] {
        assert!(text.contains(said), "{said:?} is missing in\n{text}");
    }
    assert!(!text.contains("olaf departed"), "nothing is no news\n{text}");
}

fn view() -> View {
    let mut view = View::default();
    view.show(snapshot());
    view
}

#[test]
fn a_wide_terminal_shows_everything() {
    let text = view().to_text(120, 40).unwrap();
    for said in [
        "rack 7",
        "live",
        "up 1 h 2 min",
        "in 10.0 Gbit/s",
        "out 5.00 Gbit/s",
        "4.00 to 1",
        "resnet",
        "running",
        "waits for 1",
        "1.00 Gbit/s",
        "61440",
        "finished",
        "Jobs (68 more)",
        "Ranks of job 1",
        "Job 1 is aggregated here.",
        "absorbed",
        "246 k",
        "3 partials, 60 kept, of 128 slots",
        "██████░░░░░░ 50 %",
        "8.5",
        "not member",
        "q quit",
    ] {
        assert!(text.contains(said), "{said:?} is missing in\n{text}");
    }
    assert!(text.contains("██·▓") || text.contains("██·▒"), "the map of the pool\n{text}");
}

#[test]
fn no_size_of_terminal_is_too_small() {
    for (width, height) in [(80, 24), (40, 10), (20, 5), (1, 1), (300, 100)] {
        let text = view().to_text(width, height).unwrap();
        assert_eq!(text.lines().count(), usize::from(height));
    }
    let text = view().to_text(80, 24).unwrap();
    assert!(text.contains("resnet") && text.contains("Ranks of job 1"), "{text}");
}

#[test]
fn keys_choose_jobs_pause_and_end() {
    let mut view = view();
    let mut key = |code| press(&mut view, KeyEvent::new(code, KeyModifiers::NONE));
    assert!(key(KeyCode::Down) && key(KeyCode::Down) && key(KeyCode::Char(' ')));
    assert!(!key(KeyCode::Char('q')) && !key(KeyCode::Esc));
    assert_eq!((view.selected, view.paused), (1, true));
    assert!(view.to_text(120, 40).unwrap().contains("Ranks of job 2"));
    assert!(press(&mut view, KeyEvent::new(KeyCode::Up, KeyModifiers::NONE)));
    assert_eq!(view.selected, 0);
    assert!(!press(&mut view, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
}

#[test]
fn a_job_that_has_gone_is_no_longer_looked_at() {
    let mut view = view();
    view.select(true);
    view.show(Snapshot { jobs: Vec::new(), ..snapshot() });
    assert_eq!(view.selected, 0);
    assert!(view.to_text(120, 40).unwrap().contains("No job yet."));
}

#[test]
fn the_same_sample_twice_is_one_point() {
    let mut view = view();
    view.show(snapshot());
    assert_eq!(view.history.len(), 1);
    view.show(Snapshot { uptime_seconds: 3725.5, ..snapshot() });
    assert_eq!(view.history.len(), 2);
}

#[test]
fn an_appliance_that_is_not_there_is_an_error_with_a_remedy() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let source = Source::new(&format!("http://{free}/").parse().unwrap(), None).unwrap();
    let error = source.snapshot().unwrap_err().to_string();
    assert!(error.contains("/api/v1/snapshot") && error.contains("remedy"), "{error}");
}

/// The appliance's own words, which have a remedy; another server's, which have none.
#[test]
fn a_refusal_is_told_with_its_reason() {
    use std::io::{Read as _, Write as _};
    for (says, told) in [
        ("no name of this machine\n  remedy: add it\n", ": no name of this machine\n  remedy: add it"),
        ("nothing \u{1b}[1mhere", ": nothing [1mhere\n  remedy: is the appliance running"),
        ("", "403 Forbidden\n  remedy: is the appliance running"),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            write!(stream, "HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n{says}", says.len()).unwrap();
        });
        let error = Source::new(&at.parse().unwrap(), None).unwrap().snapshot().unwrap_err().to_string();
        assert!(error.contains(&format!("{at}/api/v1/snapshot answers with status 403")), "{error}");
        assert!(error.contains(told), "{error}");
        assert_eq!(error.matches("remedy").count(), 1, "{error}");
        server.join().unwrap();
    }
}

#[test]
fn looking_too_often_is_refused() {
    assert!(interval("50ms").is_err());
    assert_eq!(interval("2s").unwrap(), Duration::from_secs(2));
}

#[test]
fn a_port_that_carries_nothing_is_named_at_the_top() {
    let mut view = view();
    let trouble = Some("port p0: interface eth1 is switched off".to_owned());
    let port = Port { name: "p0".to_owned(), state: "off".to_owned(), trouble, ..Port::default() };
    view.show(Snapshot { uptime_seconds: 3726.0, ports: vec![port], ..snapshot() });
    let text = view.to_text(120, 40).unwrap();
    assert!(text.lines().next().unwrap().contains("port p0: interface eth1 is switched off"), "{text}");
}
