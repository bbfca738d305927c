//! Whole frames towards one destination: the headers are worked out once, then patched per packet.

use crate::checksum;
use crate::frame::{
    Address, ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, Mac, UDP_LEN, VLAN_LEN, VlanTags,
    protocol,
};
use crate::header::{self, Header};
use crate::malformed::NoRoom;

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
}

/// Frame headers for one [`Path`], everything that does not change from packet to packet filled in.
///
/// IPv4 carries UDP checksum 0 ("none", RFC 768). IPv6 demands one (RFC 8200, section 8.1), so there it is computed
/// over the payload.
#[derive(Debug, Clone, Copy)]
pub struct Template {
    bytes: [u8; MAX_LEN],
    len: u8,
    l3: u8,
    v6: bool,
    /// IPv4: the header's sum with length 0, folded to 16 bits. IPv6: the pseudo-header's and the ports' sum with length 0.
    base_sum: u64,
}

impl Template {
    /// The template for a path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let mut bytes = [0; MAX_LEN];
        bytes[0..6].copy_from_slice(&path.dst_mac.0);
        bytes[6..12].copy_from_slice(&path.src_mac.0);
        let mut at = 12;
        for (tpid, tci) in path.vlan.as_slice() {
            bytes[at..at + 2].copy_from_slice(&tpid.to_be_bytes());
            bytes[at + 2..at + 4].copy_from_slice(&tci.to_be_bytes());
            at += VLAN_LEN;
        }
        let l3 = at + 2;
        let v4 = path.src.as_v4().zip(path.dst.as_v4());
        let l4 = match v4 {
            Some((src, dst)) => {
                bytes[at..l3].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
                bytes[l3] = 0x45;
                bytes[l3 + 6] = 0x40;
                bytes[l3 + 8] = 64;
                bytes[l3 + 9] = protocol::UDP;
                bytes[l3 + 12..l3 + 16].copy_from_slice(&src);
                bytes[l3 + 16..l3 + 20].copy_from_slice(&dst);
                l3 + IPV4_LEN
            }
            None => {
                bytes[at..l3].copy_from_slice(&ETHERTYPE_IPV6.to_be_bytes());
                bytes[l3] = 0x60;
                bytes[l3 + 6] = protocol::UDP;
                bytes[l3 + 7] = 64;
                bytes[l3 + 8..l3 + 24].copy_from_slice(&path.src.octets());
                bytes[l3 + 24..l3 + 40].copy_from_slice(&path.dst.octets());
                l3 + IPV6_LEN
            }
        };
        bytes[l4..l4 + 2].copy_from_slice(&path.src_port.to_be_bytes());
        bytes[l4 + 2..l4 + 4].copy_from_slice(&path.dst_port.to_be_bytes());
        let base_sum = match v4 {
            Some(_) => u64::from(!checksum::finish(checksum::sum(&bytes[l3..l4]))),
            None => {
                checksum::pseudo_header(path.src, path.dst, protocol::UDP, 0)
                    + checksum::sum(&bytes[l4..l4 + 4])
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

    /// Writes the headers of a packet whose aggregation header is `header` and whose payload (with trailer, if any)
    /// is `payload`, to the start of `out`. The payload itself is not copied. Returns the bytes written.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`len`](Self::len) or the payload does not fit into a datagram.
    #[inline]
    pub fn write(&self, out: &mut [u8], header: &Header, payload: &[u8]) -> Result<usize, NoRoom> {
        self.write_for(out, &header.to_bytes(), header.rank, payload)
    }

    /// As [`write`](Self::write) for a header that is the same for many ranks but for the rank itself: `head` is its
    /// bytes with any rank.
    ///
    /// # Errors
    /// As `write`.
    #[inline]
    pub fn write_for(
        &self,
        out: &mut [u8],
        head: &[u8; header::LEN],
        rank: u16,
        payload: &[u8],
    ) -> Result<usize, NoRoom> {
        let len = self.len();
        let udp_len = u16::try_from(UDP_LEN + header::LEN + payload.len()).map_err(|_| NoRoom)?;
        if let (PLAIN, Some(out)) = (len, out.first_chunk_mut::<PLAIN>()) {
            self.write_plain(out, head, rank, udp_len)?;
            return Ok(PLAIN);
        }
        let l3 = usize::from(self.l3);
        let mut head = *head;
        head[RANK..RANK + 2].copy_from_slice(&rank.to_be_bytes());
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        out.copy_from_slice(&self.bytes[..len]);
        let l4 = len - header::LEN - UDP_LEN;
        if self.v6 {
            out[l3 + 4..l3 + 6].copy_from_slice(&udp_len.to_be_bytes());
            // The length stands in the pseudo-header and in the UDP header.
            let total =
                self.base_sum + 2 * u64::from(udp_len) + checksum::sum(&head) + checksum::sum(payload);
            let sum = match checksum::finish(total) {
                0 => 0xffff,
                sum => sum,
            };
            out[l4 + 6..l4 + 8].copy_from_slice(&sum.to_be_bytes());
        } else {
            let total = u16::try_from(IPV4_LEN).ok().and_then(|ip| udp_len.checked_add(ip)).ok_or(NoRoom)?;
            out[l3 + 2..l3 + 4].copy_from_slice(&total.to_be_bytes());
            let sum = checksum::finish(self.base_sum + u64::from(total));
            out[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
        }
        out[l4 + 4..l4 + 6].copy_from_slice(&udp_len.to_be_bytes());
        out[l4 + UDP_LEN..].copy_from_slice(&head);
        Ok(len)
    }

    /// Untagged IPv4, the common case: 64 bytes, every place known when this is compiled.
    #[inline(always)]
    fn write_plain(
        &self,
        out: &mut [u8; PLAIN],
        head: &[u8; header::LEN],
        rank: u16,
        udp_len: u16,
    ) -> Result<(), NoRoom> {
        let total = udp_len.checked_add(20).ok_or(NoRoom)?;
        *out = *self.bytes.first_chunk::<PLAIN>().ok_or(NoRoom)?;
        out[16..18].copy_from_slice(&total.to_be_bytes());
        // `base_sum` has been folded: together they are 17 bits, and one fold is enough.
        #[expect(clippy::cast_possible_truncation, reason = "17 bits")]
        let sum = self.base_sum as u32 + u32::from(total);
        #[expect(clippy::cast_possible_truncation, reason = "folded")]
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        out[24..26].copy_from_slice(&sum.to_be_bytes());
        out[38..40].copy_from_slice(&udp_len.to_be_bytes());
        out[42..].copy_from_slice(head);
        out[42 + RANK..42 + RANK + 2].copy_from_slice(&rank.to_be_bytes());
        Ok(())
    }
}

/// Offset of the rank in the aggregation header.
const RANK: usize = 6;

/// Headers of an untagged IPv4 packet. No other combination has this length.
const PLAIN: usize = ETH_LEN + IPV4_LEN + UDP_LEN + header::LEN;

#[expect(clippy::cast_possible_truncation, reason = "at most MAX_LEN, which is below 256")]
const fn narrow(len: usize) -> u8 {
    const { assert!(MAX_LEN < 256) }
    len as u8
}
