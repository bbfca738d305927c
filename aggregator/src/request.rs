//! What a packet wants of the pool.

use crate::key::Key;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// Add the payload as the contribution of a rank.
    Add = 0,
    /// The rank waits for the result: give it if it is there, else say who is missing.
    Remind = 1,
    /// The payload is the complete result, kept by a rank that has received it.
    Install = 2,
}

/// A packet's business with the pool; the packet itself travels beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub verb: Verb,
    /// Which PSN.
    pub key: Key,
    /// Whose packet it is.
    pub rank: u16,
    /// Contributions that complete the PSN, as the packet says.
    pub fan_in: u16,
    /// Contributions that complete the PSN, as the job says.
    pub job_fan_in: u16,
    /// Contributions inside: 1 from a worker; in an installed result, all.
    pub count: u16,
    /// Element type and operation, as the header's code.
    pub element: u8,
    /// True if the packet carries the overflow flag.
    pub overflow: bool,
    /// Where the payload begins in the packet.
    pub offset: u16,
    /// Length of the payload.
    pub len: u16,
    /// Time of arrival, in nanoseconds of the caller's clock.
    pub now: u64,
}

impl Request {
    /// The request in the form in which it travels with a packet from one lcore to another.
    pub(crate) fn pack(&self) -> [u64; 4] {
        let ranks = u64::from(self.rank)
            | u64::from(self.fan_in) << 16
            | u64::from(self.job_fan_in) << 32
            | u64::from(self.count) << 48;
        let payload = u64::from(self.offset)
            | u64::from(self.len) << 16
            | u64::from(self.element) << 32
            | u64::from(self.overflow) << 40
            | (self.verb as u64) << 48;
        [self.key.to_bits(), self.now, ranks, payload]
    }

    #[expect(clippy::cast_possible_truncation, reason = "each field is cut out at its own width")]
    pub(crate) fn unpack(words: [u64; 4]) -> Self {
        let [key, now, ranks, payload] = words;
        Self {
            verb: match (payload >> 48) as u8 {
                0 => Verb::Add,
                1 => Verb::Remind,
                _ => Verb::Install,
            },
            key: Key::from_bits(key),
            rank: ranks as u16,
            fan_in: (ranks >> 16) as u16,
            job_fan_in: (ranks >> 32) as u16,
            count: (ranks >> 48) as u16,
            element: (payload >> 32) as u8,
            overflow: (payload >> 40) & 1 != 0,
            offset: payload as u16,
            len: (payload >> 16) as u16,
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpack_undoes_pack(
            verb in 0u8..3, key in 0u64..1 << 56, ranks in any::<(u16, u16, u16, u16)>(),
            element in any::<u8>(), overflow in any::<bool>(), offset in any::<u16>(), len in any::<u16>(), now in any::<u64>(),
        ) {
            let request = Request {
                verb: [Verb::Add, Verb::Remind, Verb::Install][usize::from(verb)],
                key: Key::from_bits(key),
                rank: ranks.0, fan_in: ranks.1, job_fan_in: ranks.2, count: ranks.3,
                element, overflow, offset, len, now,
            };
            prop_assert_eq!(Request::unpack(request.pack()), request);
        }
    }
}
