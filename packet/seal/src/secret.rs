//! The files that keys are in.
//!
//! A job's file is base64 text of at least 32 random bytes. A rank's own says whose it is in front:
//! `rank 3 of job 1: ` and base64 text of 64 bytes, which follow from the job's.

use core::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::keys::{Holder, Protection, parts_of_rank};

/// Bytes of secret that a key has at least.
pub const LEAST: usize = 32;
/// The longest file that is read.
const LONGEST: u64 = 64 << 10;
/// Bytes in a rank's own file: of its packets, and of results.
const OF_RANK: usize = 64;

/// A secret from which keys are derived; a rank's own file has two.
pub(crate) type Part = Zeroizing<[u8; 32]>;

/// The secret of a job. It never shows, and is wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
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
    /// It is one rank's, where the job's is needed.
    #[error(
        "key file {}: the key of one rank ({whose})\n  remedy: name the file of the job's key",
        .file.display()
    )]
    OfRank {
        /// The file.
        file: PathBuf,
        /// Whose it is.
        whose: String,
    },
    /// It is another rank's.
    #[error(
        "key file {}: the key of {whose}, not of rank {rank} of job {job}\n  remedy: name that one's, which \
         `pascaline job key --new FILE --of JOBKEY --job {job} --rank {rank}` makes", .file.display()
    )]
    OfOther {
        /// The file.
        file: PathBuf,
        /// Whose it is.
        whose: String,
        /// The job that it should be of,
        job: u16,
        /// and the rank.
        rank: u16,
    },
}

impl KeyError {
    /// The fault, and its remedy.
    #[must_use]
    pub fn parts(&self) -> (String, String) {
        let text = self.to_string();
        let (what, remedy) = text.split_once("\n  remedy: ").unwrap_or((&text, "look at the file"));
        (what.to_owned(), remedy.to_owned())
    }
}

const NEW: &str = "`pascaline job key --new FILE` makes a key; copy that file to every rank as it is";
const READ: &str =
    "put the job's key there, the same at every rank; `pascaline job key --new FILE` makes one";
const WRITE: &str = "name a file in a directory that exists and may be written to";

/// The content of a key file.
enum Content {
    Job(Zeroizing<Vec<u8>>),
    /// Whose it is, and its bytes.
    Rank(String, Zeroizing<Vec<u8>>),
}

impl Secret {
    /// From secret bytes; `None` of fewer than [`LEAST`].
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= LEAST).then(|| Self(Zeroizing::new(bytes.to_vec())))
    }

    /// The bytes, to derive keys from.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// From a job's file, which only its owner may use.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        match content(file)? {
            Content::Job(bytes) => Ok(Self(bytes)),
            Content::Rank(whose, _) => Err(KeyError::OfRank { file: file.to_owned(), whose }),
        }
    }

    /// From the text of a job's file, which is wiped; `None` if it is no such text.
    #[must_use]
    pub fn parse(text: String) -> Option<Self> {
        let text = Zeroizing::new(text);
        Self::new(&Zeroizing::new(STANDARD.decode(text.trim()).ok()?))
    }

    /// The text of a job's file.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.bytes()))
    }

    /// Makes a job's file with this key, which only its owner may use, in place of one that is there.
    ///
    /// # Errors
    /// See [`KeyError`]; then the file is as it was.
    pub fn replace(&self, file: &Path) -> Result<(), KeyError> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".next");
        let next = file.with_file_name(name);
        // What an attempt that was interrupted has left.
        let _ = fs::remove_file(&next);
        write(&next, &Zeroizing::new(format!("{}\n", *self.text())))?;
        fs::rename(&next, file).map_err(|source| {
            let _ = fs::remove_file(&next);
            not_made(file, source)
        })
    }

    /// Makes a job's file with a new random key, which only its owner may use.
    ///
    /// # Errors
    /// See [`KeyError`]; a file that is there is left alone.
    pub fn create(file: &Path) -> Result<(), KeyError> {
        let mut secret = Zeroizing::new([0; LEAST]);
        getrandom::fill(&mut *secret).map_err(|error| not_made(file, io::Error::other(error.to_string())))?;
        write(file, &Zeroizing::new(STANDARD.encode(*secret) + "\n"))
    }

    /// Makes the file of one rank of a job with this number: with it a holder speaks for this rank alone.
    ///
    /// # Errors
    /// See [`KeyError`]; a file that is there is left alone.
    pub fn create_of_rank(&self, file: &Path, job: u16, rank: u16) -> Result<(), KeyError> {
        let (own, results) = parts_of_rank(self, job, rank);
        let mut both = Zeroizing::new([0; OF_RANK]);
        both[..32].copy_from_slice(&*own);
        both[32..].copy_from_slice(&*results);
        let text = Zeroizing::new(STANDARD.encode(*both));
        write(file, &Zeroizing::new(format!("{}: {}\n", whose(job, rank), *text)))
    }
}

impl Holder {
    /// From the job's file, or from this rank's own. Only its owner may use it.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(file: &Path, job: u16, rank: u16, protection: Protection) -> Result<Self, KeyError> {
        match content(file)? {
            Content::Job(bytes) => Ok(Self::of(&Secret(bytes), job, rank, protection)),
            Content::Rank(whose_it_is, _) if whose_it_is != whose(job, rank) => {
                Err(KeyError::OfOther { file: file.to_owned(), whose: whose_it_is, job, rank })
            }
            Content::Rank(_, bytes) => {
                let mut parts = [Part::default(), Part::default()];
                let halves = bytes.split_at_checked(OF_RANK / 2).filter(|_| bytes.len() == OF_RANK);
                let (own, results) =
                    halves.ok_or_else(|| KeyError::Short { file: file.to_owned(), bytes: bytes.len() })?;
                parts[0].copy_from_slice(own);
                parts[1].copy_from_slice(results);
                let [own, results] = parts;
                Ok(Self::with(own, results, protection))
            }
        }
    }
}

fn whose(job: u16, rank: u16) -> String {
    format!("rank {rank} of job {job}")
}

fn content(file: &Path) -> Result<Content, KeyError> {
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
    let colon = text.iter().position(|&byte| byte == b':');
    let (whose, encoded) = match colon {
        Some(at) => (Some(String::from_utf8_lossy(&text[..at]).into_owned()), &text[at + 1..]),
        None => (None, &text[..]),
    };
    let bytes = STANDARD.decode(encoded.trim_ascii()).map_err(|_| KeyError::NotBase64(path()))?;
    let bytes = Zeroizing::new(bytes);
    match whose {
        Some(whose) => Ok(Content::Rank(whose, bytes)),
        None if bytes.len() < LEAST => Err(KeyError::Short { file: path(), bytes: bytes.len() }),
        None => Ok(Content::Job(bytes)),
    }
}

fn not_made(file: &Path, source: io::Error) -> KeyError {
    match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists(file.to_owned()),
        _ => KeyError::Io { file: file.to_owned(), source, remedy: WRITE },
    }
}

fn write(file: &Path, text: &str) -> Result<(), KeyError> {
    let failed = |source| not_made(file, source);
    let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    made.write_all(text.as_bytes()).and_then(|()| made.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests;
