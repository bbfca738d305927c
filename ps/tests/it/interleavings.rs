//! Random packets against an oracle that knows only sets of ranks, and against nothing but "no panic".

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use pascaline_ps::{
    Capacity, Completion, Config, Destination, JobParams, Order, Outcome, RejectReason, Server,
};
use pascaline_wire::{DType, Element, Flags, Header, Kind, Op, Own};
use proptest::prelude::*;

use crate::packets::{
    EPOCH, JOB, Packet, check_identities, contribution, floats, give, ms, server_with, settled, sum_of, take,
};

#[derive(Debug, Clone)]
enum Step {
    Gradient { rank: u16, psn: u32, bypass: bool },
    Partial { ranks: BTreeSet<u16>, psn: u32 },
    Result { psn: u32 },
    Reminder { rank: u16, psn: u32 },
    Wait(u64),
}

fn steps(fan_in: u16) -> impl Strategy<Value = Vec<Step>> {
    let psn = 0_u32..4;
    let rank = 0..fan_in;
    let step = prop_oneof![
        8 => (rank.clone(), psn.clone(), any::<bool>())
            .prop_map(|(rank, psn, bypass)| Step::Gradient { rank, psn, bypass }),
        4 => (prop::collection::btree_set(rank.clone(), 1..=usize::from(fan_in)), psn.clone())
            .prop_map(|(ranks, psn)| Step::Partial { ranks, psn }),
        1 => psn.clone().prop_map(|psn| Step::Result { psn }),
        2 => (rank, psn).prop_map(|(rank, psn)| Step::Reminder { rank, psn }),
        2 => (0_u64..40_000).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..120)
}

/// What the server should hold.
#[derive(Default)]
struct Oracle {
    open: BTreeMap<u32, BTreeSet<u16>>,
    done: BTreeMap<u32, BTreeSet<u16>>,
}

impl Oracle {
    /// The outcome of these ranks' contribution, and whether the PSN is complete with it.
    fn collect(&mut self, psn: u32, ranks: &BTreeSet<u16>, partial: bool, needed: u16) -> (Outcome, bool) {
        if self.done.contains_key(&psn) {
            return (Outcome::Late, false);
        }
        if partial && ranks.len() >= usize::from(needed) {
            self.open.remove(&psn);
            self.done.insert(psn, ranks.clone());
            return (Outcome::Merged, true);
        }
        let there = self.open.entry(psn).or_default();
        if !there.is_disjoint(ranks) {
            let overlap = Outcome::Rejected { reason: RejectReason::Overlap, answer: None };
            return (if partial { overlap } else { Outcome::Duplicate }, false);
        }
        there.extend(ranks);
        let complete = there.len() >= usize::from(needed);
        if complete {
            self.done.insert(psn, self.open.remove(&psn).unwrap());
        }
        (if partial { Outcome::Merged } else { Outcome::Added }, complete)
    }
}

fn as_vec(ranks: &BTreeSet<u16>) -> Vec<u16> {
    ranks.iter().copied().collect()
}

/// A server and its oracle.
struct Pair {
    server: Server,
    oracle: Oracle,
    now: Duration,
    fan_in: u16,
    needed: u16,
    order: Order,
}

impl Pair {
    fn wait(&mut self, micros: u64) -> Result<(), TestCaseError> {
        self.now += Duration::from_micros(micros);
        while self.server.poll_timeout().is_some_and(|at| at <= self.now) {
            self.server.handle_timeout(self.now);
            for (to, packet) in take(&mut self.server) {
                prop_assert_ne!(packet.header.kind, Kind::Result);
                let open = &self.oracle.open[&packet.header.psn];
                if let Destination::Rank(rank) = to {
                    prop_assert!(!open.contains(&rank), "only missing ranks are asked");
                }
            }
        }
        Ok(())
    }

