//! Pools of packets.

mod sizing;

use std::ffi::{CString, c_int};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_buffer::Scratch;
use pascaline_dpdk_sys as sys;

pub use sizing::{Demand, buffers_needed};

use crate::eal::{Eal, EalInner};
use crate::error::Errno;
use crate::mbuf::Mbuf;

/// Bytes before the data of a fresh packet, for further headers.
///
/// Buffers and the data of fresh packets begin at multiples of 64 bytes.
pub const HEADROOM: u16 = 128;

/// The private area of each mbuf; a multiple of 64, so that the buffer begins on a cache line.
const PRIVATE: u16 = 64;

const _: () = assert!(size_of::<Scratch>() <= PRIVATE as usize && align_of::<Scratch>() <= 64);
const _: () = assert!(sys::PSC_HEADROOM == HEADROOM as u32 && HEADROOM.is_multiple_of(64));
const _: () = assert!(sys::PSC_MBUF_SIZE.is_multiple_of(64));

/// Largest cache per lcore.
pub const CACHE_MAX: u32 = sys::PSC_CACHE_MAX;

/// A pool's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Unique in the process, at most 25 bytes.
    pub name: String,
    /// Packets in all; see [`buffers_needed`]. 2^n - 1 uses the memory best.
    pub count: u32,
    /// Packets that each lcore caches, to keep lcores off the pool's ring. At most [`CACHE_MAX`] and `count`
    /// / 1.5; 0 for none.
    pub cache: u32,
    /// Bytes for the data of one packet, without the headroom.
    pub room: u16,
}

/// Why there is no pool.
#[expect(missing_docs, reason = "the message says what each field is")]
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// A name that C cannot take.
    #[error("the pool's name {name:?} is longer than 25 bytes or contains a NUL byte")]
    BadName { name: String },
    /// A cache out of its range.
    #[error(
        "pool {name}: a cache of {cache} packets per lcore is more than {max}, the most for {count} packets"
    )]
    CacheTooLarge { name: String, cache: u32, max: u32, count: u32 },
    /// A room beyond what an mbuf can describe.
    #[error("pool {name}: packets of {room} bytes are more than {max}, the most an mbuf can hold")]
    RoomTooLarge { name: String, room: u16, max: u16 },
    /// Memory does not suffice, or the name is taken.
    #[error(
        "pool {name}: {count} packets of {room} bytes, {megabytes} MB in all: {errno}{}",
        remedy(*.errno)
    )]
    Create { name: String, count: u32, room: u16, megabytes: u64, errno: Errno },
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::NOMEM => "; give DPDK more memory (memory_mb) or the pool fewer packets",
        Errno::EXIST => "; another pool has this name",
        _ => "",
    }
}

/// A pool of packets of one size. Copies are handles on the same pool; any thread may use them.
///
/// Lcores have a cache each and are fast; other threads use the pool's ring at every call. The ring is not
/// preemptible: if threads share a CPU and one is preempted within an operation, the others spin until it
/// runs again.
///
/// **When the memory goes.** With the last handle, if that is dropped on the thread that started DPDK, all
/// packets are back and no lcore has a job; otherwise it stays until the environment ends, for the reason
/// given at [`Eal`]. If packets are still out, pool and environment stay until the process ends, and a
/// warning is logged: a packet never points to freed memory. (In DPDK 22.11 `net_ring` and `net_af_xdp` do
/// not give back what their rings hold when they close.)
#[derive(Debug, Clone)]
pub struct Mempool {
    inner: Arc<PoolInner>,
}

struct PoolInner {
    raw: NonNull<sys::rte_mempool>,
    name: String,
    count: u32,
    room: u16,
    /// After the pool's own memory.
    eal: Arc<EalInner>,
}

// SAFETY: the functions called on a pool (get, put, count) are thread-safe; creating and freeing happen once.
unsafe impl Send for PoolInner {}
// SAFETY: as above.
unsafe impl Sync for PoolInner {}

impl Mempool {
    /// Makes a pool.
    ///
    /// # Errors
    /// If the numbers are impossible, the name is taken, or memory is short.
    pub fn new(eal: &Eal, config: &PoolConfig) -> Result<Self, PoolError> {
        Self::create(eal, config, false)
    }

