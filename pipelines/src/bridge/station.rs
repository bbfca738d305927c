//! Who sends and receives a frame, as a bridge tells stations apart.

use pascaline_wire::frame::{ETH_LEN, Mac};

/// A MAC in a VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// The MAC.
    pub mac: Mac,
    /// The VLAN of the outermost tag; 0 without a tag, or in one that has a priority only.
    pub vlan: u16,
}

impl Station {
    /// Its MAC as a number; 0 is no host.
    pub(super) fn key(self) -> u64 {
        self.mac.0.iter().fold(0, |key, &byte| key << 8 | u64::from(byte))
    }
}

/// The sender of a frame; `None` if the frame is shorter than its header.
#[must_use]
pub fn sender(frame: &[u8]) -> Option<Station> {
    let &[_, _, _, _, _, _, s0, s1, s2, s3, s4, s5, ..] = frame.first_chunk::<ETH_LEN>()?;
    Some(Station { mac: Mac([s0, s1, s2, s3, s4, s5]), vlan: vlan(frame) })
}

/// The receiver of a frame; `None` if the frame is shorter than its header.
#[must_use]
pub fn receiver(frame: &[u8]) -> Option<Station> {
    let &[d0, d1, d2, d3, d4, d5, ..] = frame.first_chunk::<ETH_LEN>()?;
    Some(Station { mac: Mac([d0, d1, d2, d3, d4, d5]), vlan: vlan(frame) })
}

/// The VLAN of a frame by its outermost tag (IEEE 802.1Q or 802.1ad).
fn vlan(frame: &[u8]) -> u16 {
    match frame.get(ETH_LEN - 2..) {
        Some(&[0x81, 0x00, high, low, ..] | &[0x88, 0xa8, high, low, ..]) => {
            u16::from_be_bytes([high, low]) & 0xfff
        }
        _ => 0,
    }
}
