//! An appliance in the path between two hosts, and one with two lcores.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use pascaline_testkit::skipped;

use crate::common::appliance::{Appliance, Metrics, SOON, UDP_PORT, Wanted, cores};
use crate::common::net::{Network, possible, worker_mac};
use crate::common::raw::Raw;

/// Bytes that are all different for a while.
fn pattern(length: u32) -> Vec<u8> {
    (0..length).flat_map(|index| index.wrapping_mul(0x9e37_79b1).to_be_bytes()).collect()
}

/// Sends bytes from one host to the other, which sends them back.
fn exchange(network: &Network, sent: &[u8]) -> Vec<u8> {
    let server: SocketAddr = "10.77.0.2:7".parse().unwrap();
    let listener = network.workers[1].within(|| TcpListener::bind(server)).unwrap();
    let mut client = network.workers[0].within(|| TcpStream::connect_timeout(&server, SOON)).unwrap();
    let (mut accepted, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_string(), "10.77.0.1");
    for stream in [&client, &accepted] {
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut bytes = Vec::new();
            accepted.read_to_end(&mut bytes).unwrap();
            accepted.write_all(&bytes).unwrap();
        });
        client.write_all(sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        back
    })
}

/// Where it shares the transmit queue of aggregation, and where it has its own.
#[test]
fn what_is_not_for_the_appliance_passes_unchanged() {
    if !possible() {
        return;
    }
    for own_queue in [None, Some("net_af_packet"), Some("net_kernel")] {
        passes_unchanged(own_queue);
    }
}

fn passes_unchanged(own_queue: Option<&'static str>) {
    let network = Network::new(2);
    let wanted = Wanted { inline: true, own_queue, ..Wanted::default() };
    let mut appliance = Appliance::start(&network, wanted);
    let said = ["shares the transmit queue of aggregation", "has a transmit queue of its own"];
    assert!(appliance.log().contains(said[usize::from(own_queue.is_some())]), "{}", appliance.log());
    let [left, right] = [&network.workers[0], &network.workers[1]];
    assert!(left.ping("10.77.0.2"), "from host to host");
    assert!(right.ping("10.77.0.1"), "and back");
    let passed = appliance.metrics();
    assert!(passed.packets("forwarded") >= 4, "{}", passed.text);
    assert!(left.ping("10.77.0.254") && right.ping("10.77.0.254"), "the appliance's own address");
    let answered = appliance.metrics();
    assert!(answered.packets("answered") >= passed.packets("answered") + 2, "{}", answered.text);
    let sent = pattern(100_000);
    assert_eq!(exchange(&network, &sent), sent);
    let after = appliance.metrics_when("the exchange is over", |_| true);
    assert!(after.packets("forwarded") > answered.packets("forwarded") + 500, "{}", after.text);
    // While all that passes, the appliance does its own work.
    appliance.allreduce(1, 1, &["--elements", "10001", "--dtype", "i32"]);
    appliance.terminate();
    appliance.ends_well();
}

/// Three hosts behind three ports, with and without a queue of its own for what passes.
#[test]
fn a_bridge_brings_each_host_to_each_other_while_they_sum() {
    if !possible() {
        return;
    }
    for own_queue in [None, Some("net_af_packet"), Some("net_kernel")] {
        bridges(own_queue);
    }
}

