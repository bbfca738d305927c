//! Vector kernels: all `unsafe` of the kernels is here.
//!
//! Three layers. [`lanes`] declares the operations of a register of elements; `avx2`, `avx512` and `neon`
//! implement them with intrinsics. [`payload`] and [`wide`] hold the loops over payloads, written once for
//! any register. `kernels!` makes an entry point of each loop for one instruction set. A further instruction
//! set is one more module like `avx2`.
//!
//! Intrinsics instead of auto-vectorisation: that prefers 256-bit registers on processors where 512-bit ones
//! are faster, and has no saturating 32-bit add.

mod lanes;
mod payload;
mod wide;
#[cfg(target_arch = "x86_64")]
mod x86;

/// The entry points of an instruction set, and its `SET`.
///
/// Each loop is inlined into a function that has the features, and only there do intrinsics become
/// instructions; around it is a function without, which can be put into a table.
macro_rules! kernels {
    ($features:literal) => {
        use crate::combine::scalar::{Max, Min, Sum};
        use crate::combine::set::{Set, Sums, Table, at_once};
        use crate::combine::simd::lanes;

        $crate::combine::simd::entry! {
            $features, payload;
            combine<V: lanes::Lanes, R: lanes::Rule<V>>(into: &mut [u8], from: &[u8]) -> bool;
            in_order<V: lanes::Lanes, R: lanes::Rule<V>>(into: &mut [u8], from: &[&[u8]]) -> bool;
            non_finite<V: lanes::Finite>(bytes: &[u8]) -> usize;
        }
        $crate::combine::simd::entry! {
            $features, wide;
            second<V: lanes::Wide>(buffer: &mut [u8], from: &[u8]) -> bool;
            next<V: lanes::Wide>(buffer: &mut [u8], from: &[u8]) -> bool;
            last<V: lanes::Wide>(buffer: &mut [u8], from: &[u8]) -> bool;
            widen<V: lanes::Wide>(buffer: &mut [u8]) -> ();
            narrow<V: lanes::Wide>(buffer: &mut [u8]) -> ();
        }

        $crate::combine::simd::plain_entry! {
            $features, $crate::combine::blocks::sum;
            block_sum<F: pascaline_wire::mx::Format>(into: &mut [u8], from: &[&[u8]]) -> bool
        }
        $crate::combine::simd::plain_entry! {
            $features, pascaline_wire::mx::count_nans;
            count_nans<F: pascaline_wire::mx::Format>(bytes: &[u8]) -> usize
        }

        const fn plain<V: lanes::Sums + lanes::Extremes + lanes::Finite>() -> Table {
            Table {
                sum: Sums::Plain(combine::<V, Sum>),
                min: combine::<V, Min>,
                max: combine::<V, Max>,
                in_order: [in_order::<V, Sum>, in_order::<V, Min>, in_order::<V, Max>],
                non_finite: non_finite::<V>,
            }
        }

        /// `P` is the register for adding all at once, `W` the one for adding one by one, `V` the one for
        /// everything else.
        const fn sixteen<V: lanes::Extremes + lanes::Finite, W: lanes::Wide, P: lanes::Sums>() -> Table {
            Table {
                sum: Sums::Wide($crate::combine::WideSum {
                    second: second::<W>,
                    next: next::<W>,
                    last: last::<W>,
                    only_two: combine::<W, Sum>,
                    widen: widen::<W>,
                    narrow: narrow::<W>,
                }),
                min: combine::<V, Min>,
                max: combine::<V, Max>,
                in_order: [in_order::<P, Sum>, in_order::<V, Min>, in_order::<V, Max>],
                non_finite: non_finite::<V>,
            }
        }

        const fn blocks<F: pascaline_wire::mx::Format>() -> Table {
            at_once!(block_sum::<F>, count_nans::<F>)
        }

        const fn table(of: pascaline_wire::DType) -> Table {
            match of {
                pascaline_wire::DType::F32 => plain::<F32>(),
                pascaline_wire::DType::F64 => plain::<F64>(),
                pascaline_wire::DType::I32 => plain::<integer::I32>(),
                pascaline_wire::DType::U32 => plain::<integer::U32>(),
                pascaline_wire::DType::F16 => sixteen::<ExactF16, Widened<F16>, Paired<F16>>(),
                pascaline_wire::DType::Bf16 => sixteen::<ExactBf16, Widened<Bf16>, Paired<Bf16>>(),
                pascaline_wire::DType::MxFp8 => blocks::<pascaline_wire::mx::Fp8>(),
                pascaline_wire::DType::MxInt8 => blocks::<pascaline_wire::mx::Int8>(),
            }
        }

        static SET: Set = $crate::combine::set::set!(table);

        fn switchml(into: &mut [u8], from: &[u8]) -> bool {
            #[target_feature(enable = $features)]
            fn with_features(into: &mut [u8], from: &[u8]) -> bool {
                $crate::combine::switchml::sum(into, from)
            }
            // SAFETY: reachable only through `Kernels`, which are handed out only where the processor has the
            // features.
            unsafe { with_features(into, from) }
        }
    };
}

/// Entry points: for each, the loop of the same name in a module.
macro_rules! entry {
    ($features:literal, $module:ident;) => {};
    (
        $features:literal, $module:ident;
        $name:ident<$($of:ident: $bound:path),+>($($arg:ident: $type:ty),+) -> $out:ty;
        $($more:tt)*
    ) => {
        fn $name<$($of: $bound),+>($($arg: $type),+) -> $out {
            #[target_feature(enable = $features)]
            fn with_features<$($of: $bound),+>($($arg: $type),+) -> $out {
                // SAFETY: this function has the features of the instruction set whose registers these are.
                unsafe { $crate::combine::simd::$module::$name::<$($of),+>($($arg),+) }
            }
            // SAFETY: reachable only through `SET`, which is handed out only where the processor has the
            // features.
            unsafe { with_features::<$($of),+>($($arg),+) }
        }
        $crate::combine::simd::entry! { $features, $module; $($more)* }
    };
}

/// The same for a loop in plain Rust, which is compiled for the features.
macro_rules! plain_entry {
    (
        $features:literal, $loop:path;
        $name:ident<$of:ident: $bound:path>($($arg:ident: $type:ty),+) -> $out:ty
    ) => {
        fn $name<$of: $bound>($($arg: $type),+) -> $out {
            #[target_feature(enable = $features)]
            fn with_features<$of: $bound>($($arg: $type),+) -> $out {
                use $loop as run;
                run::<$of>($($arg),+)
            }
            // SAFETY: reachable only through `SET`, which is handed out only where the processor has the
            // features.
            unsafe { with_features::<$of>($($arg),+) }
        }
    };
}

/// The items of `Sums` for elements that never saturate.
macro_rules! never_saturates {
    () => {
        type Flag = ();

        #[inline]
        unsafe fn clear() {}

        #[inline]
        unsafe fn any((): ()) -> bool {
            false
        }
    };
}

/// Integers of 32 bits: what compares two registers of them, and that all are finite.
macro_rules! compared {
    ($features:literal, $integers:ident, $min:path, $max:path) => {
        impl $crate::combine::simd::lanes::Extremes for $integers {
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn min(self, other: Self) -> Self {
                Self($min(self.0, other.0))
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn max(self, other: Self) -> Self {
                Self($max(self.0, other.0))
            }
        }

        impl $crate::combine::simd::lanes::Finite for $integers {}
    };
}

use {compared, entry, kernels, never_saturates, plain_entry};

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
