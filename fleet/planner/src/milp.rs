//! The exact way for every Clos network: a mixed-integer linear program, solved by HiGHS.
//!
//! ARO's equations 4 to 10 have the product of a number of flows y and a rate r in each link's constraint,
//! y·r ≤ b. With u = 1/r it is y ≤ b·u, which is linear, so that no rate has to be quantized or searched.
//! Several tasks share one u: task i has the rate wᵢ/u with a given weight.

pub(crate) mod pipelines;

use std::collections::BTreeMap;
use std::time::Instant;

use highs::{Col, HighsModelStatus, HighsSolutionStatus, RowProblem, Sense};

use crate::PlanError;
use crate::model::{Channel, Flows, Instance};
use crate::plan::TaskPlan;
use crate::unfold::{Place, Unfolded};

/// The result of a search.
pub(crate) struct Solved {
    /// For each task the flows of channels between switches and to appliances; none if the time was too
    /// short.
    pub(crate) flows: Option<Vec<Flows>>,
    /// No plan has a smaller u.
    pub(crate) least: f64,
    /// Whether the search ended early.
    pub(crate) timed_out: bool,
}

/// The question.
pub(crate) struct Question<'a> {
    pub(crate) instance: &'a Instance,
    /// Rates are these times 1/u.
    pub(crate) weights: &'a [f64],
    /// A u that is known to be possible: larger ones are not searched.
    pub(crate) enough: Option<f64>,
    pub(crate) deadline: Instant,
    /// Tasks with given routes, by their place. The answer has no flows of them.
    pub(crate) fixed: &'a [Option<TaskPlan>],
}

/// The least u of all plans.
pub(crate) fn solve(question: &Question<'_>) -> Result<Solved, PlanError> {
    let network = &question.instance.network;
    let unfolded: Vec<Unfolded> =
        question.instance.tasks.iter().map(|task| Unfolded::new(network, task)).collect();
    let capacity = |channel: Channel| network.capacity(channel);
    let largest = (0..network.links.len() * 2).chain(servers(question.instance)).map(capacity);
    let largest = largest.fold(f64::MIN_POSITIVE, f64::max);
    let given = given(question);
    let tight = |(&channel, load): (&Channel, &f64)| load / network.capacity(channel);
    let least = given.iter().map(tight).fold(worker_bound(question), f64::max) * largest;
    // In units of the largest capacity. If all are alike, and all weights, it is a whole number of flows.
    let whole = question.weights.iter().all(|&weight| weight == 1.0) && alike(question.instance, largest);
    let most = question.enough.map_or(f64::INFINITY, |enough| enough * largest * (1.0 + 1e-9));
    let mut problem = RowProblem::default();
    let u = if whole {
        problem.add_integer_column(1.0, (least - 1e-9).ceil()..=most.min(1e6))
    } else {
        problem.add_column(1.0, least..=most)
    };
    let mut columns = Vec::new();
    let mut loads: BTreeMap<Channel, Vec<(Col, f64)>> = BTreeMap::new();
    for (at, (unfolded, &weight)) in unfolded.iter().zip(question.weights).enumerate() {
        if question.fixed(at).is_some() {
            columns.push(Vec::new());
            continue;
        }
        let task = add_task(&mut problem, unfolded);
        for (edge, &column) in unfolded.edges.iter().zip(&task) {
            if let Some(channel) = edge.channel {
                loads.entry(channel).or_default().push((column, weight));
            }
        }
        columns.push(task);
    }
    for (channel, mut terms) in loads {
        terms.push((u, -capacity(channel) / largest));
        problem.add_row(..=-given.get(&channel).copied().unwrap_or(0.0), terms);
    }
    run(problem, question, &unfolded, &columns, (largest, least))
}

impl Question<'_> {
    fn fixed(&self, task: usize) -> Option<&TaskPlan> {
        self.fixed.get(task).and_then(Option::as_ref)
    }
}

/// The load of the given routes on channels, for u = 1.
fn given(question: &Question<'_>) -> BTreeMap<Channel, f64> {
    let mut loads = BTreeMap::new();
    for (at, &weight) in question.weights.iter().enumerate() {
        for &(channel, flows) in question.fixed(at).map_or(&[][..], |task| &task.flows) {
            *loads.entry(channel).or_insert(0.0) += weight * f64::from(flows);
        }
    }
    loads
}

