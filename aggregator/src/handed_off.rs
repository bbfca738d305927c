//! A packet on its way to the owner of its set, and the contributions that are combined before it is handed
//! off.
//!
//! Contributions to one PSN that meet in one turn of one lcore are added there. One payload then crosses
//! between the cores instead of several, and every lcore that receives also adds, as switches do for each
//! other in a tree of aggregators (ATP, section 3.7). Only ordinary contributions are combined, if they are
//! added as they arrive and all ranks are needed.

mod packed;
#[cfg(test)]
mod tests;

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Combine;

use crate::key::Key;
use crate::request::Request;
use packed::{COMBINED, OVERFLOW, PACKED};

/// A packet with its request, packed.
#[repr(align(64))]
pub(crate) struct HandedOff<B> {
    request: [u64; PACKED],
    pub(crate) set: u32,
    pub(crate) packet: B,
}

const _: () = assert!(size_of::<HandedOff<usize>>() == 64, "a cache line where a packet is a pointer");

impl<B: PacketBuf> HandedOff<B> {
    #[inline]
    pub(crate) fn new(set: u32, request: &Request, packet: B) -> Self {
        Self { request: packed::pack(request), set, packet }
    }

    #[inline]
    pub(crate) fn request(&self) -> Request {
        packed::unpack(self.request)
    }

    /// Which PSN.
    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key::from_bits(self.request[0])
    }

    /// Adds a contribution to this one, if it is to the same PSN and agrees with it in every respect, and its
    /// rank is not inside. Returns false and changes nothing otherwise. This one may be of several ranks
    /// already.
    #[inline]
    pub(crate) fn absorb(&mut self, newcomer: &Combinable, bytes: &[u8], combine: Combine) -> bool {
        let [key, _, ranks, payload, terms, rules] = self.request;
        let [its_key, _, its_ranks, its_payload, its_terms, its_rules] = newcomer.packed;
        let alike = key == its_key
            && rules == its_rules
            && (payload ^ its_payload) & !(COMBINED | OVERFLOW) == 0
            && (terms ^ its_terms) & 0xffff == 0;
        if !alike {
            return false;
        }
        let single = payload & COMBINED == 0;
        // One with a count of none, or of several, is refused by the owner.
        if single && ranks >> 48 != 1 {
            return false;
        }
        let (inside, fan_in) = if single {
            // One rank: its number is in the place of the bitmap.
            (1 << (ranks & 0x3f), ranks >> 16 & 0xffff)
        } else {
            (ranks, terms >> 32 & 0xffff)
        };
        let bit = 1u64 << newcomer.rank;
        let range = newcomer.range.clone();
        let (Some(into), Some(from)) = (self.packet.bytes_mut().get_mut(range.clone()), bytes.get(range))
        else {
            return false;
        };
        if inside & bit != 0 || fan_in != its_ranks >> 16 & 0xffff || single && ranks & 0xffff >= 64 {
            return false;
        }
        let overflow = if combine(into, from) { OVERFLOW } else { 0 };
        self.request[2] = inside | bit;
        self.request[3] = payload | COMBINED | overflow;
        // The first one's rank and the fan-in go beside the needed count and the first one's priority.
        let first = if single { ranks & 0xffff } else { terms >> 48 };
        self.request[4] = terms & 0xffff_ffff | fan_in << 32 | first << 48;
        true
    }
}

/// A contribution that may be combined with others before it leaves.
pub(crate) struct Combinable {
    packed: [u64; PACKED],
    rank: u16,
    range: core::ops::Range<usize>,
}

impl Combinable {
    /// `Some` if the request is ordinary and all ranks are needed. The caller has checked that contributions
    /// of its element are added as they arrive.
    #[inline]
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let ordinary = request.gradient().is_some() && request.needed == request.fan_in && request.rank < 64;
        let begin = usize::from(request.offset);
        let range = begin..begin + usize::from(request.len);
        ordinary.then(|| Self { packed: packed::pack(request), rank: request.rank, range })
    }
}
