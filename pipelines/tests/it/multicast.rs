//! Results to a job's multicast group: who gets them so, and that everybody else gets them as ever.

use pascaline_telemetry::Counter;
use pascaline_testkit::{Heard, JOB, OWN_V6, UDP_PORT, Worker, port_mac};
use pascaline_wire::control::{Action, Control};
use pascaline_wire::multicast::{GROUP_RANK, Hearing};
use pascaline_wire::{CongestionControl, Element, Header, Kind, MulticastGroup, ecn};

use crate::common::{
    self,
    appliance::{Bench, Plan},
};

fn group(address: &str) -> MulticastGroup {
    MulticastGroup::new(address.parse().unwrap()).unwrap()
}

/// The Join of a member that says so much about the group.
fn join(worker: &Worker, hearing: Hearing) -> Vec<u8> {
    let control = Control {
        payload: worker.payload,
        window: 512,
        cookie: 1,
        hearing,
        ..Control::request(Action::Join, worker.session)
    };
    let header = Header { epoch: 0, element: Element::F32_SUM, ..worker.header(Kind::Control, 0, 0) };
    worker.frame(&header, &control.to_bytes())
}

/// An appliance whose job has a group, and these workers, who have joined.
fn joined(address: &str, workers: &mut [Worker], ports: usize) -> (Bench, MulticastGroup) {
    let mut plan = Plan { peers: vec![None; ports], ..Plan::one_armed() };
    plan.jobs[0].multicast = Some(group(address));
    let mut bench = Bench::new(&plan);
    bench.join(workers);
    (0..ports).for_each(|port| _ = bench.heard(port));
    (bench, group(address))
}

fn says(bench: &mut Bench, worker: &Worker, what: Hearing) -> Vec<Heard> {
    bench.feed(worker.port, [&join(worker, what)]);
    bench.heard(worker.port)
}

fn contribute(bench: &mut Bench, workers: &[Worker], psn: u32) {
    workers.iter().for_each(|worker| bench.feed(worker.port, [&worker.gradient(psn, &[1, 2])]));
}

/// To the group with its MAC, from the port's MAC and the appliance's address, in the members' VLAN.
fn assert_to_group(heard: &Heard, group: MulticastGroup, member: &Worker) {
    assert_eq!((heard.dst, heard.src), (group.mac(), port_mac(u8::try_from(member.port).unwrap())));
    assert_eq!(heard.vlan, member.vlan);
    assert_eq!(heard.from, (member.local(), UDP_PORT));
    assert_eq!(heard.to, (group.address(), UDP_PORT));
}

fn four() -> Vec<Worker> {
    (0..4).map(|rank| Worker::new(rank, 4)).collect()
}

#[test]
fn one_packet_stands_for_all_who_hear() {
    for (address, way) in [
        ("239.1.2.3", (|worker| worker) as fn(Worker) -> Worker),
        ("239.1.2.3", |worker| worker.tagged(0x8100, 42)),
        ("ff05::102:304", Worker::v6),
    ] {
        let mut workers: Vec<Worker> = four().into_iter().map(way).collect();
        let (mut bench, group) = joined(address, &mut workers, 1);
        workers.iter().for_each(|worker| _ = says(&mut bench, worker, Hearing::Hears));
        contribute(&mut bench, &workers, 0);
        let heard = bench.heard(0);
        let [result] = &heard[..] else { panic!("one packet: {heard:?}") };
        assert_to_group(result, group, &workers[0]);
        assert_eq!((result.header.kind, result.header.rank), (Kind::Result, GROUP_RANK));
        assert_eq!(result.contents(), (vec![4, 8], None));
        let counts = [Counter::ResultsSent, Counter::ResultsSpared].map(|it| bench.appliance.get(it));
        assert_eq!(counts, [1, 3]);
        bench.end();
    }
}

/// Those who have not said that they hear get what they always get.
#[test]
fn those_who_do_not_hear_get_their_own() {
    let mut workers = four();
    let (mut bench, group) = joined("239.1.2.3", &mut workers, 1);
    contribute(&mut bench, &workers, 0);
    assert_eq!(bench.heard(0).len(), 4);
    says(&mut bench, &workers[1], Hearing::Hears);
    says(&mut bench, &workers[2], Hearing::Hears);
    says(&mut bench, &workers[3], Hearing::Listens);
    contribute(&mut bench, &workers, 1);
    let heard = bench.heard(0);
    let to: Vec<u16> = heard.iter().map(|heard| heard.header.rank).collect();
    assert_eq!(to, [0, 3, GROUP_RANK]);
    heard[0].assert_addressed_to(&workers[0]);
    assert_to_group(&heard[2], group, &workers[1]);
    // Who hears no more says so.
    says(&mut bench, &workers[1], Hearing::Listens);
    contribute(&mut bench, &workers, 2);
    let to: Vec<u16> = bench.heard(0).iter().map(|heard| heard.header.rank).collect();
    assert_eq!(to, [0, 1, 3, GROUP_RANK]);
    bench.end();
}