fn run(
    problem: RowProblem,
    question: &Question<'_>,
    unfolded: &[Unfolded],
    columns: &[Vec<Col>],
    (largest, floor): (f64, f64),
) -> Result<Solved, PlanError> {
    let error = |what: &str| PlanError::Solver(what.to_owned());
    let mut model = problem.try_optimise(Sense::Minimise).map_err(|_| error("it takes no such model"))?;
    let left = question.deadline.saturating_duration_since(Instant::now()).as_secs_f64();
    for (option, value) in [("time_limit", left), ("mip_rel_gap", 1e-7), ("mip_abs_gap", 1e-7)] {
        model.try_set_option(option, value).map_err(|_| error(option))?;
    }
    model.try_set_option("threads", 1).map_err(|_| error("threads"))?;
    let solved = model.try_solve().map_err(|status| PlanError::Solver(format!("{status:?}")))?;
    let timed_out = match solved.status() {
        HighsModelStatus::Optimal => false,
        HighsModelStatus::ReachedTimeLimit => true,
        status => return Err(PlanError::Solver(format!("it ended as {status:?}"))),
    };
    let least = solved.double_info_value(c"mip_dual_bound").ok().filter(|bound| bound.is_finite());
    let found = solved.primal_solution_status() == HighsSolutionStatus::Feasible;
    let flows = found.then(|| {
        let solution = solved.get_solution();
        unfolded
            .iter()
            .zip(columns)
            .map(|(unfolded, columns)| flows(unfolded, columns, solution.columns()))
            .collect()
    });
    Ok(Solved { flows, least: least.unwrap_or(0.0).max(floor) / largest, timed_out })
}

/// Adds one task's flows and their constraints: equations 5 to 9.
fn add_task(problem: &mut RowProblem, unfolded: &Unfolded) -> Vec<Col> {
    let most = unfolded.most();
    let columns: Vec<Col> =
        most.iter().map(|&most| problem.add_integer_column(0.0, 0.0..=f64::from(most))).collect();
    let mut balance: Vec<Vec<(usize, f64)>> = vec![Vec::new(); unfolded.places.len()];
    for (at, edge) in unfolded.edges.iter().enumerate() {
        balance[edge.to].push((at, 1.0));
        balance[edge.from].push((at, -1.0));
    }
    for (place, terms) in balance.into_iter().enumerate() {
        let supply = f64::from(unfolded.supply[place]);
        if !unfolded.adds(place) {
            if unfolded.places[place] != Place::Server {
                problem.add_row(-supply..=-supply, terms.iter().map(|&(at, sign)| (columns[at], sign)));
            }
            continue;
        }
        // One flow leaves if any arrives. A row for each edge is tighter than one for their sum.
        let Some(&(out, _)) = terms.iter().find(|(_, sign)| *sign < 0.0) else { continue };
        if supply > 0.0 {
            problem.add_row(1.0.., [(columns[out], 1.0)]);
        }
        for &(at, _) in terms.iter().filter(|(_, sign)| *sign > 0.0) {
            problem.add_row(..=0.0, [(columns[at], 1.0), (columns[out], -f64::from(most[at]))]);
        }
    }
    columns
}

fn flows(unfolded: &Unfolded, columns: &[Col], values: &[f64]) -> Flows {
    let number = |column: &Col| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
        let number = values[column.index()].round().max(0.0) as u32;
        number
    };
    let edges = unfolded.edges.iter().zip(columns);
    edges.filter_map(|(edge, column)| Some((edge.channel?, number(column)))).filter(|&(_, n)| n > 0).collect()
}

fn servers(instance: &Instance) -> impl Iterator<Item = Channel> {
    let network = &instance.network;
    instance.tasks.iter().flat_map(|task| {
        let workers = task.workers.iter().map(|&worker| network.from_server(worker));
        workers.chain(std::iter::once(network.to_server(task.server)))
    })
}

/// The lower bound of u by the workers' own links.
fn worker_bound(question: &Question<'_>) -> f64 {
    let instance = question.instance;
    let mut asked = vec![0.0; instance.network.servers.len()];
    for (task, &weight) in instance.tasks.iter().zip(question.weights) {
        task.workers.iter().for_each(|&worker| asked[worker] += weight);
    }
    let servers = asked.iter().zip(&instance.network.servers);
    servers.map(|(asked, server)| asked / server.gbps).fold(0.0, f64::max)
}

fn alike(instance: &Instance, gbps: f64) -> bool {
    let network = &instance.network;
    let links = network.links.iter().all(|link| link.up_gbps == gbps && link.down_gbps == gbps);
    let beside = |switch: usize| {
        matches!(network.capacity(network.to_appliance(switch)), 0.0) // none there
        || network.capacity(network.to_appliance(switch)) == gbps
    };
    links
        && servers(instance).all(|channel| network.capacity(channel) == gbps)
        && (0..network.switches.len()).all(beside)
}
