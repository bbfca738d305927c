//! Whole frames towards one destination: the headers are computed once, then patched per packet.

use wide::u64x2;

use crate::checksum;
use crate::field::{at, eth, ipv4, ipv6, plain, udp};
use crate::frame::{
    Address, ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, Mac, UDP_LEN, VLAN_LEN, VlanTags,
    protocol,
};
use crate::header::{self, Header};
use crate::malformed::NoRoom;

/// The fragment field of IPv4 with nothing but the flag DF.
const DO_NOT_FRAGMENT: u16 = 0x4000;

/// The longest header a template writes: two VLAN tags, IPv6, UDP and the aggregation header.
pub const MAX_LEN: usize = ETH_LEN + 2 * VLAN_LEN + IPV6_LEN + UDP_LEN + header::LEN;

/// Where a frame goes and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// MAC of the next hop.
    pub dst_mac: Mac,
    /// MAC of the sending port.
    pub src_mac: Mac,
    /// VLAN tags, outermost first.
    pub vlan: VlanTags,
    /// Destination address; of the same family as `src`.
    pub dst: Address,
    /// Source address.
    pub src: Address,
    /// UDP destination port.
    pub dst_port: u16,
    /// UDP source port.
    pub src_port: u16,
    /// IPv4's TOS, IPv6's traffic class: DSCP and [ECN](crate::ecn).
    pub class: u8,
}

/// Frame headers for one [`Path`], everything that does not change from packet to packet filled in.
///
/// IPv4 carries UDP checksum 0 ("none", RFC 768). IPv6 demands one (RFC 8200, section 8.1), so there it is
/// computed over the payload.
#[derive(Debug, Clone, Copy)]
pub struct Template {
    bytes: [u8; MAX_LEN],
    len: u8,
    l3: u8,
    v6: bool,
    /// IPv4: the header's sum with length 0, folded to 16 bits. IPv6: the pseudo-header's and the ports' sum
    /// with length 0.
    base_sum: u64,
}

