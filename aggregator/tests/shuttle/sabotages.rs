//! The models can fail: each fault between lcores is found by a tenth of the schedules, but for those of the
//! order of memory accesses, which is loom's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pascaline_aggregator::Sabotage;

use crate::lcore::{Model, PLAIN};
use crate::{CASES, all_at_once, explore, new_table, plain, round};

fn is_found(fault: Sabotage, model: Model) -> bool {
    let model = Arc::new(model);
    catch_unwind(AssertUnwindSafe(|| fault.during(|| explore(&model, CASES / 10)))).is_err()
}

#[test]
fn sabotages_of_the_hand_off_are_found() {
    for fault in [Sabotage::CombinedTwice, Sabotage::ClosedEarly] {
        assert!(is_found(fault, plain(8, 1, round(PLAIN, 0, 0..4, 4))), "{fault:?}");
        assert!(is_found(fault, new_table()), "{fault:?} with a new table");
        assert!(is_found(fault, all_at_once()), "{fault:?} with everything at once");
    }
}

#[test]
fn sabotages_of_slots_are_found_behind_the_hand_off() {
    for fault in [Sabotage::LostBit, Sabotage::ResultTwice] {
        assert!(is_found(fault, all_at_once()), "{fault:?}");
    }
}
