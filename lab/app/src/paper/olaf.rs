//! Olaf, section 8. The queue, the workers' control and ages are the product's.

use core::time::Duration;

use pascaline_queue::Discipline;
use pascaline_worker::Slope;
use pascaline_worker::asynchronous::Policy;

use super::figure::{Curves, Entry, Figure, Row, Scope};
use crate::experiments::olaf::{
    self as experiments, Arrivals, Hold, Outcome, Reward, Scheme, Senders, Table1, Table3,
};

type Made = anyhow::Result<Figure>;

/// The figures of this paper.
pub(super) const FIGURES: [Entry; 6] = [
    Entry::seeded("olaf-table-1", "OlafQueue compared with FIFO in front of a narrow line", table_1),
    Entry::seeded("olaf-table-2", "Three switches, all clusters sending equally often", table_2),
    Entry::seeded("olaf-table-3", "Three switches, half of the clusters sending more often", table_3),
    Entry::seeded("olaf-fig-6", "Number of aggregations in an outgoing update", figure_6),
    Entry::seeded("olaf-fig-7", "Time until the server has 200 updates of each worker", figure_7),
    Entry::seeded("olaf-fig-10", "Age-of-Model while one of two switches gets narrower", figure_10),
];

/// Table 1's rows for one kind of arrivals, of all seeds.
fn tables(
    scope: &Scope,
    seeds: u64,
    arrivals: Arrivals,
    hold: Hold,
) -> anyhow::Result<Vec<Vec<experiments::Row>>> {
    scope.each(seeds, |seed| Ok(Table1 { seed: seed + 1, runs: 1 }.rows_holding(arrivals, hold)?))
}

/// The mean of a measure over the seeds, at one output rate.
fn at(tables: &[Vec<experiments::Row>], number: usize, of: impl Fn(&experiments::Row) -> f64) -> Vec<f64> {
    tables.iter().filter_map(|rows| rows.get(number)).map(of).collect()
}

const POISSON: &str = "the paper's traces are not published; with Poisson senders of 60 Gbit/s in all, FIFO \
                       must lose (60 − out) / 60 and more. Knob below: trains of 128 updates at the ports' \
                       rate give FIFO's rows, senders in step give Olaf's 11 %";

fn table_1(scope: &Scope) -> Made {
    let seeds = scope.seeds(30, 5);
    let mut figure = Figure { seeds, ..Figure::default() };
    let poisson = tables(scope, seeds, Arrivals::Poisson, Hold::UntilBegun)?;
    for (number, out) in [40, 20, 5].into_iter().enumerate() {
        let point = format!("{out} Gbit/s out");
        let paper = experiments::PAPER.iter().find(|paper| paper.out_gbps == out);
        let mut add = |name: &str, unit, printed: Option<f64>, of: &dyn Fn(&experiments::Row) -> f64| {
            let row = Row::of(point.as_str(), name, &at(&poisson, number, of), unit);
            figure.rows.push(row.printed(printed, POISSON));
        };
        add("FIFO lost", "%", paper.map(|paper| paper.fifo_lost_pct), &|row| row.fifo.lost_pct);
        add("Olaf lost", "%", paper.map(|paper| paper.olaf_lost_pct), &|row| row.olaf.lost_pct);
        add("FIFO received", "updates", paper.map(|paper| paper.fifo_received.into()), &|row| {
            row.fifo.received
        });
        add("Olaf received", "updates", paper.map(|paper| paper.olaf_received.into()), &|row| {
            row.olaf.received
        });
        let aggregated = paper.map(|paper| paper.olaf_aggregated.into());
        add("Olaf aggregated", "updates", aggregated, &|row| row.olaf.aggregated);
        let reduced = paper.map(|paper| paper.aom_reduction_pct);
        add("Olaf's age less by", "%", reduced, &|row| row.aom_reduction_pct());
        add("less than a worker's", "%", reduced, &|row| row.worker_aom_reduction_pct());
    }
    let knobs: &[(Arrivals, Hold)] = &[
        (Arrivals::Trains(128), Hold::UntilSent),
        (Arrivals::Locked, Hold::UntilBegun),
        (Arrivals::Periodic, Hold::UntilBegun),
        (Arrivals::Bursts(10), Hold::UntilBegun),
        (Arrivals::Bursts(50), Hold::UntilBegun),
    ];
    for &(arrivals, hold) in knobs {
        let few = seeds.min(5);
        let made = tables(scope, few, arrivals, hold)?;
        for (number, out) in [40, 20].into_iter().enumerate() {
            let point = format!("knob: {arrivals}, {out} Gbit/s");
            let mut add = |name, unit, of: &dyn Fn(&experiments::Row) -> f64| {
                figure.rows.push(Row::of(point.as_str(), name, &at(&made, number, of), unit).seeded(few));
            };
            add("FIFO lost", "%", &|row| row.fifo.lost_pct);
            add("Olaf lost", "%", &|row| row.olaf.lost_pct);
            add("Olaf's age less by", "%", &|row| row.aom_reduction_pct());
            add("less than a worker's", "%", &|row| row.worker_aom_reduction_pct());
        }
    }
    Ok(figure)
}

