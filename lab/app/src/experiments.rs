//! Experiments of the papers, in virtual time.

pub(crate) mod cluster;
pub(crate) mod olaf;
pub(crate) mod policies;
