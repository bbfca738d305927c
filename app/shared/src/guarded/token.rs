//! The bearer token.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use subtle::ConstantTimeEq as _;

use crate::file::read;

/// A guess must not be worth the try: 16 bytes of a usual alphabet have 96 bits.
const SHORTEST: usize = 16;
/// Nobody has a longer one; what is longer is another file.
const LONGEST: usize = 512;

/// Why a file has no token, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct Unfit {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// A secret that a request must carry.
#[derive(PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Reads a file: the token is all of it but the white space around it.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it holds no token.
    pub fn read(file: &Path) -> Result<Self, Unfit> {
        let refuse = |what: String, remedy: &str| Unfit { what, remedy: remedy.to_owned() };
        let bytes = read(file, LONGEST + 2).map_err(|error| refuse(error.message, error.remedy))?;
        let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode());
        if mode & 0o007 != 0 {
            let remedy = format!("chmod o= {}", file.display());
            return Err(refuse("every user of this machine may read it".to_owned(), &remedy));
        }
        let text = String::from_utf8_lossy(&bytes);
        let token = text.trim();
        if !(SHORTEST..=LONGEST).contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let what = format!("no token of {SHORTEST} to {LONGEST} visible ASCII characters");
            return Err(refuse(what, "make one, e.g. `openssl rand -hex 32`"));
        }
        Ok(Self(token.as_bytes().to_vec()))
    }

    /// Whether the value of an `Authorization` header carries the token. Takes the same time wherever a guess
    /// differs; only the length of the token can be told from it.
    #[must_use]
    pub fn admits(&self, authorization: &[u8]) -> bool {
        const SCHEME: &[u8] = b"bearer ";
        let Some((scheme, given)) = authorization.split_at_checked(SCHEME.len()) else { return false };
        scheme.eq_ignore_ascii_case(SCHEME) && bool::from(given.ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests;
