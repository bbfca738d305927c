//! Where an admin API is.

use core::fmt::Write as _;
use core::str::FromStr;
use std::path::PathBuf;

/// Where an admin API is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    /// Host and port.
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path.strip_prefix("//").unwrap_or(path))));
        }
        let (rest, tls) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (rest, true),
            (_, Some(rest)) => (rest, false),
            _ => (text, false),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let wrong = || format!("{text:?} is none of unix:PATH, ADDRESS:PORT and https://HOST:PORT");
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        Ok(Self::Tcp { host: host.to_owned(), port: port.parse().map_err(|_| wrong())?, tls })
    }
}

/// A text as one segment of a path (RFC 3986, section 2.3: what need not be escaped).
pub(super) fn segment(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests;
