//! The collective operations: against the adversary, between ranks that disagree, and their round trips.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use pascaline_buffer::combine::Kernels;
use pascaline_wire::{DType, Element, Header, Kind, Own};
use pascaline_worker::{
    Collective, Event, Failure, Hints, Ignored, Left, Membership, Op, Parts, Reason, Request, Session,
    StartError,
};

use crate::adversary::Conditions;
use crate::datagrams::{MEMBERSHIP, RESULT};
use crate::simulation::{gigabit, plan};
use crate::values::{Call, Operation};
use crate::world::{Plan, Upset, run};

const DEADLINE: Duration = Duration::from_secs(5);
/// By then all ranks have joined, so that an appliance which restarts later can be gone on with.
const START: Duration = Duration::from_secs(3);

/// The plan of a seed, with collectives in place of its allreduces, and a restart in some.
fn with_collectives(seed: u64) -> Plan {
    let plan = plan(seed);
    let mut random = Rng::with_seed(seed);
    let ranks = plan.ranks;
    let mut call = || match random.u32(..6) {
        0 => Call::Reduce { root: random.u16(..ranks) },
        1 | 2 => Call::Broadcast { root: random.u16(..ranks) },
        3 => Call::Barrier,
        4 => Call::ReduceScatter { even: random.bool() },
        _ => Call::Allgather { even: random.bool() },
    };
    let operation = |one: &Operation| match call() {
        Call::Barrier => Operation { elements: 0, call: Call::Barrier, ..*one },
        call => Operation { call, ..*one },
    };
    let operations = plan.operations.iter().map(operation).collect();
    let upset = Upset::Restart { down: Duration::from_millis(20), epoch: 200 };
    let upsets =
        if seed.is_multiple_of(4) { vec![(START + Duration::from_millis(5), upset)] } else { Vec::new() };
    Plan { operations, payload: plan.payload + 40, upsets, start: START, ..plan }
}

#[test]
fn every_collective_ends_with_the_exact_bytes_on_every_rank() {
    let (first, seeds) = match std::env::var("PASCALINE_SEED") {
        Ok(seed) => (seed.parse().unwrap(), 1),
        Err(_) => (0, 300),
    };
    let (mut answered, mut resumed) = (0, 0);
    for seed in first..first + seeds {
        let plan = with_collectives(seed);
        let end = std::panic::catch_unwind(|| run(&plan, seed))
            .unwrap_or_else(|_| panic!("PASCALINE_SEED={seed} reproduces this: {plan:#?}"));
        for outcome in end.ranks {
            assert_eq!(outcome.failures, [], "seed {seed}");
            // A rank that has left before the appliance restarts does not return to say so.
            let alone = outcome.left == Some(Left::Lingered) && !plan.upsets.is_empty();
            assert!(outcome.left == Some(Left::Everyone) || alone, "seed {seed}");
            assert_eq!(outcome.verified as usize, plan.operations.len(), "seed {seed}");
            answered += outcome.counters.reminders_answered;
            resumed += outcome.counters.resumed;
        }
    }
    assert!(seeds == 1 || answered > 100 && resumed > 20, "{answered} {resumed}");
}

/// A packet takes 25 µs each way and less than 10 µs to be sent and to be received.
#[test]
fn a_barrier_takes_one_round_trip() {
    let barrier = Operation { call: Call::Barrier, ..Operation::i32_sum(0) };
    for ranks in [1, 2, 5] {
        let plan = Plan { operations: vec![barrier; 3], payload: 1024, ranks, ..gigabit(Conditions::IDEAL) };
        for outcome in run(&plan, 1).ranks {
            let round_trip = 2 * Conditions::IDEAL.delay;
            for took in &outcome.elapsed {
                assert!((round_trip..round_trip + Duration::from_micros(20)).contains(took), "{took:?}");
            }
            assert_eq!((outcome.elapsed.len(), outcome.counters.retransmissions), (3, 0));
        }
    }
}

