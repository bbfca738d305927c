use super::*;
use crate::emit::Marks;
use crate::io::{BURST, STAGE};
use arrayvec::ArrayVec;
use pascaline_aggregator::{Rules, Verb};
use pascaline_buffer::{HeapBuf, HeapPool};
use pascaline_wire::UdpPorts;

/// No ports, and no buffers.
struct Nowhere;

impl Io for Nowhere {
    type Buf = HeapBuf;

    fn receive(&mut self, _: usize, _: &mut ArrayVec<HeapBuf, BURST>) {}

    fn transmit(&mut self, _: usize, _: &mut ArrayVec<HeapBuf, STAGE>) {}

    fn header_buffers(&mut self, _: &mut ArrayVec<HeapBuf, BURST>) {}

    fn frame_buffer(&mut self) -> Option<HeapBuf> {
        None
    }

    fn multi_segment(&self, _: usize) -> bool {
        false
    }

    fn recycle(&mut self, spent: &mut ArrayVec<HeapBuf, BURST>) {
        spent.clear();
    }

    fn now(&self) -> u64 {
        0
    }
}

const REASONS: [(Rejection, DropReason); 15] = [
    (Rejection::Conflict, DropReason::Conflict),
    (Rejection::Quota, DropReason::Quota),
    (Rejection::Share, DropReason::SlotShare),
    (Rejection::Stale, DropReason::Stale),
    (Rejection::UnknownPsn, DropReason::UnknownPsn),
    (Rejection::Duplicate, DropReason::Duplicate),
    (Rejection::RankOutOfRange, DropReason::RankOutOfRange),
    (Rejection::FanInMismatch, DropReason::FanInMismatch),
    (Rejection::FanInChanged, DropReason::FanInChanged),
    (Rejection::LengthChanged, DropReason::LengthChanged),
    (Rejection::ElementChanged, DropReason::ElementChanged),
    (Rejection::OperationChanged, DropReason::OperationChanged),
    (Rejection::ElementUnsupported, DropReason::DType),
    (Rejection::BadCount, DropReason::BadCount),
    (Rejection::Contention, DropReason::Contention),
];

/// The rejections include the one that only lcores in a race can bring about.
#[test]
fn each_rejection_of_the_pool_is_a_drop_of_its_own_reason() {
    let pool = HeapPool::new();
    let (table, setup) = (JobTable::default(), Setup::new(Vec::new(), UdpPorts::single(1), Vec::new()));
    let (mut spread, _reader) = pascaline_telemetry::recorder().unwrap();
    let request = Request {
        verb: Verb::Add,
        key: Key::new(1, 1, 1),
        rank: 0,
        fan_in: 2,
        job_fan_in: 2,
        needed: 2,
        count: 1,
        inside: 0,
        element: Element::F32_SUM.code(),
        overflow: false,
        again: false,
        marked: false,
        partial: false,
        priority: 0,
        rules: Rules::default(),
        offset: 0,
        len: 0,
        now: 0,
    };
    assert!(REASONS.map(|(rejection, _)| rejection) == Rejection::ALL, "none is left out");
    for (rejection, reason) in REASONS {
        let mut emitter = Emitter::new(Nowhere, 0, Marks::default());
        let mut sink = LcoreSink {
            number: 0,
            kernels: &Kernels::scalar(),
            emitter: &mut emitter,
            table: &table,
            setup: &setup,
            spread: &mut spread,
            limits: &mut Limits::default(),
            overload: &mut Overload::default(),
            server: None,
        };
        Sink::<HeapBuf>::rejected(&mut sink, &request, pool.alloc(&[], 64), rejection);
        emitter.flush();
        for other in DropReason::ALL {
            assert_eq!(emitter.tally.dropped(*other), u64::from(*other == reason), "{rejection:?}");
        }
        assert_eq!(pool.live(), 0);
    }
}
