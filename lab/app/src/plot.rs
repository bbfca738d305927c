//! `pascaline-lab plot`: pictures of measurements.

mod fairness;
mod shares;
mod trees;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use pascaline_shared::{eprintln, println};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Deserialize;

/// Draw pictures of measurements
#[derive(Debug, Subcommand)]
pub(crate) enum PlotCommand {
    Aom(AomArgs),
    Fairness(fairness::FairnessArgs),
    Shares(shares::SharesArgs),
    Trees(trees::TreesArgs),
}

/// Draw the Age-of-Model over time, from logs of `pascaline ps --aom-log`
///
/// One panel per log, all to the same scale: a thin line per cluster, and a thick one for their mean.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pascaline-lab plot aom --out aom.svg FIFO=fifo.jsonl Olaf=olaf.jsonl")]
pub(crate) struct AomArgs {
    /// The SVG to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// A panel's title and its log
    #[arg(required = true, value_name = "TITLE=FILE", value_parser = titled)]
    logs: Vec<(String, PathBuf)>,
}

fn titled(text: &str) -> Result<(String, PathBuf), String> {
    let (title, file) = text.split_once('=').ok_or("expected TITLE=FILE")?;
    Ok((title.to_owned(), file.into()))
}

/// Runs the command.
pub(crate) fn run(command: &PlotCommand) -> anyhow::Result<ExitCode> {
    let AomArgs { out, logs } = match command {
        PlotCommand::Aom(args) => args,
        PlotCommand::Fairness(args) => return fairness::draw(args),
        PlotCommand::Shares(args) => return shares::draw(args),
        PlotCommand::Trees(args) => return trees::draw(args),
    };
    let panels =
        logs.iter().map(|(title, file)| Panel::read(title, file)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut picture = String::new();
    #[expect(clippy::cast_possible_truncation, reason = "a few panels")]
    let width = PANEL.0 * panels.len() as u32;
    draw(&SVGBackend::with_string(&mut picture, (width, PANEL.1)).into_drawing_area(), &panels)?;
    std::fs::write(out, picture).with_context(|| format!("writing {}", out.display()))?;
    println!("{}", out.display());
    Ok(ExitCode::SUCCESS)
}

/// Width and height of a panel.
const PANEL: (u32, u32) = (560, 400);
/// Points of a mean's line.
const POINTS: u32 = 600;

/// A line of a log.
#[derive(Debug, Deserialize)]
struct Arrival {
    at_ns: u64,
    job: u16,
    generated_ns: u64,
}

/// A cluster's Age-of-Model as corners: seconds since the log's beginning, and milliseconds of age.
type Sawtooth = Vec<(f64, f64)>;

#[derive(Debug)]
struct Panel {
    title: String,
    clusters: Vec<Sawtooth>,
    end: f64,
}

impl Panel {
    fn read(title: &str, file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let mut arrivals: Vec<Arrival> = Vec::new();
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match serde_json::from_str(line) {
                Ok(arrival) => arrivals.push(arrival),
                // A process that is killed leaves a partial line.
                Err(_) if !line.ends_with('\n') => {
                    eprintln!("{}: the last line is incomplete and ignored", file.display());
                }
                Err(error) => {
                    let place = format!("{}:{}:{}", file.display(), number + 1, error.column());
                    return Err(error).context(format!("{place}: not a line of a log of updates"));
                }
            }
        }
        ensure!(!arrivals.is_empty(), "{} has no updates", file.display());
        Ok(Self::new(title, &arrivals))
    }

    fn new(title: &str, arrivals: &[Arrival]) -> Self {
        let times = || arrivals.iter().map(|arrival| arrival.at_ns);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let seconds = |ns: u64| std::time::Duration::from_nanos(ns).as_secs_f64();
        let mut newest: BTreeMap<u16, (u64, Sawtooth)> = BTreeMap::new();
        for arrival in arrivals {
            let at = seconds(arrival.at_ns - first);
            let (newest, corners) =
                newest.entry(arrival.job).or_insert_with(|| (arrival.generated_ns, Vec::new()));
            let age = |newest: u64| 1e3 * seconds(arrival.at_ns.saturating_sub(newest));
            corners.push((at, age(*newest)));
            *newest = arrival.generated_ns.max(*newest);
            corners.push((at, age(*newest)));
        }
        let end = seconds(last - first);
        let clusters = newest.into_values().map(|(newest, mut corners)| {
            corners.push((end, 1e3 * seconds(last.saturating_sub(newest))));
            corners
        });
        Self { title: title.to_owned(), clusters: clusters.collect(), end }
    }

    /// The mean over the clusters that have begun.
    fn mean(&self) -> Vec<(f64, f64)> {
        let at = |point: u32| self.end * f64::from(point) / f64::from(POINTS);
        let mean = |time: f64| {
            let ages: Vec<f64> = self.clusters.iter().filter_map(|corners| age_at(corners, time)).collect();
            #[expect(clippy::cast_precision_loss, reason = "a count of clusters")]
            let count = ages.len().max(1) as f64;
            ages.iter().sum::<f64>() / count
        };
        (0..=POINTS).map(at).map(|time| (time, mean(time))).collect()
    }

    fn highest(&self) -> f64 {
        self.clusters.iter().flatten().map(|(_, age)| *age).fold(0.0, f64::max)
    }
}

/// Between corners an age grows by 1 ms per millisecond.
fn age_at(corners: &Sawtooth, time: f64) -> Option<f64> {
    let before = corners.partition_point(|(at, _)| *at <= time).checked_sub(1)?;
    let (at, age) = corners.get(before)?;
    Some(age + 1e3 * (time - at))
}

fn draw<B>(area: &DrawingArea<B, Shift>, panels: &[Panel]) -> anyhow::Result<()>
where
    B: DrawingBackend,
    B::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    let highest = panels.iter().map(Panel::highest).fold(0.0, f64::max).max(1.0) * 1.05;
    let longest = panels.iter().map(|panel| panel.end).fold(0.0, f64::max).max(1e-3);
    for (panel, area) in panels.iter().zip(area.split_evenly((1, panels.len()))) {
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .caption(&panel.title, ("sans-serif", 20))
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..longest, 0.0..highest)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("time, s")
            .y_desc("Age-of-Model, ms")
            .draw()?;
        for (number, corners) in panel.clusters.iter().enumerate() {
            let color = Palette99::pick(number).mix(0.45);
            chart.draw_series(LineSeries::new(corners.iter().copied(), color))?;
        }
        chart
            .draw_series(LineSeries::new(panel.mean(), BLACK.stroke_width(2)))?
            .label(format!("mean of {} clusters", panel.clusters.len()))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK.stroke_width(2)));
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests;