fn figure_6(scope: &Scope) -> Made {
    let seeds = scope.seeds(30, 5);
    let mut figure = Figure { seeds, ..Figure::default() };
    let mut lines = Vec::new();
    for (arrivals, hold) in [(Arrivals::Poisson, Hold::UntilBegun), (Arrivals::Trains(128), Hold::UntilSent)]
    {
        let made = tables(scope, seeds, arrivals, hold)?;
        for (number, out) in [40, 20, 5].into_iter().enumerate() {
            let share = |most: usize| {
                at(&made, number, |row| row.olaf.aggregations_cdf.get(most).copied().unwrap_or(1.0))
            };
            let mean = |most| share(most).iter().sum::<f64>() / made.len().max(1) as f64;
            let points = (0u32..=20).map(|most| (f64::from(most), mean(most as usize))).collect();
            lines.push((format!("{arrivals}, {out} Gbit/s"), points));
            for most in [0, 2, 8] {
                let percent: Vec<f64> = share(most).into_iter().map(|share| 100.0 * share).collect();
                figure.rows.push(Row::of(
                    format!("{arrivals}, {out} Gbit/s"),
                    format!("at most {most}"),
                    &percent,
                    "%",
                ));
            }
        }
    }
    figure.curves = Some(Curves { x: "aggregations", y: "share of outgoing updates", lines });
    Ok(figure)
}

/// The paper's threshold (section 6).
const THRESHOLD: Duration = Duration::from_millis(400);

/// FIFO, Olaf, and Olaf with the paper's control.
fn scheme(number: usize) -> Scheme {
    let olaf = |policy| Scheme { discipline: Discipline::Olaf, policy };
    match number {
        0 => Scheme { discipline: Discipline::Fifo, policy: Policy::AtWill },
        1 => olaf(Policy::AtWill),
        _ => olaf(Policy::Olaf { slope: Slope::Fairness, threshold: THRESHOLD }),
    }
}

/// Rates behind SW1, SW2 and SW3 in kbit/s, which the paper does not give.
type Lines = ([u32; 2], u32);
/// Lines that fit the paper's losses, and lines that fit its ages.
const LOSSES: Lines = ([10_000; 2], 1000);
const AGES: Lines = ([2000; 2], 200);

/// The outcome of a scheme on these lines, for each seed.
fn multihop(
    scope: &Scope,
    seeds: u64,
    slow: u64,
    (edge_kbps, last_kbps): Lines,
    scheme: Scheme,
    senders: Senders,
) -> anyhow::Result<Vec<Outcome>> {
    let lasts = Duration::from_secs(if scope.quick { 20 } else { 60 });
    scope.each(seeds, |seed| {
        let slow = Duration::from_millis(slow);
        Ok(Table3 { seed: seed + 1, runs: 1, lasts, slow, edge_kbps, last_kbps }.run(senders, scheme)?)
    })
}

