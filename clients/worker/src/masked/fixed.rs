//! Elements as words that can be added modulo 2³².
//!
//! **Floats.** All ranks multiply by the same power of two, 2ˢ, and round to whole numbers. With M as the
//! largest magnitude of any rank's elements, s is the largest number with which N times the rounded M 2ˢ is
//! below 2³¹: no sum of N ranks overflows. So 2⁻ˢ < 4 M N / 2³¹, about. A rank's element is off by at most
//! 2⁻ˢ⁻¹, a sum by N 2⁻ˢ⁻¹; what comes out is rounded once more, to the element's type. Where all elements
//! are whole multiples of 2⁻ˢ, sums are exact before that. A mean is divided in `f64`.
//!
//! **Integers** are as they are, and **copies** are four bytes to a word, whatever they mean.

use half::slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _};
use half::{bf16, f16};
use pascaline_wire::{DType, Op};

use super::Fault;
use super::check::WORDS;
use crate::element::to_odd;

/// Of floats' bits the largest magnitude: from here on they are infinite, or no numbers.
const INFINITE: u32 = 0x7f80_0000;
/// What ranks can have together.
const MOST: u32 = i32::MAX.cast_unsigned();

/// How elements become words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// Bytes that other ranks add zeros to.
    Copies,
    /// `i32`.
    Integers,
    /// Floats, times 2ˢ; and how to come back.
    Fixed { dtype: DType, up: f64, down: f64 },
}

impl Form {
    /// Bytes of a tensor that one word has.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Fixed { dtype, .. } => dtype.size(),
            Self::Copies | Self::Integers => 4,
        }
    }

    /// Of sums of a type.
    ///
    /// # Errors
    /// If integers would leave the range, or a float's magnitude is none.
    pub(super) fn of_sums(dtype: DType, largest: u32, ranks: u16) -> Result<Self, Fault> {
        let each = MOST / u32::from(ranks.max(1));
        if dtype == DType::I32 {
            let range = Fault::Range { largest, ranks, most: each };
            return if largest <= each { Ok(Self::Integers) } else { Err(range) };
        }
        let (largest, each) = (f64::from(f32::from_bits(largest)), f64::from(each));
        let mut exponent = 0;
        if largest > 0.0 {
            exponent = whole((each / largest).log2()) + 1;
            while (largest * power(exponent)).round_ties_even() > each {
                exponent -= 1;
            }
        }
        Ok(Self::Fixed { dtype, up: power(exponent), down: power(-exponent) })
    }

    /// The words of some elements, of at most a block.
    pub(super) fn encode(self, bytes: &[u8], words: &mut [u32]) {
        match self {
            Self::Copies | Self::Integers => {
                let (whole, rest) = bytes.as_chunks();
                words.iter_mut().zip(whole).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
                if let Some(word) = words.get_mut(whole.len()) {
                    let mut whole = [0; 4];
                    whole[..rest.len()].copy_from_slice(rest);
                    *word = u32::from_le_bytes(whole);
                }
            }
            Self::Fixed { dtype, up, .. } => {
                let mut floats = [0.0; WORDS];
                let floats = &mut floats[..words.len()];
                read(dtype, bytes, floats);
                words
                    .iter_mut()
                    .zip(floats)
                    .for_each(|(word, float)| *word = nearest(f64::from(*float) * up));
            }
        }
    }

    /// The elements of some words, of at most a block. Means are divided by `ranks`.
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
    pub(super) fn decode(self, op: Op, ranks: u16, words: &[u32], bytes: &mut [u8]) {
        let signed = |word: &u32| f64::from(word.cast_signed());
        let (down, divisor) = match self {
            Self::Fixed { down, .. } => (down, f64::from(ranks)),
            Self::Copies | Self::Integers => (1.0, f64::from(ranks)),
        };
        let mean = op == Op::Mean;
        let real = |word: &u32| if mean { signed(word) * down / divisor } else { signed(word) * down };
        match self {
            Self::Integers if mean => {
                write(bytes, words, |word| (real(word).round_ties_even() as i32).to_le_bytes());
            }
            Self::Copies | Self::Integers => {
                let (whole, rest) = bytes.as_chunks_mut();
                whole.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
                if let Some(word) = words.get(whole.len()) {
                    rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
                }
            }
            Self::Fixed { dtype: dtype @ (DType::F16 | DType::Bf16), .. } => {
                let (mut floats, mut halves) = ([0.0; WORDS], [0; WORDS]);
                let (floats, halves) = (&mut floats[..words.len()], &mut halves[..words.len()]);
                floats.iter_mut().zip(words).for_each(|(float, word)| *float = to_odd(real(word)));
                if dtype == DType::F16 {
                    halves.reinterpret_cast_mut::<f16>().convert_from_f32_slice(floats);
                } else {
                    halves.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(floats);
                }
                let (places, _) = bytes.as_chunks_mut();
                places.iter_mut().zip(halves).for_each(|(place, half)| *place = half.to_le_bytes());
            }
            Self::Fixed { .. } => write(bytes, words, |word| (real(word) as f32).to_le_bytes()),
        }
    }
}