fn bridges(own_queue: Option<&'static str>) {
    let network = Network::new(3);
    let wanted = Wanted { bridge: true, own_queue, ..Wanted::default() };
    let mut appliance = Appliance::start(&network, wanted);
    let summing = ["--elements", "50021", "--dtype", "i32", "--iterations", "20"];
    let mut workers: Vec<_> = (0..3).map(|rank| appliance.worker(1, rank, &summing)).collect();
    for (at, host) in network.workers.iter().enumerate() {
        for (other, address) in ["10.77.0.1", "10.77.0.2", "10.77.0.3"].iter().enumerate() {
            assert!(at == other || host.ping(address), "from host {at} to {address}");
        }
        assert!(host.ping("10.77.0.254"), "from host {at} to the appliance");
    }
    for worker in &mut workers {
        let ended = worker.wait(SOON + SOON);
        assert_eq!((ended.code, ended.json()["verified"].as_u64()), (Some(0), Some(20)), "{ended:?}");
    }
    let learned = |m: &Metrics| m.sum("bridge_learned_total", "") == 3;
    let metrics = appliance.metrics_when("all hosts are known", learned);
    // Each of them has asked for the others by broadcast; what came next went one way.
    let (flooded, forwarded) = (metrics.packets("bridge_flooded"), metrics.packets("forwarded"));
    assert!(flooded >= 2 && forwarded >= flooded + 12, "{flooded} of {forwarded}: {}", metrics.text);
    assert_eq!(metrics.dropped("not_for_us"), 0, "{}", metrics.text);
    // A pair of hosts that the third one does not hear.
    let heard = Raw::open(&network.workers[2]);
    assert!(network.workers[0].ping("10.77.0.2"));
    let to_third = frame_between([2, 0]);
    Raw::open(&network.workers[0]).send(&to_third);
    heard.receive("what is meant for the third", SOON, |bytes| {
        assert_ne!(bytes[..12], frame_between([1, 0])[..12], "an echo between the others");
        bytes == to_third
    });
    floods_until_it_is_heard(&network, &appliance);
    appliance.terminate();
    appliance.ends_well();
}

/// What is for a host that the bridge does not know goes to each other port once; once it has spoken, only to
/// its own.
fn floods_until_it_is_heard(network: &Network, appliance: &Appliance<'_>) {
    const STRANGER: u8 = 9;
    let [first, second, third] = [0, 1, 2].map(|host: usize| Raw::open(&network.workers[host]));
    let to_stranger = frame_between([STRANGER, 0]);
    // To all, behind it: whoever hears this one has heard the other as often as he ever will.
    let to_all = [&[0xff; 6], &to_stranger[6..]].concat();
    let heard_by = |host: &Raw| {
        let mut times = 0;
        let count = |bytes: &[u8]| {
            times += u32::from(bytes == to_stranger);
            bytes == to_all
        };
        host.receive("what goes to all", SOON, count);
        times
    };
    let before = appliance.metrics();
    first.send(&to_stranger);
    first.send(&to_all);
    assert_eq!([&second, &third].map(heard_by), [1, 1], "not known yet");
    let from_stranger = frame_between([0, STRANGER]);
    third.send(&from_stranger);
    first.receive("the stranger", SOON, |bytes| bytes == from_stranger);
    first.send(&to_stranger);
    first.send(&to_all);
    assert_eq!([&second, &third].map(heard_by), [0, 1], "known");
    // Three of these were flooded; the kernels of the hosts may have something for all now and then.
    let flooded = |m: &Metrics| m.packets("bridge_flooded");
    let after = appliance.metrics_when("all is flooded", |m| flooded(m) >= flooded(&before) + 3);
    assert_eq!(after.sum("bridge_learned_total", ""), 4, "{}", after.text);
    assert_eq!(after.sum("bridge_moved_total", ""), 0, "{}", after.text);
    // A second frame for each, as there are two other ports.
    assert_eq!(after.sum("bridge_copies_total", ""), flooded(&after), "{}", after.text);
    assert_eq!(after.packets("dropped"), before.packets("dropped"), "{}", after.text);
}

/// A frame from a host to another one.
fn frame_between([to, from]: [u8; 2]) -> Vec<u8> {
    [&worker_mac(to)[..], &worker_mac(from), &[0x88, 0xb5], &pattern(20)].concat()
}

