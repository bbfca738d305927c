//! What the programs share: HTTP/1 with TLS, APIs behind a token, manual pages and completions.
#![forbid(unsafe_code)]

pub mod file;
pub mod guarded;
pub mod http;
pub mod manual;
pub mod pipe;
