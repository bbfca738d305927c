//! What the ranks of a job derive keystreams from.

use core::fmt;
use std::path::Path;

use hkdf::Hkdf;
use pascaline_seal::{KeyError, Secret};
use sha2::Sha256;
use zeroize::{Zeroize as _, Zeroizing};

use super::stream::{self, Stream};

/// Begins every derivation: keys of another version of this format have nothing in common with these.
pub(super) const PROTOCOL: &[u8] = b"pascaline masked 1";

/// The secret of a job's ranks. It never shows, and is wiped when it is dropped.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 32]>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl From<&Secret> for Key {
    fn from(secret: &Secret) -> Self {
        let (mut extracted, _) = Hkdf::<Sha256>::extract(Some(PROTOCOL), secret.bytes());
        let mut key = Zeroizing::new([0; 32]);
        key.copy_from_slice(&extracted);
        extracted.as_mut_slice().zeroize();
        Self(key)
    }
}

impl Key {
    /// From secret bytes; `None` of fewer than [`LEAST`](pascaline_seal::secret::LEAST).
    #[must_use]
    pub fn new(secret: &[u8]) -> Option<Self> {
        Secret::new(secret).map(|secret| Self::from(&secret))
    }

    /// From a job's file, which only its owner may use.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        Secret::read(file).map(|secret| Self::from(&secret))
    }

    /// The keystream of what these bytes say; different ones for different bytes.
    #[expect(
        clippy::expect_used,
        reason = "32 bytes are a whole key, and 24 a fraction of what there can be"
    )]
    pub(super) fn derive(&self, what: &[&[u8]]) -> Stream {
        let mut secret = Zeroizing::new([0; stream::SECRET]);
        let hkdf = Hkdf::<Sha256>::from_prk(&*self.0).expect("32 bytes");
        let info: Vec<&[u8]> = core::iter::once(PROTOCOL).chain(what.iter().copied()).collect();
        hkdf.expand_multi_info(&info, &mut *secret).expect("24 bytes");
        Stream::new(&secret)
    }
}
