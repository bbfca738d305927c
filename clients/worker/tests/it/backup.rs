//! Backup appliances, over loopback sockets.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use pascaline_worker::udp::ConfigError;
use pascaline_worker::{Config, Left, Worker};

use crate::adversary::Conditions;
use crate::aggregator::Aggregator;
use crate::driver::{Appliance, JOB, RANKS, refusing};

fn appliance(epoch: u16) -> Appliance {
    let mut aggregator = Aggregator::new(JOB, RANKS, 64);
    aggregator.restart(epoch);
    Appliance::run("127.0.0.1:0", Conditions::IDEAL, aggregator)
}

/// What each rank comes to that can turn from the first appliance to the second: how often it has.
fn at_two(first: Option<Appliance>, gone: &Config, second: &Appliance) -> Vec<u64> {
    let backup = second.config(0).appliance;
    let silence = Duration::from_millis(60);
    let config = |rank| Config { backups: vec![backup], silence, rank, ..gone.clone() };
    let ready = std::sync::Barrier::new(usize::from(RANKS) + 1);
    std::thread::scope(|scope| {
        let (config, ready) = (&config, &ready);
        let work = move |rank| {
            let mut worker = Worker::join(config(rank)).unwrap();
            let sum = |worker: &mut Worker| {
                let mut tensor = [i32::from(rank) + 1; 1000];
                worker.allreduce(&mut tensor).unwrap();
                assert_eq!(tensor, [6; 1000]);
            };
            sum(&mut worker);
            // The first one goes.
            ready.wait();
            ready.wait();
            sum(&mut worker);
            let departure = worker.leave();
            assert_eq!(departure.left, Left::Everyone);
            departure.counters.turned
        };
        let ranks: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || work(rank))).collect();
        ready.wait();
        drop(first);
        ready.wait();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn what_runs_goes_on_at_the_backup() {
    let (first, second) = (appliance(40), appliance(90));
    let config = first.config(0);
    for turned in at_two(Some(first), &config, &second) {
        assert!(turned > 0);
    }
}

#[test]
fn who_finds_nobody_at_the_first_one_joins_at_the_backup() {
    let (first, second) = (appliance(40), appliance(90));
    let config = first.config(0);
    drop(first);
    assert_eq!(at_two(None, &config, &second), [0; RANKS as usize], "it has joined there");
}

#[test]
fn a_refusal_names_who_has_refused_and_silence_all_who_were_asked() {
    // Sockets that are not read.
    let silent = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let at = silent.each_ref().map(|socket| socket.local_addr().unwrap());
    let second = refusing();
    let told = |backups, join_deadline| {
        let silence = Duration::from_millis(50);
        let config = Config { backups, silence, join_deadline, ..Config::new(at[0], JOB, 0, RANKS) };
        Worker::join(config).unwrap_err().to_string()
    };
    let refused = second.config(0).appliance;
    let text = told(vec![refused], Duration::from_secs(10));
    assert!(text.starts_with(&format!("joining at {refused} failed: ")), "{text}");
    let text = told(vec![at[1]], Duration::from_millis(250));
    let orders = [(at[0], at[1]), (at[1], at[0])];
    let tells = |&(last, other): &(SocketAddr, SocketAddr)| {
        text.starts_with(&format!("joining at {last} failed, as at {other}: no answer in "))
            && text.contains(&format!("is {} its `udp_port`", last.port()))
    };
    assert!(orders.iter().any(tells), "{text}");
}

#[test]
fn lists_that_cannot_work() {
    let at = |text: &str| text.parse().unwrap();
    let first = Config::new(at("10.0.0.1:16420"), JOB, 0, RANKS);
    let check = |backups: Vec<_>| Config { backups, ..first.clone() }.check().unwrap_err();
    let appliance = at("10.0.0.1:16420");
    assert_eq!(check(vec![appliance]), ConfigError::Twice { appliance });
    let backup = at("[fd77::1]:16420");
    assert_eq!(check(vec![backup]), ConfigError::BackupFamily { backup, appliance });
    let many = (2..10).map(|last| at(&format!("10.0.0.{last}:16420"))).collect();
    assert_eq!(check(many), ConfigError::Backups { backups: 8, most: 7 });
    let config = Config { silence: Duration::ZERO, ..first };
    assert_eq!(config.check(), Err(ConfigError::Silence));
}
