use std::net::SocketAddr;

use super::super::{Config, ConfigError, MAX_STREAMS};
use super::Appliances;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn config(list: &str) -> Config {
    let all = Appliances::read(list, str::parse::<SocketAddr>).unwrap();
    Config { bind: Some(at("10.0.0.9:700")), ..Config::new(at("0.0.0.0:0"), 5, 1, 3) }.among(all)
}

#[test]
fn every_tree_has_its_own_appliances_and_then_those_of_the_next_ones() {
    let config = config("10.0.0.1:9, 10.0.0.4:9; 10.0.0.2:9;10.0.0.3:9");
    config.check().unwrap();
    let lists = config.of_trees().map(|tree| {
        let hosts = tree.peers().unwrap().into_iter().map(|(peer, _)| match peer.ip() {
            std::net::IpAddr::V4(ip) => ip.octets()[3],
            std::net::IpAddr::V6(_) => 0,
        });
        (tree.job, tree.bind.unwrap().port(), hosts.collect::<Vec<_>>())
    });
    let lists: Vec<_> = lists.collect();
    assert_eq!(lists, [(5, 700, vec![1, 4, 2, 3]), (6, 701, vec![2, 3, 1]), (7, 702, vec![3, 1, 2])]);
}

#[test]
fn one_tree_is_what_it_was() {
    let config = config("10.0.0.1:9,10.0.0.2:9");
    assert_eq!((config.appliance, &config.backups[..]), (at("10.0.0.1:9"), &[at("10.0.0.2:9")][..]));
    assert_eq!(config.of_trees().collect::<Vec<_>>(), [config]);
}

#[test]
fn trees_that_cannot_be() {
    let many = ["10.0.0.1:9"; 9].join(";");
    assert_eq!(config(&many).check(), Err(ConfigError::Trees { job: 5, trees: 9, most: 8 }));
    let last = Config { job: u16::MAX, ..config("10.0.0.1:9;10.0.0.2:9") };
    assert_eq!(last.check(), Err(ConfigError::Trees { job: u16::MAX, trees: 2, most: 8 }));
    let none = Config { trees: vec![vec![]], ..config("10.0.0.1:9") };
    assert_eq!(none.check(), Err(ConfigError::NoAppliance { tree: 1 }));
    let twice = config("10.0.0.1:9;10.0.0.2:9,10.0.0.2:9");
    assert_eq!(twice.check(), Err(ConfigError::Twice { appliance: at("10.0.0.2:9") }));
    // Several trees may be of one appliance: sockets beside each other.
    config("10.0.0.1:9;10.0.0.1:9").check().unwrap();
    assert!(Appliances::read("10.0.0.1:9;", str::parse::<SocketAddr>).is_err());
}

#[test]
fn streams_are_jobs_behind_each_other_with_their_trees() {
    let config = config("10.0.0.1:9;10.0.0.2:9");
    let streams: Vec<_> = config.of_streams(3).unwrap().collect();
    let numbers = streams.iter().map(|stream| (stream.job, stream.bind.unwrap().port()));
    assert_eq!(numbers.collect::<Vec<_>>(), [(5, 700), (7, 702), (9, 704)]);
    assert!(streams.iter().all(|stream| stream.trees == config.trees));
}

#[test]
fn streams_that_cannot_be() {
    let at_job = |job| Config { job, ..config("10.0.0.1:9;10.0.0.2:9") };
    for (job, streams) in [(5, 0), (5, MAX_STREAMS + 1), (u16::MAX - 2, 2), (u16::MAX, 1)] {
        let refused = at_job(job).of_streams(streams).map(Iterator::count);
        assert_eq!(refused, Err(ConfigError::Streams { job, streams, trees: 2 }));
    }
    assert_eq!(at_job(u16::MAX - 3).of_streams(2).unwrap().last().unwrap().job, u16::MAX - 1);
}
