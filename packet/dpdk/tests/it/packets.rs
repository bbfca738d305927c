//! Pools and packets: exclusive, shared, and all of them back in the end.
#![allow(unsafe_code, reason = "packets as raw pointers")]

use std::thread;

use arrayvec::ArrayVec;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_dpdk::mempool::HEADROOM;
use pascaline_dpdk::{Mbuf, Mempool, PoolConfig, PoolError, SharedMbuf};

use crate::common::{self, assert_full, eal, packet, pool};

#[test]
fn an_empty_pool_says_so_and_recovers() {
    let eal = eal();
    let pool = pool(&eal, 7);
    let mut all = ArrayVec::<Mbuf, 16>::new();
    assert!(!pool.alloc_bulk(&mut all, 8), "there are seven");
    assert!(all.is_empty());
    assert!(pool.alloc_bulk(&mut all, 7));
    assert!(pool.alloc().is_none());
    assert!(!pool.alloc_bulk(&mut all, 1));
    assert_eq!((all.len(), pool.available(), pool.in_use()), (7, 0, 7));
    all.truncate(6);
    assert!(pool.alloc().is_some());
    Mbuf::free_bulk(&mut all);
    assert!(all.is_empty());
    assert_full(&pool);
}

#[test]
fn a_full_array_takes_no_more() {
    let eal = eal();
    let pool = pool(&eal, 7);
    let mut two = ArrayVec::<Mbuf, 2>::new();
    assert!(!pool.alloc_bulk(&mut two, 3));
    assert!(pool.alloc_bulk(&mut two, 2));
    assert!(!pool.alloc_bulk(&mut two, 1));
    assert!(pool.alloc_bulk(&mut two, 0));
    drop(two);
    assert_full(&pool);
}

#[test]
fn data_of_a_fresh_packet_begin_on_a_cache_line_behind_the_headroom() {
    let eal = eal();
    let pool = pool(&eal, 15);
    let mut all = ArrayVec::<Mbuf, 15>::new();
    assert!(pool.alloc_bulk(&mut all, 15));
    for mut mbuf in all {
        assert!(mbuf.set_len(1));
        let data = mbuf.bytes().as_ptr().addr();
        assert_eq!((data % 64, mbuf.room()), (0, 2048));
        let raw = mbuf.into_raw();
        // SAFETY: from `into_raw` above, and only looked at.
        let scratch = unsafe { Mbuf::raw_scratch(raw) }.addr();
        // Private area, headroom, data: one behind the other.
        assert_eq!(data - scratch, 64 + usize::from(HEADROOM));
        // SAFETY: taken back once.
        drop(unsafe { Mbuf::from_raw(raw) });
    }
}

#[test]
fn lengths_stay_within_the_buffer() {
    let eal = eal();
    let pool = pool(&eal, 3);
    let mut mbuf = packet(&pool, &[1, 2, 3, 4, 5]);
    assert!(!mbuf.advance(6) && !mbuf.advance(usize::MAX));
    assert!(mbuf.advance(2));
    assert_eq!((mbuf.bytes(), mbuf.room()), (&[3, 4, 5][..], 2046));
    mbuf.truncate(usize::MAX);
    mbuf.truncate(2);
    assert_eq!((mbuf.bytes(), mbuf.total_len()), (&[3, 4][..], 2));
    assert!(mbuf.retreat(2) && !mbuf.retreat(usize::from(HEADROOM) + 1));
    assert_eq!(mbuf.bytes(), &[1, 2, 3, 4], "what was given up is still there");
    assert!(!mbuf.trim(3, 2) && !mbuf.trim(5, 0) && !mbuf.trim(1, usize::MAX) && !mbuf.trim(usize::MAX, 1));
    assert_eq!((mbuf.bytes(), mbuf.total_len()), (&[1, 2, 3, 4][..], 4));
    assert!(mbuf.trim(1, 2));
    assert_eq!((mbuf.bytes(), mbuf.total_len()), (&[2, 3][..], 2));
    assert!(mbuf.advance(1));
    assert!(!mbuf.set_len(2047) && !mbuf.set_len(usize::MAX) && !mbuf.write(&[0; 2047]));
    assert!(mbuf.set_len(2046));
    mbuf.bytes_mut().fill(0xa5);
    assert!(!mbuf.bad_checksum());
    mbuf.prefetch();
}

