//! Experiments of the papers, in virtual time.

pub(crate) mod olaf;
pub(crate) mod policies;
