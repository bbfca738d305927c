//! Ownership of a set, and the packets that are left with its owner.
//!
//! One word per set, in one of three states:
//!
//! ```text
//! null          free
//! OWNED (1)     owned, nothing waiting
//! pointer       owned, and a list of packets waiting, newest first, linked through their scratch lines
//! ```
//!
//! An lcore with a packet either turns *free* into *owned*, or pushes the packet on the list. The owner, when it is
//! done, either turns *owned* into *free*, or takes the whole list and works it off first. Since both compete for the
//! same word, no packet can be left behind: a push succeeds only while somebody owns the set, and letting go succeeds
//! only while the list is empty. Nobody waits for anybody; a failed compare-and-swap means that another lcore got
//! something done. (A Treiber stack whose empty state is split in two by ownership.)

use core::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, Ordering};

/// How the links of waiting packets are reached.
///
/// # Safety
/// `set_link` and `link` access a place that belongs to the packet: whoever holds the packet may use it, and a link
/// that was set is read back unchanged.
pub unsafe trait Linked {
    /// Writes the packet's link.
    ///
    /// # Safety
    /// The caller holds the packet.
    unsafe fn set_link(packet: NonNull<()>, next: *mut ());

    /// Reads the packet's link.
    ///
    /// # Safety
    /// The caller holds the packet, and its link has been set.
    unsafe fn link(packet: NonNull<()>) -> *mut ();
}

/// The ownership word of a set.
#[derive(Debug)]
pub struct Owner {
    word: AtomicPtr<()>,
}

/// What became of an attempt to give a packet away.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    /// The set was free after all: the caller owns it now, and still holds the packet.
    Entered,
    /// The owner has it.
    HandedOff,
    /// Neither in [`Owner::ATTEMPTS`] tries; the caller still holds the packet.
    Contention,
}

/// Packets that were left with the owner, oldest first.
#[derive(Debug)]
pub struct Chain {
    head: *mut (),
}

fn owned() -> *mut () {
    ptr::without_provenance_mut(1)
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl Owner {
    /// Tries before giving up: a bound for the loop, far beyond what two lcores per memory channel ever need.
    pub const ATTEMPTS: usize = 64;

    /// A free set.
    #[must_use]
    pub fn new() -> Self {
        Self { word: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Becomes the owner if the set is free.
    #[inline]
    pub fn enter(&self) -> bool {
        // Acquire: sees everything that the last owner did, paired with the Release in `leave`.
        self.word.compare_exchange(ptr::null_mut(), owned(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Leaves a packet with the owner, or becomes the owner.
    ///
    /// # Safety
    /// The caller holds `packet`, which is aligned to 2 at least, and gives it up if the answer is `HandedOff`.
    pub unsafe fn leave_with_owner<L: Linked>(&self, packet: NonNull<()>) -> Left {
        let mut seen = self.word.load(Ordering::Relaxed);
        for _ in 0..Self::ATTEMPTS {
            let swapped = if seen.is_null() {
                self.word.compare_exchange(seen, owned(), Ordering::Acquire, Ordering::Relaxed)
            } else {
                let next = if seen == owned() { ptr::null_mut() } else { seen };
                // SAFETY: the caller holds the packet.
                unsafe { L::set_link(packet, next) };
                // Release: the owner that takes the list sees the packet's contents and its link.
                self.word.compare_exchange(seen, packet.as_ptr(), Ordering::Release, Ordering::Relaxed)
            };
            match swapped {
                Ok(before) if before.is_null() => return Left::Entered,
                Ok(_) => return Left::HandedOff,
                Err(now) => seen = now,
            }
        }
        Left::Contention
    }

    /// Lets go of the set, unless packets have been left here: false then, and the caller owns it still.
    ///
    /// Only the owner may call this and [`leave`](Self::leave); that they are called by another is a broken protocol,
    /// not undefined behaviour of this type, but the pool's slots rely on it.
    #[must_use]
    pub fn let_go(&self) -> bool {
        // Release: the next owner sees what this one did.
        self.word.compare_exchange(owned(), ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Lets go of the set; or, if packets have been left here, keeps it and takes them all.
    pub fn leave<L: Linked>(&self) -> Option<Chain> {
        if self.let_go() {
            return None;
        }
        // Acquire: sees the packets. The pushes form one release sequence, so the newest push stands for all.
        let mut newest = self.word.swap(owned(), Ordering::Acquire);
        let mut oldest_first = ptr::null_mut();
        while let Some(packet) = NonNull::new(newest) {
            // SAFETY: the packets on the list were given up to the owner, and each push has set its link.
            unsafe {
                newest = L::link(packet);
                L::set_link(packet, oldest_first);
            }
            oldest_first = packet.as_ptr();
        }
        Some(Chain { head: oldest_first })
    }
}

impl Chain {
    /// Takes the oldest packet off.
    pub fn pop<L: Linked>(&mut self) -> Option<NonNull<()>> {
        let packet = NonNull::new(self.head)?;
        // SAFETY: whoever holds the chain holds its packets, and `leave` has set their links.
        self.head = unsafe { L::link(packet) };
        Some(packet)
    }
}
