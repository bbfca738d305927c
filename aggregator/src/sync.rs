//! The one place that chooses between the real primitives and those of loom and shuttle.

#[cfg(loom)]
use loom::sync;
#[cfg(shuttle)]
use shuttle::sync;
#[cfg(not(any(loom, shuttle)))]
use std::sync;

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
pub(crate) use sync::Arc;
pub(crate) use sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Jobs that can be counted: few where a scheduler watches each counter.
pub(crate) const JOBS: usize = if cfg!(any(loom, shuttle)) { 1 << 3 } else { 1 << 16 };

/// `core`'s cell with loom's interface, which distinguishes reading from writing.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
