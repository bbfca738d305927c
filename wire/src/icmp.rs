//! ICMP echo for IPv4 and IPv6, and IPv6 neighbour discovery: what an address needs to be reachable.

use crate::checksum;
use crate::frame::{Address, IPV6_LEN, Ip, Mac, protocol};
use crate::malformed::{Malformed, NoRoom};

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Length of a neighbour advertisement with its link-layer address option.
const ADVERTISEMENT_LEN: usize = 32;

/// An ICMP message that the appliance answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icmp {
    /// An echo request.
    Echo,
    /// Who has this IPv6 address?
    Solicitation(Address),
    /// Anything else.
    Other,
}

impl Icmp {
    /// Reads the ICMP or ICMPv6 message of `ip` in `frame`. What is not the ICMP of its IP version is `Other`, and so
    /// is a solicitation that a router has forwarded: neighbours do not ask through routers (RFC 4861, section 7.1.1).
    ///
    /// # Errors
    /// `Truncated`, or `IpChecksum` if its checksum is wrong.
    pub fn parse(frame: &[u8], ip: &Ip) -> Result<Self, Malformed> {
        let message = frame.get(ip.l4..ip.l4 + ip.l4_len).ok_or(Malformed::Truncated)?;
        let &[kind, code] = message.first_chunk::<2>().ok_or(Malformed::Truncated)?;
        let v6 = match (ip.src.as_v4().is_none(), ip.protocol) {
            (false, protocol::ICMP) => false,
            (true, protocol::ICMPV6) => true,
            _ => return Ok(Self::Other),
        };
        let length = u32::try_from(message.len()).map_err(|_| Malformed::Length)?;
        let pseudo = if v6 { checksum::pseudo_header(ip.src, ip.dst, protocol::ICMPV6, length) } else { 0 };
        if checksum::finish(pseudo + checksum::sum(message)) != 0 {
            return Err(Malformed::IpChecksum);
        }
        Ok(match (v6, kind, code) {
            (false, ECHO_REQUEST, 0) | (true, ECHO_REQUEST_V6, 0) if message.len() >= 8 => Self::Echo,
            (true, NEIGHBOUR_SOLICITATION, 0) => {
                let target = message.get(8..24).and_then(|bytes| bytes.first_chunk::<16>());
                let target = Address::from_v6(*target.ok_or(Malformed::Truncated)?);
                let hop_limit = (ip.l4 + 7).checked_sub(IPV6_LEN).and_then(|at| frame.get(at));
                if hop_limit == Some(&255) { Self::Solicitation(target) } else { Self::Other }
            }
            _ => Self::Other,
        })
    }
}

/// Turns an echo request into its reply, in place: addresses swapped, type and checksum changed, TTL renewed.
///
/// Only for what [`Icmp::parse`] called [`Icmp::Echo`], and only if it was sent to an address of the appliance's own:
/// the destination, group address or not, becomes the source.
///
/// `own` is the MAC of the port, `from` the MAC that asked.
///
/// # Errors
/// [`NoRoom`] if the frame is shorter than its headers.
pub fn answer_echo_in_place(frame: &mut [u8], l3: usize, ip: &Ip, own: Mac, from: Mac) -> Result<(), NoRoom> {
    frame.get_mut(0..6).ok_or(NoRoom)?.copy_from_slice(&from.0);
    frame.get_mut(6..12).ok_or(NoRoom)?.copy_from_slice(&own.0);
    let (addresses, width, ttl, reply) = match ip.protocol {
        protocol::ICMPV6 => (l3 + 8, 16, l3 + 7, ECHO_REPLY_V6),
        _ => (l3 + 12, 4, l3 + 8, ECHO_REPLY),
    };
    let both = frame.get_mut(addresses..addresses + 2 * width).ok_or(NoRoom)?;
    let (src, dst) = both.split_at_mut(width);
    src.swap_with_slice(dst);
    *frame.get_mut(ttl).ok_or(NoRoom)? = 64;
    if width == 4 {
        let header = frame.get_mut(l3..l3 + 20).ok_or(NoRoom)?;
        header[10..12].fill(0);
        let sum = checksum::finish(checksum::sum(header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let message = frame.get_mut(ip.l4..ip.l4 + ip.l4_len).ok_or(NoRoom)?;
    let length = u32::try_from(message.len()).map_err(|_| NoRoom)?;
    message.first_chunk_mut::<4>().ok_or(NoRoom)?.copy_from_slice(&[reply, 0, 0, 0]);
    // Summed anew: the incremental update of RFC 1624 is wrong for a reply whose bytes are all zero. The
    // pseudo-header's addresses have swapped, which its sum does not see.
    let pseudo = if width == 16 { checksum::pseudo_header(ip.src, ip.dst, ip.protocol, length) } else { 0 };
    let sum = checksum::finish(pseudo + checksum::sum(message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Length of the advertisement that [`write_advertisement`] writes behind the Ethernet header.
pub const ADVERTISEMENT_PACKET_LEN: usize = IPV6_LEN + ADVERTISEMENT_LEN;

/// Writes the IPv6 packet that advertises `own_mac` for `target` to whoever solicited it (RFC 4861, section 4.4).
///
/// A solicitation from the unspecified address (duplicate address detection) is answered to all nodes.
///
/// # Errors
/// [`NoRoom`] if `out` is shorter than [`ADVERTISEMENT_PACKET_LEN`].
pub fn write_advertisement(
    out: &mut [u8],
    target: Address,
    own_mac: Mac,
    asker: Address,
) -> Result<(), NoRoom> {
    const UNSPECIFIED: Address = Address::from_v6([0; 16]);
    const ALL_NODES: Address = Address::from_v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    const SOLICITED_OVERRIDE: u8 = 0x60;
    const OVERRIDE: u8 = 0x20;
    let (dst, flags) = if asker == UNSPECIFIED { (ALL_NODES, OVERRIDE) } else { (asker, SOLICITED_OVERRIDE) };
    let packet = out.first_chunk_mut::<ADVERTISEMENT_PACKET_LEN>().ok_or(NoRoom)?;
    packet.fill(0);
    packet[0] = 0x60;
    packet[5] = 32;
    packet[6] = protocol::ICMPV6;
    packet[7] = 255;
    packet[8..24].copy_from_slice(&target.octets());
    packet[24..40].copy_from_slice(&dst.octets());
    packet[40] = NEIGHBOUR_ADVERTISEMENT;
    packet[44] = flags;
    packet[48..64].copy_from_slice(&target.octets());
    packet[64] = 2;
    packet[65] = 1;
    packet[66..72].copy_from_slice(&own_mac.0);
    let sum = checksum::pseudo_header(target, dst, protocol::ICMPV6, 32) + checksum::sum(&packet[40..]);
    packet[42..44].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    Ok(())
}
