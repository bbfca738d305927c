//! No parser panics, whatever it is given, and what it accepts it would write in the same way.

use pascaline_wire::arp::{Arp, Operation};
use pascaline_wire::switchml::{self, Body, Mark, Place, Route, Size};
use pascaline_wire::{Mac, header};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::{self, invariants};

/// Damage to a valid packet: most of it stays intact, so that the deep paths are reached.
#[derive(Debug, Clone)]
enum Mutation {
    Flip(Index, u8),
    Set(Index, u8),
    Truncate(Index),
    Extend(Vec<u8>),
    Remove(Index),
    Duplicate(Index, Index),
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Flip(at, bit) => *at.get_mut(bytes) ^= 1 << (bit % 8),
            Self::Set(at, value) => *at.get_mut(bytes) = *value,
            Self::Truncate(at) => bytes.truncate(at.index(bytes.len())),
            Self::Extend(tail) => bytes.extend_from_slice(tail),
            Self::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
            Self::Duplicate(from, to) => {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                bytes.extend_from_within(from.min(to)..from.max(to));
            }
        }
    }
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let mutation = prop_oneof![
        4 => any::<(Index, u8)>().prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        // Small values are the codes and lengths.
        4 => (any::<Index>(), prop_oneof![0..16u8, any::<u8>()])
            .prop_map(|(at, value)| Mutation::Set(at, value)),
        1 => any::<Index>().prop_map(Mutation::Truncate),
        1 => vec(any::<u8>(), 1..8).prop_map(Mutation::Extend),
        1 => any::<Index>().prop_map(Mutation::Remove),
        1 => any::<(Index, Index)>().prop_map(|(from, to)| Mutation::Duplicate(from, to)),
    ];
    vec(mutation, 0..4)
}

