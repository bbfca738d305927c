//! A packet on its way to the lcore that is at home in its set, and what is combined before it leaves.
//!
//! Contributions to one PSN that meet on their way, in one turn of one lcore, are added there: one payload crosses between the
//! cores instead of several, and the additions are done by as many lcores as receive. That is what switches do for each other in a
//! tree of aggregators (ATP), inside one machine. Only what has nothing special about it is combined, where
//! contributions are added as they come and all ranks are needed.

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Combine;

use crate::key::Key;
use crate::request::{OVERFLOW, PACKED, Request, SEVERAL};

/// A packet with its request, packed.
#[repr(align(64))]
pub(crate) struct Handed<B> {
    request: [u64; PACKED],
    pub(crate) set: u32,
    pub(crate) packet: B,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Handed<usize>>() == 64, "a cache line where a packet is a pointer");

impl<B: PacketBuf> Handed<B> {
    #[inline]
    pub(crate) fn new(set: u32, request: &Request, packet: B) -> Self {
        Self { request: request.pack(), set, packet }
    }

    #[inline]
    pub(crate) fn request(&self) -> Request {
        Request::unpack(self.request)
    }

    /// Which PSN.
    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key::from_bits(self.request[0])
    }

    /// Adds a contribution to this one, if it is to the same PSN and agrees with it in every respect, and nothing of its rank is inside.
    /// False, and nothing done, if not. This one may be of several ranks already.
    #[inline]
    pub(crate) fn absorb(&mut self, brief: &Alike, bytes: &[u8], combine: Combine) -> bool {
        let [key, _, ranks, payload, terms, rules] = self.request;
        let [its_key, _, its_ranks, its_payload, its_terms, its_rules] = brief.packed;
        let alike = key == its_key
            && rules == its_rules
            && (payload ^ its_payload) & !(SEVERAL | OVERFLOW) == 0
            && (terms ^ its_terms) & 0xffff == 0;
        if !alike {
            return false;
        }
        let (inside, fan_in) = if payload & SEVERAL == 0 {
            // As long as it is of one rank, it says how many there are where it says whose it is.
            (1 << (ranks & 0x3f), ranks >> 16 & 0xffff)
        } else {
            (ranks, terms >> 32 & 0xffff)
        };
        let bit = 1u64 << brief.rank;
        let range = brief.range.clone();
        let (Some(into), Some(from)) = (self.packet.bytes_mut().get_mut(range.clone()), bytes.get(range))
        else {
            return false;
        };
        if inside & bit != 0
            || fan_in != its_ranks >> 16 & 0xffff
            || payload & SEVERAL == 0 && ranks & 0xffff >= 64
        {
            return false;
        }
        let overflow = if combine(into, from) { OVERFLOW } else { 0 };
        self.request[2] = inside | bit;
        self.request[3] = payload | SEVERAL | overflow;
        // The first one's rank, and the fan-in, beside what is needed and the first one's priority.
        let whose = if payload & SEVERAL == 0 { ranks & 0xffff } else { terms >> 48 };
        self.request[4] = terms & 0xffff_ffff | fan_in << 32 | whose << 48;
        true
    }
}

/// A contribution that may be combined with others before it leaves.
pub(crate) struct Alike {
    packed: [u64; PACKED],
    rank: u16,
    range: core::ops::Range<usize>,
}

impl Alike {
    /// If there is nothing special about the request and all ranks are needed. That contributions of its element are added as they
    /// come, the caller has to know.
    #[inline]
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let plain = request.brief().is_some() && request.needed == request.fan_in && request.rank < 64;
        let begin = usize::from(request.offset);
        let range = begin..begin + usize::from(request.len);
        plain.then(|| Self { packed: request.pack(), rank: request.rank, range })
    }
}
