//! Whether words are the sum of what the ranks sent.
//!
//! After every [`WORDS`] words come [`LIMBS`] more: a number of 64 bits, c = Σ aᵢ xᵢ modulo 2⁶⁴, in parts of
//! 16 bits, one to a word. The aᵢ are 64 random bits each that only the ranks know, the xᵢ the words, taken
//! as signed integers. Sums of words do not overflow, so Σ aᵢ xᵢ of the sums is the sum of the ranks' c; and
//! 1,024 parts of 16 bits fit into a word, so that sum arrives whole.
//!
//! **The odds.** Say that words are off by δᵢ, not all of them 0, and c by d. It passes if Σ aᵢ δᵢ ≡ d
//! modulo 2⁶⁴. Words are 32 bits: as integers the δᵢ lie between −2³² and 2³², so 2ᵛ divides all of them for
//! some v ≤ 31 and 2ᵛ⁺¹ does not. Then Σ aᵢ δᵢ is a multiple of 2ᵛ, and each of the 2⁶⁴⁻ᵛ multiples is as
//! likely as any other. So at most one choice of the aᵢ in 2³³ lets it pass, whatever δ and d are: also if
//! all that has changed is the highest bit of a word, where numbers modulo 2³² would tell nothing beyond
//! whether aᵢ is odd. Blocks share the aᵢ, which adds no chance: one block that fails is enough. Each rank
//! that gets something else than the others is one more try, for which that rank's operation fails.

use zeroize::Zeroizing;

use super::stream::Stream;

/// Words of a block.
pub(super) const WORDS: usize = 1024;
/// Words behind it.
pub(super) const LIMBS: usize = 4;

/// The aᵢ of an operation.
pub(super) struct Check(Zeroizing<Box<[u64]>>);

impl Check {
    pub(super) fn new(stream: &Stream) -> Self {
        let mut factors = Zeroizing::new(vec![0; WORDS].into_boxed_slice());
        stream.piece(0, &mut factors);
        Self(factors)
    }

    /// c of a block's words.
    fn number(&self, words: &[u32]) -> u64 {
        let pairs = self.0.iter().zip(words);
        pairs.fold(0, |sum: u64, (factor, &word)| {
            let signed = i64::from(word.cast_signed()).cast_unsigned();
            sum.wrapping_add(factor.wrapping_mul(signed))
        })
    }

    /// What goes behind a block.
    pub(super) fn limbs(&self, words: &[u32]) -> [u32; LIMBS] {
        let number = self.number(words).to_le_bytes();
        core::array::from_fn(|at| u16::from_le_bytes([number[2 * at], number[2 * at + 1]]).into())
    }

    /// Whether the limbs belong to these words.
    pub(super) fn holds(&self, words: &[u32], limbs: &[u32]) -> bool {
        let number = limbs.iter().rev().fold(0_u64, |sum, &limb| (sum << 16).wrapping_add(limb.into()));
        number == self.number(words)
    }
}
