//! A small program for the one question that the fast way leaves open: with which pipelines of spines whose
//! port maps differ, and of the parameter server's leaf, a rate is possible.

use std::time::Instant;

use highs::{Col, HighsModelStatus, RowProblem, Sense};

use crate::fast::{Caps, Chosen, Verdict, View, assign, usable};
use crate::plan::Binding;

/// Decides one rate for one task.
pub(crate) fn decide(view: &View<'_>, caps: &Caps, deadline: Instant) -> Verdict {
    let demand = &view.demands[0];
    let (adding, plain) = usable(view, caps, 0, u64::MAX);
    let mut problem = RowProblem::default();
    let mut arrivals: Vec<Col> = Vec::new();
    for pipeline in 0..demand.pipelines {
        let fixed = f64::from(u8::from(demand.local >> pipeline & 1 == 1));
        arrivals.push(problem.add_integer_column(0.0, fixed..=1.0));
    }
    problem.add_row(..=f64::from(caps.server[0]), arrivals.iter().map(|&column| (column, 1.0)));
    let mut left: Vec<Vec<(Col, f64)>> = vec![Vec::new(); view.leaves.len()];
    let mut chosen: Vec<(usize, Vec<Col>)> = Vec::new();
    for spine in adding.iter().chain(&plain).copied() {
        let arrival = arrivals[usize::from(view.arrives(demand.leaf, spine))];
        let pipelines = view.instance.network.pipelines(view.spines[spine]);
        let inputs: Vec<Col> =
            (0..pipelines.unwrap_or(0)).map(|_| problem.add_integer_column(0.0, 0.0..=1.0)).collect();
        for &input in &inputs {
            problem.add_row(..=0.0, [(input, 1.0), (arrival, -1.0)]);
        }
        let mut into = Vec::new();
        for leaf in (0..view.leaves.len()).filter(|&leaf| demand.flows[leaf] > 0 && caps.up(leaf, spine) > 0)
        {
            // Whole numbers follow by themselves: with the pipelines decided it is a flow problem.
            let most = f64::from(caps.up(leaf, spine).min(demand.flows[leaf]));
            let flows = problem.add_column(0.0, 0.0..=most);
            let open = inputs.get(usize::from(view.enters(leaf, spine))).copied().unwrap_or(arrival);
            problem.add_row(..=0.0, [(flows, 1.0), (open, -most)]);
            left[leaf].push((flows, 1.0));
            into.push((flows, 1.0));
        }
        let down = f64::from(caps.down(0, spine));
        if inputs.is_empty() {
            problem.add_row(..=down, into);
        } else {
            problem.add_row(..=down, inputs.iter().map(|&input| (input, 1.0)));
            chosen.push((spine, inputs));
        }
    }
    for (leaf, terms) in left.into_iter().enumerate().filter(|(leaf, _)| demand.flows[*leaf] > 0) {
        problem.add_row(f64::from(demand.flows[leaf]).., terms);
    }
    let Some((status, values)) = solve(problem, deadline) else { return Verdict::Unknown };
    match status {
        HighsModelStatus::Optimal => {}
        HighsModelStatus::Infeasible => return Verdict::No(binding(view, caps)),
        _ => return Verdict::Unknown,
    }
    let set = |column: &Col| values[column.index()] > 0.5;
    let mask =
        |columns: &[Col]| columns.iter().enumerate().fold(0, |mask, (at, c)| mask | u64::from(set(c)) << at);
    let (_, plain) = usable(view, caps, 0, mask(&arrivals));
    let chosen = Chosen::of(chosen.iter().map(|(spine, inputs)| (*spine, mask(inputs))).collect());
    assign(view, caps, 0, &chosen, &plain).map_or(Verdict::Unknown, |flows| Verdict::Yes(vec![flows]))
}

fn solve(problem: RowProblem, deadline: Instant) -> Option<(HighsModelStatus, Vec<f64>)> {
    let mut model = problem.try_optimise(Sense::Minimise).ok()?;
    let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
    model.try_set_option("time_limit", left).ok()?;
    model.try_set_option("threads", 1).ok()?;
    let solved = model.try_solve().ok()?;
    Some((solved.status(), solved.get_solution().columns().to_vec()))
}

fn binding(view: &View<'_>, caps: &Caps) -> Binding {
    let network = &view.instance.network;
    let leaf = view.demands[0].leaf;
    let adding = (0..view.spines.len()).filter(|&spine| view.adds(spine));
    Binding {
        kind: "capacity",
        why: format!(
            "no choice of pipelines, of the spines that add and of the parameter server's leaf, lets the \
             links carry all flows of {:.3} Gbit/s: a program of whole numbers has no solution",
            caps.rate
        ),
        channels: adding.filter_map(|spine| Some(network.down(view.link(leaf, spine)?.0))).collect(),
    }
}
