//! Joining over a port behind which there is no host.

use core::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use pascaline_worker::{Config, Interrupt};
use pascaline_worker_dpdk::{Dpdk, DpdkConfig, DpdkJoinError};

#[test]
fn joining_ends_when_the_program_wants_it() {
    let port = DpdkConfig::new("net_null0,no-rx=1", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    let dpdk = Dpdk::start(std::slice::from_ref(&port), 0, 64).unwrap();
    let mut config = Config::new("10.0.0.254:16420".parse().unwrap(), 1, 0, 2);
    config.interrupt = Some(Interrupt(|| true));
    config.join_deadline = Duration::from_secs(60);
    let begin = Instant::now();
    let end = dpdk.join(config, &port);
    assert!(matches!(end, Err(DpdkJoinError::Interrupted)), "{end:?}");
    assert!(begin.elapsed() < Duration::from_secs(30));
}
