use proptest::prelude::*;

use super::packed::{pack, unpack};
use crate::key::Key;
use crate::policy::{ConflictPolicy, Order, Policy, Region};
use crate::request::{Request, Rules, Verb};

proptest! {
    #[test]
    fn unpack_undoes_pack(
        verb in prop::sample::select(&Verb::ALL), key in 0u64..1 << 56,
        ranks in any::<(u16, u16, u16, u16, u16, u16)>(), element in any::<u8>(),
        flags in any::<(bool, bool, bool, bool, bool, bool)>(), offset in any::<u16>(), len in any::<u16>(),
        inside in 0u64..8, now in any::<u64>(), quota in any::<u32>(),
        conflict in prop::sample::select(&ConflictPolicy::ALL), order in prop::sample::select(&Order::ALL),
    ) {
        let request = Request {
            verb,
            key: Key::from_bits(key),
            rank: ranks.0, fan_in: ranks.1,
            job_fan_in: if inside == 0 { ranks.2 } else { ranks.1 },
            count: if inside == 0 { ranks.3 } else { u16::try_from(inside.count_ones()).unwrap() },
            inside, needed: ranks.4, priority: ranks.5,
            element, overflow: flags.0, partial: flags.1, again: flags.4, marked: flags.5, offset, len, now,
            rules: Rules::of(&Policy {
                quota,
                conflict,
                order,
                region: flags.2.then_some(Region { first: 0, sets: 1 }),
                partial_after: 0,
                server: flags.3,
            }),
        };
        let unpacked = unpack(pack(&request));
        prop_assert_eq!(unpacked, request);
        let rules = unpacked.rules;
        prop_assert_eq!((rules.quota(), rules.conflict()), (quota, conflict));
        prop_assert_eq!((rules.order(), rules.region(), rules.server()), (order, flags.2, flags.3));
        for other in ConflictPolicy::ALL {
            prop_assert_eq!(rules.with_conflict(other).conflict(), other);
        }
        prop_assert_eq!(rules.with_conflict(conflict), rules);
    }
}

#[test]
fn policies_and_orders_have_names_of_their_own() {
    let mut names: Vec<_> = ConflictPolicy::ALL.map(ConflictPolicy::name).to_vec();
    names.extend(Order::ALL.map(Order::name));
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
