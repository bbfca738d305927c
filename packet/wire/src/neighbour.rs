//! The question which neighbour has an address, and the unsolicited announcement: ARP, or IPv6's neighbour
//! discovery.

use crate::arp::{self, Arp, Operation};
use crate::field::eth;
use crate::frame::{Address, ETH_LEN, Mac};
use crate::icmp;
use crate::malformed::NoRoom;

/// Bytes of the longest frame for a question or an announcement, and of the longest for an answer.
pub const LEN: usize = ETH_LEN + icmp::ADVERTISEMENT_PACKET_LEN;

/// Writes the frame by which `asker`, at `own`, asks its neighbours for the MAC of `target`, and returns its
/// length.
///
/// # Errors
/// [`NoRoom`] if `out` is shorter than the frame, at most [`LEN`].
pub fn ask(out: &mut [u8], own: Mac, asker: Address, target: Address) -> Result<usize, NoRoom> {
    let (Some(sender_ip), Some(target_ip)) = (asker.as_v4(), target.as_v4()) else {
        return icmp::write_solicitation(out, target, own, asker).map(|()| LEN);
    };
    let (operation, target_mac) = (Operation::Request, Mac::default());
    let request = Arp { operation, sender_mac: own, sender_ip, target_mac, target_ip };
    request.write_frame(out, Mac::BROADCAST).map(|()| arp::FRAME_LEN)
}

/// Writes the frame by which `own` announces `address` to all its neighbours, and returns its length: an ARP
/// announcement (RFC 5227, section 2.3), or an unsolicited neighbour advertisement (RFC 4861, section 7.2.6).
/// Switches on the way learn from it as well.
///
/// # Errors
/// [`NoRoom`] if `out` is shorter than the frame, at most [`LEN`].
pub fn announce(out: &mut [u8], own: Mac, address: Address) -> Result<usize, NoRoom> {
    const UNSPECIFIED: Address = Address::from_v6([0; 16]);
    if address.as_v4().is_some() {
        return ask(out, own, address, address);
    }
    let (ethernet, packet) = out.split_first_chunk_mut::<ETH_LEN>().ok_or(NoRoom)?;
    // To all nodes (RFC 2464, section 7).
    ethernet[eth::DST].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    ethernet[eth::SRC].copy_from_slice(&own.0);
    ethernet[eth::SRC.end..].copy_from_slice(&[0x86, 0xdd]);
    icmp::write_advertisement(packet, address, own, UNSPECIFIED).map(|()| LEN)
}
