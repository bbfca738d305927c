//! What several test files need: generators of legal values, slow oracles, and the invariants of each parser.

pub(crate) mod fast_path;
pub(crate) mod invariants;
pub(crate) mod reference;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::VlanTags;
use pascaline_wire::multicast::Hearing;
use pascaline_wire::template::{Path, Template};
use pascaline_wire::trailer::{
    Bitmap, Operation, Operations, QueueState, RankReport, RankReports, RankState, Seal, Sentence, Update,
};
use pascaline_wire::{
    Address, Call, CongestionControl, DType, Element, Flags, Header, Kind, Mac, MulticastGroup, Op, Own,
    Trailer,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Gradient,
    Kind::Result,
    Kind::Partial,
    Kind::Update,
    Kind::Ack,
    Kind::Reminder,
    Kind::Fetch,
    Kind::Control,
];
pub(crate) const DTYPES: [DType; 8] = DType::ALL;
pub(crate) const OPS: [Op; 4] = Op::ALL;
pub(crate) const REQUESTS: [Action; 9] = [
    Action::Join,
    Action::Leave,
    Action::Reset,
    Action::SetH,
    Action::FBcast,
    Action::Help,
    Action::Halt,
    Action::Serve,
    Action::Query,
];

/// Bytes from hexadecimal digits with any white space between them.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).expect("a digit")).collect();
    assert!(digits.len().is_multiple_of(2), "whole bytes: {text}");
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits")).collect()
}

/// The Internet checksum, one word at a time with the carry brought round at once.
pub(crate) fn slow_checksum(pieces: &[&[u8]]) -> u16 {
    let mut bytes = pieces.concat();
    if bytes.len() % 2 == 1 {
        bytes.push(0);
    }
    let mut sum = 0u16;
    for word in bytes.chunks(2) {
        let (next, carry) = sum.overflowing_add(u16::from_be_bytes([word[0], word[1]]));
        sum = next + u16::from(carry);
    }
    !sum
}

/// The UDP or ICMPv6 checksum over `segment` behind the IPv6 header `ip`; 0 if the one in the segment is
/// right.
pub(crate) fn slow_checksum_v6(ip: &[u8], protocol: u8, segment: &[u8]) -> u16 {
    let length = u32::try_from(segment.len()).unwrap().to_be_bytes();
    slow_checksum(&[&ip[8..40], &length, &[0, 0, 0, protocol], segment])
}

/// One value of `strategy`, the same in each run.
pub(crate) fn sample<S: Strategy>(strategy: &S) -> S::Value {
    strategy.new_tree(&mut TestRunner::deterministic()).unwrap().current()
}

pub(crate) fn header() -> impl Strategy<Value = Header> {
    let elements: Vec<Element> = Element::all().collect();
    let codes = (prop::sample::select(&KINDS), 0..=0x3fu8, prop::sample::select(elements));
    let numbers = any::<(u16, u16, u32, u16, u16, u16, u16, u16)>();
    (codes, numbers).prop_map(|((kind, flags, element), numbers)| {
        let (job, rank, psn, fan_in, count, first, second, epoch) = numbers;
        let flags = Flags::from_bits(flags).expect("all six are defined");
        Header { kind, flags, element, job, rank, psn, fan_in, count, own: Own::sum(first, second), epoch }
    })
}

pub(crate) fn bitmap() -> impl Strategy<Value = Bitmap> {
    (1..=pascaline_wire::MAX_RANKS).prop_flat_map(|ranks| {
        prop::collection::vec(0..ranks, 0..40).prop_map(move |marked| {
            let mut bitmap = Bitmap::new(ranks).expect("a legal rank count");
            for rank in marked {
                assert!(bitmap.insert(rank), "below the rank count");
            }
            bitmap
        })
    })
}

pub(crate) fn trailer() -> impl Strategy<Value = Trailer> {
    // From bits, so that every NaN is among them.
    let update = any::<(u32, u64)>()
        .prop_map(|(reward, generated_ns)| Update { reward: f32::from_bits(reward), generated_ns });
    let queue = (any::<u16>(), any::<u16>(), 0..1u32 << 24)
        .prop_map(|(clusters, capacity, waiting)| QueueState { clusters, capacity, waiting });
    (
        prop::option::of(bitmap()),
        prop::option::of(update),
        prop::option::of(queue),
        prop::option::of((operation(), operation())),
        prop::option::of(prop::collection::vec(report(), 1..=RankReports::MAX)),
        ".{0,300}",
        prop::option::of(any::<(u64, u128)>()),
    )
        .prop_map(|(bitmap, update, queue, operations, reports, text, seal)| {
            let operations = operations.map(|(most, differing)| Operations { most, differing });
            let ranks = reports.map(|reports| {
                let mut ranks = RankReports::EMPTY;
                assert!(reports.into_iter().all(|report| ranks.push(report)), "there is room");
                ranks
            });
            let seal = seal.map(|(counter, tag)| Seal { counter, tag });
            Trailer { bitmap, update, queue, operations, ranks, sentence: Sentence::new(&text), seal }
        })
}

