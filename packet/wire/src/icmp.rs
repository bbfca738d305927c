//! ICMP echo for IPv4 and IPv6, and IPv6 neighbour discovery, without which an address is not reachable.

use crate::checksum;
use crate::field::{eth, get, icmp, ipv4, ipv6};
use crate::frame::{Address, ETH_LEN, IPV4_LEN, IPV6_LEN, Ip, Mac, UDP_LEN, protocol};
use crate::malformed::{Malformed, NoRoom};

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Type and code of "port unreachable".
const PORT_UNREACHABLE: [u8; 2] = [3, 3];
const PORT_UNREACHABLE_V6: [u8; 2] = [1, 4];
/// Length of what precedes the quoted packet.
const HEAD_LEN: usize = 8;

/// Length of a neighbour advertisement with its link-layer address option.
const ADVERTISEMENT_LEN: usize = 32;
/// The option with the sender's link-layer address, and that with the target's: type, and length in 8 bytes.
const SOURCE_MAC: [u8; 2] = [1, 1];
const TARGET_MAC: [u8; 2] = [2, 1];

/// A UDP packet that an ICMP message quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted {
    /// Its source.
    pub src: Address,
    /// Its destination.
    pub dst: Address,
    /// The UDP port of its destination.
    pub dst_port: u16,
    /// Where its payload begins in the frame.
    pub payload: usize,
}

/// An ICMP message that concerns the appliance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icmp {
    /// An echo request.
    Echo,
    /// Who has this IPv6 address?
    Solicitation(Address),
    /// The host with this MAC has this IPv6 address.
    Advertisement(Address, Mac),
    /// Nothing listens on the port of a UDP packet to the sender.
    PortUnreachable(Quoted),
    /// Anything else.
    Other,
}

impl Icmp {
    /// Reads the ICMP or ICMPv6 message of `ip` in `frame`. Any message other than the ICMP of its IP version
    /// is `Other`, and so are neighbours' advertisements that a router has forwarded (RFC 4861, section 7.1),
    /// or that name no link-layer address.
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
            (true, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT, 0) => {
                let target = message.get(icmp::TARGET).ok_or(Malformed::Truncated)?;
                let target = Address::from_v6(get(target, 0..16));
                let hop_limit = ip.l4.checked_sub(IPV6_LEN).and_then(|l3| frame.get(l3 + ipv6::HOP_LIMIT));
                match (hop_limit == Some(&255), kind, message.first_chunk::<ADVERTISEMENT_LEN>()) {
                    (true, NEIGHBOUR_SOLICITATION, _) => Self::Solicitation(target),
                    (true, _, Some(whole)) if whole[icmp::OPTION] == TARGET_MAC => {
                        Self::Advertisement(target, Mac(get(whole, icmp::OPTION_MAC)))
                    }
                    _ => Self::Other,
                }
            }
            (false, kind, code) if [kind, code] == PORT_UNREACHABLE => quoted(message, ip.l4, false),
            (true, kind, code) if [kind, code] == PORT_UNREACHABLE_V6 => quoted(message, ip.l4, true),
            _ => Self::Other,
        })
    }
}

/// The packet quoted in a message that begins at `at` in its frame; `Other` if it is no UDP packet.
fn quoted(message: &[u8], at: usize, v6: bool) -> Icmp {
    let read = || {
        let packet = message.get(HEAD_LEN..)?;
        let (src, dst, len) = if v6 {
            let head = packet.first_chunk::<IPV6_LEN>().filter(|head| head[ipv6::NEXT] == protocol::UDP)?;
            let address = |at| Address::from_v6(get(head, at));
            (address(ipv6::SRC), address(ipv6::DST), IPV6_LEN)
        } else {
            let head = packet.first_chunk::<IPV4_LEN>()?;
            let plain = head[0] == 0x45 && head[ipv4::PROTOCOL] == protocol::UDP;
            // The appliance sends no options.
            plain.then_some(())?;
            let address = |at| Address::from_v4(get(head, at));
            (address(ipv4::SRC), address(ipv4::DST), IPV4_LEN)
        };
        let dst_port = u16::from_be_bytes(*packet.get(len + 2..)?.first_chunk()?);
        packet.get(len + UDP_LEN..)?;
        Some(Quoted { src, dst, dst_port, payload: at + HEAD_LEN + len + UDP_LEN })
    };
    read().map_or(Icmp::Other, Icmp::PortUnreachable)
}