impl Template {
    /// The template for a path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let mut bytes = [0; MAX_LEN];
        bytes[eth::DST].copy_from_slice(&path.dst_mac.0);
        bytes[eth::SRC].copy_from_slice(&path.src_mac.0);
        let l3 = ETH_LEN + path.vlan.wire_len();
        let tags = path.vlan.as_slice().iter().flat_map(|&(tpid, tci)| [tpid, tci]);
        let v4 = path.src.as_v4().zip(path.dst.as_v4());
        let ethertype = if v4.is_some() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        let (types, _) = bytes[eth::TYPE.start..l3].as_chunks_mut::<2>();
        for (place, value) in types.iter_mut().zip(tags.chain([ethertype])) {
            *place = value.to_be_bytes();
        }
        let ip = &mut bytes[l3..];
        let l4 = match v4 {
            Some((src, dst)) => {
                ip[ipv4::VERSION] = 0x45;
                ip[ipv4::TOS] = path.class;
                ip[ipv4::FRAGMENT].copy_from_slice(&DO_NOT_FRAGMENT.to_be_bytes());
                ip[ipv4::TTL] = 64;
                ip[ipv4::PROTOCOL] = protocol::UDP;
                ip[ipv4::SRC].copy_from_slice(&src);
                ip[ipv4::DST].copy_from_slice(&dst);
                l3 + IPV4_LEN
            }
            None => {
                ip[ipv6::VERSION..ipv6::VERSION + 2].copy_from_slice(&ipv6_start(path.class).to_be_bytes());
                ip[ipv6::NEXT] = protocol::UDP;
                ip[ipv6::HOP_LIMIT] = 64;
                ip[ipv6::SRC].copy_from_slice(&path.src.octets());
                ip[ipv6::DST].copy_from_slice(&path.dst.octets());
                l3 + IPV6_LEN
            }
        };
        bytes[at(l4, udp::SRC_PORT)].copy_from_slice(&path.src_port.to_be_bytes());
        bytes[at(l4, udp::DST_PORT)].copy_from_slice(&path.dst_port.to_be_bytes());
        let base_sum = match v4 {
            Some(_) => u64::from(!checksum::finish(checksum::sum(&bytes[l3..l4]))),
            None => {
                checksum::pseudo_header(path.src, path.dst, protocol::UDP, 0)
                    + checksum::sum(&bytes[l4..l4 + udp::DST_PORT.end])
            }
        };
        Self { bytes, len: narrow(l4 + UDP_LEN + header::LEN), l3: narrow(l3), v6: v4.is_none(), base_sum }
    }

    /// Bytes before the payload.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a template is never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Writes the headers of a packet whose aggregation header is `header` and whose payload (with trailer,
    /// if any) is `payload`, to the start of `out`. The payload itself is not copied. Returns the bytes
    /// written.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`len`](Self::len) or the payload does not fit into a datagram.
    pub fn write(&self, out: &mut [u8], header: &Header, payload: &[u8]) -> Result<usize, NoRoom> {
        self.write_for(out, &Heads::new(header, payload.len())?, header.rank, payload)
    }

    /// As [`write`](Self::write) for a packet of which others differ only in the rank and the path.
    ///
    /// # Errors
    /// As `write`.
    pub fn write_for(
        &self,
        out: &mut [u8],
        heads: &Heads,
        rank: u16,
        payload: &[u8],
    ) -> Result<usize, NoRoom> {
        let len = self.len();
        if let (true, Some(out)) = (self.is_plain_for(heads), out.first_chunk_mut::<PLAIN>()) {
            self.write_plain(out, heads, rank);
            return Ok(PLAIN);
        }
        let l3 = usize::from(self.l3);
        let head = heads.bytes(rank);
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        out.copy_from_slice(&self.bytes[..len]);
        let l4 = len - header::LEN - UDP_LEN;
        let udp_len = heads.udp_len;
        if self.v6 {
            out[at(l3, ipv6::PAYLOAD_LEN)].copy_from_slice(&udp_len.to_be_bytes());
            // The length stands in the pseudo-header and in the UDP header.
            let total =
                self.base_sum + 2 * u64::from(udp_len) + checksum::sum(&head) + checksum::sum(payload);
            let sum = match checksum::finish(total) {
                0 => 0xffff,
                sum => sum,
            };
            out[at(l4, udp::CHECKSUM)].copy_from_slice(&sum.to_be_bytes());
        } else {
            let total = heads.ipv4_len;
            if total == 0 {
                return Err(NoRoom);
            }
            out[at(l3, ipv4::TOTAL_LEN)].copy_from_slice(&total.to_be_bytes());
            let sum = checksum::finish(self.base_sum + u64::from(total));
            out[at(l3, ipv4::CHECKSUM)].copy_from_slice(&sum.to_be_bytes());
        }
        out[at(l4, udp::LEN)].copy_from_slice(&udp_len.to_be_bytes());
        out[l4 + UDP_LEN..].copy_from_slice(&head);
        Ok(len)
    }

    /// True for untagged IPv4, the common case: [`PLAIN`] bytes, every offset known at compile time.
    #[must_use]
    #[inline]
    fn is_plain_for(&self, heads: &Heads) -> bool {
        usize::from(self.len) == PLAIN && heads.ipv4_len != 0
    }

    /// The common headers of packets to this rank, if they are plain: untagged IPv4.
    #[must_use]
    pub fn plain(&self, rank: u16) -> Option<PlainHead> {
        let mut bytes = *self.bytes.first_chunk::<PLAIN>().filter(|_| usize::from(self.len) == PLAIN)?;
        let head = header::from_words((u64::from(rank), 0, 0, 0));
        bytes[plain::HEAD..].copy_from_slice(&head);
        // Computed with length 0 and identification 0, so that this makes the sum 0.
        #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
        let identification = !(self.base_sum as u16);
        bytes[plain::ID].copy_from_slice(&identification.to_be_bytes());
        Some(PlainHead { lanes: lanes(&bytes) })
    }

    /// As [`write_for`](Self::write_for) where [`is_plain_for`](Self::is_plain_for). Otherwise the output is
    /// meaningless.
    fn write_plain(&self, out: &mut [u8; PLAIN], heads: &Heads, rank: u16) {
        let Some(bytes) = self.bytes.first_chunk::<PLAIN>() else { return };
        *out = *bytes;
        out[plain::TOTAL_LEN].copy_from_slice(&heads.ipv4_len.to_be_bytes());
        // `base_sum` has been folded: together they are 17 bits, and one fold is enough.
        #[expect(clippy::cast_possible_truncation, reason = "16 bits")]
        let sum = ipv4_checksum(self.base_sum as u32, heads.ipv4_len);
        out[plain::IP_CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        out[plain::UDP_LEN].copy_from_slice(&heads.udp_len.to_be_bytes());
        out[plain::HEAD..].copy_from_slice(&heads.bytes(rank));
    }
}

/// The common headers of packets to several ranks: computed once, written for each.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// The aggregation header as it is on the wire, in pieces that fit registers; in the first one, the rank
    /// is 0.
    head: (u64, u64, u32, u16),
    udp_len: u16,
    /// 0 if it does not fit; an IPv6 packet may be longer.
    ipv4_len: u16,
}

