//! Keys of a job, of its ranks and of its results.
//!
//! From one secret follow one for each rank and one for results. An appliance has the job's; a rank has the
//! job's as well, or only its own and that for results: then it cannot speak for another rank.
//!
//! A cipher's key is used for one direction only, and no number twice with it:
//!
//! | key | seals | `of`, the first half of a nonce | the counter |
//! |---|---|---|---|
//! | up, of a rank | all that the rank sends | its session, 64 random bits | from 1 in each session |
//! | down, of a rank | answers to its requests | the session of the request | 64 bits, other ones each time |
//! | results, of a salt | all else from the appliance | 0 | lcore, 8 bits, and a number of its own |
//!
//! The salt has 64 random bits, others in each life of a job at an appliance; answers to Joins tell it.

use core::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize as _, Zeroizing};

use crate::cipher::Cipher;
use crate::secret::{Part, Secret};

/// Begins every derivation: keys of another version have nothing in common with these.
const PROTOCOL: &[u8] = b"pascaline seal 1";

/// How packets are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protection {
    /// They prove their sender, and that they are unchanged.
    Mac,
    /// Their values cannot be read, either.
    Encrypt,
}

impl Protection {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Mac, Self::Encrypt];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mac => "mac",
            Self::Encrypt => "encrypt",
        }
    }

    /// As answers say that a job demands it; 0 stands for none.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Mac => 1,
            Self::Encrypt => 2,
        }
    }

    /// The protection with this [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protection| protection.name() == name)
    }
}

/// The keys of one rank.
#[derive(Debug, Clone)]
pub struct RankKeys {
    /// For what it sends.
    pub up: Cipher,
    /// For answers to its requests.
    pub down: Cipher,
}

/// The keys of a job, as an appliance has them.
#[derive(Clone, PartialEq, Eq)]
pub struct JobKeys {
    job: Part,
    results: Part,
    id: u16,
    protection: Protection,
}

impl fmt::Debug for JobKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobKeys").field("protection", &self.protection).finish_non_exhaustive()
    }
}

impl JobKeys {
    /// Those of a job with this number and secret.
    #[must_use]
    pub fn new(secret: &Secret, id: u16, protection: Protection) -> Self {
        let job = extract(secret.bytes());
        let results = results_of(&job, id);
        Self { job, results, id, protection }
    }

    /// How its packets are protected.
    #[must_use]
    pub const fn protection(&self) -> Protection {
        self.protection
    }

    /// Those of a rank.
    #[must_use]
    pub fn rank(&self, rank: u16) -> RankKeys {
        rank_keys(&rank_of(&self.job, self.id, rank), self.protection)
    }

    /// That for results, with this salt.
    #[must_use]
    pub fn results(&self, salt: u64) -> Cipher {
        results_with(&self.results, salt, self.protection)
    }

    /// What one rank has of them.
    #[must_use]
    pub fn holder(&self, rank: u16) -> Holder {
        Holder::with(rank_of(&self.job, self.id, rank), self.results.clone(), self.protection)
    }
}

/// The secrets of one rank: its own, and that of results.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder {
    rank: Part,
    results: Part,
    protection: Protection,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder").field("protection", &self.protection).finish_non_exhaustive()
    }
}

impl Holder {
    /// Of this rank of this job, by the job's secret.
    #[must_use]
    pub fn of(secret: &Secret, id: u16, rank: u16, protection: Protection) -> Self {
        let job = extract(secret.bytes());
        Self { rank: rank_of(&job, id, rank), results: results_of(&job, id), protection }
    }

    /// From the two secrets in a rank's own file.
    pub(crate) const fn with(rank: Part, results: Part, protection: Protection) -> Self {
        Self { rank, results, protection }
    }

    /// How its packets are protected.
    #[must_use]
    pub const fn protection(&self) -> Protection {
        self.protection
    }

    /// Its own keys.
    #[must_use]
    pub fn keys(&self) -> RankKeys {
        rank_keys(&self.rank, self.protection)
    }

    /// That for results, with the appliance's salt.
    #[must_use]
    pub fn results(&self, salt: u64) -> Cipher {
        results_with(&self.results, salt, self.protection)
    }
}

/// The two secrets that a rank's own file has: of its packets, and of results.
pub(crate) fn parts_of_rank(secret: &Secret, id: u16, rank: u16) -> (Part, Part) {
    let job = extract(secret.bytes());
    (rank_of(&job, id, rank), results_of(&job, id))
}

fn extract(secret: &[u8]) -> Part {
    let (mut extracted, _) = Hkdf::<Sha256>::extract(Some(PROTOCOL), secret);
    let mut part = Zeroizing::new([0; 32]);
    part.copy_from_slice(&extracted);
    extracted.as_mut_slice().zeroize();
    part
}

fn rank_of(job: &Part, id: u16, rank: u16) -> Part {
    expand(job, &[b"rank", &id.to_be_bytes(), &rank.to_be_bytes()])
}

fn results_of(job: &Part, id: u16) -> Part {
    expand(job, &[b"results", &id.to_be_bytes()])
}

fn rank_keys(rank: &Part, protection: Protection) -> RankKeys {
    let cipher = |way: &[u8]| Cipher::new(expand(rank, &[way, protection.name().as_bytes()]), protection);
    RankKeys { up: cipher(b"up"), down: cipher(b"down") }
}

fn results_with(results: &Part, salt: u64, protection: Protection) -> Cipher {
    let key = expand(results, &[b"salt", &salt.to_be_bytes(), protection.name().as_bytes()]);
    Cipher::new(key, protection)
}

/// As many bytes as wanted that follow from a secret and what they are for.
#[expect(
    clippy::expect_used,
    reason = "32 bytes are a whole key, and 16 or 32 a fraction of what there can be"
)]
fn expand<const BYTES: usize>(from: &Part, what: &[&[u8]]) -> Zeroizing<[u8; BYTES]> {
    let mut bytes = Zeroizing::new([0; BYTES]);
    let hkdf = Hkdf::<Sha256>::from_prk(&**from).expect("32 bytes");
    // Lengths, so that no two lists give the same bytes.
    let lengths: Vec<u8> = what.iter().map(|part| u8::try_from(part.len()).unwrap_or(u8::MAX)).collect();
    let info: Vec<&[u8]> = [PROTOCOL, &lengths].into_iter().chain(what.iter().copied()).collect();
    hkdf.expand_multi_info(&info, &mut *bytes).expect("32 bytes");
    bytes
}
