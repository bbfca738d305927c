//! The secret that the ranks of a job share, and the file it is in.

use core::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize as _, Zeroizing};

use super::stream::{self, Stream};

/// Begins every derivation: keys of another version of this format have nothing in common with these.
pub(super) const PROTOCOL: &[u8] = b"pascaline masked 1";
/// Bytes of secret that a key has at least.
pub const LEAST: usize = 32;
/// The longest file that is read.
const LONGEST: u64 = 64 << 10;

/// The secret of a job's ranks. It never shows, and is wiped when it is dropped.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 32]>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Why a file gives no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read or made.
    #[error("key file {}: {source}\n  remedy: {remedy}", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
        /// What helps.
        remedy: &'static str,
    },
    /// A directory, a device.
    #[error("key file {}: not a regular file\n  remedy: name the file that has the key", .0.display())]
    NotAFile(PathBuf),
    /// Others than its owner could read or change it.
    #[error(
        "key file {}: others than its owner may use it (mode {mode:04o})\n  remedy: chmod 600, and a new key \
         if others could have read it", .file.display()
    )]
    Open {
        /// The file.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// No base64.
    #[error("key file {}: not base64\n  remedy: {NEW}", .0.display())]
    NotBase64(PathBuf),
    /// Too little secret to be safe.
    #[error("key file {}: {bytes} bytes, at least {LEAST} are needed\n  remedy: {NEW}", .file.display())]
    Short {
        /// The file.
        file: PathBuf,
        /// Bytes that it has.
        bytes: usize,
    },
    /// It is there already.
    #[error(
        "key file {}: there is one already\n  remedy: name another file; a key is never replaced",
        .0.display()
    )]
    Exists(PathBuf),
}

const NEW: &str = "`pascaline job key --new FILE` makes a key; copy that file to every rank as it is";

impl Key {
    /// From secret bytes; `None` of fewer than [`LEAST`].
    #[must_use]
    pub fn new(secret: &[u8]) -> Option<Self> {
        (secret.len() >= LEAST).then(|| {
            let (mut extracted, _) = Hkdf::<Sha256>::extract(Some(PROTOCOL), secret);
            let mut key = Zeroizing::new([0; 32]);
            key.copy_from_slice(&extracted);
            extracted.as_mut_slice().zeroize();
            Self(key)
        })
    }

    /// From a file with base64 text, which only its owner may use.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        let path = || file.to_owned();
        let failed = |source| KeyError::Io { file: path(), source, remedy: READ };
        let opened = File::open(file).map_err(failed)?;
        let about = opened.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(KeyError::NotAFile(path()));
        }
        let mode = about.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Open { file: path(), mode });
        }
        // Room for all of it, so that no copy stays behind where it grows.
        let mut text = Zeroizing::new(Vec::with_capacity(usize::try_from(LONGEST).unwrap_or(usize::MAX)));
        opened.take(LONGEST).read_to_end(&mut text).map_err(failed)?;
        let secret = STANDARD.decode(text.trim_ascii_end()).map_err(|_| KeyError::NotBase64(path()))?;
        let secret = Zeroizing::new(secret);
        Self::new(&secret).ok_or_else(|| KeyError::Short { file: path(), bytes: secret.len() })
    }

    /// Makes a file with a new random key, which only its owner may use.
    ///
    /// # Errors
    /// See [`KeyError`]; a file that is there is left alone.
    pub fn create(file: &Path) -> Result<(), KeyError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(file.to_owned()),
            _ => KeyError::Io { file: file.to_owned(), source, remedy: WRITE },
        };
        let mut secret = Zeroizing::new([0; LEAST]);
        getrandom::fill(&mut *secret).map_err(|error| failed(io::Error::other(error.to_string())))?;
        let text = Zeroizing::new(STANDARD.encode(*secret) + "\n");
        let mut made =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
        made.write_all(text.as_bytes()).and_then(|()| made.sync_all()).map_err(failed)
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

const READ: &str =
    "put the job's key there, the same at every rank; `pascaline job key --new FILE` makes one";
const WRITE: &str = "name a file in a directory that exists and may be written to";

#[cfg(test)]
mod tests;