    /// Gives the server a packet, and says which PSN is complete with it.
    fn give(&mut self, step: Step) -> Result<Option<u32>, TestCaseError> {
        let Self { server, oracle, now, fan_in, needed, order } = self;
        let (now, fan_in, needed) = (*now, *fan_in, *needed);
        match step {
            Step::Wait(_) => Ok(None),
            Step::Gradient { rank, psn, bypass } => {
                let mut packet = Packet::gradient(rank, psn, fan_in, &contribution(rank, psn));
                if bypass {
                    packet = packet.flag(Flags::BYPASS);
                }
                let (outcome, complete) = oracle.collect(psn, &BTreeSet::from([rank]), false, needed);
                prop_assert_eq!(give(server, now, &packet), outcome);
                Ok(complete.then_some(psn))
            }
            Step::Partial { ranks, psn } => {
                let list = as_vec(&ranks);
                let packet = Packet::partial(&list, psn, fan_in, &sum_of(&list, psn));
                let outcome = give(server, now, &packet);
                if *order == Order::Rank {
                    let reason = RejectReason::OrderedPartial;
                    prop_assert_eq!(outcome, Outcome::Rejected { reason, answer: None });
                    return Ok(None);
                }
                let (expected, complete) = oracle.collect(psn, &ranks, true, needed);
                prop_assert_eq!(outcome, expected);
                Ok(complete.then_some(psn))
            }
            Step::Result { psn } => {
                let list: Vec<u16> = (0..fan_in).collect();
                let outcome = give(server, now, &Packet::result(psn, fan_in, &sum_of(&list, psn)));
                if oracle.done.contains_key(&psn) {
                    prop_assert_eq!(outcome, Outcome::Duplicate);
                } else if oracle.open.remove(&psn).is_some() {
                    prop_assert_eq!(outcome, Outcome::Completed);
                    oracle.done.insert(psn, list.into_iter().collect());
                    return Ok(Some(psn));
                } else {
                    let reason = RejectReason::Unasked;
                    prop_assert_eq!(outcome, Outcome::Rejected { reason, answer: None });
                }
                Ok(None)
            }
            Step::Reminder { rank, psn } => {
                let outcome = give(server, now, &Packet::reminder(rank, psn, fan_in));
                if oracle.done.contains_key(&psn) {
                    prop_assert_eq!(outcome, Outcome::Late);
                } else {
                    prop_assert_eq!(outcome, Outcome::Reminded);
                    oracle.open.entry(psn).or_default();
                }
                Ok(None)
            }
        }
    }

    /// Only exact sums are sent, and the one of a PSN that is complete goes to all.
    fn sends(&mut self, completed: Option<u32>) -> Result<(), TestCaseError> {
        let mut published = Vec::new();
        for (to, packet) in take(&mut self.server) {
            if packet.header.kind == Kind::Result {
                let ranks = as_vec(&self.oracle.done[&packet.header.psn]);
                prop_assert!(ranks.len() >= usize::from(self.needed));
                prop_assert_eq!(&packet.ranks(), &ranks);
                prop_assert_eq!(&packet.payload, &sum_of(&ranks, packet.header.psn));
                if to == Destination::Appliance {
                    published.push(packet.header.psn);
                }
            }
        }
        prop_assert!(completed.is_none_or(|psn| published == [psn]), "sent to all when complete");
        let usage = self.server.usage(JOB).unwrap();
        prop_assert_eq!((usage.open, usage.cached), (self.oracle.open.len(), self.oracle.done.len()));
        Ok(())
    }
}

/// Packets that any host may send.
#[derive(Debug, Clone)]
struct Anything {
    /// The payload's rank set has these, where it has one.
    ranks: Option<BTreeSet<u16>>,
    header: Header,
    payload: Vec<u8>,
    flags: u8,
    /// Microseconds until then.
    wait: u64,
}

fn anything() -> impl Strategy<Value = Anything> {
    const KINDS: [Kind; 10] = [
        Kind::Gradient,
        Kind::Gradient,
        Kind::Result,
        Kind::Partial,
        Kind::Reminder,
        Kind::Update,
        Kind::Ack,
        Kind::Fetch,
        Kind::Control,
        Kind::Partial,
    ];
    let dtype = prop_oneof![
        4 => Just(DType::F32),
        4 => prop::sample::select(vec![DType::I32, DType::F16, DType::Bf16, DType::F64, DType::MxInt8])
    ];
    let op = prop_oneof![2 => Just(Op::Sum), 1 => Just(Op::Min), 1 => Just(Op::Max)];
    let epoch = prop_oneof![9 => Just(EPOCH), 1 => any::<u16>()];
    (
        (prop::sample::select(KINDS.to_vec()), any::<u8>(), dtype, op, 0_u16..3),
        (prop_oneof![0_u16..5, any::<u16>()], 0_u32..12, prop_oneof![Just(4_u16), any::<u16>()]),
        (prop_oneof![0_u16..6, any::<u16>()], any::<u16>(), epoch),
        prop::collection::vec(any::<u8>(), 0..40),
        (prop::option::of(prop::collection::btree_set(0_u16..66, 0..5)), 0_u64..5_000),
    )
        .prop_map(
            |((kind, flags, dtype, op, job), (rank, psn, fan_in), rest, payload, (ranks, wait))| {
                let (count, wnd_cap, epoch) = rest;
                let element = Element { dtype, op };
                let header = Header {
                    kind,
                    flags: Flags::from_bits(flags & 0b1_1111).unwrap(),
                    element,
                    job,
                    rank,
                    psn,
                    fan_in,
                    count,
                    own: Own::sum(0, wnd_cap),
                    epoch,
                };
                Anything { ranks, header, payload, flags, wait }
            },
        )
}

