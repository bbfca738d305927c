//! A parent whose MAC is not written: it is asked for by ARP or neighbour discovery.

use core::time::Duration;

use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::{Event, JobSpec, Parent, Reconfigured};
use pascaline_telemetry::DropReason;
use pascaline_testkit::{Heard, JOB, OWN_V4, OWN_V6, UDP_PORT, port_mac};
use pascaline_wire::arp::{self, Arp, Operation};
use pascaline_wire::control::Action;
use pascaline_wire::frame::{Address, Mac, VlanTags};
use pascaline_wire::{icmp, neighbour};

use crate::common::appliance::{Bench, Plan, job};

const PARENT: Address = Address::from_v4([10, 77, 9, 254]);
const BACKUP: Address = Address::from_v4([10, 77, 8, 254]);
const ROUTER: Address = Address::from_v4([10, 77, 0, 1]);
const PARENT_V6: Address = Address::from_v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 8, 7]);
const MAC: Mac = Mac([2, 0, 0, 0, 9, 0xfe]);
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 8, 0xfe]);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A parent at an address, and whose MAC leads there.
fn above(address: Address, hop: Address) -> Parent {
    let endpoint = Endpoint {
        port: 0,
        mac: Mac::default(),
        vlan: VlanTags::NONE,
        address,
        udp_port: UDP_PORT,
        local: if address.as_v4().is_some() { OWN_V4 } else { OWN_V6 },
        local_udp_port: UDP_PORT,
        dscp: 0,
    };
    Parent { endpoint, rank: 0, ranks: 2, next_hop: Some(hop) }
}

fn spec(parent: Parent, backups: &[Parent]) -> JobSpec {
    JobSpec { parent: Some(parent), backups: backups.to_vec(), ..job(JOB, 2) }
}

fn leaf(parent: Parent, backups: &[Parent]) -> Bench {
    Bench::new(&Plan { jobs: vec![spec(parent, backups)], ..Plan::one_armed() })
}

/// What an appliance has sent, when, and what has come about.
#[derive(Default)]
struct Log {
    sent: Vec<(Duration, Vec<u8>)>,
    events: Vec<Event>,
    /// Lcores were given a new table.
    published: bool,
}

impl Log {
    /// When it has asked whom.
    fn questions(&self) -> Vec<(u64, Address)> {
        let question =
            |(at, frame): &(Duration, Vec<u8>)| Some((u64::try_from(at.as_millis()).unwrap(), asked(frame)?));
        self.sent.iter().filter_map(question).collect()
    }

    /// Where the requests to parents went.
    fn requests(&self) -> Vec<(Mac, Address)> {
        let others = self.sent.iter().filter(|(_, frame)| asked(frame).is_none());
        let to = |frame: &[u8]| Mac(*frame.first_chunk().unwrap());
        others.map(|(_, frame)| (to(frame), Heard::parse(frame).to.0)).collect()
    }
}

/// Whose MAC a frame asks for; `None` if it is another frame.
fn asked(frame: &[u8]) -> Option<Address> {
    [PARENT, BACKUP, ROUTER, PARENT_V6].into_iter().find(|&target| {
        let own = if target.as_v4().is_some() { OWN_V4 } else { OWN_V6 };
        let mut question = [0; neighbour::LEN];
        let len = neighbour::ask(&mut question, port_mac(0), own, target).unwrap();
        frame.starts_with(&question[..len]) && frame.len() == len.max(60)
    })
}

/// Lets time pass, in steps of 10 ms.
fn pass(bench: &mut Bench, time: Duration) -> Log {
    let (mut log, end) = (Log::default(), bench.appliance.now + time);
    while bench.appliance.now < end {
        let turn = bench.appliance.control_turn();
        log.published |= turn.published;
        log.events.extend(turn.events);
        // A table that is new, then what is to be sent.
        for _ in 0..2 {
            bench.appliance.lcores[0].turn();
        }
        let now = bench.appliance.now;
        log.sent.extend(bench.io().sent(0).into_iter().map(|frame| (now, frame)));
    }
    assert_eq!(bench.appliance.reading().unaccounted(), 0);
    log
}