/// The comparison goes beside the tensor: what a tensor of one packet takes, two packets take as well.
#[test]
fn comparing_costs_no_round_trip() {
    let broadcast = Operation { call: Call::Broadcast { root: 1 }, ..Operation::i32_sum(256) };
    let plan = Plan { operations: vec![broadcast], payload: 1024, ..gigabit(Conditions::IDEAL) };
    for outcome in run(&plan, 1).ranks {
        assert!(outcome.elapsed[0] < 2 * Conditions::IDEAL.delay + Duration::from_micros(40));
    }
}

/// Ranks whose packets meet at once, without loss.
struct Bench {
    now: Duration,
    sessions: Vec<Session>,
}

impl Bench {
    fn new(ranks: u16) -> Self {
        let session = |rank| {
            let identity = pascaline_worker::Identity { rank, ranks, payload: 64, ..MEMBERSHIP.identity };
            Session::new(Membership { identity, ..MEMBERSHIP }, 16)
        };
        Self { now: Duration::ZERO, sessions: (0..ranks).map(session).collect() }
    }

    fn start(
        &mut self,
        rank: usize,
        collective: &Collective<'_>,
        (dtype, tensor): (DType, &mut [u8]),
    ) -> Result<bool, StartError> {
        let request = Request { bytes: 0, dtype, op: Op::Sum, deadline: DEADLINE, hints: Hints::default() };
        self.sessions[rank].start_collective(self.now, &request, collective, tensor)
    }

    /// Carries packets, and lets time pass where there are none, until every rank has an event.
    fn run(&mut self, tensors: &mut [Vec<u8>]) -> Vec<Event> {
        let mut slots: BTreeMap<u32, BTreeMap<u16, Vec<u8>>> = BTreeMap::new();
        let mut events = vec![None; tensors.len()];
        while events.iter().any(Option::is_none) {
            let mut results = Vec::new();
            for (session, tensor) in self.sessions.iter_mut().zip(&*tensors) {
                while let Some(packet) = session.poll_transmit(self.now) {
                    let (header, _) = Header::parse(&packet.header).unwrap();
                    if header.kind != Kind::Gradient {
                        continue;
                    }
                    let slot = slots.entry(header.psn).or_default();
                    slot.insert(header.rank, session.payload(&packet, tensor).to_vec());
                    let mut parts = slot.values();
                    let mut sum = parts.next().unwrap().clone();
                    if slot.len() == tensors.len() && slot.values().all(|part| part.len() == sum.len()) {
                        let parts: Vec<&[u8]> = parts.map(Vec::as_slice).collect();
                        let Header { element, fan_in: count, .. } = header;
                        Kernels::scalar().in_order(element.dtype, element.op)(&mut sum, &parts);
                        let head = Header { kind: Kind::Result, own: Own::NONE, count, ..header };
                        results.push([&head.to_bytes()[..], &sum].concat());
                    }
                }
            }
            self.now += Duration::from_millis(if results.is_empty() { 50 } else { 1 });
            for ((session, tensor), event) in self.sessions.iter_mut().zip(&mut *tensors).zip(&mut events) {
                for result in &results {
                    *event = event.take().or(session.handle_datagram(self.now, result, tensor));
                }
                *event = event.take().or_else(|| session.handle_timeout(self.now));
            }
        }
        events.into_iter().flatten().collect()
    }
}

