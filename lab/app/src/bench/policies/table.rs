//! The comparison as a table.

use pascaline_shared::println;

use crate::experiments::policies::{Best, Comparison, Experiment, Fact, HEADERS, Part, Row, Setting};

pub(super) fn print(experiment: &Experiment, comparison: &Comparison) {
    let paper = super::paper(experiment);
    println!(
        "One iteration with stragglers, {} Gbit/s; medians of {} runs from seed {}, in virtual time{}",
        paper.gbps,
        experiment.runs,
        experiment.seed,
        if experiment.scale == 1 { String::new() } else { format!("; scaled down by {}", experiment.scale) }
    );
    let mut above: Option<(Part, Setting)> = None;
    for row in &comparison.rows {
        let contest = (row.part, row.setting.contest());
        if above != Some(contest) {
            above = Some(contest);
            heading(row);
        }
        line(row);
    }
    ranking("with the papers' pool", &comparison.ranking);
    ranking("with a pool that is too small", &comparison.scarce);
    facts(&comparison.facts);
    let verified: u64 = comparison.rows.iter().map(|row| row.verified).sum();
    println!("\n{verified} results received, all exact; no packet unaccounted for");
}

fn heading(row: &Row) {
    let Setting { jobs, ranks, payload, mix, memory, poll_us, .. } = row.setting;
    println!(
        "\n{jobs} jobs of {ranks} workers, models {}, packets of {} B, pool of {} KiB ({} slots), \
         hosts poll every {poll_us} us",
        mix.name(),
        u64::from(payload) + HEADERS,
        memory >> 10,
        row.setting.slots()
    );
    println!(
        "policy    results at  ways   completed after, ms     × best   pool used   packets to PS  \
         preemptions   sent again"
    );
}

fn line(row: &Row) {
    let Row { setting, completion_ms, .. } = row;
    println!(
        "{:9} {:10} {:5}   {:6.3} ({:.3} to {:.3})   {:6.2}   {:7.1} %   {:13.0}   {:10.0}   {:10.0}",
        setting.policy.name(),
        setting.results_at.name(),
        setting.ways,
        completion_ms.median,
        completion_ms.min,
        completion_ms.max,
        row.relative,
        100.0 * row.utilisation,
        row.ps_packets,
        row.preemptions,
        row.retransmissions
    );
}

fn ranking(what: &str, all: &[Best]) {
    println!("\nChoices {what}: completion time over the best one's, geometric mean and worst");
    for Best { choice, mean, worst } in all {
        println!(
            "{:9} {:10} {:5}   {mean:8.3}   {worst:8.3}",
            choice.policy.name(),
            choice.results_at.name(),
            choice.ways
        );
    }
}

fn facts(facts: &[(Fact, [Option<f64>; 2])]) {
    println!("\nDSA's figures: factors in the paper, and here with 1 way (as there) and with 4");
    let show = |factor: &Option<f64>| factor.map_or("    -".to_owned(), |factor| format!("{factor:5.2}"));
    for (fact, [one, four]) in facts {
        println!(
            "Figure {:2}  models {:3}  {:11}  {:6} over {:8}  paper {}   here {}   4 ways {}   {}",
            fact.figure,
            fact.mix.name(),
            fact.measure.name(),
            fact.of.policy.name(),
            fact.over.policy.name(),
            show(&fact.factor),
            show(one),
            show(four),
            fact.remark()
        );
    }
}
