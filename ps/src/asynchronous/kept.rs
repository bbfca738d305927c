//! A model's form in a file.
//!
//! ```text
//!  0  "PASMODEL"
//!  8  format, 16 bits: 1
//! 10  job, 16 bits
//! 12  floats of the model, 32 bits
//! 16  how often the weights have changed, 64 bits
//! 24  floats of g_a, 32 bits: as many as those of the model, or 0 before the first update that counted
//! 28  weights, then g_a: 32-bit floats
//!     CRC-32 (ISO HDLC) of all that comes before, 32 bits
//! ```
//!
//! All numbers are little-endian. The highest reward is not kept: it ends with a generation.

const MAGIC: &[u8; 8] = b"PASMODEL";
const FORMAT: u16 = 1;
const HEAD: usize = 28;
const CHECKSUM: usize = 4;

/// A job's model.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The job.
    pub job: u16,
    /// How often the weights have changed.
    pub version: u64,
    /// The weights.
    pub weights: Vec<f32>,
    /// g_a; empty before the first update that counted.
    pub average: Vec<f32>,
}

/// Why bytes cannot be read as a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// It does not begin with the magic bytes.
    #[error("it is no file of this kind: it does not begin with \"PASMODEL\"")]
    Foreign,
    /// Another version of the program has written it.
    #[error("it has format {0}, and this program knows format 1")]
    Format(u16),
    /// It is shorter or longer than its header says.
    #[error("it has {got} bytes, and by what it says it should have {expected}")]
    Length {
        /// The length by its header.
        expected: usize,
        /// The length found.
        got: usize,
    },
    /// Its content has changed since it was written.
    #[error("its checksum is {got:08x}, and should be {expected:08x}: it is damaged")]
    Damaged {
        /// The checksum in the file.
        expected: u32,
        /// The checksum found.
        got: u32,
    },
    /// A weight is infinite or NaN.
    #[error("it has a weight that is infinite or NaN")]
    NotFinite,
}

impl Kept {
    /// The file's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let count = |floats: &[f32]| u32::try_from(floats.len()).unwrap_or(u32::MAX).to_le_bytes();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.job.to_le_bytes());
        bytes.extend(count(&self.weights));
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(count(&self.average));
        bytes.extend(self.weights.iter().chain(&self.average).flat_map(|value| value.to_le_bytes()));
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotKept> {
        let head =
            bytes.first_chunk::<HEAD>().filter(|head| head.starts_with(MAGIC)).ok_or(NotKept::Foreign)?;
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if half(8) != FORMAT {
            return Err(NotKept::Format(half(8)));
        }
        let (floats, averages) = (word(12) as usize, word(24) as usize);
        let expected = floats.saturating_add(averages).saturating_mul(4).saturating_add(HEAD + CHECKSUM);
        let (true, Some((body, sum))) = (bytes.len() == expected, bytes.split_last_chunk::<CHECKSUM>())
        else {
            return Err(NotKept::Length { expected, got: bytes.len() });
        };
        let (expected, got) = (u32::from_le_bytes(*sum), crc32fast::hash(body));
        if expected != got {
            return Err(NotKept::Damaged { expected, got });
        }
        let values = body.get(HEAD..).unwrap_or_default().as_chunks::<4>().0;
        let mut weights: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
        if !weights.iter().all(|value| value.is_finite()) {
            return Err(NotKept::NotFinite);
        }
        let average = weights.split_off(floats);
        let version = u64::from(word(16)) | u64::from(word(20)) << 32;
        Ok(Self { job: half(10), version, weights, average })
    }
}
