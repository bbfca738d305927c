//! `pascaline-fleet plan`: routes for in-network aggregation, with a proof.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use pascaline_planner as planner;
use pascaline_planner::{Former, Instance, Kept, Options, Placement, Plan, PlanError, Solver};
use pascaline_shared::eprintln;
use pascaline_shared::output::Stdout;

const EXAMPLES: &str = "\
Examples:
  pascaline-fleet plan clients/examples/plans/appliances.json
  pascaline-fleet plan clients/examples/plans/fat-tree.json --json
  pascaline-fleet plan clients/examples/plans/fat-tree.json --solver milp --picture plan.svg
  pascaline-fleet plan fleet/planner/tests/instances/01_default_block_cap.json --solver aggtree --seed 7
  pascaline-fleet plan clients/examples/plans/appliances.json --place 2
  pascaline-fleet plan clients/examples/plans/fat-tree.json --keep before.json --moves 1

docs/planning.md describes files, algorithms and output; docs/plan.schema.json is the schema of files.

Exit status: 0 if there is a plan, 2 if the file cannot be planned, 3 if the time limit came first: the plan
printed is the best so far then, with its gap, and without any the message says so.";

/// Plan routes, trees and rates for aggregation, proven optimal
///
/// Reads a Clos network, which of its switches and servers add, and the jobs; finds the routes with which the
/// slowest worker is as fast as can be, says why no plan is better, and has every path checked by a replay
/// that knows nothing of how the plan was made.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// The instance: aro-sjst-v1 or pascaline-plan-v1
    file: PathBuf,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    /// Draw the plan as SVG: switches, flows, loads and what binds
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// How the plan is found
    #[arg(long, value_enum, default_value_t = Solver::Auto)]
    solver: Solver,
    /// Which K of the switches that can add should: the best choice, or a good one with a bound
    #[arg(long, value_name = "K", conflicts_with = "keep")]
    place: Option<usize>,
    /// An earlier plan (what --json printed): its tasks keep their routes, new ones are planned beside them
    #[arg(long, value_name = "PLAN.json")]
    keep: Option<PathBuf>,
    /// As many tasks of the earlier plan may get other routes
    #[arg(long, value_name = "N", default_value_t = 0, requires = "keep")]
    moves: usize,
    /// When the search ends with the best that it has
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    time_limit: Duration,
    /// What methods that draw at random draw from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let (instance, plan, told) = match made(args) {
        Ok(made) => made,
        Err((file, error)) => {
            let code = match error {
                PlanError::Input { .. } => 2,
                PlanError::Time { .. } => 3,
                PlanError::Refused(_) | PlanError::Solver(_) => 1,
            };
            eprintln!("pascaline-fleet: {}: {error}", file.display());
            return Ok(ExitCode::from(code));
        }
    };
    if let Some(file) = &args.picture {
        let picture = planner::to_svg(&instance, &plan);
        std::fs::write(file, picture).with_context(|| format!("writing {}", file.display()))?;
    }
    let mut out = Stdout;
    let (placement, kept) = told;
    if args.json {
        let all = planner::to_json_with(&instance, &plan, placement.as_ref(), kept.as_ref());
        writeln!(out, "{all}")?;
    } else {
        write!(out, "{}", planner::Summary(&instance, &plan))?;
        if let Some(placement) = &placement {
            write!(out, "{}", planner::Placed(&instance, placement))?;
        }
        if let Some(kept) = &kept {
            write!(out, "{kept}")?;
        }
    }
    Ok(ExitCode::from(if plan.timed_out { 3 } else { 0 }))
}

/// An instance with its plan, and the placement of aggregators, or the kept routes.
type Made = (Instance, Plan, (Option<Placement>, Option<Kept>));

/// Plans by the arguments; a file that cannot be planned is named with its error.
fn made(args: &PlanArgs) -> Result<Made, (&Path, PlanError)> {
    let unreadable = |error: std::io::Error| {
        let remedy = "name a file of one of the formats of docs/planning.md";
        let (place, problem) = ("it cannot be read".to_owned(), error.to_string());
        PlanError::Input { place, problem, remedy: remedy.to_owned() }
    };
    let options = Options { solver: args.solver, time_limit: args.time_limit, seed: args.seed };
    let file = args.file.as_path();
    let text = std::fs::read_to_string(file).map_err(|error| (file, unreadable(error)))?;
    let instance = planner::read(&text).map_err(|error| (file, error))?;
    if let Some(count) = args.place {
        let (instance, plan, placement) =
            planner::place(&instance, count, &options).map_err(|error| (file, error))?;
        return Ok((instance, plan, (Some(placement), None)));
    }
    let Some(earlier) = args.keep.as_deref() else {
        let plan = planner::plan(&instance, &options).map_err(|error| (file, error))?;
        return Ok((instance, plan, (None, None)));
    };
    let text = std::fs::read_to_string(earlier).map_err(|error| (earlier, unreadable(error)))?;
    let former = Former::read(&text).map_err(|error| (earlier, error))?;
    let (plan, kept) =
        planner::extend(&instance, &former, args.moves, &options).map_err(|error| (file, error))?;
    Ok((instance, plan, (None, Some(kept))))
}