#[inline]
fn write<const N: usize>(bytes: &mut [u8], words: &[u32], element: impl Fn(&u32) -> [u8; N]) {
    let (places, _) = bytes.as_chunks_mut::<N>();
    places.iter_mut().zip(words).for_each(|(place, word)| *place = element(word));
}

/// The largest magnitude: of integers as it is, of floats the bits of an `f32`.
pub(super) fn magnitude(dtype: DType, bytes: &[u8]) -> u32 {
    let mut floats = [0.0; WORDS];
    if dtype == DType::I32 {
        let (integers, _) = bytes.as_chunks();
        return integers.iter().map(|bytes| i32::from_le_bytes(*bytes).unsigned_abs()).max().unwrap_or(0);
    }
    // As signed integers, which every processor can compare.
    let mut largest = 0;
    for bytes in bytes.chunks(WORDS * dtype.size()) {
        let floats = &mut floats[..bytes.len() / dtype.size()];
        read(dtype, bytes, floats);
        let bits = floats.iter().map(|float: &f32| float.abs().to_bits().cast_signed());
        largest = bits.fold(largest, i32::max);
    }
    largest.cast_unsigned()
}

/// Whether a magnitude is that of numbers.
pub(super) const fn is_finite(magnitude: u32) -> bool {
    magnitude < INFINITE
}

/// Elements as `f32`, exactly.
fn read(dtype: DType, bytes: &[u8], floats: &mut [f32]) {
    if dtype.size() == 4 {
        let (elements, _) = bytes.as_chunks();
        floats.iter_mut().zip(elements).for_each(|(float, bytes)| *float = f32::from_le_bytes(*bytes));
        return;
    }
    let (mut halves, (elements, _)) = ([0; WORDS], bytes.as_chunks());
    halves.iter_mut().zip(elements).for_each(|(half, bytes)| *half = u16::from_le_bytes(*bytes));
    let halves = &halves[..floats.len()];
    if dtype == DType::F16 {
        halves.reinterpret_cast::<f16>().convert_to_f32_slice(floats);
    } else {
        halves.reinterpret_cast::<bf16>().convert_to_f32_slice(floats);
    }
}

/// The nearest whole number, of two the even one, of one below 2³¹ in magnitude: added to 1.5 times 2⁵² it is
/// in the lowest bits, which every processor can do for several at once.
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the number")]
fn nearest(value: f64) -> u32 {
    (value + 6_755_399_441_055_744.0).to_bits() as u32
}

fn power(exponent: i32) -> f64 {
    f64::powi(2.0, exponent)
}

#[expect(clippy::cast_possible_truncation, reason = "at most 180 in magnitude")]
fn whole(value: f64) -> i32 {
    value.floor() as i32
}