impl Anything {
    fn packet(&self) -> Packet {
        let Header { fan_in, count, .. } = self.header;
        let mut packet = Packet { header: self.header, payload: self.payload.clone(), bitmap: None };
        if let Some(ranks) = &self.ranks {
            packet.header.fan_in = packet.header.fan_in.max(66);
            packet = packet.containing(&as_vec(ranks));
            packet.header.fan_in = fan_in;
            if count % 2 == 0 {
                packet.header.count = count;
            }
        }
        packet
    }
}

fn number() -> impl Strategy<Value = f32> {
    any::<f32>().prop_filter("NaN", |value| !value.is_nan())
}

proptest! {
    #[test]
    fn each_contribution_counts_once_and_results_are_complete(
        (fan_in, steps) in (1_u16..80).prop_flat_map(|fan_in| (Just(fan_in), steps(fan_in))),
        threshold in 1_u16..80,
        all: bool,
        order in prop_oneof![Just(Order::Arrival), Just(Order::Rank)],
    ) {
        let threshold = threshold.min(fan_in);
        let completion = if all { Completion::All } else { Completion::AtLeast(threshold) };
        let params = JobParams { completion, order, ..JobParams::new(fan_in, EPOCH) };
        let (needed, server) = (params.needed(), server_with(params));
        let mut pair =
            Pair { server, oracle: Oracle::default(), now: Duration::ZERO, fan_in, needed, order };
        for step in steps {
            if let Step::Wait(micros) = step {
                pair.wait(micros)?;
            } else {
                let completed = pair.give(step)?;
                pair.sends(completed)?;
            }
        }
    }

    /// Sums whose bits depend on the order, in any order of arrival: the bits are those of the order of
    /// ranks.
    #[test]
    fn order_of_ranks_gives_the_same_bits(
        values in prop::collection::vec(prop::collection::vec(number(), 5), 1..20),
        seed: u64,
    ) {
        let fan_in = u16::try_from(values.len()).unwrap();
        let mut expected = values[0].clone();
        for other in &values[1..] {
            expected.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
        }
        prop_assume!(expected.iter().all(|sum| !sum.is_nan()));
        let mut order: Vec<u16> = (0..fan_in).collect();
        order.sort_by_key(|&rank| (u64::from(rank) + 1).wrapping_mul(seed | 1));
        let mut server = server_with(JobParams { order: Order::Rank, ..JobParams::new(fan_in, EPOCH) });
        for rank in order {
            give(&mut server, ms(0), &Packet::gradient(rank, 0, fan_in, &floats(&values[usize::from(rank)])));
        }
        prop_assert_eq!(&take(&mut server)[0].1.payload, &floats(&expected));
    }

    /// For any packets at any time: no panic, the identities hold, memory stays within its bounds.
    #[test]
    fn nothing_that_is_received_does_harm(
        packets in prop::collection::vec(anything(), 1..150),
        rank_order: bool,
        threshold in 1_u16..5,
        from_epoch: bool,
    ) {
        let order = if rank_order { Order::Rank } else { Order::Arrival };
        let params = JobParams {
            order,
            completion: Completion::AtLeast(threshold),
            payload_max: 32,
            capacity: Capacity { entries: 4, bytes: 300 },
            ..JobParams::new(4, EPOCH)
        };
        let config = Config { cached: 3, burst: 5, age_limit: ms(300), ..settled() };
        let mut server = Server::new(config);
        server.set_job(1, params).unwrap();
        let mut now = Duration::ZERO;
        for what in packets {
            let (mut packet, wait) = (what.packet(), what.wait);
            if from_epoch {
                server.handle_datagram(now, &packet.to_bytes());
            } else {
                // The flag may announce a trailer that is not there.
                packet.header.flags = Flags::from_bits(what.flags & 0b11_1111).unwrap();
                server.handle(now, &packet.header, &packet.body());
            }
            now += Duration::from_micros(wait * wait / 100);
            if server.poll_timeout().is_some_and(|at| at <= now) {
                server.handle_timeout(now);
            }
            if wait % 3 > 0 {
                while let Some(action) = server.poll_action() {
                    prop_assert_eq!(&Packet::from(&action).payload[..], action.payload);
                }
            }
            let usage = server.usage(1).unwrap();
            prop_assert!(usage.bytes <= 300 && usage.open <= 4 && usage.cached <= 3);
            let counters = server.counters();
            prop_assert_eq!(counters.received, counters.accounted());
            let ended = counters.finished + counters.given_up + counters.forgotten;
            prop_assert_eq!(counters.opened, ended + usage.open as u64);
        }
        check_identities_of_job_1(&mut server);
    }
}

fn check_identities_of_job_1(server: &mut Server) {
    server.remove_job(1);
    check_identities(server);
}
