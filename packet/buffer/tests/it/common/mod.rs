//! Payloads with awkward values, and element arithmetic written independently of the crate.

use fastrand::Rng;
use half::{bf16, f16};
use pascaline_wire::{DType, Op};

/// The values at which arithmetic goes wrong, of either sign.
pub(crate) fn special(of: DType) -> Vec<Vec<u8>> {
    fn both(sign: u64, size: usize, values: &[u64]) -> Vec<Vec<u8>> {
        let signed = values.iter().flat_map(|value| [*value, value | sign]);
        signed.map(|bits| bits.to_le_bytes()[..size].to_vec()).collect()
    }
    // Zero, least and largest denormal, least normal, one, just above one, largest, infinity; NaNs:
    // signalling, quiet, with everything set.
    match of {
        DType::F32 => both(
            1 << 31,
            4,
            &[
                0,
                1,
                0x007f_ffff,
                0x0080_0000,
                0x3f80_0000,
                0x3f80_0001,
                0x7f7f_ffff,
                0x7f80_0000,
                0x7f80_0001,
                0x7fc0_0000,
                0x7fff_ffff,
            ],
        ),
        DType::F64 => both(
            1 << 63,
            8,
            &[
                0,
                1,
                0x000f_ffff_ffff_ffff,
                0x0010_0000_0000_0000,
                0x3ff0_0000_0000_0000,
                0x3ff0_0000_0000_0001,
                0x7fef_ffff_ffff_ffff,
                0x7ff0_0000_0000_0000,
                0x7ff0_0000_0000_0001,
                0x7ff8_0000_0000_0000,
                0x7fff_ffff_ffff_ffff,
            ],
        ),
        DType::I32 => [0, 1, -1, 2, i32::MAX, i32::MAX - 1, i32::MIN, i32::MIN + 1]
            .iter()
            .map(|value: &i32| value.to_le_bytes().to_vec())
            .collect(),
        DType::U32 => both(1 << 31, 4, &[0, 1, 2, 0x7fff_fffe, 0x7fff_ffff]),
        DType::F16 => {
            both(1 << 15, 2, &[0, 1, 0x03ff, 0x0400, 0x3c00, 0x3c01, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7fff])
        }
        DType::Bf16 => {
            both(1 << 15, 2, &[0, 1, 0x007f, 0x0080, 0x3f80, 0x3f81, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x7fff])
        }
        DType::MxFp8 | DType::MxInt8 => unreachable!(),
    }
}

/// The types whose elements stand alone.
pub(crate) const PLAIN: [DType; 6] =
    [DType::F32, DType::I32, DType::U32, DType::F16, DType::Bf16, DType::F64];

/// `count` elements: one in `awkward` a special value, the others any bits.
pub(crate) fn payload(of: DType, count: usize, awkward: usize, random: &mut Rng) -> Vec<u8> {
    let special = special(of);
    let mut bytes = Vec::with_capacity(count * of.size());
    for _ in 0..count {
        if random.usize(..awkward) == 0 {
            bytes.extend(&special[random.usize(..special.len())]);
        } else {
            bytes.extend(&random.u64(..).to_le_bytes()[..of.size()]);
        }
    }
    bytes
}

/// `bytes` behind this many others that loads are unaligned.
pub(crate) fn skewed(bytes: &[u8], skew: usize) -> Vec<u8> {
    [&vec![0xa5; skew], bytes].concat()
}

/// What arithmetic is done in: every type but `f64` and integers is exact in `f32`.
fn f32_of(of: DType, bytes: &[u8]) -> f32 {
    match of {
        DType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()),
        DType::F16 => f16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
        DType::Bf16 => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
        DType::F64 | DType::I32 | DType::U32 | DType::MxFp8 | DType::MxInt8 => unreachable!(),
    }
}

/// The 16-bit element nearest to `value`, the canonical NaN for any NaN.
pub(crate) fn rounded(of: DType, value: f32) -> Vec<u8> {
    match (of, value.is_nan()) {
        (DType::F16, false) => f16::from_f32(value).to_le_bytes().to_vec(),
        (DType::Bf16, false) => bf16::from_f32(value).to_le_bytes().to_vec(),
        _ => canonical_nan(of),
    }
}

