//! Rates of several tasks: linear programs, once their routes are fixed.

use highs::{Col, HighsModelStatus, RowProblem, Sense};

use crate::PlanError;
use crate::model::{Channel, Instance};
use crate::plan::TaskPlan;

/// The best rates for these routes.
pub(crate) fn best(instance: &Instance, tasks: &[TaskPlan]) -> Result<Vec<f64>, PlanError> {
    let mut loads: std::collections::BTreeMap<Channel, Vec<(usize, f64)>> = Default::default();
    for (task, planned) in tasks.iter().enumerate() {
        for &(channel, flows) in &planned.flows {
            loads.entry(channel).or_default().push((task, f64::from(flows)));
        }
    }
    let rows = loads.into_iter().map(|(channel, terms)| (instance.network.capacity(channel), terms));
    let (mut rates, _) = maximise(instance, &vec![f64::INFINITY; tasks.len()], f64::INFINITY, rows)?;
    // HiGHS may exceed a capacity by its tolerance: all rates are reduced by that factor.
    let over = overload(instance, tasks, &rates);
    rates.iter_mut().for_each(|rate| *rate /= over);
    Ok(rates)
}

/// The load of the fullest link as a multiple of its capacity, at least 1.
pub(crate) fn overload(instance: &Instance, tasks: &[TaskPlan], rates: &[f64]) -> f64 {
    let mut loads = vec![0.0; instance.network.channels()];
    for (planned, rate) in tasks.iter().zip(rates) {
        planned.flows.iter().for_each(|&(channel, flows)| loads[channel] += f64::from(flows) * rate);
    }
    let full = loads.iter().enumerate().filter(|(_, load)| **load > 0.0);
    full.map(|(channel, load)| load / instance.network.capacity(channel)).fold(1.0, f64::max)
}

/// No plan's objective is larger, whatever its routes: no task has more than alone (`alone`), no worker sends
/// more than its link carries, and no job has more than `smallest`, weighted, when all have as much. Also
/// returns the rates that reach it.
pub(crate) fn bound(instance: &Instance, alone: &[f64], smallest: f64) -> Result<(Vec<f64>, f64), PlanError> {
    let mut sends: Vec<Vec<(usize, f64)>> = vec![Vec::new(); instance.network.servers.len()];
    for (task, entry) in instance.tasks.iter().enumerate() {
        entry.workers.iter().for_each(|&worker| sends[worker].push((task, 1.0)));
    }
    let mut rows: Vec<(f64, Vec<(usize, f64)>)> = sends
        .into_iter()
        .zip(&instance.network.servers)
        .map(|(terms, server)| (server.gbps, terms))
        .collect();
    rows.retain(|(_, terms)| terms.len() > 1);
    rows.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    rows.dedup();
    maximise(instance, alone, smallest, rows.into_iter())
}

fn maximise(
    instance: &Instance,
    most: &[f64],
    smallest: f64,
    rows: impl Iterator<Item = (f64, Vec<(usize, f64)>)>,
) -> Result<(Vec<f64>, f64), PlanError> {
    let several = instance.jobs.len() > 1;
    let mut problem = RowProblem::default();
    let weight = |task: usize| instance.jobs[instance.tasks[task].job].weight;
    let columns: Vec<Col> = (0..instance.tasks.len())
        .map(|task| {
            problem.add_column(if several { instance.mu * weight(task) } else { 1.0 }, 0.0..=most[task])
        })
        .collect();
    if several {
        let least = problem.add_column(1.0, 0.0..=smallest);
        for job in 0..instance.jobs.len() {
            let own = (0..columns.len()).filter(|&task| instance.tasks[task].job == job);
            let mut terms: Vec<(Col, f64)> = own.map(|task| (columns[task], weight(task))).collect();
            terms.push((least, -1.0));
            problem.add_row(0.0.., terms);
        }
    }
    for (capacity, terms) in rows {
        problem.add_row(..=capacity, terms.into_iter().map(|(task, flows)| (columns[task], flows)));
    }
    let failed = |what: String| PlanError::Solver(format!("rates: {what}"));
    let mut model = problem.try_optimise(Sense::Maximise).map_err(|status| failed(format!("{status:?}")))?;
    // HiGHS keeps one scheduler for all that it solves, and refuses a number of threads that is not its own.
    model.try_set_option("threads", 1).map_err(|_| failed("threads".into()))?;
    let solved = model.try_solve().map_err(|status| failed(format!("{status:?}")))?;
    if solved.status() != HighsModelStatus::Optimal {
        return Err(failed(format!("it ended as {:?}", solved.status())));
    }
    let rates = solved.get_solution().columns()[..columns.len()].iter().map(|rate| rate.max(0.0)).collect();
    Ok((rates, solved.objective_value()))
}
