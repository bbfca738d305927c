//! net_ring: packets, shared tails, and what is discarded or cannot be copied.

use arrayvec::ArrayVec;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_dpdk::{Mbuf, Mempool, PoolConfig, RxQueue};

use crate::common::{
    Single, assert_full, burst, eal, frame, packet, pool, receive, send, start, unique, wait_for,
};

#[test]
fn net_ring_carries_bytes_exactly() {
    let eal = eal();
    let pool = pool(&eal, 63);
    let Single { port, mut rx, mut tx } = start(&eal, &format!("net_ring{}", unique()), &pool);
    let frames: Vec<Vec<u8>> = (0u8..32).map(|seed| frame(seed, 60 + usize::from(seed) * 61)).collect();
    send(&mut tx, frames.iter().map(|frame| packet(&pool, frame)).collect());
    let got = receive(&mut rx, 32);
    assert!(got.iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
    assert_eq!(rx.copied(), 0);
    let stats = port.stats().read().unwrap();
    assert_eq!((stats.rx_packets, stats.tx_packets), (32, 32));
    drop(got);
    assert_full(&pool);
}

#[test]
fn a_few_leave_at_a_time_in_order() {
    let eal = eal();
    let pool = pool(&eal, 63);
    let Single { port: _port, mut rx, mut tx } = start(&eal, &format!("net_ring{}", unique()), &pool);
    let mut frames: ArrayVec<Mbuf, 32> = (0..20).map(|seed| packet(&pool, &frame(seed, 60))).collect();
    let taken: Vec<usize> = (0..4).map(|_| tx.tx_some(&mut frames)).collect();
    assert_eq!((taken, frames.len()), (vec![8, 8, 4, 0], 0));
    let got = receive(&mut rx, 20);
    assert!(got.iter().zip(0..).all(|(packet, seed)| packet.bytes() == frame(seed, 60)));
    drop(got);
    assert_full(&pool);
}

#[test]
fn what_a_full_ring_refuses_stays_with_the_caller() {
    let eal = eal();
    let pool = pool(&eal, 2047);
    let Single { port: _port, mut rx, mut tx } = start(&eal, &format!("net_ring{}", unique()), &pool);
    let (mut sent, mut seed) = (0usize, 0u32);
    let left = loop {
        let mut frames: ArrayVec<Mbuf, 64> =
            (0..64).map(|offset| packet(&pool, &(seed + offset).to_be_bytes())).collect();
        seed += 64;
        let taken = tx.tx(&mut frames);
        assert_eq!(taken + frames.len(), 64);
        sent += taken;
        if !frames.is_empty() {
            break frames;
        }
    };
    let number = |packet: &Mbuf| u32::from_be_bytes(packet.bytes().try_into().unwrap());
    assert_eq!(left.iter().map(number).next(), Some(u32::try_from(sent).unwrap()), "the rest is in order");
    assert_eq!(pool.in_use(), sent + left.len());
    let mut next = 0;
    let mut batch = ArrayVec::<Mbuf, 32>::new();
    while rx.rx(&mut batch) > 0 {
        for packet in batch.drain(..) {
            assert_eq!(number(&packet), next);
            next += 1;
        }
    }
    assert_eq!(usize::try_from(next), Ok(sent));
    drop(left);
    assert_full(&pool);
}

#[test]
fn many_heads_share_one_tail_over_net_ring() {
    let eal = eal();
    let pool = pool(&eal, 127);
    let Single { port, mut rx, mut tx } = start(&eal, &format!("net_ring{}", unique()), &pool);
    assert!(port.active().tx_multi_segment);
    let payload = packet(&pool, &frame(7, 1400)[14..]).freeze();
    let heads = (0..40).map(|seed| {
        let mut head = packet(&pool, &frame(seed, 14));
        head.append_shared(payload.clone());
        head
    });
    send(&mut tx, heads.collect());
    drop(payload);
    assert_eq!(pool.in_use(), 41);
    let got = receive(&mut rx, 40);
    for (seed, packet) in (0u8..).zip(&got) {
        assert_eq!(packet.segments(), 1);
        assert_eq!(packet.bytes(), [&frame(seed, 14)[..], &frame(7, 1400)[14..]].concat());
    }
    assert_eq!((rx.copied(), tx.copied()), (40, 0));
    drop(got);
    assert_full(&pool);
}

#[test]
fn what_is_discarded_is_not_copied_and_none_of_it_leaks() {
    let eal = eal();
    let pool = pool(&eal, 127);
    let Single { port, mut rx, mut tx } = start(&eal, &format!("net_ring{}", unique()), &pool);
    let payload = packet(&pool, &frame(7, 1400)[14..]).freeze();
    let heads = (0..40).map(|seed| {
        let mut head = packet(&pool, &frame(seed, 14));
        head.append_shared(payload.clone());
        head
    });
    send(&mut tx, heads.collect());
    send(&mut tx, (0..24).map(|seed| packet(&pool, &frame(seed, 60))).collect());
    drop(payload);
    let mut discarded = 0;
    while pool.in_use() > 0 {
        let got = rx.discard();
        assert!(got > 0, "{discarded} came out of the ring");
        discarded += got;
    }
    assert_eq!((discarded, rx.discard(), rx.copied()), (64, 0, 0));
    assert_eq!(port.stats().read().unwrap().rx_packets, 64);
    assert_full(&pool);
}

/// Receives `heads` packets of each round and checks them; gives the count of copies.
fn receive_in_order(rx: &mut RxQueue, rounds: usize, heads: usize) -> u64 {
    let (mut seen, mut batch) = (0, ArrayVec::<Mbuf, 32>::new());
    wait_for("all packets", || {
        rx.rx(&mut batch);
        for packet in batch.drain(..) {
            assert_eq!(packet.bytes(), [&b"head"[..], &(seen / heads).to_be_bytes()].concat());
            seen += 1;
        }
        seen == rounds * heads
    });
    rx.copied()
}

#[test]
fn tails_are_let_go_on_one_lcore_while_they_are_sent_on_another() {
    const ROUNDS: usize = 2000;
    const HEADS: usize = 8;
    let eal = eal();
    let cached = |count| {
        let config = PoolConfig { name: format!("cached{}", unique()), count, cache: 64, room: 2048 };
        Mempool::new(&eal, &config).unwrap()
    };
    // Copies are made into a pool of the receiver's own, so that the sender cannot take its last packet.
    let (sent, received) = (cached(511), cached(255));
    let Single { port, mut rx, mut tx } = start(&eal, &format!("net_ring{}", unique()), &received);
    let lcores = eal.lcores();
    let from = sent.clone();
    let sender = lcores[0].launch(move || {
        let mut left = ArrayVec::<Mbuf, 64>::new();
        for round in 0..ROUNDS {
            // One holder here throughout, one with each packet in flight.
            let tail = loop {
                match from.alloc() {
                    Some(mut tail) => {
                        assert!(tail.write(&round.to_be_bytes()));
                        break tail.freeze();
                    }
                    None => std::thread::yield_now(),
                }
            };
            while left.len() < HEADS {
                if let Some(mut head) = from.alloc() {
                    assert!(head.write(b"head"));
                    head.append_shared(tail.clone());
                    left.push(head);
                } else {
                    std::thread::yield_now();
                }
            }
            while !left.is_empty() {
                if tx.tx(&mut left) == 0 {
                    std::thread::yield_now();
                }
            }
            assert_eq!(tail.bytes(), round.to_be_bytes());
        }
    });
    let receiver = lcores[1].launch(move || receive_in_order(&mut rx, ROUNDS, HEADS));
    assert_eq!(sender.unwrap().join(), Ok(()));
    assert_eq!(receiver.unwrap().join(), Ok((ROUNDS * HEADS) as u64));
    assert_eq!(port.stats().read().unwrap().rx_no_buffer, 0);
    drop(port);
    assert_full(&sent);
    assert_full(&received);
}

#[test]
fn a_received_packet_that_cannot_be_copied_is_dropped_and_counted() {
    let eal = eal();
    let pool = pool(&eal, 3);
    let Single { port, mut rx, mut tx } = start(&eal, &format!("net_ring{}", unique()), &pool);
    let tail = packet(&pool, &[1; 1500]).freeze();
    let mut head = packet(&pool, &[2; 1500]);
    head.append_shared(tail.clone());
    send(&mut tx, burst([head]));
    let mut batch = ArrayVec::<Mbuf, 4>::new();
    assert_eq!(rx.rx(&mut batch), 0, "3000 bytes do not fit");
    let lost = || port.stats().read().unwrap().rx_no_buffer;
    assert_eq!((rx.copied(), lost()), (0, 1));
    let mut head = packet(&pool, &[3; 14]);
    head.append_shared(tail);
    send(&mut tx, burst([head]));
    let last = pool.alloc().unwrap();
    assert_eq!(rx.rx(&mut batch), 0, "the pool is empty");
    assert_eq!(lost(), 2);
    drop(last);
    assert_full(&pool);
}
