//! ARP for IPv4 over Ethernet: parsed, and answered for the appliance's own address.

use crate::field::{arp, be16, eth, get};
use crate::frame::{ETH_LEN, Mac};
use crate::malformed::{Malformed, NoRoom};

/// Length of an ARP packet for IPv4 over Ethernet.
pub const LEN: usize = 28;

/// Length of a frame with one and without tags; Ethernet pads it.
pub const FRAME_LEN: usize = ETH_LEN + LEN;

/// Hardware and protocol, and the lengths of their addresses.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ETHERTYPE: [u8; 2] = [8, 6];

/// Request or reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target's address?
    Request,
    /// The sender has.
    Reply,
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's MAC.
    pub sender_mac: Mac,
    /// The sender's IPv4 address.
    pub sender_ip: [u8; 4],
    /// The target's MAC; zero in requests.
    pub target_mac: Mac,
    /// The target's IPv4 address.
    pub target_ip: [u8; 4],
}

impl Arp {
    /// Reads an ARP packet.
    ///
    /// # Errors
    /// `Truncated`, or `IpHeader` if it is not about IPv4 over Ethernet or neither request nor reply.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let raw = bytes.first_chunk::<LEN>().ok_or(Malformed::Truncated)?;
        if raw[arp::FORMAT] != ETHERNET_IPV4 {
            return Err(Malformed::IpHeader);
        }
        Ok(Self {
            operation: match be16(raw, arp::OPERATION) {
                1 => Operation::Request,
                2 => Operation::Reply,
                _ => return Err(Malformed::IpHeader),
            },
            sender_mac: Mac(get(raw, arp::SENDER_MAC)),
            sender_ip: get(raw, arp::SENDER_IP),
            target_mac: Mac(get(raw, arp::TARGET_MAC)),
            target_ip: get(raw, arp::TARGET_IP),
        })
    }

    /// Writes the packet to the start of `out`.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`LEN`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        let raw = out.first_chunk_mut::<LEN>().ok_or(NoRoom)?;
        raw[arp::FORMAT].copy_from_slice(&ETHERNET_IPV4);
        raw[arp::OPERATION].copy_from_slice(&match self.operation {
            Operation::Request => [0, 1],
            Operation::Reply => [0, 2],
        });
        raw[arp::SENDER_MAC].copy_from_slice(&self.sender_mac.0);
        raw[arp::SENDER_IP].copy_from_slice(&self.sender_ip);
        raw[arp::TARGET_MAC].copy_from_slice(&self.target_mac.0);
        raw[arp::TARGET_IP].copy_from_slice(&self.target_ip);
        Ok(())
    }

    /// Writes the frame that takes the packet from its sender to `to`.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`FRAME_LEN`].
    pub fn write_frame(&self, out: &mut [u8], to: Mac) -> Result<(), NoRoom> {
        let (ethernet, packet) = out.split_first_chunk_mut::<ETH_LEN>().ok_or(NoRoom)?;
        ethernet[eth::DST].copy_from_slice(&to.0);
        ethernet[eth::SRC].copy_from_slice(&self.sender_mac.0);
        ethernet[eth::SRC.end..].copy_from_slice(&ETHERTYPE);
        self.emit(packet)
    }

    /// The reply that tells the sender that `mac` has the address asked for.
    #[must_use]
    pub const fn reply(&self, mac: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }
}

/// Turns a frame with an ARP request behind `l3` bytes, for an address that `mac` owns, into its reply, in
/// place.
///
/// # Errors
/// [`NoRoom`] if the frame is shorter than its headers.
pub fn answer_in_place(bytes: &mut [u8], l3: usize, request: &Arp, mac: Mac) -> Result<(), NoRoom> {
    bytes.get_mut(eth::DST).ok_or(NoRoom)?.copy_from_slice(&request.sender_mac.0);
    bytes.get_mut(eth::SRC).ok_or(NoRoom)?.copy_from_slice(&mac.0);
    request.reply(mac).emit(bytes.get_mut(l3..).ok_or(NoRoom)?)
}
