//! Where a key belongs.

use crate::key::Tag;

/// Where a key belongs in the pool that said so: [`Session::place`](crate::Session::place).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub(super) set: u32,
    /// The key's tag; once a slot has been [foreseen](crate::Session::foresee), that.
    pub(super) hint: u32,
}

impl Place {
    /// No slot; a pool has at most 2^28.
    pub(super) const NOWHERE: u32 = u32::MAX;

    #[inline(always)]
    pub(super) const fn new(set: u32, tag: Tag) -> Self {
        Self { set, hint: tag.0 as u32 }
    }

    /// The set, from 0.
    #[must_use]
    pub const fn set(self) -> usize {
        self.set as usize
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a tag has 16 bits")]
    pub(super) const fn tag(self) -> Tag {
        Tag(self.hint as u16)
    }
}
