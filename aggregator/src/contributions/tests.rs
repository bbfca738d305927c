use pascaline_buffer::PacketBuf;

use super::Contributions;
use super::sum::close_ranks;

/// Against the plain way, for ranks of two words with and without gaps.
#[test]
fn ranks_are_closed_in_their_order() {
    let all = u64::MAX;
    for inside in [
        [0, 0],
        [1, 0],
        [0b1011, 0],
        [0b10, 1],
        [all, 0],
        [all, 0b111],
        [all, 0b101],
        [all >> 1, 1],
        [all, all],
        [0, 9],
    ] {
        let expected: Vec<usize> =
            (0..128).filter(|rank| inside[rank / 64] >> (rank % 64) & 1 != 0).collect();
        let (mut a, mut c): ([usize; 128], [usize; 128]) =
            (core::array::from_fn(|n| n), core::array::from_fn(|n| n));
        let count = close_ranks(&inside, &mut a, &mut c);
        assert_eq!((&a[..count], &c[..count]), (&expected[..], &expected[..]), "{inside:?}");
    }
}

/// A list whose packets were all taken has no node.
#[test]
fn an_empty_list_has_no_node() {
    let pool = pascaline_buffer::HeapPool::new();
    let mut list = Contributions::new(3, pool.alloc(&[1, 2], 0));
    assert!(list.pop().is_some_and(|(rank, packet)| rank == 3 && packet.bytes() == [1, 2]));
    assert!(list.pop().is_none() && list.node().is_none() && list.line().is_null());
    list.prefetch::<1>(2);
    drop(list);
    assert_eq!(pool.live(), 0);
}
