//! Shares of a link over time.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use pascaline_shared::println;
use plotters::prelude::*;
use serde::Deserialize;

/// Draw measured shares of a link over time
///
/// FILE is a JSON list of panels, `{"title": TEXT, "lines": [{"of": TEXT, "points": [[SECONDS, PART], …]}]}`:
/// the part of the link that each flow or job got at that time. `scripts/lab --case tcp --shares FILE` draws
/// its own.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pascaline-lab plot shares --out shares.svg shares.json")]
pub(crate) struct SharesArgs {
    /// The SVG to write
    #[arg(long, value_name = "FILE", default_value = "shares.svg")]
    out: PathBuf,
    /// The list of panels
    #[arg(value_name = "FILE")]
    panels: PathBuf,
}

/// A flow or job on the link: times, and parts of the link.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) of: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A link and those that share it.
#[derive(Debug, Deserialize)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
}

impl Panel {
    fn end(&self) -> f64 {
        self.lines.iter().flat_map(|line| &line.points).map(|(at, _)| *at).fold(0.0, f64::max)
    }
}

const PANEL: (u32, u32) = (420, 320);
/// Panels in a row.
const COLUMNS: usize = 4;

/// Runs the command.
pub(super) fn draw(args: &SharesArgs) -> anyhow::Result<ExitCode> {
    let SharesArgs { out, panels: file } = args;
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let panels: Vec<Panel> =
        serde_json::from_str(&text).with_context(|| format!("{} is not a list of panels", file.display()))?;
    ensure!(!panels.is_empty(), "{} has no panels", file.display());
    std::fs::write(out, picture_of(&panels, "time, s")?)
        .with_context(|| format!("writing {}", out.display()))?;
    println!("{}", out.display());
    Ok(ExitCode::SUCCESS)
}

/// Panels of the same scale, as SVG.
pub(super) fn picture_of(panels: &[Panel], time: &str) -> anyhow::Result<String> {
    let columns = panels.len().clamp(1, COLUMNS);
    let rows = panels.len().div_ceil(columns);
    let size = (PANEL.0 * u32::try_from(columns)?, PANEL.1 * u32::try_from(rows)?);
    let longest = panels.iter().map(Panel::end).fold(1e-3, f64::max);
    let mut picture = String::new();
    let area = SVGBackend::with_string(&mut picture, size).into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, area) in panels.iter().zip(area.split_evenly((rows, columns))) {
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .caption(&panel.title, ("sans-serif", 20))
            .x_label_area_size(40)
            .y_label_area_size(50)
            .build_cartesian_2d(0.0..longest, 0.0..1.05)?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).x_desc(time).y_desc("part of the link").draw()?;
        for (number, line) in panel.lines.iter().enumerate() {
            let color = Palette99::pick(number).to_rgba();
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)))?
                .label(&line.of)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    area.present()?;
    drop(area);
    Ok(picture)
}

#[cfg(test)]
mod tests;
