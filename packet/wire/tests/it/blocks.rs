//! Blocks of elements with a scale, against the standard.

use pascaline_wire::mx::{self, Block, ELEMENTS, Format, Fp8, Int8, Values};
use pascaline_wire::{DType, Element, Op};
use proptest::prelude::*;

use crate::common::reference::Kind;

fn encode(kind: Kind, values: &Values) -> Block {
    match kind {
        Kind::E4m3 => mx::encode::<Fp8>(values),
        Kind::Int8 => mx::encode::<Int8>(values),
    }
}

fn decode(kind: Kind, block: &Block) -> Values {
    match kind {
        Kind::E4m3 => mx::decode::<Fp8>(block),
        Kind::Int8 => mx::decode::<Int8>(block),
    }
}

/// As `f32`, in which values too large are infinite.
#[allow(clippy::cast_possible_truncation, reason = "exact but for that")]
fn narrowed(values: &[f64]) -> Vec<u32> {
    values.iter().map(|&value| if value.is_nan() { 1 } else { (value as f32).to_bits() }).collect()
}

fn bits(values: &Values) -> Vec<u32> {
    values.iter().map(|value| if value.is_nan() { 1 } else { value.to_bits() }).collect()
}

#[test]
fn every_element_with_every_scale_has_the_standard_s_value() {
    for kind in Kind::ALL {
        for (scale, first) in (0..=u8::MAX).flat_map(|scale| (0..8).map(move |first| (scale, 32 * first))) {
            let mut block = [scale; mx::BYTES];
            (first..=first + 31).zip(&mut block[1..]).for_each(|(bits, element): (u8, _)| *element = bits);
            let (got, right) = (decode(kind, &block), kind.decode(&block));
            assert_eq!(bits(&got), narrowed(&right), "{kind:?} {scale} {first}");
        }
    }
}

/// Values whose magnitudes are close to each other, or anything.
fn values() -> impl Strategy<Value = Values> {
    let near = (prop::array::uniform32(any::<f32>()), -60i32..60).prop_map(|(values, power)| {
        values.map(|value| {
            let fraction = f32::from_bits(value.to_bits() & 0x807f_ffff | 0x3f80_0000);
            fraction * f32::powi(2.0, power - i32::from(value.to_bits().to_be_bytes()[1] & 15))
        })
    });
    let any_bits = prop::array::uniform32(any::<u32>().prop_map(f32::from_bits));
    let halfway = prop::array::uniform32((-600i16..600).prop_map(|count| f32::from(count) / 2.0));
    let tiny = prop::array::uniform32(
        (0u32..1 << 26, any::<bool>())
            .prop_map(|(bits, negative)| f32::from_bits(bits | u32::from(negative) << 31)),
    );
    prop_oneof![4 => near, 2 => any_bits, 2 => halfway, 1 => tiny]
}

proptest! {
    #[test]
    fn blocks_are_what_the_standard_makes_of_values(values in values()) {
        for kind in Kind::ALL {
            prop_assert_eq!(encode(kind, &values).to_vec(), kind.encode(&values), "{:?} {:?}", kind, values);
        }
    }

    /// The bound that the module states, and twice rounded is once rounded.
    #[test]
    fn rounding_is_within_its_bound(values in values()) {
        let values = values.map(|value| if value.is_finite() { value } else { 1.0 });
        let most = values.iter().fold(0.0, |most: f64, value| most.max(f64::from(value.abs())));
        for kind in Kind::ALL {
            let block = encode(kind, &values);
            let scale = f64::powi(2.0, i32::from(block[0]) - 127);
            let rounded = decode(kind, &block);
            for (value, rounded) in values.iter().zip(rounded) {
                let (x, off) = (f64::from(value.abs()), (f64::from(rounded) - f64::from(*value)).abs());
                let bound = match kind {
                    Kind::E4m3 if x > 464.0 * scale => {
                        prop_assert!(x > most * 29.0 / 32.0);
                        x / 8.0
                    }
                    Kind::E4m3 => (x / 16.0).max(most * f64::powi(2.0, -18)).max(f64::powi(2.0, -137)),
                    Kind::Int8 => (most / 128.0).max(f64::powi(2.0, -134)),
                };
                prop_assert!(off <= bound, "{kind:?} {value} {rounded}: {off} > {bound}");
            }
            prop_assert_eq!(encode(kind, &rounded), block);
        }
    }

    #[test]
    fn tensors_of_any_length_travel(values in prop::collection::vec(-1e6f32..1e6, 0..200)) {
        fn through<F: Format>(values: &[f32]) -> Vec<f32> {
            let mut bytes = vec![0xaa; values.len().div_ceil(ELEMENTS) * mx::BYTES];
            mx::pack::<F>(values, &mut bytes);
            let mut got = vec![0.0; values.len()];
            mx::unpack::<F>(&bytes, &mut got);
            assert_eq!(mx::count_nans::<F>(&bytes), 0);
            got
        }
        for (kind, got) in [(Kind::E4m3, through::<Fp8>(&values)), (Kind::Int8, through::<Int8>(&values))] {
            for (values, got) in values.chunks(32).zip(got.chunks(32)) {
                let padded: Vec<f32> = values.iter().chain(&[0.0; 32]).take(32).copied().collect();
                let right = narrowed(&kind.decode(&kind.encode(&padded)));
                let got: Vec<u32> = got.iter().map(|value| value.to_bits()).collect();
                prop_assert_eq!(&got, &right[..values.len()]);
            }
        }
    }
}

#[test]
fn what_is_no_number_stays_none() {
    let mut values = [1.0; ELEMENTS];
    (values[3], values[4], values[5]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let block = mx::encode::<Fp8>(&values);
    assert_eq!((block[0], block[1], &block[4..7]), (127 - 8, 0x78, [0x7f; 3].as_slice()));
    assert_eq!(mx::count_nans::<Fp8>(&block), 3);
    let block = mx::encode::<Int8>(&values);
    assert_eq!((block[0], &block[1..]), (255, [0; 32].as_slice()));
    assert_eq!(mx::count_nans::<Int8>(&block), 32);
    assert_eq!(mx::count_nans::<Fp8>(&[0x7f; 32]), 0, "no block");
}

#[test]
fn blocks_can_be_added_and_nothing_else() {
    for dtype in [DType::MxFp8, DType::MxInt8] {
        assert_eq!((dtype.size(), dtype.whole(1024), dtype.whole(32)), (33, 1023, 0));
        for op in Op::ALL {
            let element = Element { dtype, op };
            let known = Element::from_code(element.code());
            assert_eq!(known, op.adds().then_some(element));
            assert_eq!(Element::all().filter(|other| *other == element).count(), usize::from(op.adds()));
        }
    }
}
