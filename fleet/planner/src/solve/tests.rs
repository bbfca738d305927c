use std::time::Duration;

use crate::{Options, PlanError, Proof, Solver, plan, read};

#[test]
fn no_time_says_so_with_the_bound() {
    let instance = read(include_str!("../../../../clients/examples/plans/fat-tree.json")).unwrap();
    let none = Options { time_limit: Duration::ZERO, solver: Solver::Milp, ..Options::default() };
    match plan(&instance, &none) {
        Err(error @ PlanError::Time { bound, .. }) => {
            assert!(bound >= 100.0);
            assert!(error.to_string().contains("a gap of 100 %"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn examples_are_planned_to_the_end() {
    for (text, gbps) in [
        (include_str!("../../../../clients/examples/plans/fat-tree.json"), 0.0),
        (include_str!("../../../../clients/examples/plans/appliances.json"), 0.0),
    ] {
        let instance = read(text).unwrap();
        let plan = plan(&instance, &Options::default()).unwrap();
        println!("{:?} {} {} {:?}", plan.proof, plan.objective, plan.bound, plan.binding.why);
        assert!(plan.proof == Proof::Optimal || plan.gap() < 0.02);
        assert!(plan.objective > gbps);
    }
}