    /// Makes a pool that hands out the most recently freed packets first, also beyond lcores' caches.
    /// Short-lived packets are then in a cache when they are written. The price is a lock where lcores meet.
    /// Without DPDK's driver for stacks it is an ordinary pool.
    ///
    /// # Errors
    /// As with [`new`](Self::new).
    pub fn latest_first(eal: &Eal, config: &PoolConfig) -> Result<Self, PoolError> {
        Self::create(eal, config, true)
    }

    fn create(eal: &Eal, config: &PoolConfig, lifo: bool) -> Result<Self, PoolError> {
        let PoolConfig { name, count, cache, room } = config.clone();
        let c_name = match CString::new(name.as_str()) {
            Ok(c_name) if name.len() < sys::PSC_NAME_MAX as usize => c_name,
            _ => return Err(PoolError::BadName { name }),
        };
        let max = CACHE_MAX.min(u32::try_from(u64::from(count) * 2 / 3).unwrap_or(CACHE_MAX));
        if cache > max {
            return Err(PoolError::CacheTooLarge { name, cache, max, count });
        }
        let Some(data_room) = room.checked_add(HEADROOM) else {
            return Err(PoolError::RoomTooLarge { name, room, max: u16::MAX - HEADROOM });
        };
        // SAFETY: EAL runs, the name is terminated and copied; numbers are checked there too.
        let raw = unsafe {
            sys::psc_mbuf_pool_create(c_name.as_ptr(), count, cache, PRIVATE, data_room, c_int::from(lifo))
        };
        match NonNull::new(raw) {
            Some(raw) => {
                let eal = eal.inner().clone();
                Ok(Self { inner: Arc::new(PoolInner { raw, name, count, room, eal }) })
            }
            None => {
                let each = u64::from(sys::PSC_MBUF_SIZE) + u64::from(PRIVATE) + u64::from(data_room) + 64;
                let megabytes = (u64::from(count) * each).div_ceil(1 << 20);
                Err(PoolError::Create { name, count, room, megabytes, errno: Errno::last() })
            }
        }
    }

    /// One packet without data, or `None` if the pool is empty.
    #[inline]
    #[must_use]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool lives. A packet just allocated has one holder and one segment of its own memory.
        NonNull::new(unsafe { sys::psc_mbuf_alloc(self.as_raw()) })
            .map(|raw| unsafe { Mbuf::from_exclusive(raw) })
    }

    /// Appends `count` packets to `out`. All or none: false if `out` or the pool does not have as many.
    #[inline]
    #[must_use]
    pub fn alloc_bulk<const N: usize>(&self, out: &mut ArrayVec<Mbuf, N>, count: usize) -> bool {
        let held = out.len();
        let Ok(asked) = u32::try_from(count) else { return false };
        if count > out.remaining_capacity() {
            return false;
        }
        if count == 0 {
            return true; // which DPDK would call a failure
        }
        // SAFETY: `out` has room for `count` more, and an Mbuf is a pointer to an mbuf.
        let failed =
            unsafe { sys::psc_mbuf_alloc_bulk(self.as_raw(), out.as_mut_ptr().add(held).cast(), asked) };
        if failed == 0 {
            // SAFETY: that many were written just now, each with one holder and one segment.
            unsafe { out.set_len(held + count) };
        }
        failed == 0
    }

    /// Packets in the pool, those in lcores' caches included. Exact only while the pool is not used.
    #[must_use]
    pub fn available(&self) -> usize {
        self.inner.available()
    }

    /// Packets out of the pool, those in devices' receive rings included. Exact only while the pool is not
    /// used.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.capacity().saturating_sub(self.available())
    }

    /// Packets in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inner.count as usize
    }

    /// Bytes of data that a fresh packet can take.
    #[must_use]
    pub fn room(&self) -> u16 {
        self.inner.room
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut sys::rte_mempool {
        self.inner.raw.as_ptr()
    }
}

impl PoolInner {
    fn available(&self) -> usize {
        // SAFETY: the pool lives.
        unsafe { sys::rte_mempool_avail_count(self.raw.as_ptr()) as usize }
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        let missing = (self.count as usize).saturating_sub(self.available());
        if missing > 0 {
            tracing::warn!(pool = self.name, missing, "packets were not given back; their memory is kept");
            self.eal.keep_forever();
        } else if self.eal.is_quiet() {
            // SAFETY: the last handle is going, all packets are back, and no other thread is inside the pool.
            unsafe { sys::rte_mempool_free(self.raw.as_ptr()) };
        }
    }
}

impl fmt::Debug for PoolInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} of {} packets available)", self.name, self.available(), self.count)
    }
}
