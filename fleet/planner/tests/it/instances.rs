//! The five instances whose optima are known: `optimal` in the files is read here, and by nothing else.

use pascaline_planner::{Options, Plan, Proof, Solver, plan, read, replay, to_json};
use serde_json::Value;

const FILES: [&str; 5] = [
    include_str!("../instances/01_default_block_cap.json"),
    include_str!("../instances/05_default_rr_k3.json"),
    include_str!("../instances/09_P8_block.json"),
    include_str!("../instances/12_P1_flat.json"),
    include_str!("../instances/20_small_rand.json"),
];

fn planned(text: &str, solver: Solver) -> (Plan, Value) {
    let instance = read(text).unwrap();
    let plan = plan(&instance, &Options { solver, ..Options::default() }).unwrap();
    replay(&instance, &plan).unwrap();
    let json = to_json(&instance, &plan);
    (plan, json)
}

#[test]
fn the_fast_way_proves_the_known_optima() {
    for text in FILES {
        let known: Value = serde_json::from_str(text).unwrap();
        let (plan, json) = planned(text, Solver::Auto);
        println!("{}: {:.3} ms, {:?}", known["name"], plan.seconds * 1e3, plan.binding);
        assert_eq!(json["k"], known["optimal"]["max_flows_k"], "{}", known["name"]);
        assert_eq!(plan.proof, Proof::Optimal);
        assert_eq!(json["binding"], known["optimal"]["binding"], "{}", known["name"]);
        let gbps = known["optimal"]["throughput_gbps"].as_f64().unwrap();
        assert!((plan.objective - gbps).abs() < 1e-9);
    }
}

#[test]
fn the_exact_program_agrees() {
    for text in FILES {
        let known: Value = serde_json::from_str(text).unwrap();
        let (plan, json) = planned(text, Solver::Milp);
        println!("{}: {:.3} ms, {:?}", known["name"], plan.seconds * 1e3, plan.binding.kind);
        assert_eq!(json["k"], known["optimal"]["max_flows_k"], "{}", known["name"]);
        assert_eq!(plan.proof, Proof::Optimal);
    }
}

#[test]
fn what_a_file_says_of_its_optimum_is_not_read() {
    for text in FILES {
        let mut lying: Value = serde_json::from_str(text).unwrap();
        lying["optimal"] =
            serde_json::json!({ "max_flows_k": 1, "throughput_gbps": 100.0, "witness": "none" });
        let mut silent = lying.clone();
        silent.as_object_mut().unwrap().remove("optimal");
        let (lying, _) = planned(&lying.to_string(), Solver::Auto);
        let (silent, _) = planned(&silent.to_string(), Solver::Auto);
        assert_eq!(lying.tasks, silent.tasks);
        assert_eq!(lying.k, silent.k);
    }
}
