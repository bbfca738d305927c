//! Faults that the harness has found, each as small as it can be: they must not come back.

use core::time::Duration;

use pascaline_aggregator::{
    Aggregate, Cause, Contribution, Evicted, Key, Pool, PoolConfig, Rejection, Reminded, Request, Rules,
    Sink, Verb,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, HeapShared};
use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::JobSpec;
use pascaline_pipelines::{ControlRequest, Membership};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::{Address, Mac, VlanTags};
use pascaline_wire::{Element, Flags, Header, Kind, Own};

fn ask(membership: &mut Membership, action: Action, rank: u16, session: u64, udp_port: u16) -> Status {
    let from = Endpoint {
        port: 0,
        mac: Mac::default(),
        vlan: VlanTags::NONE,
        address: Address::from_v4([10, 0, 0, rank.to_le_bytes()[0]]),
        udp_port,
        local: Address::from_v4([10, 0, 0, 254]),
        local_udp_port: 16420,
        dscp: 0,
    };
    let header = Header {
        kind: Kind::Control,
        flags: Flags::NONE,
        element: Element::F32_SUM,
        job: 1,
        rank,
        psn: 0,
        fan_in: 2,
        count: 0,
        own: Own::NONE,
        epoch: if action == Action::Join { 0 } else { 7 },
    };
    let control = Control { payload: 8, window: 1, cookie: 1, ..Control::request(action, session) };
    let request = ControlRequest { lcore: 0, at_ns: 0, from, header, control, padding: 0, operations: None };
    membership.handle(Duration::ZERO, &request).unwrap().control.status
}

/// Found with seed 10659, with stray requests: rank 0 had left, rank 1 started anew, and an old Join of rank
/// 0 completed the new generation. Rank 1 was asked to leave, and its wait could not succeed.
#[test]
fn a_session_that_has_left_does_not_join_a_later_generation() {
    let mut membership =
        Membership::new(vec![JobSpec::new(1, 2)], pascaline_pipelines::membership::Secret::NONE, 7);
    assert_eq!(ask(&mut membership, Action::Join, 0, 10, 1), Status::Pending);
    assert_eq!(ask(&mut membership, Action::Join, 1, 11, 1), Status::Ok);
    assert_eq!(ask(&mut membership, Action::Leave, 0, 10, 1), Status::Pending);
    assert_eq!(ask(&mut membership, Action::Join, 1, 12, 2), Status::Pending, "the next generation");
    assert_eq!(ask(&mut membership, Action::Join, 0, 10, 1), Status::StaleSession);
}

/// Which events there were.
#[derive(Debug, Default)]
struct Log(Vec<&'static str>);

impl Sink<HeapBuf> for Log {
    fn opened(&mut self, _: &Contribution) {
        self.0.push("opened");
    }

    fn added(&mut self, _: &Contribution) {
        self.0.push("added");
    }

    fn completed(&mut self, _: &Contribution, _: bool, _: Aggregate<'_, HeapShared>) {
        self.0.push("completed");
    }

    fn replayed(&mut self, _: &Request, _: HeapBuf, _: Aggregate<'_, HeapShared>) {
        self.0.push("replayed");
    }

    fn installed(&mut self, _: &Request, _: Aggregate<'_, HeapShared>) {
        self.0.push("installed");
    }

    fn passed_on(&mut self, _: &Request, _: Aggregate<'_, HeapShared>) {
        self.0.push("passed on");
    }

    fn reminded(&mut self, _: &Request, _: HeapBuf, _: Reminded<'_, HeapShared, 1>) {
        self.0.push("reminded");
    }

    fn rejected(&mut self, _: &Request, _: HeapBuf, _: Rejection) {
        self.0.push("refused");
    }

    fn handed_off(&mut self) {
        self.0.push("handed off");
    }

    fn recycled(&mut self, _: HeapBuf) {}

    fn released(&mut self, _: Aggregate<'_, HeapShared>) {
        self.0.push("released");
    }

    fn fetched(&mut self, _: &Request, _: HeapBuf, _: Option<Aggregate<'_, HeapShared>>) {
        self.0.push("fetched");
    }

    fn release_accepted(&mut self, _: &Request, _: HeapBuf) {
        self.0.push("obeyed");
    }

    fn evicted(&mut self, _: Key, _: Evicted<HeapBuf>, _: Cause) {
        self.0.push("displaced");
    }
}

/// Found with seed 5023325: all slots held young partials, so a cached result was dropped as a conflict,
/// although sending it on takes no slot (docs/protocol.md, section 11). If those partials wait for the very
/// rank that lacks the result, and two jobs do so in turn, nothing ever moves again.
#[test]
fn a_kept_result_needs_no_slot_to_be_sent_on() {
    let config = PoolConfig { slots: 1, ways: 1, ..PoolConfig::default() };
    let mut session = Pool::<HeapBuf>::sessions(&config, Kernels::detect(), 1).unwrap().remove(0);
    let (heap, mut log) = (HeapPool::new(), Log::default());
    let contribution = Request {
        verb: Verb::Add,
        key: Key::new(1, 1, 9),
        rank: 0,
        fan_in: 2,
        job_fan_in: 2,
        needed: 2,
        count: 1,
        inside: 0,
        element: Element::I32_SUM.code(),
        overflow: false,
        again: false,
        marked: false,
        partial: false,
        priority: 0,
        rules: Rules::default(),
        offset: 0,
        len: 4,
        now: 1_000_000,
    };
    session.offer(&contribution, None, heap.alloc(&[1, 0, 0, 0], 64), &mut log);
    let kept = Request { verb: Verb::Install, key: Key::new(2, 1, 1), count: 2, ..contribution };
    session.offer(&kept, None, heap.alloc(&[3, 0, 0, 0], 64), &mut log);
    assert_eq!(log.0, ["opened", "passed on"]);
}