fn of(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> Vec<f64> {
    outcomes.iter().map(of).collect()
}

/// A row of tables 2 and 3: name, loss, ages of both groups, Jain's index.
type Printed = (&'static str, f64, [f64; 2], f64);

const RATE: &str = "the lines' rates are not in the text. Knob: no rate gives both columns: about 1 Mbit/s \
                    behind SW3 gives the losses, 0.2 Mbit/s Olaf's ages, and about 0.4 Mbit/s FIFO's ages, \
                    if those are ages of a worker's own updates instead of a cluster's. Knob: intervals that \
                    differ by half a percent give FIFO's row of Table 2, by workers";
const JAIN: &str = "the printed index does not follow from the ages in the same row: the last rows have \
                    Jain's index for two groups of clusters with the printed ages; here it is the index of \
                    the ages above";

fn multihop_table(scope: &Scope, slow: u64, printed: &[Printed]) -> Made {
    let seeds = scope.seeds(10, 2);
    let mut figure = Figure { seeds, ..Figure::default() };
    let rows = &mut figure.rows;
    for (number, &(name, lost, [fast_aom, slow_aom], jain)) in printed.iter().enumerate() {
        for (lines, which) in [(LOSSES, "SW3 1 Mbit/s"), (AGES, "SW3 0.2 Mbit/s")] {
            let made = multihop(scope, seeds, slow, lines, scheme(number), Senders::TENTH)?;
            let point = format!("{name}, {which}");
            let mut add = |what, unit, printed: f64, why, values: Vec<f64>| {
                rows.push(Row::of(point.as_str(), what, &values, unit).paper(printed).because(why));
            };
            add("lost", "%", lost, RATE, of(&made, |made| made.lost_pct));
            add("age of C1-C5", "ms", fast_aom, RATE, of(&made, |made| made.aom_ms[0]));
            add("age of C6-C10", "ms", slow_aom, RATE, of(&made, |made| made.aom_ms[1]));
            add("Jain's index", "index", jain, JAIN, of(&made, |made| made.jain));
        }
    }
    let few = seeds.min(3);
    let rates: &[u32] = if scope.quick { &[100, 500] } else { &[100, 200, 350, 500, 700, 1000, 2000] };
    for &kbps in rates {
        for (number, name) in [(0, "FIFO"), (1, "Olaf")] {
            let lines = ([10 * kbps; 2], kbps);
            let made = multihop(scope, few, slow, lines, scheme(number), Senders::TENTH)?;
            let point = format!("knob: SW3 {kbps} kbit/s, {name}");
            rows.push(Row::of(point.as_str(), "lost", &of(&made, |made| made.lost_pct), "%").seeded(few));
            for (group, name) in ["C1-C5", "C6-C10"].into_iter().enumerate() {
                let mut add = |what: &str, values: Vec<f64>| {
                    rows.push(Row::of(point.as_str(), format!("{what} {name}"), &values, "ms").seeded(few));
                };
                add("age of", of(&made, |made| made.aom_ms[group]));
                if number == 0 {
                    add("workers' age,", of(&made, |made| made.worker_aom_ms[group]));
                    add("workers' peaks,", of(&made, |made| made.worker_peak_ms[group]));
                }
            }
        }
    }
    for (number, &(name, ..)) in printed.iter().enumerate() {
        let made = multihop(scope, few, slow, LOSSES, scheme(number), Senders::Locked)?;
        let point = format!("knob: senders in step, {name}");
        rows.push(Row::of(point.as_str(), "lost", &of(&made, |made| made.lost_pct), "%").seeded(few));
        rows.push(Row::of(point, "Jain's index", &of(&made, |made| made.jain), "index").seeded(few));
    }
    intervals(scope, seeds.min(5), slow, rows)?;
    for &(name, _, ages, printed) in printed {
        let index = pascaline_ps::asynchronous::jain(&ages);
        rows.push(Row::of("knob: the printed ages", name, &[index], "index").paper(printed).because(JAIN));
    }
    Ok(figure)
}

/// How much a sender's intervals differ.
fn intervals(scope: &Scope, few: u64, slow: u64, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let jitters: &[u32] = if scope.quick { &[5000] } else { &[1000, 3000, 5000, 6000, 8000, 30_000] };
    for &millionths in jitters {
        let made = multihop(scope, few, slow, LOSSES, scheme(0), Senders::Jittered(millionths))?;
        let point = format!("knob: intervals ± {:.1} %, FIFO, SW3 1 Mbit/s", f64::from(millionths) / 1e4);
        let mut add = |what: &str, unit, values: Vec<f64>| {
            rows.push(Row::of(point.as_str(), what, &values, unit).seeded(few));
        };
        add("lost", "%", of(&made, |made| made.lost_pct));
        add("workers' age, C1-C5", "ms", of(&made, |made| made.worker_aom_ms[0]));
        add("workers' age, C6-C10", "ms", of(&made, |made| made.worker_aom_ms[1]));
        add("Jain's index of workers", "index", of(&made, |made| made.worker_jain));
    }
    Ok(())
}

fn table_2(scope: &Scope) -> Made {
    let printed = [("FIFO", 88.0, [1714.0, 1710.0], 0.88), ("Olaf", 4.5, [245.0, 244.0], 0.98)];
    multihop_table(scope, 100, &printed)
}

fn table_3(scope: &Scope) -> Made {
    let printed = Table3::PAPER.map(|contest| (contest.name, contest.lost_pct, contest.aom_ms, contest.jain));
    multihop_table(scope, 300, &printed)
}

/// Figure 7: how many times sooner the server has 200 updates of each worker.
fn figure_7(scope: &Scope) -> Made {
    let seeds = scope.seeds(10, 2);
    let mut figure = Figure { seeds, ..Figure::default() };
    let rates: &[u32] = if scope.quick { &[5, 20, 40] } else { &[5, 10, 20, 30, 40, 50] };
    let updates = if scope.quick { 50 } else { 200 };
    let mut lines = Vec::new();
    for (spread, point) in [(0.5, "rates ± 50 %"), (0.0, "knob: equal rates"), (0.8, "knob: rates ± 80 %")]
    {
        let mut line = Vec::new();
        for &out_gbps in rates {
            let each = scope.each(seeds, |seed| {
                let reward = Reward { seed: seed + 1, updates, offered_gbps: 60.0, out_gbps, spread };
                let fifo = reward.milliseconds(Discipline::Fifo)?;
                Ok([fifo, reward.milliseconds(Discipline::Olaf)?])
            })?;
            let ratios: Vec<f64> = each.iter().map(|[fifo, olaf]| fifo / olaf).collect();
            let row = Row::of(format!("{point}, {out_gbps} Gbit/s"), "sooner by", &ratios, "times");
            line.push((f64::from(out_gbps), row.mean));
            figure.rows.push(row);
            for (number, name) in ["FIFO", "Olaf"].into_iter().enumerate() {
                let times: Vec<f64> = each.iter().map(|each| each[number]).collect();
                figure.rows.push(Row::of(format!("{point}, {out_gbps} Gbit/s"), name, &times, "ms"));
            }
        }
        lines.push((point.to_owned(), line));
    }
    figure.curves = Some(Curves { x: "output, Gbit/s", y: "Olaf sooner than FIFO, times", lines });
    Ok(figure)
}

/// Figure 10: SW1 gets narrower while SW2 stays as it is; all send every 100 ms.
fn figure_10(scope: &Scope) -> Made {
    const WHY: &str = "the text only says that FIFO's age exceeds this when SW1 is narrowest, and gives no \
                       rates. Knob: the age grows as the rate shrinks; the age of a worker's own updates is \
                       tenfold";
    let seeds = scope.seeds(10, 2);
    let mut figure = Figure { seeds, ..Figure::default() };
    let mut lines = Vec::new();
    let parts: &[u32] = if scope.quick { &[10, 100] } else { &[10, 20, 40, 60, 80, 100] };
    let schemes = [(0, "FIFO"), (2, "Olaf_TC")];
    for (number, name) in schemes {
        let mut groups = [Vec::new(), Vec::new()];
        for &part in parts {
            let edge = [250 * part / 100, 250];
            let made = multihop(scope, seeds, 100, (edge, 1000), scheme(number), Senders::TENTH)?;
            let point = format!("α = {:.1}, {name}", f64::from(part) / 100.0);
            for (group, which) in ["S1", "S2"].into_iter().enumerate() {
                let ages = of(&made, |made| made.aom_ms[group]);
                let row = Row::of(point.as_str(), format!("age of {which}"), &ages, "ms");
                groups[group].push((f64::from(part) / 100.0, row.mean));
                let narrowest = (number, group, part) == (0, 0, 10);
                figure.rows.push(if narrowest { row.paper(2900.0).because(WHY) } else { row });
            }
            if number == 0 {
                let ages = of(&made, |made| made.worker_aom_ms[0]);
                figure.rows.push(Row::of(format!("knob: {point}"), "S1, workers' age", &ages, "ms"));
            }
        }
        for (line, which) in groups.into_iter().zip(["S1", "S2"]) {
            lines.push((format!("{name}, {which}"), line));
        }
    }
    let few = seeds.min(3);
    for rate in [50, 100, 500] {
        for (number, name) in schemes {
            let edge = [rate / 10, rate];
            let made = multihop(scope, few, 100, (edge, 4 * rate), scheme(number), Senders::TENTH)?;
            let ages = of(&made, |made| made.aom_ms[0]);
            let point = format!("knob: SW2 {rate} kbit/s, α = 0.1");
            figure.rows.push(Row::of(point, format!("{name}, S1"), &ages, "ms").seeded(few));
        }
    }
    figure.curves = Some(Curves { x: "α = x1 / x2", y: "Age-of-Model, ms", lines });
    Ok(figure)
}
