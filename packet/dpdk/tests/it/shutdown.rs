//! The environment ends after all that was made from it, in whichever order handles go.

mod common;

use arrayvec::ArrayVec;
use common::{Single, pool, start, test_config};
use pascaline_dpdk::{Eal, Mbuf};

#[test]
fn eal_may_be_dropped_first() {
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
}
