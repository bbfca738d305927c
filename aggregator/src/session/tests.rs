use pascaline_buffer::HeapBuf;
use pascaline_buffer::combine::Kernels;

use super::{Place, Session};
use crate::key::Key;
use crate::pool::{Pool, PoolConfig};

fn place(session: &Session<HeapBuf>, key: Key) -> Place {
    Place::new(session.set_of(None, key), key.tag())
}

/// A session's sets are reachable by its owner only.
#[test]
fn nothing_is_predicted_in_the_sets_of_another_owner() {
    let config = PoolConfig { slots: 4, ways: 1, ..PoolConfig::default() };
    let sessions = |lcores| Pool::<HeapBuf>::sessions(&config, Kernels::scalar(), lcores).unwrap();
    let (alone, two) = (sessions(1).remove(0), sessions(2));
    let key = Key::new(1, 1, 6);
    let mut anywhere = place(&alone, key);
    alone.shard.predict(&mut anywhere);
    assert!(alone.shard.memory.slot(anywhere.slot).is_some());
    for (number, session) in two.iter().enumerate() {
        let mut here = place(session, key);
        assert_eq!(session.shard.owns(here.set), number == 0);
        session.shard.predict(&mut here);
        assert_eq!(session.shard.memory.slot(here.slot).is_some(), number == 0);
    }
}

#[test]
fn the_lowest_bits_of_a_psn_say_who_owns_its_set() {
    use crate::policy::Region;

    for count in 1..=5u32 {
        let config = PoolConfig { slots: 64, ways: 2, ..PoolConfig::default() };
        let sessions = Pool::<HeapBuf>::sessions(&config, Kernels::scalar(), count as usize).unwrap();
        let region = count.is_power_of_two().then_some(Region { first: 8, sets: 16 });
        for psn in 0..100 {
            let key = Key::new(3, 1, psn);
            for (number, session) in (0..).zip(&sessions) {
                for region in [None, region] {
                    let set = session.set_of(region, key);
                    assert_eq!(session.shard.owns(set), psn % count == number, "{region:?}");
                }
            }
        }
        let sets: usize = sessions.iter().map(Session::sets).sum();
        assert_eq!(sets, 32, "each set has exactly one owner");
    }
}

/// A region that does not fit shares the last set of the pool.
#[test]
fn a_region_past_the_end_ends_with_the_pool() {
    use crate::policy::Region;

    let config = PoolConfig { slots: 8, ways: 1, ..PoolConfig::default() };
    let session = Pool::<HeapBuf>::sessions(&config, Kernels::scalar(), 1).unwrap().remove(0);
    let set = |first, psn| session.set_of(Some(Region { first, sets: 4 }), Key::new(1, 1, psn));
    assert_eq!([0, 1, 3, 4, 7].map(|psn| set(2, psn)), [2, 3, 5, 2, 5]);
    assert_eq!([0, 1, 3].map(|psn| set(6, psn)), [6, 7, 7]);
    assert_eq!(set(100, 0), 7);
}