/// Every byte arrives as it was: NaNs, negative zeros, and lengths that no integer divides.
#[test]
fn bytes_are_handed_on_as_they_are() {
    let mut random = Rng::with_seed(7);
    for dtype in DType::ALL {
        for elements in [0, 1, 2, 15, 16, 33, 100] {
            let (ranks, bytes) = (3, elements * dtype.size());
            let mut tensors: Vec<Vec<u8>> =
                (0..ranks).map(|_| (0..bytes).map(|_| random.u8(..)).collect()).collect();
            let (before, mut bench) = (tensors.clone(), Bench::new(3));
            for (rank, tensor) in tensors.iter_mut().enumerate() {
                assert_eq!(bench.start(rank, &Collective::Broadcast { root: 1 }, (dtype, tensor)), Ok(true));
            }
            assert_eq!(bench.run(&mut tensors), vec![Event::Completed; ranks]);
            assert_eq!(tensors, vec![before[1].clone(); ranks], "{dtype:?} {elements}");

            tensors.clone_from(&before);
            for (rank, tensor) in tensors.iter_mut().enumerate() {
                let gather = Collective::Allgather { parts: Parts::Even };
                assert_eq!(bench.start(rank, &gather, (dtype, tensor)), Ok(true));
            }
            assert_eq!(bench.run(&mut tensors), vec![Event::Completed; ranks]);
            let part = |rank: u16| {
                let part = Parts::Even.of(rank, 3, elements).unwrap();
                before[usize::from(rank)][part.start * dtype.size()..part.end * dtype.size()].to_vec()
            };
            let gathered: Vec<u8> = (0..3).flat_map(part).collect();
            assert_eq!(tensors, vec![gathered; ranks], "{dtype:?} {elements}");
        }
    }
}

/// A broadcast takes single bytes as well.
#[test]
fn any_number_of_bytes_is_broadcast() {
    for bytes in 0..140 {
        let mut tensors: Vec<Vec<u8>> =
            vec![vec![0xa5; bytes], (0..140).map(|i| i ^ 0x80).take(bytes).collect()];
        let (root, mut bench) = (tensors[1].clone(), Bench::new(2));
        for (rank, tensor) in tensors.iter_mut().enumerate() {
            let broadcast = Collective::Broadcast { root: 1 };
            assert_eq!(bench.start(rank, &broadcast, (DType::I32, tensor)), Ok(true));
        }
        bench.run(&mut tensors);
        assert_eq!(tensors, [root.clone(), root], "{bytes}");
    }
}

