//! The bearer token.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use subtle::ConstantTimeEq as _;

use crate::config::{Config, ConfigError, Located};

/// A guess must not be worth the try: 16 bytes of a usual alphabet have 96 bits.
const SHORTEST: usize = 16;
/// Nobody has a longer one; what is longer is another file.
const LONGEST: usize = 512;

/// A secret that a request must carry.
pub(crate) struct Token(Vec<u8>);

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Reads a file: the token is all of it but the white space around it.
    pub(crate) fn load(config: &Config, file: &Located<PathBuf>) -> Result<Self, ConfigError> {
        let path = file.value.display();
        let refuse = |what: &dyn core::fmt::Display, remedy: &str| {
            config.error(file, format_args!("token file {path}: {what}"), remedy)
        };
        let readable = "make it readable for the user that runs the appliance, and for nobody else";
        let mut opened = std::fs::File::open(&file.value).map_err(|error| refuse(&error, readable))?;
        let mode = opened.metadata().map_err(|error| refuse(&error, readable))?.permissions().mode();
        if mode & 0o007 != 0 {
            let remedy = format!("chmod o= {path}");
            return Err(refuse(&"every user of this machine may read it", &remedy));
        }
        let mut text = String::new();
        let limit = LONGEST as u64 + 3;
        let read = (&mut opened).take(limit).read_to_string(&mut text);
        read.map_err(|error| refuse(&error, readable))?;
        let token = text.trim();
        if !(SHORTEST..=LONGEST).contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let what =
                format_args!("no token of {SHORTEST} to {LONGEST} visible ASCII characters").to_string();
            return Err(refuse(&what, "make one, e.g. `openssl rand -hex 32`"));
        }
        Ok(Self(token.as_bytes().to_vec()))
    }

    /// Whether the value of an `Authorization` header carries the token. Takes the same time wherever a guess
    /// differs; only the length of the token can be told from it.
    pub(crate) fn admits(&self, authorization: &[u8]) -> bool {
        const SCHEME: &[u8] = b"bearer ";
        let Some((scheme, given)) = authorization.split_at_checked(SCHEME.len()) else { return false };
        scheme.eq_ignore_ascii_case(SCHEME) && bool::from(given.ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests;
