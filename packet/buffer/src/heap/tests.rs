use super::*;
use arrayvec::ArrayVec;

#[test]
fn a_packet_is_counted_until_its_last_holder_goes() {
    let pool = HeapPool::new();
    let packet = pool.alloc(b"payload", 64);
    let shared = packet.freeze();
    let second = shared.clone();
    drop(shared);
    assert_eq!(pool.live(), 1);
    assert_eq!(second.bytes(), b"payload");
    drop(second);
    assert_eq!(pool.live(), 0);
}

#[test]
fn raw_round_trip_keeps_the_packet() {
    let pool = HeapPool::new();
    let raw = pool.alloc(b"abc", 3).into_raw();
    assert_eq!(pool.live(), 1);
    // SAFETY: `raw` comes from into_raw one line above.
    let packet = unsafe { HeapBuf::from_raw(raw) };
    assert_eq!(packet.bytes(), b"abc");
    drop(packet);
    assert_eq!(pool.live(), 0);
}

#[test]
fn trimming_refuses_what_is_not_there() {
    let pool = HeapPool::new();
    let mut packet = pool.alloc(&[1, 2, 3, 4], 8);
    assert!(!packet.advance(5));
    assert!(packet.advance(1));
    packet.truncate(2);
    assert_eq!(packet.bytes(), &[2, 3]);
    assert!(!packet.set_len(1 << 20));
    assert!(packet.retreat(1));
    assert_eq!(packet.bytes(), &[1, 2, 3]);
    assert!(!packet.retreat(1 << 20));
    assert_eq!(packet.bytes(), &[1, 2, 3]);
    assert!(!packet.trim(2, 2) && !packet.trim(4, 0) && !packet.trim(1, usize::MAX));
    assert_eq!(packet.bytes(), &[1, 2, 3]);
    assert!(packet.trim(1, 1));
    assert_eq!(packet.bytes(), &[2]);
}

#[test]
fn a_renewed_packet_is_as_if_fresh() {
    let pool = HeapPool::new();
    let mut packet = pool.alloc(&[1, 2, 3, 4], 1024).with_bad_checksum();
    let start = packet.bytes().as_ptr();
    assert!(packet.trim(1, 2));
    assert!(!packet.renew(2048));
    assert_eq!((packet.bytes(), packet.bad_checksum()), (&[2, 3][..], true));
    assert!(packet.renew(1024));
    assert_eq!((packet.bytes(), packet.bad_checksum()), (&[][..], false));
    assert!(packet.set_len(1024));
    assert_eq!(packet.bytes().as_ptr(), start);
    packet.append_shared(pool.alloc(b"tail", 4).freeze());
    assert!(!packet.renew(1024));
    // Unsuitable packets are freed, but no more than necessary.
    let mut spare = ArrayVec::<HeapBuf, 4>::new();
    spare.extend([pool.alloc(b"left", 1024), pool.alloc(b"long", 1024), pool.alloc(b"short", 5), packet]);
    let found = HeapBuf::renewed(&mut spare, 1024).unwrap();
    assert_eq!((found.bytes(), spare.len(), pool.live()), (&[][..], 1, 2));
    assert!(HeapBuf::renewed(&mut spare, 2048).is_none());
    assert_eq!((spare.len(), pool.live()), (0, 1));
}

/// Whatever room is left over at its address.
#[test]
fn what_fits_does_not_depend_on_where_it_lies() {
    let pool = HeapPool::new();
    let mut kept = Vec::new();
    for size in 0..200 {
        let mut packet = pool.alloc(&[7; 100], 100 + size % 3);
        assert!(!packet.retreat(1) && !packet.set_len(101 + size % 3) && !packet.renew(101 + size % 3));
        assert!(
            packet.set_len(100 + size % 3) && packet.advance(9) && packet.retreat(9) && !packet.retreat(1)
        );
        assert!(packet.renew(100 + size % 3));
        // So that the next one has another address.
        kept.push((packet, vec![0_u8; size]));
    }
    assert_eq!(pool.live(), kept.len());
}

#[test]
fn a_tail_is_shared_not_copied() {
    let pool = HeapPool::new();
    let tail = pool.alloc(b"tail", 4).freeze();
    let mut head = pool.alloc(b"head", 4);
    head.append_shared(tail.clone());
    assert_eq!(tail.holders(), 2);
    assert_eq!(head.to_vec(), b"headtail");
    assert_eq!(head.total_len(), 8);
}

#[test]
fn a_pool_that_reuses_memory_has_as_many_packets_as_it_was_given() {
    let pool = HeapPool::reusing(2, 64);
    let mut head = pool.take(b"head", 64).unwrap();
    let tail = pool.take(b"tail", 4).unwrap().with_bad_checksum();
    let memory = tail.bytes().as_ptr();
    let tail = tail.freeze();
    assert!(pool.take(b"", 0).is_none());
    head.append_shared(tail.clone());
    drop(head);
    assert_eq!((tail.holders(), pool.live(), pool.take(b"", 65).is_none()), (1, 1, true));
    drop(tail);
    let again = pool.take(b"more", 64).unwrap();
    assert_eq!((again.bytes().as_ptr(), again.bytes(), again.bad_checksum()), (memory, &b"more"[..], false));
    assert_eq!((again.tail().is_none(), pool.live()), (true, 1));
}