/// Whatever rank 1 calls that is not what rank 0 calls, both fail, though every packet is there.
/// Holds R10.11 of protocol.md.
#[test]
fn ranks_that_call_different_operations_are_named() {
    let sum = |parts| Collective::ReduceScatter { op: Op::Sum, parts };
    let calls = [
        (Collective::Reduce { op: Op::Sum, root: 0 }, DType::F32, 64),
        (Collective::Reduce { op: Op::Sum, root: 1 }, DType::F32, 64),
        (Collective::Reduce { op: Op::Mean, root: 0 }, DType::F32, 64),
        (Collective::Reduce { op: Op::Sum, root: 0 }, DType::I32, 64),
        (Collective::Reduce { op: Op::Sum, root: 0 }, DType::F32, 60),
        (Collective::Broadcast { root: 0 }, DType::F32, 64),
        (Collective::Broadcast { root: 1 }, DType::F32, 64),
        (Collective::Barrier, DType::F32, 0),
        (sum(Parts::Even), DType::F32, 64),
        (sum(Parts::Counts(&[8, 8])), DType::F32, 64),
        (sum(Parts::Counts(&[7, 9])), DType::F32, 64),
        (Collective::Allgather { parts: Parts::Even }, DType::F32, 64),
        (Collective::Allgather { parts: Parts::Counts(&[7, 9]) }, DType::F32, 64),
    ];
    for (number, one) in calls.iter().enumerate() {
        for other in &calls[number + 1..] {
            let mut bench = Bench::new(2);
            let mut tensors = vec![vec![1; one.2], vec![2; other.2]];
            for (rank, (collective, dtype, _)) in [one, other].into_iter().enumerate() {
                let tensor = &mut tensors[rank];
                assert_eq!(bench.start(rank, collective, (*dtype, tensor)), Ok(true));
            }
            for event in bench.run(&mut tensors) {
                let Event::Failed(Failure::Rejected { rejection, .. }) = event else {
                    panic!("{one:?} {other:?}: {event:?}")
                };
                assert_eq!(rejection.reason, Reason::Operations(None));
            }
            assert!(bench.now < Duration::from_secs(3), "{one:?} {other:?}");
            assert!(bench.sessions[0].counters().ignored(Ignored::OtherOperation) > 0);
        }
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let mut bench = Bench::new(3);
    let mut tensor = vec![5; 64];
    let counts = [4, 5, 6];
    let cases = [
        (Collective::Broadcast { root: 3 }, StartError::Root { root: 3, ranks: 3 }),
        (Collective::Reduce { op: Op::Sum, root: 9 }, StartError::Root { root: 9, ranks: 3 }),
        (Collective::Barrier, StartError::NotEmpty { bytes: 64 }),
        (
            Collective::Allgather { parts: Parts::Counts(&counts) },
            StartError::Parts { parts: 3, ranks: 3, sum: 15, elements: 16 },
        ),
        (
            Collective::Allgather { parts: Parts::Counts(&[8, 8]) },
            StartError::Parts { parts: 2, ranks: 3, sum: 16, elements: 16 },
        ),
        (
            Collective::ReduceScatter { op: Op::Sum, parts: Parts::Counts(&[usize::MAX, 2, 15]) },
            StartError::Parts { parts: 3, ranks: 3, sum: usize::MAX, elements: 16 },
        ),
    ];
    for (collective, error) in cases {
        assert_eq!(bench.start(0, &collective, (DType::F32, &mut tensor)), Err(error));
        assert_eq!(tensor, [5; 64]);
    }
    let mean = Collective::Reduce { op: Op::Mean, root: 0 };
    let none = StartError::NoMean { dtype: DType::U32 };
    assert_eq!(bench.start(0, &mean, (DType::U32, &mut tensor)), Err(none));
    let ragged = StartError::Ragged { bytes: 62, size: 4 };
    let gather = Collective::Allgather { parts: Parts::Even };
    assert_eq!(bench.start(0, &gather, (DType::F32, &mut tensor[..62])), Err(ragged));
    let membership = Membership {
        identity: pascaline_worker::Identity { payload: 40, ..MEMBERSHIP.identity },
        ..MEMBERSHIP
    };
    bench.sessions[0] = Session::new(membership, 4);
    let short = StartError::ShortPayload { payload: 40 };
    assert_eq!(bench.start(0, &gather, (DType::F32, &mut tensor)), Err(short));
}

/// Below several appliances a mean is that of all workers, and there is no root that all would agree on.
/// Holds R10.12 of protocol.md.
#[test]
fn workers_below_several_appliances_divide_by_all_and_refuse_what_needs_ranks() {
    let membership = Membership { workers: 10, ..MEMBERSHIP };
    let (mut session, mut tensor) = (Session::new(membership, 16), [0; 4]);
    let request = Request {
        bytes: 4,
        dtype: DType::F32,
        op: Op::Sum,
        deadline: Duration::from_secs(1),
        hints: Hints::default(),
    };
    for (collective, name) in [
        (Collective::Broadcast { root: 0 }, "broadcast"),
        (Collective::Reduce { op: Op::Sum, root: 0 }, "reduce"),
        (Collective::ReduceScatter { op: Op::Sum, parts: Parts::Even }, "reduce_scatter"),
        (Collective::Allgather { parts: Parts::Even }, "allgather"),
    ] {
        let refused = session.start_collective(Duration::ZERO, &request, &collective, &mut tensor);
        assert_eq!(refused, Err(StartError::Subtree { collective: name, workers: 10 }));
    }
    let mean = Element { dtype: DType::F32, op: Op::Mean };
    assert_eq!(session.start(Duration::ZERO, 4, mean, Duration::from_secs(1)), Ok(true));
    while session.poll_transmit(Duration::ZERO).is_some() {}
    let flags = pascaline_wire::Flags::FIN;
    let header = Header { element: mean, flags, epoch: MEMBERSHIP.epoch, ..RESULT };
    let packet = [&header.to_bytes()[..], &25f32.to_le_bytes()].concat();
    let _ = session.handle_datagram(Duration::ZERO, &packet, &mut tensor);
    assert_eq!(f32::from_le_bytes(tensor), 2.5);
}
