//! Every element type and operation, in both orders; and what a result inherits from what is in it.

use pascaline_ps::{JobParams, Order, Outcome};
use pascaline_wire::{DType, Element, Flags, Op, Own};

use crate::packets::{EPOCH, PSN, Packet, give, ms, server_with, take};

/// The payload of the result of these contributions, and its flags.
fn combined(element: Element, order: Order, payloads: &[Vec<u8>]) -> (Vec<u8>, Flags) {
    let fan_in = u16::try_from(payloads.len()).unwrap();
    let mut server = server_with(JobParams { order, ..JobParams::new(fan_in, EPOCH) });
    for (rank, payload) in (0..).zip(payloads) {
        let mut packet = Packet::gradient(rank, PSN, fan_in, payload);
        packet.header.element = element;
        assert_eq!(give(&mut server, ms(0), &packet), Outcome::Added);
    }
    let (_, result) = take(&mut server).remove(0);
    assert_eq!((result.header.element, result.header.count), (element, fan_in));
    (result.payload, result.header.flags)
}

fn check(dtype: DType, op: Op, payloads: &[Vec<u8>], expected: &[u8], flags: Flags) {
    for order in [Order::Arrival, Order::Rank] {
        let result = combined(Element { dtype, op }, order, payloads);
        assert_eq!(result, (expected.to_vec(), flags), "{dtype:?} {op:?} {order:?}");
    }
}

#[test]
fn floats_of_all_widths() {
    // 3, -1, 2 in binary32, binary64, binary16 and bfloat16; the last one's expectations are 4, -1, 3.
    let f32s = [3.0_f32, -1.0, 2.0, 4.0].map(|value| value.to_le_bytes().to_vec());
    let f64s = [3.0_f64, -1.0, 2.0, 4.0].map(|value| value.to_le_bytes().to_vec());
    let f16s = [0x4200_u16, 0xbc00, 0x4000, 0x4400].map(|bits| bits.to_le_bytes().to_vec());
    let bf16s = [0x4040_u16, 0xbf80, 0x4000, 0x4080].map(|bits| bits.to_le_bytes().to_vec());
    for (dtype, values) in [(DType::F32, f32s), (DType::F64, f64s), (DType::F16, f16s), (DType::Bf16, bf16s)]
    {
        check(dtype, Op::Sum, &values[..3], &values[3], Flags::NONE);
        check(dtype, Op::Min, &values[..3], &values[1], Flags::NONE);
        check(dtype, Op::Max, &values[..3], &values[0], Flags::NONE);
        check(dtype, Op::Sum, &values[..1], &values[0], Flags::NONE);
    }
}

#[test]
fn sixteen_bit_sums_are_rounded_once() {
    // 2048 + 1 is not a binary16, and rounds back to 2048; 2048 + 1 + 1 is one.
    let payloads = [0x6800_u16, 0x3c00, 0x3c00].map(|bits| bits.to_le_bytes().to_vec());
    check(DType::F16, Op::Sum, &payloads, &0x6801_u16.to_le_bytes(), Flags::NONE);
}

/// 127 + 2 + 1 sixty-fourths are 65 with a scale of two; rounded after each addition they would be 64.
/// Holds R7.2 of protocol.md.
#[test]
fn sums_of_blocks_are_rounded_once_and_have_a_scale_of_their_own() {
    let block = |scale: u8, first: u8| [[scale, first].as_slice(), &[0; 31]].concat();
    let payloads = [127, 2, 1].map(|first| block(127, first));
    check(DType::MxInt8, Op::Sum, &payloads, &block(128, 65), Flags::NONE);
    // 256 + 256 + 16 is rounded to 512, which is 256 with a scale of two.
    let payloads = [0x78, 0x78, 0x58].map(|first| block(127, first));
    check(DType::MxFp8, Op::Sum, &payloads, &block(128, 0x78), Flags::NONE);
}

#[test]
fn integers_saturate_and_say_so() {
    let payloads = [i32::MAX, 1, -5].map(|value| value.to_le_bytes().to_vec());
    let expected = (i32::MAX - 5).to_le_bytes();
    check(DType::I32, Op::Sum, &payloads, &expected, Flags::OVERFLOW);
    check(DType::I32, Op::Min, &payloads, &payloads[2], Flags::NONE);
    check(DType::I32, Op::Max, &payloads, &payloads[0], Flags::NONE);
    check(DType::I32, Op::Sum, &payloads[1..], &(-4_i32).to_le_bytes(), Flags::NONE);
}

#[test]
fn a_result_inherits_congestion_saturation_and_the_least_memory() {
    let mut server = server_with(JobParams::new(3, EPOCH));
    let flags = [Flags::ECN_ECHO, Flags::OVERFLOW.with(Flags::RETRANSMISSION), Flags::BYPASS];
    for ((rank, flag), wnd_cap) in (0..).zip(flags).zip([900, 7, 65535]) {
        let mut packet = Packet::gradient(rank, PSN, 3, &[0; 4]).flag(flag);
        packet.header.own = Own::sum(0, wnd_cap);
        give(&mut server, ms(0), &packet);
    }
    let (_, result) = take(&mut server).remove(0);
    assert_eq!(result.header.flags, Flags::ECN_ECHO.with(Flags::OVERFLOW));
    assert_eq!(result.header.own.wnd_cap(), 7);
}
