//! The operations of a register full of elements.
//!
//! Every method is an intrinsic or a few of them. So all have one condition, not repeated at each: the
//! processor has the instruction set of the register.

use super::super::scalar::{Max, Min, Sum};

/// A register full of elements.
///
/// # Safety
/// `load` reads, and `store` writes, `BYTES` bytes at any alignment and touches no others; `store_all`
/// likewise for its number of registers, and `load_part` and `store_part` for the bytes that they are given.
/// `BYTES` is at most [`WIDEST`], and a multiple of `ELEMENT`.
pub(in super::super) unsafe trait Lanes: Copy {
    /// Payload bytes that fill the register.
    const BYTES: usize;
    /// Payload bytes of one element.
    const ELEMENT: usize;
    /// Registers that [`combine`](super::payload::combine) joins before it checks the length. With registers
    /// of 512 bits, where the check costs nothing, it is fastest to check at each.
    const IN_A_ROW: usize = 1;
    /// Registers that take part in one pass of [`in_order`](super::payload::in_order) over the inputs, 4 or
    /// 8: enough chains of dependent additions to hide the latency of one, and no more than the processor has
    /// registers for.
    const ABREAST: usize = 8;

    /// # Safety
    /// `from` points at `BYTES` readable bytes.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// `to` points at `BYTES` writable bytes.
    unsafe fn store(self, to: *mut u8);

    /// Stores several, one behind the other: a check before each can then be one for all.
    ///
    /// # Safety
    /// `to` points at `N * BYTES` writable bytes.
    #[inline(always)]
    unsafe fn store_all<const N: usize>(all: [Self; N], to: *mut u8) {
        for (index, one) in all.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { one.store(to.add(index * Self::BYTES)) };
        }
    }

    /// The elements in fewer bytes than fill the register, and zeros behind them.
    ///
    /// # Safety
    /// `from` points at `bytes` readable bytes, whole elements, fewer than `BYTES`.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        let mut copy = [0; WIDEST];
        // SAFETY: the caller's promise, and the copy has room for a register.
        unsafe {
            from.copy_to_nonoverlapping(copy.as_mut_ptr(), bytes);
            Self::load(copy.as_ptr())
        }
    }

    /// Stores the first elements only.
    ///
    /// # Safety
    /// `to` points at `bytes` writable bytes, whole elements, fewer than `BYTES`.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        let mut copy = [0; WIDEST];
        // SAFETY: the caller's promise, and the copy has room for a register.
        unsafe {
            self.store(copy.as_mut_ptr());
            to.copy_from_nonoverlapping(copy.as_ptr(), bytes);
        }
    }
}

/// The most bytes that a register holds.
const WIDEST: usize = 64;

/// Elements that can be added.
pub(in super::super) trait Sums: Lanes {
    /// Where elements have saturated.
    type Flag: Copy;

    /// Nowhere.
    unsafe fn clear() -> Self::Flag;
    /// Sums, and where they had to be clamped.
    unsafe fn sum(self, other: Self, saturated: &mut Self::Flag) -> Self;
    /// True if it is anywhere.
    unsafe fn any(saturated: Self::Flag) -> bool;
    /// The canonical NaN for any NaN, unless storing does that.
    #[inline(always)]
    unsafe fn settled(self) -> Self {
        self
    }
}

/// Elements that can be compared.
pub(in super::super) trait Extremes: Lanes {
    unsafe fn min(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
}

/// Elements that can be infinite or NaN.
pub(in super::super) trait Finite: Lanes {
    /// How many are: no integers.
    #[inline(always)]
    unsafe fn non_finite(self) -> u32 {
        0
    }
}

/// 16-bit floats that are a register of binary32 once loaded.
///
/// # Safety
/// `load_wide` reads, and `store_wide` writes, twice `BYTES` bytes at any alignment and touches no others;
/// `load_wide_part` and `store_wide_part` likewise for the bytes that they are given. `ELEMENT` is 2.
pub(in super::super) unsafe trait Wide: Sums {
    /// # Safety
    /// `from` points at twice `BYTES` readable bytes.
    unsafe fn load_wide(from: *const u8) -> Self;

    /// # Safety
    /// `to` points at twice `BYTES` writable bytes.
    unsafe fn store_wide(self, to: *mut u8);

    /// # Safety
    /// `from` points at `bytes` readable bytes, whole wide elements, fewer than twice `BYTES`.
    unsafe fn load_wide_part(from: *const u8, bytes: usize) -> Self;

    /// # Safety
    /// `to` points at `bytes` writable bytes, whole wide elements, fewer than twice `BYTES`.
    unsafe fn store_wide_part(self, to: *mut u8, bytes: usize);
}

/// How two registers become one; the same for every instruction set.
pub(in super::super) trait Rule<V: Lanes> {
    /// Where elements have saturated.
    type Flag: Copy;

    unsafe fn clear() -> Self::Flag;
    unsafe fn join(a: V, b: V, saturated: &mut Self::Flag) -> V;
    unsafe fn any(saturated: Self::Flag) -> bool;
    /// Applied once to the end of a chain of joins.
    unsafe fn settle(a: V) -> V;
}

impl<V: Sums> Rule<V> for Sum {
    type Flag = V::Flag;

    #[inline(always)]
    unsafe fn clear() -> V::Flag {
        // SAFETY: the caller's promise.
        unsafe { V::clear() }
    }

    #[inline(always)]
    unsafe fn join(a: V, b: V, saturated: &mut V::Flag) -> V {
        // SAFETY: the caller's promise.
        unsafe { a.sum(b, saturated) }
    }

    #[inline(always)]
    unsafe fn any(saturated: V::Flag) -> bool {
        // SAFETY: the caller's promise.
        unsafe { V::any(saturated) }
    }

    #[inline(always)]
    unsafe fn settle(a: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { a.settled() }
    }
}

macro_rules! extreme {
    ($rule:ty, $method:ident) => {
        impl<V: Extremes> Rule<V> for $rule {
            type Flag = ();

            #[inline(always)]
            unsafe fn clear() {}

            #[inline(always)]
            unsafe fn join(a: V, b: V, (): &mut ()) -> V {
                // SAFETY: the caller's promise.
                unsafe { a.$method(b) }
            }

            #[inline(always)]
            unsafe fn any((): ()) -> bool {
                false
            }

            #[inline(always)]
            unsafe fn settle(a: V) -> V {
                a
            }
        }
    };
}

extreme!(Min, min);
extreme!(Max, max);
