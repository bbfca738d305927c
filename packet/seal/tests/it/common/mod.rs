//! The invariants of seals.

pub(crate) mod invariants;
