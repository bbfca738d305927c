//! `pascaline plan`: routes for in-network aggregation, with a proof.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use pascaline_planner as planner;
use pascaline_planner::{Options, PlanError, Solver};

const EXAMPLES: &str = "\
Examples:
  pascaline plan examples/plans/appliances.json
  pascaline plan examples/plans/fat-tree.json --json
  pascaline plan examples/plans/fat-tree.json --solver milp --time-limit 10s --picture plan.svg
  pascaline plan planner/tests/instances/01_default_block_cap.json --solver aggtree --seed 7

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
    /// When the search ends with the best that it has
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    time_limit: Duration,
    /// What methods that draw at random draw from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let text = match std::fs::read_to_string(&args.file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("pascaline: {}: {error}; name a file that can be read", args.file.display());
            return Ok(ExitCode::from(2));
        }
    };
    let options = Options { solver: args.solver, time_limit: args.time_limit, seed: args.seed };
    let made = planner::read(&text).and_then(|instance| {
        let plan = planner::plan(&instance, &options)?;
        Ok((instance, plan))
    });
    let (instance, plan) = match made {
        Ok(made) => made,
        Err(error) => {
            let code = match error {
                PlanError::Input { .. } => 2,
                PlanError::Time { .. } => 3,
                PlanError::Refused(_) | PlanError::Solver(_) => 1,
            };
            eprintln!("pascaline: {}: {error}", args.file.display());
            return Ok(ExitCode::from(code));
        }
    };
    if let Some(file) = &args.picture {
        let picture = planner::to_svg(&instance, &plan);
        std::fs::write(file, picture).with_context(|| format!("writing {}", file.display()))?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", planner::to_json(&instance, &plan))?;
    } else {
        write!(out, "{}", planner::Summary(&instance, &plan))?;
    }
    Ok(ExitCode::from(if plan.timed_out { 3 } else { 0 }))
}