/// Turns an echo request into its reply, in place: addresses swapped, type and checksum changed, TTL renewed.
///
/// Only for an [`Icmp::Echo`] of [`Icmp::parse`] to an address of the appliance's own: the destination, group
/// address or not, becomes the source. `own` is the MAC of the port; the IP header begins at `l3`.
///
/// # Errors
/// [`NoRoom`] if the frame is shorter than its headers.
pub fn answer_echo_in_place(bytes: &mut [u8], l3: usize, ip: &Ip, own: Mac) -> Result<(), NoRoom> {
    swap_macs(bytes, own)?;
    let v6 = ip.protocol == protocol::ICMPV6;
    let (src, dst, ttl, reply) = match v6 {
        true => (ipv6::SRC, ipv6::DST, ipv6::HOP_LIMIT, ECHO_REPLY_V6),
        false => (ipv4::SRC, ipv4::DST, ipv4::TTL, ECHO_REPLY),
    };
    let addresses = bytes.get_mut(l3 + src.start..l3 + dst.end).ok_or(NoRoom)?;
    let (src, dst) = addresses.split_at_mut(src.len());
    src.swap_with_slice(dst);
    *bytes.get_mut(l3 + ttl).ok_or(NoRoom)? = 64;
    if !v6 {
        let header = bytes.get_mut(l3..l3 + IPV4_LEN).ok_or(NoRoom)?;
        header[ipv4::CHECKSUM].fill(0);
        let sum = checksum::finish(checksum::sum(header));
        header[ipv4::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    }
    let message = bytes.get_mut(ip.l4..ip.l4 + ip.l4_len).ok_or(NoRoom)?;
    let length = u32::try_from(message.len()).map_err(|_| NoRoom)?;
    message.get_mut(icmp::HEAD).ok_or(NoRoom)?.copy_from_slice(&[reply, 0, 0, 0]);
    // Summed anew: the incremental update of RFC 1624 is wrong for a reply whose bytes are all zero. Swapping
    // the pseudo-header's addresses does not change its sum.
    let pseudo = if v6 { checksum::pseudo_header(ip.src, ip.dst, ip.protocol, length) } else { 0 };
    let sum = checksum::finish(pseudo + checksum::sum(message));
    message[icmp::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Sends a frame back to the MAC it came from.
fn swap_macs(bytes: &mut [u8], own: Mac) -> Result<(), NoRoom> {
    let head = bytes.first_chunk_mut::<ETH_LEN>().ok_or(NoRoom)?;
    head.copy_within(eth::SRC, eth::DST.start);
    head[eth::SRC].copy_from_slice(&own.0);
    Ok(())
}

/// Length of the packet that [`advertise_in_place`] writes behind the Ethernet header.
pub const ADVERTISEMENT_PACKET_LEN: usize = IPV6_LEN + ADVERTISEMENT_LEN;

/// Turns `asker`'s solicitation for `target` into the advertisement that answers it (RFC 4861, section 4.4),
/// in place. `own` is the MAC of the port. `bytes` end [`ADVERTISEMENT_PACKET_LEN`] behind `l3`, where the IP
/// header begins.
///
/// A solicitation from the unspecified address (duplicate address detection) is answered to all nodes.
///
/// # Errors
/// [`NoRoom`] if `bytes` are shorter.
pub fn advertise_in_place(
    bytes: &mut [u8],
    l3: usize,
    asker: Address,
    target: Address,
    own: Mac,
) -> Result<(), NoRoom> {
    swap_macs(bytes, own)?;
    write_advertisement(bytes.get_mut(l3..).ok_or(NoRoom)?, target, own, asker)
}

/// Writes the IPv6 packet that advertises `own` for `target` to `asker`.
///
/// # Errors
/// [`NoRoom`] if `out` is shorter than [`ADVERTISEMENT_PACKET_LEN`].
pub fn write_advertisement(out: &mut [u8], target: Address, own: Mac, asker: Address) -> Result<(), NoRoom> {
    const UNSPECIFIED: Address = Address::from_v6([0; 16]);
    const ALL_NODES: Address = Address::from_v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    const SOLICITED_OVERRIDE: u8 = 0x60;
    const OVERRIDE: u8 = 0x20;
    let (dst, flags) = if asker == UNSPECIFIED { (ALL_NODES, OVERRIDE) } else { (asker, SOLICITED_OVERRIDE) };
    let said = Neighbour { kind: NEIGHBOUR_ADVERTISEMENT, flags, about: target, option: TARGET_MAC, own };
    said.write(out, target, dst)
}

/// Writes the frame by which `asker`, at `own`, asks its neighbours for `target` (RFC 4861, section 4.3): to
/// the multicast group of hosts whose address ends as `target` does.
///
/// # Errors
/// [`NoRoom`] if `out` is shorter than an Ethernet header and [`ADVERTISEMENT_PACKET_LEN`].
pub fn write_solicitation(out: &mut [u8], target: Address, own: Mac, asker: Address) -> Result<(), NoRoom> {
    let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    group[13..].copy_from_slice(&target.octets()[13..]);
    let (ethernet, packet) = out.split_first_chunk_mut::<ETH_LEN>().ok_or(NoRoom)?;
    // RFC 2464, section 7.
    ethernet[..2].copy_from_slice(&[0x33, 0x33]);
    ethernet[2..6].copy_from_slice(&group[12..]);
    ethernet[eth::SRC].copy_from_slice(&own.0);
    ethernet[12..].copy_from_slice(&[0x86, 0xdd]);
    let said = Neighbour { kind: NEIGHBOUR_SOLICITATION, flags: 0, about: target, option: SOURCE_MAC, own };
    said.write(packet, asker, Address::from_v6(group))
}

/// A neighbour's question or advertisement.
struct Neighbour {
    kind: u8,
    flags: u8,
    about: Address,
    option: [u8; 2],
    own: Mac,
}

impl Neighbour {
    fn write(&self, out: &mut [u8], src: Address, dst: Address) -> Result<(), NoRoom> {
        const LEN: u16 = 32;
        const { assert!(LEN as usize == ADVERTISEMENT_LEN) }
        let packet = out.first_chunk_mut::<ADVERTISEMENT_PACKET_LEN>().ok_or(NoRoom)?;
        packet.fill(0);
        let (ip, message) = packet.split_at_mut(IPV6_LEN);
        ip[ipv6::VERSION] = 0x60;
        ip[ipv6::PAYLOAD_LEN].copy_from_slice(&LEN.to_be_bytes());
        ip[ipv6::NEXT] = protocol::ICMPV6;
        ip[ipv6::HOP_LIMIT] = 255;
        ip[ipv6::SRC].copy_from_slice(&src.octets());
        ip[ipv6::DST].copy_from_slice(&dst.octets());
        message[icmp::TYPE] = self.kind;
        message[icmp::FLAGS] = self.flags;
        message[icmp::TARGET].copy_from_slice(&self.about.octets());
        message[icmp::OPTION].copy_from_slice(&self.option);
        message[icmp::OPTION_MAC].copy_from_slice(&self.own.0);
        let pseudo = checksum::pseudo_header(src, dst, protocol::ICMPV6, LEN.into());
        let sum = checksum::finish(pseudo + checksum::sum(message));
        message[icmp::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }
}
