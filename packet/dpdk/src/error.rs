//! Error numbers as DPDK reports them.

use core::ffi::{CStr, c_int};
use core::fmt;

use pascaline_dpdk_sys as sys;

/// A positive error number, shown with the text that DPDK has for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(c_int);

impl Errno {
    /// No such device.
    pub const NODEV: Self = Self(19);
    /// Bad address; also EAL's answer to a device name that no driver claims.
    pub const FAULT: Self = Self(14);
    /// Already exists.
    pub const EXIST: Self = Self(17);
    /// Out of memory.
    pub const NOMEM: Self = Self(12);
    /// EINVAL.
    pub const INVAL: Self = Self(22);
    /// Nothing there, or no room, at the moment.
    pub const AGAIN: Self = Self(11);
    /// No room at the moment.
    pub const NOBUFS: Self = Self(105);
    /// Interrupted by a signal.
    pub const INTR: Self = Self(4);
    /// The network is down.
    pub const NETDOWN: Self = Self(100);
    /// Not supported.
    pub const NOTSUP: Self = Self(95);

    /// From a return value, where DPDK returns the negated number. Many drivers return -1, which is `EPERM`,
    /// for any failure.
    #[must_use]
    pub(crate) const fn from_return(value: c_int) -> Self {
        Self(value.saturating_abs())
    }

    /// From the number itself.
    #[must_use]
    pub(crate) const fn from_raw(number: c_int) -> Self {
        Self(number)
    }

    /// From `rte_errno` of the calling thread, for functions documented to set it.
    #[must_use]
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local variable.
        Self(unsafe { sys::psc_errno() })
    }

    /// `Err` for a negative return value.
    pub(crate) const fn check(value: c_int) -> Result<(), Self> {
        if value < 0 { Err(Self::from_return(value)) } else { Ok(()) }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 1 {
            return f.write_str("not permitted, or a failure that is not specified (-1)");
        }
        // SAFETY: rte_strerror returns a string literal or a per-thread buffer, always terminated; it is
        // copied out before the next call on this thread.
        let text = unsafe { CStr::from_ptr(sys::rte_strerror(self.0)) };
        write!(f, "{} (errno {})", text.to_string_lossy(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Errno {}