#[test]
fn a_raw_packet_keeps_bytes_and_scratch_across_threads() {
    let eal = eal();
    let pool = pool(&eal, 3);
    let raw = packet(&pool, b"across").into_raw();
    // SAFETY: from `into_raw` above; nothing else uses the scratch line.
    unsafe { (*Mbuf::raw_scratch(raw)).words[6] = 42 };
    let raw = raw.as_ptr().expose_provenance();
    assert_eq!(raw & 1, 0);
    assert_eq!(pool.in_use(), 1);
    thread::spawn(move || {
        let raw = std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut(raw)).unwrap();
        // SAFETY: from `into_raw` above, taken back once; nothing else uses the scratch line.
        let word = unsafe { (*Mbuf::raw_scratch(raw)).words[6] };
        // SAFETY: as above.
        let mbuf = unsafe { Mbuf::from_raw(raw) };
        assert_eq!((word, mbuf.bytes()), (42, &b"across"[..]));
    })
    .join()
    .unwrap();
    assert_full(&pool);
}

#[test]
fn a_shared_packet_returns_with_its_last_holder() {
    let eal = eal();
    let pool = pool(&eal, 3);
    let shared = packet(&pool, b"shared").freeze();
    let others: Vec<SharedMbuf> = (0..20).map(|_| shared.clone()).collect();
    assert_eq!(shared.holders(), 21);
    let threads: Vec<_> = others
        .into_iter()
        .map(|holder| thread::spawn(move || assert_eq!(holder.clone().bytes(), b"shared")))
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((shared.holders(), pool.in_use()), (1, 1));
    drop(shared);
    assert_full(&pool);
    // The counter has been restored: the packet is as good as new.
    let again: Vec<_> = (0..3).map(|_| pool.alloc().unwrap().freeze()).collect();
    assert!(again.iter().all(|packet| packet.holders() == 1));
}

#[test]
fn the_only_holder_may_take_a_shared_packet_back() {
    let eal = eal();
    let pool = pool(&eal, 7);
    let shared = packet(&pool, b"shared").freeze();
    let mut head = packet(&pool, b"head");
    head.append_shared(shared.clone());
    assert!(Mbuf::thaw(shared).is_none(), "the chain holds it, too");
    assert_eq!((head.to_vec(), pool.in_use()), (b"headshared".to_vec(), 2));
    // Of several segments, each has a count of its own.
    assert!(Mbuf::thaw(head.freeze()).is_none());
    assert_full(&pool);
    let mut back = Mbuf::thaw(packet(&pool, b"alone").freeze()).unwrap();
    back.bytes_mut()[0] = b'A';
    assert_eq!(back.bytes(), b"Alone");
    Mbuf::free_bulk(&mut ArrayVec::<Mbuf, 1>::from([back]));
    assert_full(&pool);
}

#[test]
fn heads_share_one_tail() {
    let eal = eal();
    let pool = pool(&eal, 15);
    let tail = packet(&pool, b"tail").freeze();
    let mut heads: Vec<Mbuf> = (0..10).map(|head| packet(&pool, &[head; 3])).collect();
    for head in &mut heads {
        head.append_shared(tail.clone());
    }
    drop(tail);
    assert_eq!(pool.in_use(), 11);
    for (index, head) in (0u8..).zip(&mut heads) {
        assert!(head.advance(1));
        assert_eq!((head.bytes(), head.segments(), head.total_len()), (&[index; 2][..], 2, 6));
        assert_eq!(head.to_vec(), [&[index; 2][..], b"tail"].concat());
        assert!(head.set_len(1));
        assert_eq!(head.total_len(), 5);
    }
    let last = heads.pop().unwrap();
    drop(heads);
    assert_eq!(pool.in_use(), 2, "one head and the tail");
    assert_eq!(last.to_vec(), b"\x09tail");
    drop(last);
    assert_full(&pool);
}

