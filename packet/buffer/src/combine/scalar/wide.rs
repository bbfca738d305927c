//! Sums of 16-bit floats in plain Rust.

use super::super::WideSum;
use super::super::half::Sixteen;
use super::element::{Element, Sum, Widened};

pub(super) const fn kernels<S: Sixteen>() -> WideSum {
    WideSum {
        second: second::<S>,
        next: next::<S>,
        last: last::<S>,
        only_two: super::combine::<Widened<S>, Sum, 2>,
        widen: widen::<S>,
        narrow: narrow::<S>,
    }
}

fn narrow_at<S: Sixteen>(bytes: &[u8], index: usize) -> f32 {
    Widened::<S>::read(bytes.as_chunks::<2>().0[index]).0
}

fn wide_at(bytes: &[u8], index: usize) -> f32 {
    f32::from_le_bytes(bytes.as_chunks::<4>().0[index])
}

fn put_wide(bytes: &mut [u8], index: usize, value: f32) {
    bytes.as_chunks_mut::<4>().0[index] = value.to_le_bytes();
}

fn put_narrow<S: Sixteen>(bytes: &mut [u8], index: usize, value: f32) {
    bytes.as_chunks_mut::<2>().0[index] = Widened::<S>::new(value).write();
}

fn room(wide: &[u8], narrow: &[u8]) -> usize {
    (wide.len() / 4).min(narrow.len() / 2)
}

fn second<S: Sixteen>(buffer: &mut [u8], from: &[u8]) -> bool {
    // Back to front: a value's wide form lies on narrow values behind it, never before it.
    for index in (0..room(buffer, from)).rev() {
        let sum = narrow_at::<S>(buffer, index) + narrow_at::<S>(from, index);
        put_wide(buffer, index, sum);
    }
    false
}

fn widen<S: Sixteen>(buffer: &mut [u8]) {
    for index in (0..buffer.len() / 4).rev() {
        let value = narrow_at::<S>(buffer, index);
        put_wide(buffer, index, value);
    }
}

fn next<S: Sixteen>(buffer: &mut [u8], from: &[u8]) -> bool {
    for index in 0..room(buffer, from) {
        let sum = wide_at(buffer, index) + narrow_at::<S>(from, index);
        put_wide(buffer, index, sum);
    }
    false
}

fn last<S: Sixteen>(buffer: &mut [u8], from: &[u8]) -> bool {
    // Front to back: a value's narrow form lies on wide values before it.
    for index in 0..room(buffer, from) {
        let sum = wide_at(buffer, index) + narrow_at::<S>(from, index);
        put_narrow::<S>(buffer, index, sum);
    }
    false
}

fn narrow<S: Sixteen>(buffer: &mut [u8]) {
    for index in 0..buffer.len() / 4 {
        let value = wide_at(buffer, index);
        put_narrow::<S>(buffer, index, value);
    }
}
