//! ARP for IPv4 over Ethernet: parsed, and answered for the appliance's own address.

use crate::frame::{Mac, be16};
use crate::malformed::{Malformed, NoRoom};

/// Length of an ARP packet for IPv4 over Ethernet.
pub const LEN: usize = 28;

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
        if raw[..6] != [0, 1, 8, 0, 6, 4] {
            return Err(Malformed::IpHeader);
        }
        let mac = |at: usize| Mac([raw[at], raw[at + 1], raw[at + 2], raw[at + 3], raw[at + 4], raw[at + 5]]);
        let ip = |at: usize| [raw[at], raw[at + 1], raw[at + 2], raw[at + 3]];
        Ok(Self {
            operation: match be16(raw, 6) {
                1 => Operation::Request,
                2 => Operation::Reply,
                _ => return Err(Malformed::IpHeader),
            },
            sender_mac: mac(8),
            sender_ip: ip(14),
            target_mac: mac(18),
            target_ip: ip(24),
        })
    }

    /// Writes the packet to the start of `out`.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`LEN`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        let raw = out.first_chunk_mut::<LEN>().ok_or(NoRoom)?;
        raw[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        raw[6..8].copy_from_slice(&match self.operation {
            Operation::Request => [0, 1],
            Operation::Reply => [0, 2],
        });
        raw[8..14].copy_from_slice(&self.sender_mac.0);
        raw[14..18].copy_from_slice(&self.sender_ip);
        raw[18..24].copy_from_slice(&self.target_mac.0);
        raw[24..28].copy_from_slice(&self.target_ip);
        Ok(())
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

/// Turns the frame in `bytes`, an ARP request at `l3` for an address that `mac` owns, into its reply, in place.
///
/// # Errors
/// [`NoRoom`] if the frame is shorter than its headers.
pub fn answer_in_place(bytes: &mut [u8], l3: usize, request: &Arp, mac: Mac) -> Result<(), NoRoom> {
    bytes.get_mut(0..6).ok_or(NoRoom)?.copy_from_slice(&request.sender_mac.0);
    bytes.get_mut(6..12).ok_or(NoRoom)?.copy_from_slice(&mac.0);
    request.reply(mac).emit(bytes.get_mut(l3..).ok_or(NoRoom)?)
}