pub(crate) fn canonical_nan(of: DType) -> Vec<u8> {
    match of {
        DType::F32 => 0x7fc0_0000u32.to_le_bytes().to_vec(),
        DType::F64 => 0x7ff8_0000_0000_0000u64.to_le_bytes().to_vec(),
        DType::F16 => 0x7e00u16.to_le_bytes().to_vec(),
        DType::Bf16 => 0x7fc0u16.to_le_bytes().to_vec(),
        DType::I32 | DType::U32 | DType::MxFp8 | DType::MxInt8 => unreachable!(),
    }
}

pub(crate) fn is_nan(of: DType, element: &[u8]) -> bool {
    match of {
        DType::F64 => f64::from_le_bytes(element.try_into().unwrap()).is_nan(),
        DType::I32 | DType::U32 => false,
        _ => f32_of(of, element).is_nan(),
    }
}

pub(crate) fn is_non_finite(of: DType, element: &[u8]) -> bool {
    match of {
        DType::F64 => !f64::from_le_bytes(element.try_into().unwrap()).is_finite(),
        DType::I32 | DType::U32 => false,
        _ => !f32_of(of, element).is_finite(),
    }
}

/// Every NaN of a payload made the canonical one.
pub(crate) fn canonical(of: DType, bytes: &[u8]) -> Vec<u8> {
    let elements = bytes.chunks(of.size());
    elements.flat_map(|e| if is_nan(of, e) { canonical_nan(of) } else { e.to_vec() }).collect()
}

/// The smaller or larger one of two floats, by cases.
macro_rules! extreme {
    ($op:expr, $a:expr, $b:expr) => {
        match $op {
            _ if $a == $b && $a.is_sign_negative() != $b.is_sign_negative() => {
                $a.is_sign_negative() == ($op == Op::Min)
            }
            Op::Min => $a <= $b,
            _ => $a >= $b,
        }
    };
}

/// The expected combination of two elements: the result, with a canonical NaN, and whether it saturated.
pub(crate) fn joined(of: DType, op: Op, a: &[u8], b: &[u8]) -> (Vec<u8>, bool) {
    if is_nan(of, a) || is_nan(of, b) {
        return (canonical_nan(of), false);
    }
    let chosen = |first: bool| (if first { a } else { b }.to_vec(), false);
    match of {
        DType::I32 => {
            let (x, y) =
                (i32::from_le_bytes(a.try_into().unwrap()), i32::from_le_bytes(b.try_into().unwrap()));
            match op {
                Op::Sum | Op::Mean => {
                    let exact = i64::from(x) + i64::from(y);
                    let clamped = exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                    (i32::try_from(clamped).unwrap().to_le_bytes().to_vec(), clamped != exact)
                }
                Op::Min => chosen(x <= y),
                Op::Max => chosen(x >= y),
            }
        }
        DType::U32 => {
            let (x, y) =
                (u32::from_le_bytes(a.try_into().unwrap()), u32::from_le_bytes(b.try_into().unwrap()));
            match op {
                Op::Sum | Op::Mean => {
                    let wrapped = (u64::from(x) + u64::from(y)) % (1 << 32);
                    (u32::try_from(wrapped).unwrap().to_le_bytes().to_vec(), false)
                }
                Op::Min => chosen(x <= y),
                Op::Max => chosen(x >= y),
            }
        }
        DType::F64 => {
            let (x, y) =
                (f64::from_le_bytes(a.try_into().unwrap()), f64::from_le_bytes(b.try_into().unwrap()));
            match op {
                Op::Sum | Op::Mean => (canonical(of, &(x + y).to_le_bytes()), false),
                _ => chosen(extreme!(op, x, y)),
            }
        }
        DType::F32 | DType::F16 | DType::Bf16 => {
            let (x, y) = (f32_of(of, a), f32_of(of, b));
            match op {
                Op::Sum | Op::Mean if of == DType::F32 => (canonical(of, &(x + y).to_le_bytes()), false),
                Op::Sum | Op::Mean => (rounded(of, x + y), false),
                _ => chosen(extreme!(op, x, y)),
            }
        }
        DType::MxFp8 | DType::MxInt8 => unreachable!(),
    }
}

/// ((x0 + x1) + x2) + … of 16-bit elements, rounded once.
pub(crate) fn sum_rounded_once<'a>(of: DType, elements: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let sum = elements.map(|element| f32_of(of, element)).reduce(|sum, value| sum + value);
    rounded(of, sum.unwrap())
}