/// A body that the header's kind may have, or nearly.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let elements =
        vec(any::<u64>(), 0..4).prop_map(|words| words.iter().flat_map(|w| w.to_le_bytes()).collect());
    let control = common::control().prop_map(|control| control.to_bytes().to_vec());
    (prop_oneof![Just(Vec::new()), elements, control], prop::option::of(common::trailer())).prop_map(
        |(mut body, trailer)| {
            body.extend(trailer.iter().flat_map(common::trailer_bytes));
            body
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn frame(bytes in vec(any::<u8>(), 0..200)) {
        invariants::frame(&bytes);
    }

    /// Holds R14.7 of protocol.md.
    #[test]
    fn frame_mutated(
        path in common::path(),
        header in common::header(),
        body in body(),
        mutations in mutations(),
        mended: bool,
    ) {
        let mut bytes = common::build(&path, &header, &body);
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        if mended {
            invariants::mend(&mut bytes);
        }
        invariants::frame(&bytes);
    }

    #[test]
    fn switchml(bytes in vec(any::<u8>(), 0..80), own in vec(prop_oneof![Just(0x11), any::<u8>()], 0..300)) {
        invariants::switchml(&bytes);
        invariants::switchml_body(&own);
    }

    #[test]
    fn switchml_mutated(
        size in prop::sample::select(vec![Size::Bytes256, Size::Bytes1024]),
        (slot, second) in (0..512u16, any::<bool>()),
        (operation, packet) in any::<(u8, u32)>(),
        mutations in mutations(),
    ) {
        let way = (Mac([2; 6]), [10, 0, 0, 1], 4000);
        let body = Body { size, mark: Mark { operation, packet }, place: Place { slot, second } };
        let mut bytes = switchml::headers(&Route { to: way, from: way }, body).to_vec();
        bytes.resize(bytes.len() + usize::from(size.summed()), 0);
        prop_assert!(invariants::switchml(&bytes));
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        invariants::switchml(&bytes);
    }

    #[test]
    fn header(bytes in vec(any::<u8>(), 0..80)) {
        invariants::header(&bytes);
    }

    #[test]
    fn header_mutated(header in common::header(), body in body(), mutations in mutations()) {
        let mut bytes = vec![0xa5; header::LEN];
        header.emit(&mut bytes)?;
        bytes.extend_from_slice(&body);
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        invariants::header(&bytes);
    }

    #[test]
    fn trailer(bytes in vec(prop_oneof![0..16u8, any::<u8>()], 0..40)) {
        invariants::trailer(&bytes);
    }

    #[test]
    fn trailer_mutated(
        trailer in common::trailer(),
        before in vec(any::<u8>(), 0..9),
        mutations in mutations(),
    ) {
        let mut bytes = before;
        bytes.extend(common::trailer_bytes(&trailer));
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        invariants::trailer(&bytes);
    }

    #[test]
    fn control(bytes in vec(0..20u8, 0..30)) {
        invariants::control(&bytes);
    }

    #[test]
    fn control_mutated(control in common::control(), mutations in mutations()) {
        let mut bytes = control.to_bytes().to_vec();
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        invariants::control(&bytes);
    }

    #[test]
    fn arp(bytes in vec(any::<u8>(), 14..60)) {
        invariants::arp(&bytes, 14);
    }

    #[test]
    fn arp_mutated(macs: [u8; 12], ips: [[u8; 4]; 2], mutations in mutations()) {
        let mac = |at: usize| Mac(core::array::from_fn(|i| macs[at + i]));
        let packet = Arp {
            operation: Operation::Request,
            sender_mac: mac(0),
            sender_ip: ips[0],
            target_mac: mac(6),
            target_ip: ips[1],
        };
        let mut bytes = [0xff; 42];
        bytes[12..14].copy_from_slice(&[8, 6]);
        packet.emit(&mut bytes[14..])?;
        let mut bytes = bytes.to_vec();
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        invariants::frame(&bytes);
    }

    /// Echoes and solicitations with a good checksum (else every one would be refused), then damaged.
    #[test]
    fn icmp_mutated(
        path in common::path(),
        kind in prop::sample::select(&[0u8, 8, 128, 129, 135, 136]),
        mut rest in vec(prop_oneof![Just(0), any::<u8>()], 6..40),
        hop_limit in prop_oneof![Just(255u8), any::<u8>()],
        other_protocol: bool,
        mutations in mutations(),
        mended: bool,
    ) {
        let v4 = path.src.as_v4().is_some();
        rest.splice(0..0, [kind, 0]);
        rest[2..4].fill(0);
        let mut bytes = common::build(&path, &common::sample(&common::header()), &[]);
        let l3 = 14 + path.vlan.wire_len();
        let l4 = l3 + if v4 { 20 } else { 40 };
        bytes.truncate(l4);
        let length = u16::try_from(rest.len()).unwrap();
        // Either protocol may stand behind either version: only one of the two is ICMP there.
        let protocol = if v4 == other_protocol { 58 } else { 1 };
        if v4 {
            bytes[l3 + 2..l3 + 4].copy_from_slice(&(length + 20).to_be_bytes());
            bytes[l3 + 9] = protocol;
            bytes[l3 + 10..l3 + 12].fill(0);
            let sum = common::slow_checksum(&[&bytes[l3..l4]]);
            bytes[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
        } else {
            bytes[l3 + 4..l3 + 6].copy_from_slice(&length.to_be_bytes());
            bytes[l3 + 6..l3 + 8].copy_from_slice(&[protocol, hop_limit]);
        }
        let sum = if v4 {
            common::slow_checksum(&[&rest])
        } else {
            common::slow_checksum_v6(&bytes[l3..l4], protocol, &rest)
        };
        rest[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(rest);
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        if mended {
            invariants::mend(&mut bytes);
        }
        invariants::frame(&bytes);
    }
}

/// The generators above reach the accepting paths: without damage, every frame with a body of its kind is
/// accepted.
#[test]
fn undamaged_packets_are_accepted() {
    let mut accepted = 0;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..400 {
        use proptest::strategy::ValueTree;
        let packet = (common::path(), common::header(), body()).new_tree(&mut runner).unwrap().current();
        accepted += usize::from(invariants::frame(&common::build(&packet.0, &packet.1, &packet.2)));
    }
    assert!(accepted > 50, "{accepted} of 400");
}
