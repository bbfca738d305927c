use std::net::UdpSocket;
use std::thread;

use pascaline_wire::control::Status;

use super::*;

const SOON: Duration = Duration::from_secs(20);

fn asker(limit: Duration) -> Asker {
    let identity = Identity { job: 7, rank: 1, ranks: 2, payload: 0 };
    Asker { identity, bind: None, dscp: 0, limit, notice: None, interrupt: None, holder: None }
}

fn silent(address: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(address).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

/// One that misses `unheard` requests and then refuses every one, as an appliance without the job does.
fn appliance(address: &str, unheard: usize) -> SocketAddr {
    let (socket, at) = silent(address);
    socket.set_read_timeout(Some(SOON)).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        for number in 0.. {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            let (header, body) = Header::parse(&buffer[..length]).unwrap();
            let request = Control::parse(body).unwrap();
            assert_eq!((header.kind, header.job, request.action), (Kind::Control, 7, Action::Query));
            if number >= unheard {
                let ack = Control {
                    action: Action::Ack,
                    status: Status::UnknownJob,
                    answers: Some(Action::Query),
                    ..request
                };
                let answer = [&header.to_bytes()[..], &ack.to_bytes()].concat();
                socket.send_to(&answer, from).unwrap();
            }
        }
    });
    at
}

fn name(all: impl IntoIterator<Item = SocketAddr>) -> Addresses {
    Addresses::of(all).unwrap()
}

#[test]
fn a_dead_first_address_is_passed_over() {
    let (_silent, dead) = silent("127.0.0.1:0");
    let (closed, refusing) = silent("127.0.0.1:0");
    drop(closed);
    let unroutable = "[2001:db8::1]:9".parse().unwrap();
    let alive = appliance("127.0.0.1:0", 0);
    let name = name([dead, unroutable, refusing, alive]);
    assert_eq!(asker(SOON).find(&name).unwrap(), alive);
}

#[test]
fn the_first_one_is_taken_if_it_answers() {
    let [first, second] = [0, 0].map(|unheard| appliance("127.0.0.1:0", unheard));
    assert_eq!(asker(SOON).find(&name([first, second])).unwrap(), first);
}

#[test]
fn an_appliance_that_comes_late_is_found() {
    let (_silent, dead) = silent("127.0.0.1:0");
    let late = appliance("127.0.0.1:0", 1);
    assert_eq!(asker(SOON).find(&name([dead, late])).unwrap(), late);
}

#[test]
fn none_that_answers_is_an_error_that_names_all() {
    let (_one, one) = silent("127.0.0.1:0");
    let (_other, other) = silent("127.0.0.1:0");
    let error = asker(Duration::from_millis(300)).find(&name([one, other])).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&one.to_string()) && text.contains(&other.to_string()), "{text}");
}

#[test]
fn a_single_address_is_not_asked() {
    let (_silent, dead) = silent("127.0.0.1:0");
    assert_eq!(asker(Duration::ZERO).find(&name([dead, dead])).unwrap(), dead);
}

/// The address is replaced wherever it stands, and stays where others can replace the appliance.
#[test]
fn a_configuration_gets_one_address_for_each_appliance() {
    let (_silent, dead) = silent("127.0.0.1:0");
    let alive = appliance("127.0.0.1:0", 0);
    let literal: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let named = name([dead, alive]);
    let config = Config { trees: vec![vec![dead], vec![literal]], ..Config::new(dead, 7, 1, 2) };
    let config = Config { several: vec![named], ..config };
    let settled = config.clone().settled().unwrap();
    assert_eq!((settled.appliance, settled.trees), (alive, vec![vec![alive], vec![literal]]));
    assert!(settled.several.is_empty());
    let (_other, other) = silent("127.0.0.1:0");
    let several = vec![name([dead, other])];
    let join_deadline = Duration::from_millis(100);
    let replaceable = Config { several, join_deadline, ..config }.settled().unwrap();
    assert_eq!(replaceable.appliance, dead);
}

/// A socket bound to IPv4 reaches no IPv6 address.
#[test]
fn only_addresses_of_the_bound_family_are_taken() {
    let [v6, v4] = ["[::1]:9", "127.0.0.1:9"].map(|text| text.parse::<SocketAddr>().unwrap());
    let bind = Some("127.0.0.1:0".parse().unwrap());
    let config = Config { bind, several: vec![name([v6, v4])], ..Config::new(v6, 7, 1, 2) };
    assert_eq!(config.check(), Ok(()));
    assert_eq!(config.settled().unwrap().appliance, v4);
}
