//! Reading files that a user has named: regular ones, of bounded size, without waiting for anybody.

use core::fmt;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Why a file was not read, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// What is wrong, without the path.
    pub message: String,
    /// What to do.
    pub remedy: &'static str,
}

impl Unreadable {
    fn new(message: impl fmt::Display, remedy: &'static str) -> Self {
        Self { message: message.to_string(), remedy }
    }
}

/// Reads a regular file up to a limit in bytes. It neither waits for a FIFO nor reads a device.
///
/// # Errors
/// [`Unreadable`]: in words, without the path.
pub fn read(path: &Path, most: usize) -> Result<Vec<u8>, Unreadable> {
    let nonblock = libc::O_NONBLOCK;
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Unreadable::new("there is no such file", "correct the path, or make the file"),
        ErrorKind::PermissionDenied => Unreadable::new(
            "this user may not read it",
            "give the user that runs the appliance the right to read it, and check as that user",
        ),
        _ => Unreadable::new(error, "name a regular file that can be read"),
    };
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?;
    if !kind.is_file() {
        let what = if kind.is_dir() { "it is a directory" } else { "it is no regular file" };
        return Err(Unreadable::new(what, "name a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > most {
        let remedy = "name the right file: no such file needs to be as long";
        return Err(Unreadable::new(format_args!("it is longer than {most} bytes"), remedy));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