/// A received packet starts elsewhere and has a length and flags of the device; one with a tail cannot be
/// used.
#[test]
fn headers_are_composed_in_whatever_there_was_in_a_packet() {
    let eal = eal();
    let pool = pool(&eal, 15);
    let tail = packet(&pool, b"tail").freeze();
    let flags = |packet: &mut Mbuf| {
        // SAFETY: an mbuf without another owner, given back at once.
        unsafe {
            let raw = std::ptr::from_mut(packet).read().into_raw();
            let flags = pascaline_dpdk_sys::mbuf::ol_flags(raw.as_ptr().cast());
            std::ptr::from_mut(packet).write(Mbuf::from_raw(raw));
            flags
        }
    };
    let received = || {
        let mut packet = packet(&pool, &[0xa5; 100]);
        assert!(packet.trim(40, 20));
        // SAFETY: of a packet that is ours.
        unsafe { *flags(&mut packet) = pascaline_dpdk_sys::PSC_F_RX_L4_CKSUM_BAD };
        assert!(packet.bad_checksum());
        packet
    };
    let chained = || {
        let mut packet = received();
        packet.append_shared(tail.clone());
        packet
    };
    let mut one = received();
    assert!(!one.renew(2049), "there are 2048 bytes");
    assert_eq!((one.bytes(), one.bad_checksum()), (&[0xa5; 20][..], true));
    assert!(one.renew(2048) && !chained().renew(1));
    assert_eq!((one.bytes(), one.total_len(), one.room(), one.bad_checksum()), (&[][..], 0, 2048, false));
    // From the end: the one that has been renewed, three as they came with one of no use among them, and one
    // that is not needed.
    let mut spare = ArrayVec::<Mbuf, 6>::new();
    spare.extend([received(), received(), received(), chained(), received(), one]);
    let mut frames = ArrayVec::<Mbuf, 8>::new();
    let compose = |spare: &mut _, frames: &mut _, heads: &[u8]| {
        Mbuf::compose(spare, frames, &tail, heads, |head, out: &mut [u8; 3]| *out = [*head; 3])
    };
    assert_eq!(compose(&mut spare, &mut frames, &[1, 2, 3, 4]), 4);
    assert_eq!((spare.len(), frames.len(), tail.holders(), pool.in_use()), (1, 4, 5, 6));
    for (head, frame) in (1..).zip(&mut frames) {
        assert_eq!(frame.to_vec(), [&[head; 3][..], b"tail"].concat());
        assert_eq!((frame.total_len(), frame.segments(), frame.room()), (7, 2, 2048));
        // SAFETY: of a packet that is ours.
        assert_eq!(unsafe { *flags(frame) }, 0);
    }
    // No more than there are.
    spare.push(chained());
    assert_eq!(compose(&mut spare, &mut frames, &[5, 6]), 1);
    assert_eq!((spare.len(), frames.len(), tail.holders(), pool.in_use()), (0, 5, 6, 6));
    assert_eq!(frames[4].to_vec(), b"\x05\x05\x05tail");
    frames.clear();
    assert_eq!((tail.holders(), pool.in_use()), (1, 1));
    drop(tail);
    assert_full(&pool);
}