#[test]
fn frames_pass_bit_by_bit() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let appliance = Appliance::start(&network, Wanted { inline: true, ..Wanted::default() });
    let (left, right) = (Raw::open(&network.workers[0]), Raw::open(&network.workers[1]));
    let from_to = [worker_mac(1), worker_mac(0)].concat();
    let address = |last: u8| [10, 77, 0, last];
    // IPv4 headers with an option and with a wrong checksum: not the appliance's business. (Fragments are not
    // tried: net_af_packet has the kernel put them together before it takes them.)
    let ip = |first: [u8; 8]| [&first[..], &[64, 17, 0xba, 0xad], &address(1), &address(2)].concat();
    let to_port = [&40000u16.to_be_bytes()[..], &UDP_PORT.to_be_bytes(), &[0, 40, 0, 0]].concat();
    let rest = pattern(8);
    let frames = [
        [&from_to[..], &[0x88, 0xb5], &pattern(20)].concat(),
        [&from_to[..], &[0x88, 0xb5], &pattern(375)].concat(),
        [&from_to[..], &[8, 0], &ip([0x46, 0, 0, 64, 0, 1, 0, 0]), &[1, 1, 1, 0], &to_port, &rest].concat(),
        [&from_to[..], &[8, 0], &ip([0x45, 0, 0, 60, 0, 3, 0, 0]), &to_port, &rest].concat(),
        [&from_to[..], &[0x81, 0, 0, 42, 0x88, 0xb5], &pattern(20)].concat(),
    ];
    let before = appliance.metrics();
    for (number, frame) in frames.iter().enumerate() {
        left.send(frame);
        let is_tagged = frame[12] == 0x81;
        // The receiving kernel takes the outer tag off; what is inside must be the same.
        let expected = if is_tagged { [&frame[..12], &frame[16..]].concat() } else { frame.clone() };
        right.receive(&format!("frame {number}"), SOON, |bytes| bytes == frame || bytes == expected);
    }
    let after = appliance
        .metrics_when("all forwarded", |m| m.packets("forwarded") >= before.packets("forwarded") + 5);
    assert_eq!(after.packets("dropped"), before.packets("dropped"), "{}", after.text);
}

#[test]
fn two_lcores_do_one_job() {
    if !possible() {
        return;
    }
    if cores().len() < 2 {
        skipped("this process may use one core only");
        return;
    }
    let network = Network::new(2);
    let mut appliance = match Appliance::try_start(&network, Wanted { two_lcores: true, ..Wanted::default() })
    {
        Ok(appliance) => appliance,
        Err(ended) => {
            // Only the driver may refuse: `device` is what its refusal points at.
            ended.refused(2, &["net_af_packet"]);
            skipped(&ended.err);
            return;
        }
    };
    for dtype in ["f32", "i32"] {
        appliance.allreduce(1, 2, &["--elements", "50021", "--dtype", dtype]);
    }
    // The kernel deals flows to queues by their ports, which differ from session to session: sooner or later
    // both lcores have a part in the sums.
    let has_part = |lcore: &str| appliance.metrics().sum("absorbed_packets_total", lcore) > 0;
    let both = || has_part("lcore=\"0\"") && has_part("lcore=\"1\"");
    let sessions =
        (0..20).take_while(|_| !both()).map(|_| appliance.allreduce(1, 1, &["--elements", "2000"])).count();
    assert!(sessions < 20 || both(), "one lcore has done it all");
    appliance.metrics_when("no partial left", |m| m.sum("pool_slots_used", "state=\"open\"") == 0);
    appliance.terminate();
    appliance.ends_well();
}

#[test]
fn a_queue_that_is_required_for_what_passes_and_missing_is_refused() {
    if !possible() {
        return;
    }
    let network = Network::new(2);
    let own_queue = Some("net_af_packet");
    let wanted = Wanted { inline: true, own_queue, one_queue: true, ..Wanted::default() };
    let ended = Appliance::try_start(&network, wanted).expect_err("one queue");
    ended.refused(2, &["appliance.toml:", "no transmit queue to spare", "remedy: ", "qpairs=2"]);
}

#[test]
fn a_device_with_fewer_queues_than_lcores_is_refused() {
    if !possible() {
        return;
    }
    let network = Network::new(1);
    let wanted = Wanted { two_lcores: true, one_queue: true, ..Wanted::default() };
    let ended = Appliance::try_start(&network, wanted).expect_err("one queue for two lcores");
    ended.refused(2, &["appliance.toml:", "offers 1 queue pairs", "2 lcores", "remedy: ", "qpairs="]);
}
