//! The common steps of registers of 256 and of 512 bits; the names of the intrinsics differ.

/// The items of `Lanes` for a register: its bytes, the bytes of an element, its registers in a row, the
/// intrinsics that load and store integers at any alignment, and the conversions from a register of integers
/// and back. The module `part` is the instruction set's own.
macro_rules! register {
    (
        $features:literal, $bytes:literal, $element:literal, $in_a_row:literal,
        $load:path, $store:path, $from:path, $into:path
    ) => {
        const BYTES: usize = $bytes;
        const ELEMENT: usize = $element;
        const IN_A_ROW: usize = $in_a_row;

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller's promise; any alignment will do.
            Self($from(unsafe { $load(from.cast()) }))
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller's promise; any alignment will do.
            unsafe { $store(to.cast(), $into(self.0)) };
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
            // SAFETY: the caller's promise.
            Self($from(unsafe { super::part::load(from, bytes) }))
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn store_part(self, to: *mut u8, bytes: usize) {
            // SAFETY: the caller's promise.
            unsafe { super::part::store(to, bytes, $into(self.0)) };
        }
    };
}

/// `Exact`: floats of 16 bits as they are, of the type that has this infinity and this NaN. `lanes` are its
/// items of `Lanes`; `nans` puts a NaN in the places of a register where magnitudes are above infinity, and
/// `count` counts the places where two registers are equal.
macro_rules! exact {
    (
        $features:literal, $register:ty, lanes { $($lanes:tt)* },
        $and:ident, $xor:ident, $sign:ident, $splat:ident, $min:ident, $max:ident,
        nans $nans:ident, count $count:ident
    ) => {
        #[derive(Clone, Copy)]
        pub(super) struct Exact<const INFINITY: i16, const NAN: i16>($register);

        pub(super) type ExactF16 = Exact<0x7c00, 0x7e00>;
        pub(super) type ExactBf16 = Exact<0x7f80, 0x7fc0>;

        impl<const INFINITY: i16, const NAN: i16> Exact<INFINITY, NAN> {
            /// Numbers of which the order, as integers, is that of the floats, -0 below +0; and back again.
            #[inline]
            #[target_feature(enable = $features)]
            fn ordered(value: $register) -> $register {
                $xor(value, $and($sign::<15>(value), $splat(i16::MAX)))
            }

            /// `joined`, with the canonical NaN where one of the others has a NaN.
            #[inline]
            #[target_feature(enable = $features)]
            fn with_nans_of(joined: $register, a: $register, b: $register) -> Self {
                let magnitude = $splat(i16::MAX);
                let larger = $max($and(a, magnitude), $and(b, magnitude));
                Self($nans(joined, larger, $splat(INFINITY), $splat(NAN)))
            }
        }

        // SAFETY: loads and stores of a register, for unaligned addresses, or of the bytes given.
        unsafe impl<const INFINITY: i16, const NAN: i16> Lanes for Exact<INFINITY, NAN> {
            $($lanes)*
        }

        impl<const INFINITY: i16, const NAN: i16> Extremes for Exact<INFINITY, NAN> {
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn min(self, other: Self) -> Self {
                let least = $min(Self::ordered(self.0), Self::ordered(other.0));
                Self::with_nans_of(Self::ordered(least), self.0, other.0)
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn max(self, other: Self) -> Self {
                let most = $max(Self::ordered(self.0), Self::ordered(other.0));
                Self::with_nans_of(Self::ordered(most), self.0, other.0)
            }
        }

        impl<const INFINITY: i16, const NAN: i16> Finite for Exact<INFINITY, NAN> {
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn non_finite(self) -> u32 {
                let infinity = $splat(INFINITY);
                $count($and(self.0, infinity), infinity)
            }
        }
    };
}

/// `Widened`: floats of 16 bits, widened to a register of binary32 by `Convert`. `part` are its items of
/// `Lanes` for parts, if there are better ones than the trait's.
macro_rules! widened {
    ($features:literal, $bytes:literal, $load:ident, $store:ident, $add:ident, part { $($part:tt)* }) => {
        #[derive(Clone, Copy)]
        pub(super) struct Widened<S>(F32, PhantomData<S>);

        // SAFETY: loads and stores of half a register, for unaligned addresses, or of the bytes given.
        unsafe impl<S: Convert> Lanes for Widened<S> {
            const BYTES: usize = $bytes;
            const ELEMENT: usize = 2;

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                let narrow = unsafe { $load(from.cast()) };
                // SAFETY: this function has the instruction set.
                Self(F32(unsafe { S::widen(narrow) }), PhantomData)
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's promise.
                let narrow = unsafe { S::narrow(self.0.settled().0) };
                // SAFETY: as above.
                unsafe { $store(to.cast(), narrow) };
            }

            $($part)*
        }

        // SAFETY: the loads and stores of `F32`, a register of twice as many bytes; elements have 2 bytes.
        unsafe impl<S: Convert> Wide for Widened<S> {
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load_wide(from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { F32::load(from) }, PhantomData)
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store_wide(self, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { self.0.store(to) };
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load_wide_part(from: *const u8, bytes: usize) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { F32::load_part(from, bytes) }, PhantomData)
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store_wide_part(self, to: *mut u8, bytes: usize) {
                // SAFETY: the caller's promise.
                unsafe { self.0.store_part(to, bytes) };
            }
        }

        impl<S: Convert> Sums for Widened<S> {
            $crate::combine::simd::never_saturates!();

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
                Self(F32($add(self.0.0, other.0.0)), PhantomData)
            }
        }
    };
}

/// `Paired`: a register of 16-bit floats, widened to two of binary32 by `Split`. `more` are further items of
/// `Lanes`.
macro_rules! paired {
    (
        $features:literal, $bytes:literal, $register:ty, $wide:ty,
        $load:ident, $store:ident, $add:ident, more { $($more:tt)* }
    ) => {
        /// A 16-bit type as these registers convert it.
        pub(super) trait Split: Copy {
            /// The same values in binary32.
            unsafe fn widen(narrow: $register) -> [$wide; 2];
            /// The nearest values in the same places, to even where two are as near. `wide` has no NaNs but
            /// the canonical one.
            unsafe fn narrow(wide: [$wide; 2]) -> $register;
        }

        #[derive(Clone, Copy)]
        pub(super) struct Paired<S>([$wide; 2], PhantomData<S>);

        impl<S: Split> Paired<S> {
            #[inline]
            #[target_feature(enable = $features)]
            fn widen(narrow: $register) -> Self {
                // SAFETY: this function has the instruction set.
                Self(unsafe { S::widen(narrow) }, PhantomData)
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn narrow(self) -> $register {
                // SAFETY: this function has the instruction set.
                unsafe { S::narrow([F32(self.0[0]).settled().0, F32(self.0[1]).settled().0]) }
            }
        }

        // SAFETY: loads and stores of a register, for unaligned addresses, or of the bytes given.
        unsafe impl<S: Split> Lanes for Paired<S> {
            const BYTES: usize = $bytes;
            const ELEMENT: usize = 2;

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                Self::widen(unsafe { $load(from.cast()) })
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { $store(to.cast(), self.narrow()) };
            }

            $($more)*
        }

        impl<S: Split> Sums for Paired<S> {
            $crate::combine::simd::never_saturates!();

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
                Self([$add(self.0[0], other.0[0]), $add(self.0[1], other.0[1])], PhantomData)
            }
        }
    };
}

pub(super) use {exact, paired, register, widened};
