//! The ring from one lcore to another, for packets that belong to the other one's sets.
//!
//! One ring for each pair of lcores and direction, so that each end has one user and neither waits. Two
//! counters only grow, `tail` written by the sender and `head` by the receiver; between them lie the items.
//! The sender [publishes](Sender::publish) items put in, once for many, and the receiver
//! [acknowledges](Receiver::acknowledge) items taken out. Each keeps a copy of the other's counter and reads
//! the original only when the copy does not suffice. (L. Lamport, "Specifying Concurrent Program Modules",
//! 1983; the copies are those of J. Giacomoni et al., "FastForward for Efficient Pipeline Parallelism", 2008,
//! and of rings in the kernel and DPDK.)

use core::fmt;
use core::mem::MaybeUninit;

use crate::sabotage::Sabotage;
use crate::sync::{Arc, AtomicBool, AtomicU32, Ordering, UnsafeCell};

/// A counter with a cache line for itself, or two: processors fetch lines in pairs.
#[repr(align(128))]
struct Counter(AtomicU32);

/// The memory shared by both ends.
struct Ring<T> {
    /// Items put in and published, wrapping.
    tail: Counter,
    /// Items taken out and acknowledged, wrapping.
    head: Counter,
    /// The sender will put in no more.
    closed: AtomicBool,
    /// A power of two of them.
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a place is touched by the sender until it has published it, then by the receiver until it has
// acknowledged it. There is one of each, and both touch places only through `&mut self`: items are passed on,
// never shared.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

/// The end that puts in.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    /// Items put in.
    tail: u32,
    /// Of these, published.
    published: u32,
    /// The last value of the receiver's counter that was seen.
    head: u32,
}

/// The end that takes out.
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    /// Items taken out.
    head: u32,
    /// Of these, acknowledged.
    acknowledged: u32,
    /// The last value of the sender's counter that was seen.
    tail: u32,
}

/// A ring for as many items as the next power of two.
///
/// # Panics
/// If that is more than 2³¹.
#[must_use]
pub fn ring<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.next_power_of_two();
    assert!(capacity <= 1 << 31, "a ring for {capacity} items");
    let ring = Arc::new(Ring {
        tail: Counter(AtomicU32::new(0)),
        head: Counter(AtomicU32::new(0)),
        closed: AtomicBool::new(false),
        places: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
    });
    let sender = Sender { ring: Arc::clone(&ring), tail: 0, published: 0, head: 0 };
    (sender, Receiver { ring, head: 0, acknowledged: 0, tail: 0 })
}

impl<T> Ring<T> {
    #[inline(always)]
    fn place(&self, count: u32) -> &UnsafeCell<MaybeUninit<T>> {
        // A power of two of places, so that the counters may wrap.
        &self.places[count as usize & (self.places.len() - 1)]
    }
}

impl<T> Sender<T> {
    /// Puts an item in; the receiver does not see it yet.
    ///
    /// # Errors
    /// The item, if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.used() == self.capacity() {
            self.look();
            if self.used() == self.capacity() {
                return Err(item);
            }
        }
        self.ring.place(self.tail).with_mut(|place| {
            // SAFETY: the place lies between tail and head, so it is the sender's, and there is one sender.
            unsafe { (*place).write(item) };
        });
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Items that it has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.places.len()
    }

    /// How many items are in it; the other end may have taken some since.
    #[inline(always)]
    #[must_use]
    pub const fn used(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Reads how far the receiver is. Returns the items taken out so far, wrapping.
    #[inline]
    pub fn look(&mut self) -> u32 {
        // Acquire: the receiver has done with the places that it has acknowledged.
        self.head = self.ring.head.0.load(Ordering::Acquire);
        self.head
    }

    /// The item that was put in `before_last` before the last one, to change it; none if the receiver can see
    /// it already.
    #[inline]
    pub fn unpublished(&mut self, before_last: usize) -> Option<&mut T> {
        let known = if Sabotage::CombinedLate.is_on() { self.head } else { self.published };
        if before_last >= self.tail.wrapping_sub(known) as usize {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fewer than there are places, which are at most 2^31"
        )]
        let place = self.ring.place(self.tail.wrapping_sub(1 + before_last as u32));
        Some(place.with_mut(|place| {
            // SAFETY: written and not yet published, so it is the sender's, which is borrowed as long as the
            // item is.
            unsafe { (*place).assume_init_mut() }
        }))
    }

    /// True if an item that was put in is not published.
    #[inline(always)]
    #[must_use]
    pub const fn is_ahead(&self) -> bool {
        self.tail != self.published
    }

    /// Makes the items put in visible to the receiver.
    #[inline]
    pub fn publish(&mut self) {
        if self.is_ahead() {
            // Release: a thread that sees the counter sees the items.
            let order = if Sabotage::Unordered.is_on() { Ordering::Relaxed } else { Ordering::Release };
            self.ring.tail.0.store(self.tail, order);
            self.published = self.tail;
        }
    }

    /// Publishes for the last time, and says so.
    pub fn close(&mut self) {
        if Sabotage::ClosedEarly.is_on() {
            self.ring.closed.store(true, Ordering::Release);
        }
        self.publish();
        // Release: a thread that sees this sees the counter.
        self.ring.closed.store(true, Ordering::Release);
    }
}

