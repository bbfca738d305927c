//! The time of allreduces over one tree and over several, as `scripts/lab --case trees --json` measures it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use pascaline_shared::println;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Deserialize;

/// Draw how long allreduces take over one tree and over several
///
/// On the left with unloaded links, and with one path congested (as PANAMA, Figure 9, shows trees and long
/// flows); on the right each allreduce of the run in which an appliance was killed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  scripts/lab --case trees --spines 4 --bytes 4MiB --mbit 25 --json > trees.json
  pascaline-lab plot trees --out trees.svg trees.json")]
pub(crate) struct TreesArgs {
    /// The SVG to write
    #[arg(long, value_name = "FILE", default_value = "trees.svg")]
    out: PathBuf,
    /// The output of scripts/lab with --json; its last line is read
    #[arg(value_name = "FILE")]
    measured: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Lab {
    mbit: f64,
    cases: Cases,
}

#[derive(Debug, Deserialize)]
struct Cases {
    trees: Case,
}

/// Seconds of allreduces.
#[derive(Debug, Deserialize)]
struct Case {
    trees: usize,
    one_seconds: f64,
    seconds: f64,
    congested_one_seconds: f64,
    congested_seconds: f64,
    killed: Vec<f64>,
}

const WIDTH: u32 = 980;
const HEIGHT: u32 = 330;
/// Where bars begin, how long they are at most, and how high with the gap below.
const LEFT: i32 = 210;
const LONG: i32 = 240;
const BAR: i32 = 44;
const TOP: i32 = 60;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Runs the command.
pub(crate) fn draw(args: &TreesArgs) -> anyhow::Result<ExitCode> {
    let file = args.measured.display();
    let text = std::fs::read_to_string(&args.measured).with_context(|| format!("reading {file}"))?;
    let lab = read(&text).with_context(|| {
        format!("{file}: not the output of `scripts/lab --case trees --json`\n  remedy: give its output")
    })?;
    let mut picture = String::new();
    picture_of(&lab, &mut picture)?;
    std::fs::write(&args.out, picture).with_context(|| format!("writing {}", args.out.display()))?;
    println!("{}", args.out.display());
    Ok(ExitCode::SUCCESS)
}

fn read(text: &str) -> anyhow::Result<Lab> {
    let line = text.lines().rfind(|line| !line.trim().is_empty()).context("it is empty")?;
    Ok(serde_json::from_str(line)?)
}

fn picture_of(lab: &Lab, into: &mut String) -> anyhow::Result<()> {
    let area = SVGBackend::with_string(into, (WIDTH, HEIGHT)).into_drawing_area();
    area.fill(&WHITE)?;
    let (left, right) = area.split_horizontally(WIDTH / 2 + 40);
    bars(&left, lab)?;
    killed(&right, &lab.cases.trees)?;
    area.present()?;
    Ok(())
}

fn bars(area: &Area<'_>, lab: &Lab) -> anyhow::Result<()> {
    let case = &lab.cases.trees;
    let several = format!("{} trees", case.trees);
    let rows = [
        ("one tree".to_owned(), case.one_seconds),
        (several.clone(), case.seconds),
        ("one tree, congested".to_owned(), case.congested_one_seconds),
        (format!("{several}, one congested"), case.congested_seconds),
    ];
    let most = rows.iter().map(|row| row.1).fold(1e-9, f64::max);
    let font = ("sans-serif", 13).into_font();
    let before = TextStyle::from(font.clone()).pos(Pos::new(HPos::Right, VPos::Center));
    let behind = TextStyle::from(font).pos(Pos::new(HPos::Left, VPos::Center));
    let heading = format!("seconds of an allreduce; links to the roots of {} Mbit/s", lab.mbit);
    area.draw(&Text::new(heading, (24, 28), ("sans-serif", 15).into_font()))?;
    for (number, (name, seconds)) in (0..).zip(rows) {
        let (top, colour) = (TOP + BAR * number, Palette99::pick(usize::from(number % 2 == 1)));
        #[expect(clippy::cast_possible_truncation, reason = "within the picture")]
        let end = LEFT + (seconds / most * f64::from(LONG)) as i32;
        area.draw(&Rectangle::new([(LEFT, top), (end, top + BAR - 12)], colour.mix(0.7).filled()))?;
        let middle = top + (BAR - 12) / 2;
        area.draw(&Text::new(name, (LEFT - 8, middle), before.clone()))?;
        area.draw(&Text::new(format!("{seconds:.3}"), (end + 8, middle), behind.clone()))?;
    }
    Ok(())
}

fn killed(area: &Area<'_>, case: &Case) -> anyhow::Result<()> {
    let most = case.killed.iter().copied().fold(1e-9, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .caption("a tree's appliance is killed halfway", ("sans-serif", 15))
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0..case.killed.len(), 0.0..most)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).x_desc("allreduce").y_desc("seconds").draw()?;
    let points = || case.killed.iter().copied().enumerate();
    let colour = Palette99::pick(1).to_rgba();
    chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
    chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
    Ok(())
}

#[cfg(test)]
mod tests;
