//! What a worker of the version before this one hears: its Join is answered in its own version, with a
//! sentence for its user.
//!
//! In version 2 the upper byte of the epoch was a tree, the control body had 48 bytes with the session at
//! offset 4, and the number of a request was the header's PSN. The statuses and the
//! trailer's sentence are the same.

use crate::control::{Action, Status};
use crate::header::{self, Flags, Header, Kind};

/// That version.
pub const VERSION: u8 = 2;

/// Length of its control body.
const BODY: usize = 48;
const SESSION: core::ops::Range<usize> = 4..12;
/// The type of the sentence in a trailer.
const SENTENCE: u8 = 7;
const TEXT: &str =
    "it speaks version 3 of the protocol, this worker version 2: install the same release on both";
const TRAILER: usize = 2 + TEXT.len() + 2;

/// Longest payload of an answer.
pub const LEN: usize = BODY + TRAILER;

/// The header of a Join of version 2, read as one of this version; `None` if the UDP payload is anything
/// else.
#[must_use]
pub fn join(body: &[u8]) -> Option<Header> {
    let (head, rest) = body.split_first_chunk::<{ header::LEN }>()?;
    let mut head = *head;
    let version = core::mem::replace(&mut head[0], crate::VERSION);
    let (header, _) = Header::parse(&head).ok()?;
    let joins = rest.len() >= BODY && rest.first() == Some(&(Action::Join as u8));
    (version == VERSION && header.kind == Kind::Control && joins).then_some(header)
}

/// An answer to a Join of version 2.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// Its header, but for the version.
    pub header: Header,
    bytes: [u8; LEN],
    len: usize,
}

impl Answer {
    /// To a UDP payload that is a [`join`]. It is no longer than that: where the sentence does not fit, the
    /// status alone says that the worker cannot stay.
    #[must_use]
    pub fn to(body: &[u8]) -> Option<Self> {
        let asked = join(body)?;
        let fits = body.len() >= header::LEN + LEN;
        let mut bytes = [0; LEN];
        let (ack, trailer) = bytes.split_at_mut(BODY);
        let status = if fits { Status::Objective } else { Status::Unsupported };
        ack[..3].copy_from_slice(&[Action::Ack as u8, status as u8, Action::Join as u8]);
        ack[SESSION].copy_from_slice(&body[header::LEN..][SESSION]);
        const { assert!(TEXT.len() <= 224 && TRAILER < 256) }
        trailer[..2].copy_from_slice(&[SENTENCE, narrow(TEXT.len())]);
        trailer[2..2 + TEXT.len()].copy_from_slice(TEXT.as_bytes());
        trailer[2 + TEXT.len()..].copy_from_slice(&[0, narrow(TRAILER)]);
        let flags = if fits { Flags::TRAILER } else { Flags::NONE };
        let about = Header::about(Kind::Control, asked.element, asked.job, 0);
        let header = Header { flags, rank: asked.rank, psn: asked.psn, fan_in: asked.fan_in, ..about };
        Some(Self { header, bytes, len: if fits { LEN } else { BODY } })
    }

    /// What follows the header.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "asserted where it is used")]
const fn narrow(len: usize) -> u8 {
    len as u8
}