impl<T> Receiver<T> {
    /// Items that can be taken out now, by the last value read; reads again if there are none.
    #[inline]
    pub fn available(&mut self) -> usize {
        if self.head == self.tail {
            // Acquire: sees the items that were published.
            self.tail = self.ring.tail.0.load(Ordering::Acquire);
        }
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Looks at an item: the one that will be taken out after `after` others. `None` unless it was
    /// [available](Self::available).
    ///
    /// Exclusive, so that two threads never read one item that may only be sent:
    ///
    /// ```compile_fail,E0596
    /// use std::cell::Cell;
    /// let (mut sender, receiver) = pascaline_aggregator::handoff::ring::<Cell<u32>>(2);
    /// let _ = sender.push(Cell::new(1));
    /// sender.publish();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| receiver.peek(0, |cell| cell.set(2)));
    ///     receiver.peek(0, |cell| cell.set(3));
    /// });
    /// ```
    #[inline]
    pub fn peek<R>(&mut self, after: usize, look: impl FnOnce(&T) -> R) -> Option<R> {
        if after >= self.tail.wrapping_sub(self.head) as usize {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fewer than there are places, which are at most 2^31"
        )]
        let place = self.ring.place(self.head.wrapping_add(after as u32));
        Some(place.with(|place| {
            // SAFETY: the place lies between head and tail: the sender has written it, and does not touch it
            // until it is acknowledged. This is the only receiver, and it is borrowed exclusively.
            look(unsafe { (*place).assume_init_ref() })
        }))
    }

    /// Takes out the oldest item, if one is [available](Self::available). The sender does not see yet that
    /// its place is free.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.head == self.tail {
            return None;
        }
        let item = self.ring.place(self.head).with(|place| {
            // SAFETY: as in `peek`; the counter moves on, so that the item is read once.
            unsafe { (*place).assume_init_read() }
        });
        self.head = self.head.wrapping_add(1);
        Some(item)
    }

    /// Makes the freed places visible to the sender.
    #[inline]
    pub fn acknowledge(&mut self) {
        if self.head != self.acknowledged {
            // Release: the sender writes to a place only after it has been read.
            self.ring.head.0.store(self.head, Ordering::Release);
            self.acknowledged = self.head;
        }
    }

    /// True if nothing is left and nothing will come.
    pub fn is_finished(&mut self) -> bool {
        // Acquire, and before the counter: it covers all that was published.
        self.ring.closed.load(Ordering::Acquire) && self.available() == 0
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.acknowledge();
    }
}

impl<T> Drop for Ring<T> {
    /// Drops the items put in and not taken out.
    fn drop(&mut self) {
        // Both ends are gone, by `Arc`, and their counters are final.
        let (mut head, tail) = (self.head.0.load(Ordering::Relaxed), self.tail.0.load(Ordering::Relaxed));
        while head != tail {
            self.place(head).with_mut(|place| {
                // SAFETY: written, not taken out, and this is the only handle of the ring.
                unsafe { (*place).assume_init_drop() };
            });
            head = head.wrapping_add(1);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({} put in, {} known)", self.tail, self.published)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({} taken out)", self.head)
    }
}
