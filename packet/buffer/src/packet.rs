//! A packet in memory.

use core::ptr::NonNull;

use arrayvec::ArrayVec;

/// One cache line beside each packet, for its holder.
///
/// Contents are undefined when a packet is received. It is used to pass a packet between lcores without
/// allocating: the link chains packets, the words carry the first lcore's findings.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Scratch {
    /// The next packet of an intrusive list, in the form of [`PacketBuf::into_raw`].
    pub link: *mut (),
    /// Free for the holder's use.
    pub words: [u64; 7],
}

/// A packet that exactly one holder owns and may write.
///
/// The owner sees the bytes of the first segment. Dropping returns the memory to its origin.
///
/// # Safety
/// Implementors promise that
/// - [`bytes_mut`](Self::bytes_mut) and [`raw_scratch`](Self::raw_scratch) are memory nothing else can reach,
/// - the memory of `bytes_mut` stays where it is when the packet is moved, and a pointer to it stays usable
///   until the next call of a method on the packet,
/// - [`into_raw`](Self::into_raw) gives up ownership without freeing, and `from_raw` of that pointer, on any
///   thread, gives the same packet back,
/// - the raw pointer is aligned to at least 2, so that its lowest bit is free for marking, and an address of
///   48 bits, the default of operating systems: the 16 above are free, too.
pub unsafe trait PacketBuf: Sized + Send + 'static {
    /// The same packet after it has been made read-only.
    type Shared: SharedBuf;

    /// The bytes of the first segment.
    fn bytes(&self) -> &[u8];

    /// The bytes of the first segment, for writing.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Keeps the first `len` bytes; does nothing if there are fewer.
    fn truncate(&mut self, len: usize);

    /// Removes the first `count` bytes. Returns false and changes nothing if there are fewer.
    #[must_use]
    fn advance(&mut self, count: usize) -> bool;

    /// Keeps `len` bytes from `offset` on. Returns false and changes nothing if there are fewer.
    #[must_use]
    #[inline]
    fn trim(&mut self, offset: usize, len: usize) -> bool {
        let whole = offset.checked_add(len).is_some_and(|end| end <= self.bytes().len());
        if whole && self.advance(offset) {
            self.truncate(len);
        }
        whole
    }

    /// Puts `count` bytes in front of the present first one, with arbitrary contents. Returns false and
    /// changes nothing if there is no room: there is where headers were removed.
    #[must_use]
    fn retreat(&mut self, count: usize) -> bool;

    /// Sets the length to `len` bytes from the present start, with arbitrary contents. Returns false and
    /// changes nothing if the memory does not suffice.
    #[must_use]
    fn set_len(&mut self, len: usize) -> bool;

    /// Resets the packet to the state of one fresh from its pool: empty, and with the pool's start. Returns
    /// false and changes nothing if fewer than `room` bytes fit behind that, or if it has a tail.
    #[must_use]
    fn renew(&mut self, room: usize) -> bool;

    /// The last of some packets, with any content, that can be [renewed](Self::renew) with this room. The
    /// others are freed.
    fn renewed<const N: usize>(spare: &mut ArrayVec<Self, N>, room: usize) -> Option<Self> {
        while let Some(mut packet) = spare.pop() {
            if packet.renew(room) {
                return Some(packet);
            }
        }
        None
    }

    /// Makes the packet read-only, so that it can have several holders. Never copies.
    fn freeze(self) -> Self::Shared;

    /// Gives up a holder of a read-only packet. If it was the only one, the packet is returned, with any
    /// length, so that it can be freed together with others; if that is not known, it is freed at once.
    #[must_use]
    #[inline]
    fn thaw(shared: Self::Shared) -> Option<Self> {
        drop(shared);
        None
    }

    /// Appends `tail` as a further segment, without copying it. At most one tail per packet.
    ///
    /// After this `bytes` is still only the first segment.
    fn append_shared(&mut self, tail: Self::Shared);

    /// Turns packets with any content, from the end of `spare`, into ones of `LEN` bytes of headers followed
    /// by `tail`, and appends them to `frames`, as long as there are heads, packets and room. Packets that
    /// cannot be [renewed](Self::renew) are freed. `write` must write all of the headers, whose contents are
    /// arbitrary. Returns the number of frames.
    fn compose<T, const LEN: usize, const N: usize, const M: usize>(
        spare: &mut ArrayVec<Self, N>,
        frames: &mut ArrayVec<Self, M>,
        tail: &Self::Shared,
        heads: &[T],
        mut write: impl FnMut(&T, &mut [u8; LEN]),
    ) -> usize {
        for (done, head) in heads.iter().enumerate() {
            if frames.is_full() {
                return done;
            }
            let Some(mut packet) = Self::renewed(spare, LEN) else { return done };
            let whole = packet.set_len(LEN);
            match packet.bytes_mut().first_chunk_mut() {
                Some(bytes) if whole => write(head, bytes),
                _ => return done,
            }
            packet.append_shared(tail.clone());
            frames.push(packet);
        }
        heads.len()
    }

    /// Length over all segments.
    fn total_len(&self) -> usize;

    /// True if a checksum that the receiving device verified was wrong.
    fn bad_checksum(&self) -> bool {
        false
    }

    /// Asks the processor to bring in the start of the packet; a hint only.
    fn prefetch(&self);

    /// Gives up ownership without freeing.
    fn into_raw(self) -> NonNull<()>;

    /// Takes back what [`into_raw`](Self::into_raw) gave up.
    ///
    /// # Safety
    /// `raw` comes from `into_raw` of the same type and has not been taken back since.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// The line beside a packet given up by [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    /// `raw` comes from `into_raw` of the same type, has not been taken back since, and nothing else uses its
    /// scratch line while the result is in use.
    unsafe fn raw_scratch(raw: NonNull<()>) -> *mut Scratch;
}

/// A packet that has been made read-only; clones share the memory by count.
pub trait SharedBuf: Clone + Send + 'static {
    /// The bytes of the packet.
    fn bytes(&self) -> &[u8];

    /// The address of the count of holders, only for prefetching. Null if it is not known.
    fn descriptor(&self) -> *const u8 {
        core::ptr::null()
    }
}
