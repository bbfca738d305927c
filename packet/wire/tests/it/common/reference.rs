//! Blocks by the standard's text (OCP Microscaling Formats, version 1.0, sections 5 and 6), in `f64` and by
//! search, with nothing taken from the code that is tested.

/// An element type of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    E4m3,
    Int8,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::E4m3, Self::Int8];

    /// The value of an element's bits, without the scale.
    pub(crate) fn value(self, bits: u8) -> f64 {
        match self {
            Self::Int8 => f64::from(bits.cast_signed()) / 64.0,
            Self::E4m3 => {
                let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
                let magnitude = match (exponent, bits & 7) {
                    (15, 7) => f64::NAN,
                    (0, _) => fraction / 8.0 * f64::powi(2.0, -6),
                    _ => (1.0 + fraction / 8.0) * f64::powi(2.0, exponent - 7),
                };
                if bits & 0x80 == 0 { magnitude } else { -magnitude }
            }
        }
    }

    /// Exponent of the largest power of two among the elements.
    fn largest_power(self) -> i32 {
        let powers = (-20..20).filter(|&e| (0..=u8::MAX).any(|bits| self.value(bits) == f64::powi(2.0, e)));
        powers.max().expect("there are powers of two")
    }

    /// The element nearest to a value, of two the one whose last bit is 0; beyond the largest, the largest.
    fn nearest(self, value: f64) -> u8 {
        // The magnitude −2 of a byte stays unused, so that signs are symmetric.
        let usable = |bits: &u8| !(self == Self::Int8 && *bits == 0x80);
        let candidates = (0..=u8::MAX).filter(usable).filter(|&bits| {
            let candidate = self.value(bits);
            candidate.is_finite() && (candidate == 0.0 || candidate.signum() == value.signum())
        });
        let best = candidates.min_by(|&a, &b| {
            let off = |bits| (self.value(bits) - value).abs();
            off(a).total_cmp(&off(b)).then((a & 1).cmp(&(b & 1)))
        });
        let best = best.expect("zero is one");
        // Zeros keep their sign where there are two.
        match self {
            Self::E4m3 if best & 0x7f == 0 => {
                if value.is_sign_negative() {
                    0x80
                } else {
                    0
                }
            }
            _ => best,
        }
    }

    /// The scale's exponent for the largest finite magnitude of a block.
    fn scale(self, largest: f64) -> i32 {
        if largest == 0.0 {
            return -127;
        }
        // The largest power of two that is not larger, by search.
        let power = (-1100..1100).rev().find(|&e| f64::powi(2.0, e) <= largest).expect("it is not zero");
        (power - self.largest_power()).clamp(-127, 127)
    }

    /// The block of 32 values. For those that are no number Pascaline chooses: a NaN where the type has one,
    /// otherwise the scale's NaN.
    pub(crate) fn encode(self, values: &[f32]) -> Vec<u8> {
        let finite = values.iter().filter(|value| value.is_finite()).map(|&value| f64::from(value).abs());
        let scale = self.scale(finite.fold(0.0, f64::max));
        if self == Self::Int8 && values.iter().any(|value| !value.is_finite()) {
            let mut block = vec![0; 33];
            block[0] = 0xff;
            return block;
        }
        let biased = u8::try_from(scale + 127).expect("clamped");
        let element = |&value: &f32| match value.is_finite() {
            true => self.nearest(f64::from(value) / f64::powi(2.0, scale)),
            false => 0x7f,
        };
        core::iter::once(biased).chain(values.iter().map(element)).collect()
    }

    /// The values of a block, exactly.
    pub(crate) fn decode(self, block: &[u8]) -> Vec<f64> {
        let scale = if block[0] == 0xff { f64::NAN } else { f64::powi(2.0, i32::from(block[0]) - 127) };
        block[1..].iter().map(|&bits| self.value(bits) * scale).collect()
    }
}
