//! Types and orders of sums.

use pascaline_aggregator::{Order, Policy};
use pascaline_testkit::Worker;
use pascaline_wire::header::{DType, Element, Kind, Op};

use super::plan;
use crate::common::appliance::{Plan, four};

#[test]
fn by_rank_the_same_values_give_the_same_bits_in_any_order() {
    let parts = [1e30f32, 1.0, -1e30, 1e-3];
    let sum = |policy: Policy, order: [usize; 4]| {
        let (mut bench, workers) = four(&plan(policy));
        for rank in order {
            let worker = Worker { element: Element::F32_SUM, ..workers[rank] };
            let body = parts[rank].to_le_bytes();
            bench.feed(0, [&worker.frame(&worker.header(Kind::Gradient, 1, 1), &body)]);
        }
        let heard = bench.heard(0);
        assert_eq!(heard.len(), 4);
        bench.end();
        heard[3].body.clone()
    };
    let by_rank = Policy { order: Order::Rank, ..Policy::default() };
    let expected = (((parts[0] + parts[1]) + parts[2]) + parts[3]).to_le_bytes();
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [2, 3, 0, 1]] {
        assert_eq!(sum(by_rank, order), expected, "{order:?}");
    }
    assert_ne!(sum(Policy::default(), [0, 2, 1, 3]), expected, "as they come, they do not");
}

#[test]
fn every_type_is_summed_by_its_own_arithmetic() {
    // 0.5, 2 and −1 in each type; the sum of the four ranks is 2 × 0.5 + 2 − 1 = 2.
    let block = |(scale, element)| [[scale].as_slice(), &[element; 32]].concat();
    let cases: [(DType, [Vec<u8>; 3]); 6] = [
        (DType::MxFp8, [(118, 0x78), (120, 0x78), (119, 0xf8)].map(block)),
        (DType::MxInt8, [(126, 64), (128, 64), (127, 0xc0)].map(block)),
        (DType::F32, [0.5f32, 2.0, -1.0].map(|value| value.to_le_bytes().to_vec())),
        (DType::F64, [0.5f64, 2.0, -1.0].map(|value| value.to_le_bytes().to_vec())),
        (DType::F16, [0x3800u16, 0x4000, 0xbc00].map(|bits| bits.to_le_bytes().to_vec())),
        (DType::Bf16, [0x3f00u16, 0x4000, 0xbf80].map(|bits| bits.to_le_bytes().to_vec())),
    ];
    for (dtype, [half, two, minus_one]) in cases {
        for (op, expected) in [(Op::Sum, &two), (Op::Min, &minus_one), (Op::Max, &two)] {
            if !(Element { dtype, op }).exists() {
                continue;
            }
            let (mut bench, workers) = four(&Plan::one_armed());
            for (worker, part) in workers.iter().zip([&half, &two, &minus_one, &half]) {
                let worker = Worker { element: Element { dtype, op }, ..*worker };
                bench.feed(0, [&worker.frame(&worker.header(Kind::Gradient, 1, 1), &part.repeat(3))]);
            }
            let heard = bench.heard(0);
            assert_eq!(heard.len(), 4);
            assert!(
                heard.iter().all(|heard| heard.body == expected.repeat(3)),
                "{dtype:?} {op:?}: {heard:?}"
            );
            assert_eq!(heard[0].header.element, Element { dtype, op });
            bench.end();
        }
    }
}