impl Heads {
    /// For packets with this header, whatever its rank, and a payload (with trailer, if any) of this many
    /// bytes.
    ///
    /// # Errors
    /// [`NoRoom`] if the payload does not fit into a datagram.
    #[inline]
    pub fn new(header: &Header, payload: usize) -> Result<Self, NoRoom> {
        let udp_len = u16::try_from(UDP_LEN + header::LEN + payload).map_err(|_| NoRoom)?;
        const { assert!(IPV4_LEN == 20) }
        let ipv4_len = udp_len.checked_add(20).unwrap_or(0);
        Ok(Self { head: Header { rank: 0, ..*header }.to_words(), udp_len, ipv4_len })
    }

    /// The common headers of plain packets with these heads. `None` if IPv4 is too small for them.
    #[must_use]
    #[inline(always)]
    pub fn plain(&self) -> Option<PlainCommon> {
        let (first, second, third, fourth) = self.head;
        // From registers, for the reason given at `Header::to_words`.
        let pair = |left: u64, right: u64| u64x2::new([left.to_be(), right.to_be()]);
        let lanes = [
            pair(u64::from(self.ipv4_len) << 48, u64::from(!self.ipv4_len) << 48),
            pair(u64::from(self.udp_len), first >> 16),
            pair(first << 48 | second >> 16, second << 48 | u64::from(third) << 16 | u64::from(fourth)),
        ];
        (self.ipv4_len != 0).then_some(PlainCommon { lanes })
    }

    /// The same for packets of another version of the protocol.
    #[must_use]
    pub const fn of_version(mut self, version: u8) -> Self {
        self.head.0 = self.head.0 << 8 >> 8 | (version as u64) << 56;
        self
    }

    /// The aggregation header for a rank.
    #[inline(always)]
    fn bytes(&self, rank: u16) -> [u8; header::LEN] {
        let (first, ..) = self.head;
        header::from_words((first | u64::from(rank), self.head.1, self.head.2, self.head.3))
    }
}

/// The headers of plain packets to one rank, as far as they are always the same; the other bits are zeros. A
/// cache line.
///
/// The identification makes up for the addresses, so that the checksum of the IPv4 header is the complement
/// of its length, whatever its destination: it may be anything in a datagram that must not be fragmented (RFC
/// 6864, section 4.1).
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct PlainHead {
    lanes: [u64x2; 4],
}

/// The headers of plain packets of one sum, as far as they are the same for all ranks, behind the first 16
/// bytes; the other bits are zeros.
#[derive(Debug, Clone, Copy)]
pub struct PlainCommon {
    lanes: [u64x2; 3],
}

impl PlainCommon {
    /// Those of no packets.
    pub const NONE: Self = Self { lanes: [u64x2::ZERO; 3] };

    /// Those of another PSN.
    ///
    /// Not changed in place: half a register written and a whole one read have to wait for the cache.
    #[must_use]
    #[inline(always)]
    pub fn with_psn(mut self, psn: u32) -> Self {
        // The PSN lies in the left half of the last lane.
        const { assert!(plain::PSN.start == 50 && plain::PSN.end == 54) }
        const OTHERS: u64 = !(0xffff_ffff << 16);
        let others = u64x2::new([OTHERS.to_be(), u64::MAX]);
        let psn = u64x2::new([(u64::from(psn) << 16).to_be(), 0]);
        self.lanes[2] = self.lanes[2] & others | psn;
        self
    }
}

impl PlainHead {
    /// Writes the headers.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8; PLAIN], common: &PlainCommon) {
        let [first, rest @ ..] = &self.lanes;
        let [a, b, c] = rest;
        let [d, e, f] = &common.lanes;
        for (out, lane) in out.as_chunks_mut::<16>().0.iter_mut().zip([*first, *a | *d, *b | *e, *c | *f]) {
            *out = bytemuck::cast(lane);
        }
    }
}

/// The version and the traffic class.
const fn ipv6_start(class: u8) -> u16 {
    0x6000 | (class as u16) << 4
}

/// The bytes in registers.
fn lanes(bytes: &[u8; PLAIN]) -> [u64x2; 4] {
    let (lanes, _) = bytes.as_chunks::<16>();
    core::array::from_fn(|at| lanes.get(at).map_or(u64x2::ZERO, |&lane| bytemuck::cast(lane)))
}

/// The checksum of an IPv4 header whose sum with length 0 is known, folded to 16 bits.
#[inline(always)]
fn ipv4_checksum(base_sum: u32, len: u16) -> u16 {
    // Together they are 17 bits, and one fold is enough.
    let sum = base_sum + u32::from(len);
    #[expect(clippy::cast_possible_truncation, reason = "folded")]
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    sum
}

/// Headers of an untagged IPv4 packet. No other combination has this length.
pub const PLAIN: usize = ETH_LEN + IPV4_LEN + UDP_LEN + header::LEN;

#[expect(clippy::cast_possible_truncation, reason = "at most MAX_LEN, which is below 256")]
const fn narrow(len: usize) -> u8 {
    const { assert!(MAX_LEN < 256) }
    len as u8
}
