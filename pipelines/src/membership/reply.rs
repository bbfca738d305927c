//! Requests as lcores hand them on, and answers as lcores send them.

use pascaline_wire::control::{self, Control};
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::{Element, Flags, Header, Kind};
use pascaline_wire::template::{self, Heads, Template};
use pascaline_wire::trailer::{self, Bitmap, Operations, RankReports, Sentence, Trailer};
use pascaline_wire::{former, neighbour};

use super::uplink::Question;
use crate::jobs::Endpoint;

/// A control packet, as an lcore hands it on.
#[derive(Debug, Clone, Copy)]
pub struct ControlRequest {
    /// The lcore that received it and will send the answer.
    pub lcore: usize,
    /// When it came, in nanoseconds of the lcores' clock.
    pub at_ns: u64,
    /// Who sent it.
    pub from: Endpoint,
    /// Its header.
    pub header: Header,
    /// Its body.
    pub control: Control,
    /// Zeros behind its body.
    pub padding: u16,
    /// Of an answer of a parent: two operations that do not go together.
    pub operations: Option<Operations>,
}

/// What a request led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Header of the answer.
    pub header: Header,
    /// Body of the answer.
    pub control: Control,
    /// The ranks that are lost, for the trailer of an answer that says so.
    pub lost: Option<Bitmap>,
    /// Two operations that do not go together, for the trailer of an answer that says so.
    pub operations: Option<Operations>,
    /// What is known of ranks that are missing, for the trailer of an answer that tells.
    pub ranks: Option<RankReports>,
    /// Why, in words, for the trailer of an answer that says so.
    pub sentence: Option<Sentence>,
    /// True if lcores need a new table before the answer is sent.
    pub changed: bool,
}

impl Answer {
    /// The answer as a packet to whoever sent the request, from a port with this MAC. What has no trailer is
    /// as long as the request was: whoever asked learns that such packets get through.
    #[must_use]
    pub fn reply(&self, to: &ControlRequest, local_mac: Mac) -> Reply {
        let trailer = Trailer {
            bitmap: self.lost,
            operations: self.operations,
            ranks: self.ranks,
            sentence: self.sentence,
            ..Trailer::default()
        };
        Reply::with_trailer(&to.from, local_mac, (&self.header, &self.control), &trailer, to.padding)
    }
}

/// Longest control body with a trailer: what is known of as many ranks as one tells of. An answer has one
/// element in its trailer.
const BODY_LEN: usize = control::LEN + trailer::RANKS_LEN;
const _: () = assert!(trailer::RANKS_LEN >= trailer::BITMAP_LEN && trailer::RANKS_LEN >= 4 + Sentence::MAX);

/// Longest frame of an answer.
pub const REPLY_LEN: usize = template::MAX_LEN + BODY_LEN;
/// Shortest frame of Ethernet, without its checksum.
const LEAST_LEN: usize = 60;
const _: () = assert!(neighbour::LEN <= REPLY_LEN && former::LEN <= BODY_LEN);

/// An answer: a whole frame, but for zeros at its end, and the port to send it on.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    /// Index of the port.
    pub port: usize,
    bytes: [u8; REPLY_LEN],
    len: usize,
    padding: u16,
}

impl Reply {
    /// The control packet `control` with the header `header` for `to`, from a port with this MAC.
    #[must_use]
    pub fn new(to: &Endpoint, local_mac: Mac, header: &Header, control: &Control) -> Self {
        Self::with_trailer(to, local_mac, (header, control), &Trailer::default(), 0)
    }

    /// As [`new`](Self::new), with a trailer behind the body if it has an element, else with zeros.
    fn with_trailer(
        to: &Endpoint,
        local_mac: Mac,
        (header, control): (&Header, &Control),
        trailer: &Trailer,
        padding: u16,
    ) -> Self {
        let mut bytes = [0; REPLY_LEN];
        // With the longest padding: checksums and lengths are of all that is sent.
        let mut whole = [0; control::LEN + control::MAX_PADDING];
        let (fixed, rest) = whole.split_at_mut(control::LEN);
        fixed.copy_from_slice(&control.to_bytes());
        // Neither can fail: the arrays have room for the longest element, and for the longest headers before
        // it.
        let empty = *trailer == Trailer::default();
        let behind = if empty { 0 } else { trailer.emit(rest).unwrap_or(0) };
        let padding = if empty { usize::from(padding).min(rest.len()) } else { 0 };
        let flags = if behind > 0 { header.flags.with(Flags::TRAILER) } else { header.flags };
        let header = Header { flags, ..*header };
        let template = Template::new(&to.path(local_mac));
        let body = &whole[..control::LEN + behind + padding];
        let head = template.write(&mut bytes, &header, body).unwrap_or(0);
        let len = head + control::LEN + behind;
        if let Some(place) = bytes.get_mut(head..len) {
            place.copy_from_slice(&body[..control::LEN + behind]);
        }
        Self { port: to.port, bytes, len, padding: u16::try_from(padding).unwrap_or(0) }
    }

    /// The answer to a Join of the [version before](former), which is this UDP payload.
    #[must_use]
    pub fn to_former(to: &Endpoint, local_mac: Mac, body: &[u8]) -> Option<Self> {
        let answer = former::Answer::to(body)?;
        let (header, payload) = (&answer.header, answer.payload());
        let heads = Heads::new(header, payload.len()).ok()?.of_version(former::VERSION);
        let mut bytes = [0; REPLY_LEN];
        let template = Template::new(&to.path(local_mac));
        let head = template.write_for(&mut bytes, &heads, header.rank, payload).ok()?;
        let len = head + payload.len();
        bytes.get_mut(head..len)?.copy_from_slice(payload);
        Some(Self { port: to.port, bytes, len, padding: 0 })
    }

    /// The question for a MAC, from a port with this one.
    #[must_use]
    pub fn question(question: &Question, local_mac: Mac) -> Self {
        let &Question { port, from, target } = question;
        let mut bytes = [0; REPLY_LEN];
        // There is room.
        let len = neighbour::ask(&mut bytes, local_mac, from, target).unwrap_or(0);
        Self::padded(port, bytes, len)
    }

    /// What tells all hosts behind a port, unasked, that its MAC has an own address.
    #[must_use]
    pub fn announcement(port: usize, local_mac: Mac, address: Address) -> Self {
        let mut bytes = [0; REPLY_LEN];
        // There is room.
        let len = neighbour::announce(&mut bytes, local_mac, address).unwrap_or(0);
        Self::padded(port, bytes, len)
    }

    fn padded(port: usize, bytes: [u8; REPLY_LEN], len: usize) -> Self {
        Self { port, bytes, len, padding: u16::try_from(LEAST_LEN.saturating_sub(len)).unwrap_or(0) }
    }

    /// The frame, without the zeros at its end.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        &self.bytes[..self.len.min(REPLY_LEN)]
    }

    /// How many zeros those are.
    #[must_use]
    pub const fn padding(&self) -> u16 {
        self.padding
    }
}

/// The header of a control packet that answers one with the header `to`.
#[must_use]
pub fn answer_header(to: &Header, fan_in: u16, epoch: u16) -> Header {
    Header {
        rank: to.rank,
        psn: to.psn,
        fan_in,
        ..Header::about(Kind::Control, Element::F32_SUM, to.job, epoch)
    }
}