fn operation() -> impl Strategy<Value = Operation> {
    let elements: Vec<Element> = Element::all().collect();
    (any::<u16>(), prop::option::of(prop::sample::select(elements)), any::<(u32, u64)>()).prop_map(
        |(rank, element, (first, value))| {
            let (call, bytes) = Call::split(value % (6 << 60)).expect("six collectives");
            Operation { rank, element, first, call, bytes }
        },
    )
}

fn report() -> impl Strategy<Value = RankReport> {
    let numbers = any::<(u16, u32, u32, u16, [u8; 16])>();
    (prop::sample::select(&RankState::ALL), numbers).prop_map(|(state, numbers)| {
        let (rank, silent_ms, behind, port, address) = numbers;
        RankReport { rank, state, silent_ms, behind, port, address: Address::from_v6(address) }
    })
}

pub(crate) fn control() -> impl Strategy<Value = Control> {
    let request = prop::sample::select(&REQUESTS).prop_map(|action| (action, Status::Ok, None));
    let ack = (prop::sample::select(&Status::ALL), prop::option::of(prop::sample::select(&REQUESTS)))
        .prop_map(|(status, answers)| (Action::Ack, status, answers));
    let group = prop_oneof![
        (224..240u8, any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| [a, b, c, d].into()),
        any::<(u16, u32)>().prop_map(|(scope, low)| {
            let [_, scope] = scope.to_be_bytes();
            let low = low.to_be_bytes();
            let [a, b] = [[low[0], low[1]], [low[2], low[3]]].map(u16::from_be_bytes);
            std::net::Ipv6Addr::from([0xff00 | u16::from(scope), 0, 0, 0, 0, 0, a, b]).into()
        }),
    ]
    .prop_map(|address| MulticastGroup::new(address).expect("a group"));
    let about_group = (
        prop::sample::select(&Hearing::ALL),
        prop::option::of(prop::sample::select(&CongestionControl::ALL)),
        prop::option::of(group),
    );
    let numbers = any::<((u64, u16, u16, u32, u32, u64, u32), (u32, u16, u32, u32))>();
    (prop_oneof![request, ack], operation(), about_group, numbers).prop_map(
        |((action, status, answers), operation, (hearing, congestion, group), numbers)| {
            let ((session, payload, window, expected, got, cookie, psn), numbers) = numbers;
            let (number, joined, before, workers) = numbers;
            let Operation { rank: _, element, first, call, bytes } = operation;
            Control {
                action,
                status,
                answers,
                element,
                number,
                session,
                cookie,
                payload,
                window,
                joined,
                hearing,
                congestion,
                expected,
                got,
                before,
                psn,
                first,
                workers,
                call,
                bytes,
                group,
            }
        },
    )
}

/// Paths that can be on the wire: both addresses of one family, and IPv6 ones not IPv4-mapped.
pub(crate) fn path() -> impl Strategy<Value = Path> {
    let v4 =
        any::<([u8; 4], [u8; 4])>().prop_map(|(src, dst)| (Address::from_v4(src), Address::from_v4(dst)));
    let v6 = any::<([u8; 16], [u8; 16])>()
        .prop_map(|(src, dst)| (Address::from_v6(src), Address::from_v6(dst)))
        .prop_filter("not IPv4-mapped", |(src, dst)| src.as_v4().is_none() && dst.as_v4().is_none());
    let tag = (prop::sample::select(&[0x8100, 0x88a8]), any::<u16>());
    (prop_oneof![v4, v6], any::<([u8; 6], [u8; 6], u16, u16)>(), prop::collection::vec(tag, 0..=2)).prop_map(
        |((src, dst), (dst_mac, src_mac, dst_port, src_port), tags)| {
            let mut vlan = VlanTags::NONE;
            for (tpid, tci) in tags {
                assert!(vlan.push(tpid, tci), "at most two");
            }
            let (dst_mac, src_mac) = (Mac(dst_mac), Mac(src_mac));
            Path { dst_mac, src_mac, vlan, dst, src, dst_port, src_port, class: 0 }
        },
    )
}

/// A whole frame in a buffer that was full of 0xa5.
pub(crate) fn build(path: &Path, header: &Header, body: &[u8]) -> Vec<u8> {
    let template = Template::new(path);
    let mut frame = vec![0xa5; template.len() + body.len()];
    assert_eq!(template.write(&mut frame, header, body), Ok(template.len()));
    frame[template.len()..].copy_from_slice(body);
    frame
}

/// The trailer's bytes, from a buffer that was full of 0xa5.
pub(crate) fn trailer_bytes(trailer: &Trailer) -> Vec<u8> {
    let mut out = vec![0xa5; trailer.emitted_len() + 4];
    let len = trailer.emit(&mut out).expect("there is room");
    assert_eq!(len, trailer.emitted_len());
    assert_eq!(out[len..], [0xa5; 4], "nothing behind the trailer is touched");
    out.truncate(len);
    out
}