/// A packet to the group that a member has lost is answered like any other that it asks for.
#[test]
fn what_is_lost_comes_again_to_whoever_asks() {
    let mut workers = four();
    let (mut bench, _) = joined("239.1.2.3", &mut workers, 1);
    workers.iter().for_each(|worker| _ = says(&mut bench, worker, Hearing::Hears));
    contribute(&mut bench, &workers, 0);
    bench.heard(0);
    let asks: [fn(&Worker) -> Vec<u8>; 2] = [|it| it.gradient(0, &[1, 2]), |it| it.reminder(0)];
    for ask in asks {
        bench.feed(0, [&ask(&workers[2])]);
        let heard = bench.heard(0);
        let [again] = &heard[..] else { panic!("to one: {heard:?}") };
        again.assert_addressed_to(&workers[2]);
        assert_eq!(again.contents(), (vec![4, 8], None));
    }
    bench.end();
}

#[test]
fn each_port_has_a_packet_of_its_own() {
    let mut workers: Vec<Worker> = four().into_iter().map(|it| it.at(usize::from(it.rank) / 2)).collect();
    let (mut bench, group) = joined("239.1.2.3", &mut workers, 2);
    workers.iter().for_each(|worker| _ = says(&mut bench, worker, Hearing::Hears));
    contribute(&mut bench, &workers, 0);
    for (port, member) in [(0, &workers[0]), (1, &workers[2])] {
        let heard = bench.heard(port);
        let [result] = &heard[..] else { panic!("one packet: {heard:?}") };
        assert_to_group(result, group, member);
    }
    bench.end();
}

/// The Ack names the group; once more, to the group, for one that listens: then it knows whether it hears.
#[test]
fn an_ack_tells_whether_the_group_is_heard() {
    let mut workers = four();
    let (mut bench, group) = joined("239.1.2.3", &mut workers, 1);
    for (what, probes) in
        [(Hearing::Deaf, 0), (Hearing::Listens, 1), (Hearing::Hears, 0), (Hearing::Listens, 1)]
    {
        let heard = says(&mut bench, &workers[1], what);
        assert_eq!(heard.len(), 1 + probes, "{what:?}");
        heard[0].assert_addressed_to(&workers[1]);
        assert_eq!(heard[0].control().group, Some(group));
        if let Some(probe) = heard.get(1) {
            assert_to_group(probe, group, &workers[1]);
            assert_eq!(probe.control(), heard[0].control());
        }
    }
    // Whoever is no member learns no group, and has nothing sent to it.
    let elsewhere = pascaline_wire::Address::from_v4([10, 77, 0, 99]);
    let stranger = Worker { session: 77, address: elsewhere, ..Worker::new(0, 4) };
    let heard = says(&mut bench, &stranger, Hearing::Listens);
    assert_eq!(heard.iter().map(|it| it.control().bytes).collect::<Vec<_>>(), [0]);
    bench.end();
}

/// A group is of one family; members of the other one do not hear of it.
#[test]
fn members_of_the_other_family_are_not_told() {
    let mut workers = four();
    workers[3] = workers[3].v6();
    let (mut bench, _) = joined("239.1.2.3", &mut workers, 1);
    let heard = says(&mut bench, &workers[3], Hearing::Listens);
    assert_eq!(heard.iter().map(|it| (it.from.0, it.control().bytes)).collect::<Vec<_>>(), [(OWN_V6, 0)]);
    says(&mut bench, &workers[3], Hearing::Hears);
    contribute(&mut bench, &workers, 0);
    assert_eq!(bench.heard(0).len(), 4);
    bench.end();
}

/// What has been heard of one group says nothing of another.
#[test]
fn another_group_has_to_be_heard_anew() {
    let mut workers = four();
    let (mut bench, _) = joined("239.1.2.3", &mut workers, 1);
    workers.iter().for_each(|worker| _ = says(&mut bench, worker, Hearing::Hears));
    for address in [Some("239.1.2.4"), None] {
        let mut spec = common::appliance::job(JOB, 4);
        spec.multicast = address.map(group);
        let now = bench.appliance.now;
        bench.appliance.plane.reconfigure(now, vec![spec], None);
        bench.settle();
        contribute(&mut bench, &workers, address.map_or(1, |_| 0));
        assert_eq!(bench.heard(0).len(), 4, "{address:?}");
    }
    bench.end();
}

#[test]
fn packets_to_the_group_may_be_marked_where_workers_heed_it() {
    let mut plan = Plan::one_armed();
    plan.jobs[0].multicast = Some(group("239.1.2.3"));
    plan.jobs[0].congestion = Some(CongestionControl::Panama);
    let (mut bench, mut workers) = (Bench::new(&plan), four());
    bench.join(&mut workers);
    workers.iter().for_each(|worker| _ = says(&mut bench, worker, Hearing::Hears));
    contribute(&mut bench, &workers, 0);
    let classes: Vec<u8> = bench.io().sent(0).iter().map(|frame| frame[15] & ecn::MASK).collect();
    assert_eq!(classes, [ecn::CAPABLE]);
    bench.end();
}
