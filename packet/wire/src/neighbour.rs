//! The question who has an address: ARP, or neighbour discovery of IPv6.

use crate::arp::{self, Arp, Operation};
use crate::frame::{Address, ETH_LEN, Mac};
use crate::icmp;
use crate::malformed::NoRoom;

/// Bytes of the longest frame that asks so, and of the longest that answers.
pub const LEN: usize = ETH_LEN + icmp::ADVERTISEMENT_PACKET_LEN;

/// Writes the frame by which `asker`, at `own`, asks its neighbours who has `target`, and gives its length.
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
