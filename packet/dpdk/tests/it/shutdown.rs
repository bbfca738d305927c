//! The EAL ends after everything that was made from it, in whichever order the handles are dropped.

use arrayvec::ArrayVec;
use pascaline_dpdk::{Eal, Mbuf};

use crate::common::{Single, in_own_process, pool, start, test_config};

#[test]
fn eal_may_be_dropped_first() {
    in_own_process("shutdown::eal_may_be_dropped_first", || {
        let eal = Eal::init(&test_config()).unwrap();
        let pool = pool(&eal, 63);
        let Single { port, mut rx, mut tx } = start(&eal, "net_null0", &pool);
        drop(eal);
        drop(pool);
        drop(port);
        let mut batch = ArrayVec::<Mbuf, 16>::new();
        assert_eq!((rx.rx(&mut batch), tx.tx(&mut batch)), (16, 16));
        drop(rx);
        drop(tx);
    });
}
