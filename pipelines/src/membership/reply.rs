//! Requests as lcores hand them on, and answers as lcores send them.

use pascaline_seal::LONGER;
use pascaline_wire::control::{self, Control};
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::{self, Element, Flags, Header, Kind};
use pascaline_wire::template::{self, Heads, Template};
use pascaline_wire::trailer::{self, Bitmap, Operations, RankReports, Sentence, Trailer};
use pascaline_wire::{former, neighbour};

use super::uplink::Question;
use crate::jobs::Endpoint;
use crate::seals::Sealing;

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
    pub fn reply(&self, to: &ControlRequest, local_mac: Mac, sealing: Option<Sealing<'_>>) -> Reply {
        let trailer = Trailer {
            bitmap: self.lost,
            operations: self.operations,
            ranks: self.ranks,
            sentence: self.sentence,
            ..Trailer::default()
        };
        let (header, control) = (&self.header, &self.control);
        Reply::with_trailer(&to.from, local_mac, (header, control), &trailer, to.padding, sealing)
    }
}

/// Longest control body with a trailer: what is known of as many ranks as one tells of. An answer has one
/// element in its trailer.
const BODY_LEN: usize = control::LEN + trailer::RANKS_LEN;
const _: () = assert!(trailer::RANKS_LEN >= trailer::BITMAP_LEN && trailer::RANKS_LEN >= 4 + Sentence::MAX);

/// Longest frame of an answer.
pub const REPLY_LEN: usize = template::MAX_LEN + BODY_LEN + LONGER;
/// Shortest frame of Ethernet, without its checksum.
const LEAST_LEN: usize = 60;
const _: () = assert!(neighbour::LEN <= REPLY_LEN && former::LEN <= BODY_LEN);

/// An answer: a whole frame, but for zeros before its tail, and the port to send it on.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    /// Index of the port.
    pub port: usize,
    bytes: [u8; REPLY_LEN],
    len: usize,
    padding: u16,
    /// What lies behind the zeros: a seal, or nothing.
    tail: Option<[u8; LONGER]>,
}

impl Reply {
    /// The control packet `control` with the header `header` for `to`, from a port with this MAC.
    #[must_use]
    pub fn new(to: &Endpoint, local_mac: Mac, header: &Header, control: &Control) -> Self {
        Self::with_trailer(to, local_mac, (header, control), &Trailer::default(), 0, None)
    }

    /// The same, sealed.
    pub(crate) fn sealed(
        to: &Endpoint,
        local_mac: Mac,
        (header, control): (&Header, &Control),
        sealing: Option<Sealing<'_>>,
    ) -> Self {
        Self::with_trailer(to, local_mac, (header, control), &Trailer::default(), 0, sealing)
    }

    /// As [`new`](Self::new), with a trailer behind the body if it has an element, else with zeros.
    fn with_trailer(
        to: &Endpoint,
        local_mac: Mac,
        (header, control): (&Header, &Control),
        trailer: &Trailer,
        padding: u16,
        sealing: Option<Sealing<'_>>,
    ) -> Self {
        let about = (header, control, trailer);
        // Most answers have no padding: what the longest takes is not zeroed for each of them.
        if padding == 0 || *trailer != Trailer::default() {
            Self::written(&mut [0; header::LEN + BODY_LEN + LONGER], to, local_mac, about, 0, sealing)
        } else {
            Self::long(to, local_mac, about, padding, sealing)
        }
    }

    #[cold]
    #[inline(never)]
    fn long(
        to: &Endpoint,
        local_mac: Mac,
        about: (&Header, &Control, &Trailer),
        padding: u16,
        sealing: Option<Sealing<'_>>,
    ) -> Self {
        let room = &mut [0; header::LEN + control::LEN + control::MAX_PADDING + LONGER];
        Self::written(room, to, local_mac, about, padding, sealing)
    }

    /// The same, made in this room of zeros: checksums, lengths and seals are of all that is sent.
    #[inline(always)]
    fn written(
        datagram: &mut [u8],
        to: &Endpoint,
        local_mac: Mac,
        (header, control, trailer): (&Header, &Control, &Trailer),
        padding: u16,
        sealing: Option<Sealing<'_>>,
    ) -> Self {
        let mut bytes = [0; REPLY_LEN];
        let (fixed, rest) = datagram[header::LEN..].split_at_mut(control::LEN);
        fixed.copy_from_slice(&control.to_bytes());
        // Neither can fail: the arrays have room for the longest element, and for the longest headers before
        // it.
        let empty = *trailer == Trailer::default();
        let behind = if empty { 0 } else { trailer.emit(rest).unwrap_or(0) };
        let padding = if empty { usize::from(padding).min(control::MAX_PADDING) } else { 0 };
        let flags = if behind > 0 { header.flags.with(Flags::TRAILER) } else { header.flags };
        let header = Header { flags, ..*header };
        let plain = header::LEN + control::LEN + behind + padding;
        let sealed = sealing.and_then(|sealing| {
            header.emit(datagram).ok()?;
            sealing.seal(datagram, plain)
        });
        let flags = if sealed.is_some() { flags.with(Flags::TRAILER) } else { flags };
        let body = &datagram[header::LEN..sealed.unwrap_or(plain)];
        let template = Template::new(&to.path(local_mac));
        let head = template.write(&mut bytes, &Header { flags, ..header }, body).unwrap_or(0);
        // Behind zeros it is kept apart from what comes before them.
        let tail = body.last_chunk().copied().filter(|_| sealed.is_some() && padding > 0);
        let kept = if padding > 0 { &body[..control::LEN] } else { body };
        let len = head + kept.len();
        if let Some(place) = bytes.get_mut(head..len) {
            place.copy_from_slice(kept);
        }
        Self { port: to.port, bytes, len, padding: u16::try_from(padding).unwrap_or(0), tail }
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
        Some(Self { port: to.port, bytes, len, padding: 0, tail: None })
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
        let padding = u16::try_from(LEAST_LEN.saturating_sub(len)).unwrap_or(0);
        Self { port, bytes, len, padding, tail: None }
    }

    /// What lies behind the zeros at its end.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        self.tail.as_ref().map_or(&[], |tail| tail)
    }

    /// The frame, without the zeros at its end and its tail.
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
