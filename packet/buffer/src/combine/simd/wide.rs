//! The loops of [`WideSum`](super::super::WideSum).
//!
//! A buffer of 4n bytes holds n values, narrow in its first 2n bytes or wide in all of them. The condition of
//! all loops: the processor has the instruction set of `V`.

use super::super::scalar::Sum;
use super::lanes::{Lanes, Rule, Wide};

/// The whole registers' worth of narrow values among `count`, in bytes, and all of them.
#[inline(always)]
fn split<V: Lanes>(count: usize) -> (usize, usize) {
    let all = 2 * count;
    (all - all % V::BYTES, all)
}

#[inline(always)]
fn room(wide: &[u8], narrow: &[u8]) -> usize {
    (wide.len() / 4).min(narrow.len() / 2)
}

/// The narrow values at byte `at`: a register's worth, or `part` of one.
///
/// # Safety
/// `narrow` points at this many bytes behind `at`.
#[inline(always)]
unsafe fn load<V: Wide>(narrow: *const u8, at: usize, part: Option<usize>) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        match part {
            None => V::load(narrow.add(at)),
            Some(bytes) => V::load_part(narrow.add(at), bytes),
        }
    }
}

/// `value`, plus the narrow values at byte `at` of `from`, if given.
///
/// # Safety
/// As for [`load`].
#[inline(always)]
unsafe fn plus<V: Wide>(value: V, from: Option<&[u8]>, at: usize, part: Option<usize>) -> V {
    let Some(from) = from else { return value };
    // SAFETY: the caller's promise. Floats do not saturate, so the flag does not matter.
    unsafe { <Sum as Rule<V>>::join(value, load(from.as_ptr(), at, part), &mut V::clear()) }
}

/// Turns `count` narrow values wide, plus those of `from`.
///
/// # Safety
/// `buffer` has 4 bytes and `from` 2 for each of `count` values; the processor has the instruction set of
/// `V`.
#[inline(always)]
unsafe fn spread<V: Wide>(buffer: &mut [u8], from: Option<&[u8]>, count: usize) {
    // Back to front: a value's wide form lies on narrow values behind it, never before it.
    let (whole, all) = split::<V>(count);
    let base = buffer.as_mut_ptr();
    // SAFETY, of both blocks: narrow values end at `all` at the latest, which both slices have, and wide ones
    // at twice `all`, which the buffer has. Narrow values are in a register before wide ones overwrite them,
    // and no byte before twice `at` is written.
    if whole < all {
        let part = all - whole;
        // SAFETY: see above.
        unsafe {
            let sum: V = plus(load(base, whole, Some(part)), from, whole, Some(part));
            sum.store_wide_part(base.add(2 * whole), 2 * part);
        }
    }
    let mut at = whole;
    while at > 0 {
        at -= V::BYTES;
        // SAFETY: see above.
        unsafe {
            let sum: V = plus(load(base, at, None), from, at, None);
            sum.store_wide(base.add(2 * at));
        }
    }
}

/// Turns `count` wide values narrow, after adding those of `from`.
///
/// # Safety
/// As for [`spread`].
#[inline(always)]
unsafe fn gather<V: Wide>(buffer: &mut [u8], from: Option<&[u8]>, count: usize) {
    // Front to back: a value's narrow form lies on wide values before it.
    let (whole, all) = split::<V>(count);
    let base = buffer.as_mut_ptr();
    // SAFETY, of both blocks: as in `spread`, except that here the bytes that are not written lie behind the
    // narrow values.
    let mut at = 0;
    while at < whole {
        // SAFETY: see above.
        unsafe {
            let sum = plus(V::load_wide(base.add(2 * at)), from, at, None);
            sum.store(base.add(at));
        }
        at += V::BYTES;
    }
    if whole < all {
        let part = all - whole;
        // SAFETY: see above.
        unsafe {
            let sum = plus(V::load_wide_part(base.add(2 * whole), 2 * part), from, whole, Some(part));
            sum.store_part(base.add(whole), part);
        }
    }
}

#[inline(always)]
pub(in super::super) unsafe fn second<V: Wide>(buffer: &mut [u8], from: &[u8]) -> bool {
    let count = room(buffer, from);
    // SAFETY: both have room for `count`, and the caller's promise.
    unsafe { spread::<V>(buffer, Some(from), count) };
    false
}

#[inline(always)]
pub(in super::super) unsafe fn next<V: Wide>(buffer: &mut [u8], from: &[u8]) -> bool {
    let (whole, all) = split::<V>(room(buffer, from));
    let base = buffer.as_mut_ptr();
    // SAFETY, of both blocks: narrow values end at `all` at the latest, which `from` has, and wide ones at
    // twice `all`, which the buffer has.
    for at in (0..whole).step_by(V::BYTES) {
        // SAFETY: see above.
        unsafe {
            let wide = base.add(2 * at);
            plus(V::load_wide(wide), Some(from), at, None).store_wide(wide);
        }
    }
    if whole < all {
        let part = all - whole;
        // SAFETY: see above.
        unsafe {
            let wide = base.add(2 * whole);
            let sum = plus(V::load_wide_part(wide, 2 * part), Some(from), whole, Some(part));
            sum.store_wide_part(wide, 2 * part);
        }
    }
    false
}

#[inline(always)]
pub(in super::super) unsafe fn last<V: Wide>(buffer: &mut [u8], from: &[u8]) -> bool {
    let count = room(buffer, from);
    // SAFETY: both have room for `count`, and the caller's promise.
    unsafe { gather::<V>(buffer, Some(from), count) };
    false
}

#[inline(always)]
pub(in super::super) unsafe fn widen<V: Wide>(buffer: &mut [u8]) {
    let count = buffer.len() / 4;
    // SAFETY: the buffer has room for `count`, and the caller's promise.
    unsafe { spread::<V>(buffer, None, count) };
}

#[inline(always)]
pub(in super::super) unsafe fn narrow<V: Wide>(buffer: &mut [u8]) {
    let count = buffer.len() / 4;
    // SAFETY: as above.
    unsafe { gather::<V>(buffer, None, count) };
}
