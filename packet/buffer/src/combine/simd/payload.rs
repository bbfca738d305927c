//! The loops over payloads of one element size.
//!
//! A rest that does not fill a register is filled up with zeros: they join to zeros, saturate nothing and are
//! finite. The condition of all of them: the processor has the instruction set of `V`.

use super::lanes::{Finite, Lanes, Rule};

/// [`Combine`](super::super::Combine)
#[inline(always)]
pub(in super::super) unsafe fn combine<V: Lanes, R: Rule<V>>(into: &mut [u8], from: &[u8]) -> bool {
    let shorter = into.len().min(from.len());
    let bytes = shorter - shorter % V::ELEMENT;
    // SAFETY: no more than there are of either.
    let (into, from) = unsafe { (into.get_unchecked_mut(..bytes), from.get_unchecked(..bytes)) };
    // SAFETY: the caller's promise.
    let mut saturated = unsafe { R::clear() };
    let mut row = 0;
    if V::IN_A_ROW > 1 {
        while into.len() - row >= V::IN_A_ROW * V::BYTES {
            for register in 0..V::IN_A_ROW {
                // SAFETY: this many registers' worth of bytes are left of both, which are equally long.
                unsafe {
                    let at = row + register * V::BYTES;
                    let (a, b) = (into.as_mut_ptr().add(at), from.as_ptr().add(at));
                    R::join(V::load(a), V::load(b), &mut saturated).store(a);
                }
            }
            row += V::IN_A_ROW * V::BYTES;
        }
        // The usual case.
        if row == into.len() {
            // SAFETY: the caller's promise.
            return unsafe { R::any(saturated) };
        }
    }
    let (mut into, mut from) = (into[row..].chunks_exact_mut(V::BYTES), from[row..].chunks_exact(V::BYTES));
    for (a, b) in (&mut into).zip(&mut from) {
        // SAFETY: both are chunks of as many bytes as the register has.
        unsafe { R::join(V::load(a.as_ptr()), V::load(b.as_ptr()), &mut saturated).store(a.as_mut_ptr()) };
    }
    let (a, b) = (into.into_remainder(), from.remainder());
    if !a.is_empty() {
        let bytes = a.len();
        // SAFETY: both have this many bytes, which are whole elements.
        unsafe {
            let sum =
                R::join(V::load_part(a.as_ptr(), bytes), V::load_part(b.as_ptr(), bytes), &mut saturated);
            sum.store_part(a.as_mut_ptr(), bytes);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { R::any(saturated) }
}

/// [`InOrder`](super::super::InOrder)
#[inline(always)]
pub(in super::super) unsafe fn in_order<V: Lanes, R: Rule<V>>(into: &mut [u8], from: &[&[u8]]) -> bool {
    let shortest = if !from.is_empty() && from.iter().all(|input| input.len() >= into.len()) {
        // The usual case. Compilers would look for the shortest four at a time, which takes longer for so
        // few.
        into.len()
    } else {
        shortest(from)
    };
    let into = &mut into[..shortest - shortest % V::ELEMENT];
    // SAFETY: the caller's promise.
    let mut saturated = unsafe { R::clear() };
    let mut at = 0;
    const { assert!(V::ABREAST == 4 || V::ABREAST == 8) };
    while into.len() - at >= V::ABREAST * V::BYTES {
        // SAFETY: this many bytes are left of `into`, which is not longer than any input.
        unsafe {
            if V::ABREAST == 4 {
                columns::<V, R, 4>(into, from, at, &mut saturated);
            } else {
                columns::<V, R, 8>(into, from, at, &mut saturated);
            }
        }
        at += V::ABREAST * V::BYTES;
    }
    while into.len() - at >= V::BYTES {
        // SAFETY: as above.
        unsafe { columns::<V, R, 1>(into, from, at, &mut saturated) };
        at += V::BYTES;
    }
    let bytes = into.len() - at;
    if bytes > 0 {
        // SAFETY: this many bytes are left of all of them, and they are whole elements.
        unsafe {
            let into = into.as_mut_ptr().add(at);
            let mut sum = V::load_part(into, bytes);
            for input in from {
                sum = R::join(sum, V::load_part(input.as_ptr().add(at), bytes), &mut saturated);
            }
            R::settle(sum).store_part(into, bytes);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { R::any(saturated) }
}

/// The length of the shortest; 0 if there are none.
#[cold]
#[inline(never)]
fn shortest(from: &[&[u8]]) -> usize {
    from.iter().map(|input| input.len()).min().unwrap_or(0)
}

/// Brings `N` registers' worth of all inputs together, from byte `at` on.
///
/// # Safety
/// `into` and every input have `N * V::BYTES` bytes from there, and the processor has the instruction set of
/// `V`.
#[inline(always)]
unsafe fn columns<V: Lanes, R: Rule<V>, const N: usize>(
    into: &mut [u8],
    from: &[&[u8]],
    at: usize,
    saturated: &mut R::Flag,
) {
    // SAFETY: every access is to one of the N registers' worth of bytes from `at`.
    unsafe {
        let into = into.as_mut_ptr().add(at);
        let mut sums = [V::load(into); N];
        for (index, sum) in sums.iter_mut().enumerate() {
            *sum = V::load(into.add(index * V::BYTES));
        }
        for input in from {
            let input = input.as_ptr().add(at);
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = R::join(*sum, V::load(input.add(index * V::BYTES)), saturated);
            }
        }
        for sum in &mut sums {
            *sum = R::settle(*sum);
        }
        V::store_all(sums, into);
    }
}

/// [`NonFinite`](super::super::NonFinite)
#[inline(always)]
pub(in super::super) unsafe fn non_finite<V: Finite>(bytes: &[u8]) -> usize {
    let mut chunks = bytes[..bytes.len() - bytes.len() % V::ELEMENT].chunks_exact(V::BYTES);
    let mut count = 0;
    for chunk in &mut chunks {
        // SAFETY: a chunk has as many bytes as the register.
        count += unsafe { V::load(chunk.as_ptr()).non_finite() } as usize;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        // SAFETY: the bytes that are left are whole elements.
        count += unsafe { V::load_part(rest.as_ptr(), rest.len()).non_finite() } as usize;
    }
    count
}
