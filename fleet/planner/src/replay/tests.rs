use super::replay;
use crate::{Instance, Options, Plan, plan, read};

const FILES: [&str; 3] = [
    include_str!("../../tests/instances/20_small_rand.json"),
    include_str!("../../../../clients/examples/plans/fat-tree.json"),
    include_str!("../../../../clients/examples/plans/appliances.json"),
];

fn refused(instance: &Instance, plan: &Plan, change: impl FnOnce(&mut Plan)) -> String {
    let mut plan = plan.clone();
    change(&mut plan);
    replay(instance, &plan).unwrap_err()
}

/// Every kind of false claim is detected, on each kind of network.
#[test]
fn lies_are_refused() {
    for text in FILES {
        let instance = read(text).unwrap();
        let plan = plan(&instance, &Options::default()).unwrap();
        replay(&instance, &plan).unwrap();
        let refused = |change: fn(&mut Plan)| refused(&instance, &plan, change);
        assert!(refused(|plan| plan.k -= 1).contains("flows, the plan says"));
        assert!(refused(|plan| plan.objective *= 1.01).contains("the rates come to"));
        assert!(refused(|plan| plan.tasks[0].rate *= 1.01).contains("capacity is"));
        assert!(refused(|plan| plan.tasks[0].rate = f64::NAN).contains("rate of NaN"));
        assert!(refused(|plan| plan.bound = plan.objective * 0.9).contains("above the bound"));
        assert!(refused(|plan| plan.tasks[0].flows[0].1 += 1).contains("the plan says"));
        assert!(refused(|plan| _ = plan.tasks[0].flows.pop()).contains("the plan says 0"));
        assert!(refused(|plan| _ = plan.tasks[0].paths.pop()).contains("paths for"));
        assert!(refused(|plan| _ = plan.tasks.pop()).contains("tasks are planned"));
        assert!(refused(|plan| _ = plan.tasks[0].paths[0].pop()).contains("does not end"));
        assert!(refused(|plan| _ = plan.tasks[0].paths[0].remove(0)).contains("has a break"));
        assert!(refused(|plan| plan.tasks[0].paths[0][0] = usize::MAX).contains("not there"));
    }
}

/// k, and with it the rate, understated together, so that they agree with each other.
#[test]
fn understating_k_by_one_is_refused() {
    let instance = read(FILES[0]).unwrap();
    let plan = plan(&instance, &Options::default()).unwrap();
    let said = refused(&instance, &plan, |plan| {
        plan.k -= 1;
        plan.tasks[0].rate = 100.0 / f64::from(plan.k);
        plan.objective = plan.tasks[0].rate;
        plan.bound = plan.objective;
    });
    assert!(said.contains("carries 100.0") || said.contains("capacity"), "{said}");
}

/// A way down and up again is not allowed in a Clos network, even if its links exist.
#[test]
fn valleys_are_refused() {
    let instance = read(FILES[0]).unwrap();
    let plan = plan(&instance, &Options::default()).unwrap();
    let network = &instance.network;
    let far = plan.tasks[0].paths.iter().position(|path| path.len() == 4).unwrap();
    let said = refused(&instance, &plan, |plan| {
        let path = &mut plan.tasks[0].paths[far];
        let (up, down) = (path[1], path[2]);
        // To the spine, back to the leaf, and to the spine again.
        path.splice(1..3, [up, up + 1, up, down]);
    });
    assert!(said.contains("goes up after"), "{said}: {}", network.channel_name(0));
}