/// The answer that this MAC has an address, to another one.
fn answer(to: Mac, address: Address, mac: Mac) -> Vec<u8> {
    let Some(sender_ip) = address.as_v4() else {
        let mut frame = vec![0; neighbour::LEN];
        icmp::write_advertisement(&mut frame[14..], address, mac, OWN_V6).unwrap();
        frame[..6].copy_from_slice(&to.0);
        frame[6..12].copy_from_slice(&mac.0);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        return frame;
    };
    let (operation, target_ip) = (Operation::Reply, OWN_V4.as_v4().unwrap());
    let reply = Arp { operation, sender_mac: mac, sender_ip, target_mac: to, target_ip };
    let mut frame = vec![0; arp::FRAME_LEN];
    reply.write_frame(&mut frame, to).unwrap();
    frame
}

/// Has an answer arrive, and lets 10 ms pass.
fn hear(bench: &mut Bench, address: Address, mac: Mac) -> Log {
    let frame = answer(port_mac(0), address, mac);
    bench.io().arrive(0, &frame);
    bench.appliance.lcores[0].turn();
    pass(bench, ms(10))
}

fn questions(bench: &Bench) -> u64 {
    bench.appliance.plane.membership().uplink(JOB, bench.appliance.now).unwrap().questions
}

#[test]
fn it_is_asked_for_until_it_answers_and_nothing_else_is_sent() {
    for (parent, hop) in [(PARENT, PARENT), (PARENT, ROUTER), (PARENT_V6, PARENT_V6)] {
        let mut bench = leaf(above(parent, hop), &[]);
        let log = pass(&mut bench, ms(6000));
        let times = [10, 110, 310, 710, 1510, 2510, 3510, 4510, 5510];
        assert_eq!(log.questions(), times.map(|at| (at, hop)));
        assert_eq!((log.sent.len(), questions(&bench)), (times.len(), 9));
        assert_eq!(log.events, [Event::HopSilent { job: JOB, parent, address: hop }]);
        let status = bench.appliance.plane.membership().uplink(JOB, bench.appliance.now).unwrap();
        assert!(status.hop.unwrap().is_silent());
        // What could not be sent is sent at once.
        let log = hear(&mut bench, hop, MAC);
        assert_eq!(log.events, [Event::HopFound { job: JOB, parent, address: hop, mac: MAC }]);
        assert!(log.published);
        let log = pass(&mut bench, ms(10));
        assert_eq!(log.requests(), [(MAC, parent)]);
        assert!(log.questions().is_empty());
        bench.end();
    }
}

#[test]
fn an_answer_that_nobody_has_asked_for_changes_nothing() {
    let mut bench = leaf(above(PARENT, PARENT), &[]);
    pass(&mut bench, ms(10));
    // Of another address, and to another host.
    let strange = [answer(port_mac(0), BACKUP, OTHER_MAC), answer(OTHER_MAC, PARENT, OTHER_MAC)];
    for (frame, dropped) in strange.iter().zip(1..) {
        bench.feed(0, [frame]);
        assert_eq!(bench.appliance.dropped(DropReason::NotForUs), dropped);
    }
    let ignored = |bench: &Bench| bench.appliance.plane.membership().ignored();
    // No MAC of a host.
    for (mac, count) in [(Mac::BROADCAST, 1), (Mac::default(), 2)] {
        assert!(hear(&mut bench, PARENT, mac).events.is_empty());
        assert_eq!(ignored(&bench), count);
    }
    assert!(!hear(&mut bench, PARENT, MAC).events.is_empty());
    // Once it is known, it is not asked for.
    let log = hear(&mut bench, PARENT, OTHER_MAC);
    assert_eq!((log.events.len(), log.published, ignored(&bench)), (0, false, 3));
    let log = pass(&mut bench, ms(150));
    assert!(!log.requests().is_empty() && log.requests().iter().all(|&to| to == (MAC, PARENT)));
    bench.end();
}

