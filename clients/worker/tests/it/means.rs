//! Quotients of sums.

use half::{bf16, f16};
use pascaline_wire::DType;
use pascaline_worker::element::{Element, divide};

#[test]
fn means_are_the_nearest_elements() {
    let mean = |dtype, bytes: &[u8], count| {
        let mut bytes = bytes.to_vec();
        divide(dtype, &mut bytes, count);
        bytes
    };
    let i32_mean =
        |sum: i32, count| i32::from_le_bytes(mean(DType::I32, &sum.to_le_bytes(), count).try_into().unwrap());
    // To nearest, halves to even.
    for (sum, count, expected) in [
        (7, 2, 4),
        (5, 2, 2),
        (-5, 2, -2),
        (-7, 2, -4),
        (10, 3, 3),
        (11, 3, 4),
        (-11, 3, -4),
        (i32::MIN, 1024, -2_097_152),
    ] {
        assert_eq!(i32_mean(sum, count), expected, "{sum} / {count}");
    }
    // 1/3 in each type, as their tables have it.
    assert_eq!(mean(DType::F32, &1_f32.to_le_bytes(), 3), 0x3eaa_aaab_u32.to_le_bytes());
    assert_eq!(mean(DType::F64, &1_f64.to_le_bytes(), 3), 0x3fd5_5555_5555_5555_u64.to_le_bytes());
    assert_eq!(mean(DType::F16, &f16::ONE.to_le_bytes(), 3), 0x3555_u16.to_le_bytes());
    assert_eq!(mean(DType::Bf16, &bf16::ONE.to_le_bytes(), 3), 0x3eab_u16.to_le_bytes());
    // 64 and 63 sixty-fourths: 64/3 and 21 of them, of which a quarter's scale has 85.33 and 84.
    let block = |bytes: &[u8]| [bytes, &[0; 30]].concat();
    assert_eq!(mean(DType::MxInt8, &block(&[127, 64, 63]), 3), block(&[125, 85, 84]));
    // 1/3 is 1.375 × 2⁻².
    assert_eq!(mean(DType::MxFp8, &block(&[119, 0x78, 0]), 3), block(&[117, 0x7b, 0]));
    // The smallest f32 has no half; three halves of it are nearer to two of it than to one by the rule of
    // even.
    assert_eq!(mean(DType::F32, &f32::from_bits(1).to_le_bytes(), 2), [0; 4]);
    assert_eq!(mean(DType::F32, &f32::from_bits(3).to_le_bytes(), 2), 2_u32.to_le_bytes());
    // Each element, and no bytes behind the last.
    let two = [3_i32.to_le_bytes(), 6_i32.to_le_bytes()].concat();
    assert_eq!(mean(DType::I32, &[&two[..], &[9]].concat(), 3), [1, 0, 0, 0, 2, 0, 0, 0, 9]);
    assert!(f32::from_le_bytes(mean(DType::F32, &f32::NAN.to_le_bytes(), 4).try_into().unwrap()).is_nan());
}

/// All sums of 16 bits, by a neighbour's distance, which is exact in binary64.
#[test]
fn means_of_16_bits_are_the_nearest_for_every_sum() {
    fn check<T: Element>(from_bits: impl Fn(u16) -> T, count: u32) {
        for bits in 0..1 << 15 {
            let sum = from_bits(bits).value();
            let mut bytes = bits.to_le_bytes();
            divide(T::DTYPE, &mut bytes, count);
            let mean = u16::from_le_bytes(bytes);
            let off = |mean: u16| (from_bits(mean).value() * f64::from(count) - sum).abs();
            let nearest = off(mean) <= off(mean + 1) && (mean == 0 || off(mean) <= off(mean - 1));
            assert!(!sum.is_finite() || nearest, "{:?}: {sum} / {count} is not {mean:#x}", T::DTYPE);
        }
    }
    for count in [2, 3, 7, 24, 1023] {
        check(f16::from_bits, count);
        check(bf16::from_bits, count);
    }
}
