//! What a rank tells the others before an operation: a fresh random number, and, encrypted, what it calls and
//! how large its numbers are.

use core::fmt;

use pascaline_wire::{Call, Collective, Element, RankSet};

use super::Fault;
use super::key::Key;
use super::stream::Stream;
use crate::collective::Plan;
use crate::identity::Identity;

/// Bytes of a random number.
pub(super) const SALT: usize = 16;
/// The encrypted part: collective, element, argument, digest of parts, length, magnitude.
const PLAIN: usize = 1 + 1 + 2 + 4 + 8 + 4;
const TAG: usize = 16;
/// Bytes of a rank's announcement, a whole number of words.
pub const BYTES: usize = SALT + PLAIN + TAG;

/// One use's random number.
pub(super) type Salt = [u8; SALT];

/// An operation as a rank has called it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called {
    collective: u8,
    element: u8,
    argument: u16,
    /// Of the parts.
    digest: u32,
    bytes: u64,
}

impl Called {
    pub(super) fn new(plan: &Plan, bytes: usize) -> Self {
        let Call { collective, argument } = plan.call;
        let (digest, bytes) = (plan.digest, bytes as u64);
        Self { collective: collective as u8, element: plan.element.code(), argument, digest, bytes }
    }
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = (Collective::from_code(self.collective), Element::from_code(self.element));
        let (Some(collective), Some(Element { dtype, op })) = known else {
            return f.write_str("something that this version does not know");
        };
        write!(f, "{} of {} bytes of {dtype}", collective.name(), self.bytes)?;
        match collective {
            Collective::Reduce => write!(f, ", {} to rank {}", op.name(), self.argument),
            Collective::Broadcast => write!(f, " from rank {}", self.argument),
            Collective::Allreduce => write!(f, ", {}", op.name()),
            Collective::ReduceScatter => write!(f, ", {} in parts {:08x}", op.name(), self.digest),
            Collective::Allgather => write!(f, " in parts {:08x}", self.digest),
            Collective::Barrier => Ok(()),
        }
    }
}

/// What a rank announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) called: Called,
    pub(super) magnitude: u32,
}

impl Announcement {
    fn plain(&self) -> [u8; PLAIN] {
        let Called { collective, element, argument, digest, bytes } = self.called;
        let mut plain = [0; PLAIN];
        plain[0] = collective;
        plain[1] = element;
        plain[2..4].copy_from_slice(&argument.to_le_bytes());
        plain[4..8].copy_from_slice(&digest.to_le_bytes());
        plain[8..16].copy_from_slice(&bytes.to_le_bytes());
        plain[16..].copy_from_slice(&self.magnitude.to_le_bytes());
        plain
    }

    fn of(plain: [u8; PLAIN]) -> Self {
        let [collective, element, a, b, d0, d1, d2, d3, l0, l1, l2, l3, l4, l5, l6, l7, m0, m1, m2, m3] =
            plain;
        let (argument, digest) = (u16::from_le_bytes([a, b]), u32::from_le_bytes([d0, d1, d2, d3]));
        let bytes = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
        let called = Called { collective, element, argument, digest, bytes };
        Self { called, magnitude: u32::from_le_bytes([m0, m1, m2, m3]) }
    }

    /// As it goes to the others.
    pub(super) fn seal(&self, key: &Key, identity: &Identity, salt: &Salt) -> [u8; BYTES] {
        let mut entry = [0; BYTES];
        let mut plain = self.plain();
        let tag = stream(key, salt).seal(&mut plain, &beside(identity, identity.rank));
        entry[..SALT].copy_from_slice(salt);
        entry[SALT..SALT + PLAIN].copy_from_slice(&plain);
        entry[SALT + PLAIN..].copy_from_slice(&tag);
        entry
    }

    /// As it came from a rank; `None` if that rank did not send it, or has another key.
    fn open(key: &Key, identity: &Identity, rank: u16, entry: &[u8; BYTES]) -> Option<Self> {
        let (salt, rest) = entry.split_first_chunk::<SALT>()?;
        let (sealed, tag) = rest.split_first_chunk::<PLAIN>()?;
        let mut plain = *sealed;
        let opened = stream(key, salt).open(&mut plain, tag.first_chunk()?, &beside(identity, rank));
        opened.then(|| Self::of(plain))
    }
}

fn stream(key: &Key, salt: &Salt) -> Stream {
    key.derive(&[b"announcement", salt])
}

/// Authenticated beside it: an announcement of another rank or another job is none.
fn beside(identity: &Identity, rank: u16) -> [u8; 6] {
    let [[a, b], [c, d], [e, f]] = [identity.job, rank, identity.ranks].map(u16::to_le_bytes);
    [a, b, c, d, e, f]
}

/// What all ranks have announced.
pub(super) struct Agreed<'a> {
    /// The largest magnitude.
    pub(super) largest: u32,
    entries: &'a [[u8; BYTES]],
}

impl Agreed<'_> {
    /// The random number of a rank.
    pub(super) fn salt(&self, rank: usize) -> Salt {
        let salt = self.entries.get(rank).and_then(|entry| entry.first_chunk());
        salt.copied().unwrap_or_default()
    }

    /// All of them, by rank.
    pub(super) fn salts(&self) -> Vec<u8> {
        self.entries.iter().flat_map(|entry| &entry[..SALT]).copied().collect()
    }
}

/// What arrived of all ranks.
///
/// # Errors
/// The first of these: ranks whose announcement is not theirs, another call, numbers that are none.
pub(super) fn agree<'a>(
    key: &Key,
    identity: &Identity,
    own: (&Announcement, &[u8; BYTES]),
    arrived: &'a [u8],
    is_finite: fn(u32) -> bool,
) -> Result<Agreed<'a>, Fault> {
    let (entries, _) = arrived.as_chunks::<BYTES>();
    let [mut absent, mut foreign, mut not_finite] = [RankSet::EMPTY; 3];
    let (mut other, mut largest) = (None, 0);
    for rank in 0..identity.ranks {
        // Fewer than there are ranks is as if they had sent nothing.
        let entry = entries.get(usize::from(rank)).unwrap_or(&[0; BYTES]);
        let opened = match rank == identity.rank {
            true => (entry == own.1).then_some(*own.0),
            false => Announcement::open(key, identity, rank, entry),
        };
        match opened {
            None if *entry == [0; BYTES] => absent.insert(rank),
            None => foreign.insert(rank),
            Some(Announcement { called, magnitude }) => {
                if called != own.0.called {
                    other = other.or(Some(Fault::Calls { rank, theirs: called, own: own.0.called }));
                }
                largest = largest.max(magnitude);
                !is_finite(magnitude) && not_finite.insert(rank)
            }
        };
    }
    if !absent.is_empty() {
        return Err(Fault::Absent { ranks: absent });
    }
    if !foreign.is_empty() {
        return Err(Fault::Foreign { ranks: foreign });
    }
    if let Some(other) = other {
        return Err(other);
    }
    if !not_finite.is_empty() {
        return Err(Fault::NotFinite { ranks: not_finite });
    }
    Ok(Agreed { largest, entries })
}