#[test]
fn a_frozen_packet_may_have_a_tail_itself() {
    let eal = eal();
    let pool = pool(&eal, 7);
    let tail = packet(&pool, b"tail").freeze();
    let mut middle = packet(&pool, b"middle");
    middle.append_shared(tail.clone());
    let middle = middle.freeze();
    let (mut one, mut two) = (packet(&pool, b"1"), packet(&pool, b"2"));
    one.append_shared(middle.clone());
    two.append_shared(middle.clone());
    assert_eq!((middle.holders(), tail.holders()), (3, 4));
    drop(middle);
    drop(one);
    assert_eq!((two.to_vec(), two.segments()), (b"2middletail".to_vec(), 3));
    drop(two);
    assert_eq!((tail.holders(), pool.in_use()), (1, 1));
    drop(tail);
    assert_full(&pool);
}

#[test]
fn beyond_the_counter_holders_get_copies() {
    let eal = eal();
    let pool = pool(&eal, 7);
    let shared = packet(&pool, b"popular").freeze();
    let mut holders: Vec<SharedMbuf> = (1..SharedMbuf::MAX_HOLDERS).map(|_| shared.clone()).collect();
    assert_eq!((shared.holders(), pool.in_use()), (SharedMbuf::MAX_HOLDERS, 1));
    holders.extend((0..6).map(|_| shared.clone()));
    assert_eq!((shared.holders(), pool.in_use()), (SharedMbuf::MAX_HOLDERS, 7));
    assert!(holders.iter().all(|holder| holder.bytes() == b"popular"));
    holders.truncate(1);
    assert_eq!((shared.holders(), pool.in_use()), (2, 1));
    drop((holders, shared));
    assert_full(&pool);
}

#[test]
fn caches_of_lcores_count_as_available() {
    let eal = eal();
    let config = PoolConfig { name: format!("cached{}", common::unique()), count: 255, cache: 32, room: 256 };
    let pool = Mempool::new(&eal, &config).unwrap();
    let used = pool.clone();
    let lcore = &eal.lcores()[0];
    let job = lcore.launch(move || {
        let mut some = ArrayVec::<Mbuf, 20>::new();
        assert!(used.alloc_bulk(&mut some, 20));
        used.in_use()
    });
    assert_eq!(job.unwrap().join(), Ok(20));
    assert_full(&pool);
}

#[test]
fn what_came_back_last_goes_out_first_where_that_is_wanted() {
    let eal = eal();
    let config = || PoolConfig { name: format!("last{}", common::unique()), count: 63, cache: 0, room: 256 };
    // Back again at once.
    let address = |pool: &Mempool| pool.alloc().unwrap().bytes().as_ptr();
    let latest_first = Mempool::latest_first(&eal, &config()).unwrap();
    assert_eq!(address(&latest_first), address(&latest_first));
    let in_turn = Mempool::new(&eal, &config()).unwrap();
    assert_ne!(address(&in_turn), address(&in_turn));
    assert_full(&latest_first);
    assert_full(&in_turn);
}

#[test]
fn impossible_pools_are_refused_by_name_and_size() {
    let eal = eal();
    let config = |name: &str, count, cache, room| PoolConfig { name: name.to_owned(), count, cache, room };
    let refused = |config: PoolConfig| Mempool::new(&eal, &config).unwrap_err();
    assert!(matches!(refused(config(&"x".repeat(40), 7, 0, 64)), PoolError::BadName { .. }));
    assert!(matches!(refused(config("a\0b", 7, 0, 64)), PoolError::BadName { .. }));
    assert!(matches!(refused(config("cache", 10, 7, 64)), PoolError::CacheTooLarge { max: 6, .. }));
    assert!(matches!(refused(config("cache", 10_000, 513, 64)), PoolError::CacheTooLarge { max: 512, .. }));
    assert!(matches!(refused(config("room", 7, 0, u16::MAX)), PoolError::RoomTooLarge { .. }));
    let text = refused(config("huge", 1 << 24, 0, 2048)).to_string();
    assert!(text.contains("16777216 packets of 2048 bytes") && text.contains("memory_mb"), "{text}");
}
