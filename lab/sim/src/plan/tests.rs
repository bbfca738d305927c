use pascaline_wire::{DType, Op};

use super::*;

fn draw(seed: u64, rough: u32) -> Plan {
    Plan::draw_of(&mut Random::new(seed), rough, None)
}

#[test]
fn rough_values_are_for_sums_of_all_ranks_over_links_that_double_nothing() {
    let (mut rough, mut stuck) = (0, 0);
    for seed in 0..2000 {
        let plan = draw(seed, 500_000);
        let ranks = plan.jobs.iter().flat_map(|job| (0..job.ranks).map(move |_| job));
        for (job, link) in ranks.zip(&plan.links).filter(|(job, _)| job.rough) {
            assert!(!job.accept_partial && job.threshold.is_none() && job.ranks > 2, "{job:?}");
            assert!(matches!(job.element.dtype, DType::F32 | DType::F64) && job.element.op == Op::Sum);
            assert_eq!(link.up, link.up.without_duplicates());
        }
        rough += u32::from(plan.jobs.iter().any(|job| job.rough));
        stuck += u32::from(plan.turns.stuck > 0);
    }
    assert!(rough > 350 && stuck > 150, "{rough} plans with rough values, {stuck} with stuck lcores");
}

#[test]
fn without_rough_values_a_seed_decides_what_it_did() {
    let smooth = |seed: &u64| draw(*seed, 500_000).jobs.iter().all(|job| !job.rough);
    for seed in (0..200).filter(smooth) {
        assert_eq!(format!("{:?}", draw(seed, 500_000)), format!("{:?}", draw(seed, 0)), "seed {seed}");
    }
}

#[test]
fn a_schedule_of_every_cell_is_found() {
    let cells = Cell::all();
    for (seed, (number, cell)) in (0..).zip(cells.iter().enumerate()) {
        let (mut random, mut found) = (Random::new(0), None);
        Plan::of_cell(number, seed, (&mut random, &mut found));
        assert_eq!(found, Some(number), "{cell}");
    }
}