#[test]
fn while_the_parent_is_silent_its_mac_is_asked_for_again() {
    let mut bench = leaf(above(PARENT, PARENT), &[]);
    pass(&mut bench, ms(10));
    hear(&mut bench, PARENT, MAC);
    let log = pass(&mut bench, ms(1300));
    // Not sooner than a second after it has answered.
    let [(first, _), (second, _)] = log.questions()[..] else { panic!("{:?}", log.questions()) };
    assert!(first >= 1020 && second >= first + 100, "{first} {second}");
    // The old one is good until there is another one.
    assert!(log.requests().iter().all(|&to| to == (MAC, PARENT)));
    let log = hear(&mut bench, PARENT, OTHER_MAC);
    let (job, parent, address, mac) = (JOB, PARENT, PARENT, OTHER_MAC);
    assert_eq!((log.events, log.published), (vec![Event::HopFound { job, parent, address, mac }], true));
    let log = pass(&mut bench, ms(3000));
    assert!(!log.requests().is_empty() && log.requests().iter().all(|&to| to == (OTHER_MAC, PARENT)));
    assert!(log.questions().len() <= 5, "{:?}", log.questions());
    bench.end();
}

#[test]
fn one_who_cannot_be_reached_is_left_for_a_backup_that_can() {
    let mut bench = leaf(above(PARENT, PARENT), &[above(BACKUP, BACKUP)]);
    let log = pass(&mut bench, ms(20));
    assert_eq!(log.questions(), [(10, PARENT), (10, BACKUP)]);
    hear(&mut bench, BACKUP, OTHER_MAC);
    let log = pass(&mut bench, ms(700));
    // Each request to the first one is lost; the other one is asked, and then has the sums.
    assert!(log.requests().iter().all(|&to| to == (OTHER_MAC, BACKUP)));
    let status = bench.appliance.plane.membership().uplink(JOB, bench.appliance.now).unwrap();
    assert_eq!((status.place, status.parent.endpoint.mac), (1, OTHER_MAC));
    bench.end();
}

#[test]
fn a_change_of_the_configuration_leaves_what_is_known() {
    let mut bench = leaf(above(PARENT, PARENT), &[]);
    pass(&mut bench, ms(10));
    hear(&mut bench, PARENT, MAC);
    let specs = vec![spec(above(PARENT, PARENT), &[above(BACKUP, PARENT)])];
    let now = bench.appliance.now;
    let done = bench.appliance.plane.reconfigure(now, specs, None);
    assert_eq!(done.get(&JOB), Some(&Reconfigured::Changed));
    let log = pass(&mut bench, ms(100));
    // The backup is behind the same router, as it were, and that is asked for.
    assert_eq!(log.questions().len(), 1);
    assert!(log.requests().contains(&(MAC, PARENT)), "{:?}", log.requests());
    // Where both are behind one, an answer is of both.
    hear(&mut bench, PARENT, MAC);
    assert!(pass(&mut bench, ms(200)).requests().contains(&(MAC, BACKUP)));
    bench.end();
}

/// A Join is what goes up first; it asks for the number of the generation.
#[test]
fn a_mac_that_is_written_is_used_at_once() {
    let mut parent = above(PARENT, PARENT);
    (parent.endpoint.mac, parent.next_hop) = (MAC, None);
    let mut bench = leaf(parent, &[]);
    let log = pass(&mut bench, ms(20));
    let (_, frame) = log.sent.first().unwrap();
    assert_eq!(log.requests()[0], (MAC, PARENT));
    assert_eq!(Heard::parse(frame).control().action, Action::Join);
    assert_eq!((log.questions().len(), questions(&bench)), (0, 0));
    bench.end();
}
