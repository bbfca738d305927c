//! What the programs share: HTTP/1 with TLS, APIs behind a token, manual pages and completions, output.
#![forbid(unsafe_code)]

pub mod file;
pub mod guarded;
pub mod http;
pub mod manual;
pub mod output;
