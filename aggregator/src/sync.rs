//! The one place that chooses between the real primitives and loom's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, Ordering};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, Ordering};
