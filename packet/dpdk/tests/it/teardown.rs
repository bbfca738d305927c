//! What remains when handles are dropped, on the main lcore. The EAL ends with it.

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_dpdk::{Eal, EalError, Mbuf, Mempool, PoolConfig, lcore};

use crate::common::{Single, in_own_process, packet, start, test_config};

#[test]
fn memory_goes_when_it_is_out_of_use_and_not_before() {
    in_own_process("teardown::memory_goes_when_it_is_out_of_use_and_not_before", outlive_the_eal);
}

fn outlive_the_eal() {
    let eal = Eal::init(&test_config()).unwrap();
    assert_eq!(lcore::current(), Some(0));

    // A pool that is full goes with its last handle: its name and its memory are free again. Thirty of these
    // pools would be more than all memory.
    let config = PoolConfig { name: "again".to_owned(), count: 8191, cache: 32, room: 2048 };
    for _ in 0..30 {
        let pool = Mempool::new(&eal, &config).unwrap();
        let (used, lcores) = (pool.clone(), eal.lcores());
        let touch = move || {
            let mut some = ArrayVec::<Mbuf, 16>::new();
            used.alloc_bulk(&mut some, 16)
        };
        assert_eq!(lcores[0].launch(touch).unwrap().join(), Ok(true));
    }

    // A pool whose packets are out stays, and so does everything it needs.
    let small = PoolConfig { name: "kept".to_owned(), count: 63, cache: 0, room: 2048 };
    let pool = Mempool::new(&eal, &small).unwrap();
    let Single { port, rx, mut tx } = start(&eal, "net_ring0", &pool);
    let mut frames: ArrayVec<Mbuf, 1> = [packet(&pool, b"lost in the ring")].into();
    assert_eq!(tx.tx(&mut frames), 1);
    let mut kept = packet(&pool, b"kept");
    drop((eal, pool, port));
    drop((rx, tx));
    assert_eq!(kept.bytes(), b"kept");
    kept.bytes_mut().fill(1);
    let shared = kept.freeze();
    drop(shared.clone());
    drop(shared);
    assert!(matches!(Eal::init(&test_config()), Err(EalError::AlreadyStarted)));
}
