//! A datagram of the protocol, parsed once.

use crate::congestion::ecn;
use crate::former;
use crate::frame::{Address, Frame, Ip, Mac, Net, Udp, VlanTags};
use crate::header::{self, Flags, Header};
use crate::malformed::Malformed;
use crate::trailer::Trailer;

/// A datagram of the protocol: its sender, its aggregation header, and where its payload lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// MAC of the last hop.
    pub src_mac: Mac,
    /// VLAN tags.
    pub vlan: VlanTags,
    /// The sender's address and UDP port.
    pub sender: (Address, u16),
    /// The address and UDP port that it was sent to.
    pub local: (Address, u16),
    /// The DSCP that it came with.
    pub dscp: u8,
    /// It has met congestion on its way: it is marked (CE), or its header says so of its contents.
    pub marked: bool,
    /// The aggregation header.
    pub header: Header,
    /// Where the payload lies; with the trailer, until [`split`](Self::split) has found that.
    pub payload: Payload,
}

impl Datagram {
    /// Reads the aggregation header of a UDP datagram.
    ///
    /// # Errors
    /// Those of [`Header::parse`].
    #[inline(always)]
    pub fn parse(frame: &Frame, ip: &Ip, udp: &Udp<'_>) -> Result<Self, Malformed> {
        let (header, rest) = Header::parse(udp.body)?;
        Ok(Self::of(frame, ip, udp, header, rest.len()))
    }

    #[inline(always)]
    fn of(frame: &Frame, ip: &Ip, udp: &Udp<'_>, header: Header, rest: usize) -> Self {
        Self {
            src_mac: frame.src,
            vlan: frame.vlan,
            sender: (ip.src, udp.src_port),
            local: (ip.dst, udp.dst_port),
            dscp: ip.dscp,
            marked: ecn::is_marked(ip.ecn) || header.flags.has(Flags::ECN_ECHO),
            header,
            payload: Payload::new(udp.offset + header::LEN, rest),
        }
    }

    /// Reads a packet that begins with its aggregation header, as the embedded parameter server sends it,
    /// without a sender.
    ///
    /// # Errors
    /// Those of [`Header::parse`].
    pub fn parse_bare(bytes: &[u8]) -> Result<Self, Malformed> {
        let (header, rest) = Header::parse(bytes)?;
        Ok(Self {
            src_mac: Mac::default(),
            vlan: VlanTags::NONE,
            sender: (Address::default(), 0),
            local: (Address::default(), 0),
            dscp: 0,
            marked: header.flags.has(Flags::ECN_ECHO),
            header,
            payload: Payload::new(header::LEN, rest.len()),
        })
    }

    /// A frame with a Join of the [version before](former); `None` if it is anything else.
    #[must_use]
    #[cold]
    pub fn former(bytes: &[u8]) -> Option<Self> {
        let frame = Frame::parse(bytes).ok()?;
        let Net::Ip(ip) = frame.net else { return None };
        let udp = ip.udp(bytes).ok()?;
        let header = former::join(udp.body)?;
        Some(Self::of(&frame, &ip, &udp, header, udp.body.len() - header::LEN))
    }

    /// Separates the payload from the trailer that the header announces, and checks both.
    ///
    /// # Errors
    /// Those of [`Header::payload`].
    #[inline(always)]
    pub fn split(&mut self, bytes: &[u8]) -> Result<Option<Trailer>, Malformed> {
        if !self.header.flags.has(Flags::TRAILER) {
            // All of it is payload: only its length matters.
            return self.header.check_len(self.payload.total.into()).map(|()| None);
        }
        let (payload, trailer) = self.header.payload(self.payload.whole(bytes))?;
        self.payload.len = narrow(payload.len());
        Ok(trailer)
    }
}

/// Where a payload, and the trailer behind it, lie in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// The first byte.
    pub offset: u16,
    /// Bytes of the payload alone.
    pub len: u16,
    /// Bytes of payload and trailer.
    pub total: u16,
}

impl Payload {
    /// A payload without a trailer. A frame's offsets and lengths fit 16 bits, since an IP packet's do.
    #[must_use]
    #[inline]
    pub const fn new(offset: usize, len: usize) -> Self {
        Self { offset: narrow(offset), len: narrow(len), total: narrow(len) }
    }

    /// The end of the payload and its trailer: bytes behind it are padding.
    #[must_use]
    #[inline]
    pub fn end(self) -> usize {
        usize::from(self.offset) + usize::from(self.total)
    }

    /// The bytes of the payload; none if the packet is shorter.
    #[must_use]
    #[inline]
    pub fn of(self, packet: &[u8]) -> &[u8] {
        let start = usize::from(self.offset);
        packet.get(start..start + usize::from(self.len)).unwrap_or_default()
    }

    /// The bytes of the aggregation header and all behind it; none if the packet is shorter.
    #[must_use]
    pub fn from_header(self, packet: &[u8]) -> &[u8] {
        let start = usize::from(self.offset).saturating_sub(header::LEN);
        packet.get(start..self.end()).unwrap_or_default()
    }

    /// The bytes of payload and trailer; none if the packet is shorter.
    #[must_use]
    #[inline]
    pub fn whole(self, packet: &[u8]) -> &[u8] {
        packet.get(usize::from(self.offset)..self.end()).unwrap_or_default()
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "see `Payload::new`")]
const fn narrow(value: usize) -> u16 {
    value as u16
}
