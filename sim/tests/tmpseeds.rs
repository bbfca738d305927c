use pascaline_sim::{Campaign, Sabotage};
#[test]
fn tmp() {
    for seed in [133_u64, 587] {
        let report = Campaign { seed, runs: 1, threads: 1, sabotage: Sabotage::None }.run(&|_, _| {});
        println!(
            "seed {seed}: {:?}",
            report.findings.iter().map(|one| one.violation.to_string()).collect::<Vec<_>>()
        );
    }
}
