//! The picture of a figure: its lines, and a bar for each row, with a tick at the paper's number.

use anyhow::Context as _;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::{Curves, Figure, Row};

const WIDTH: u32 = 900;
/// Height of the lines' chart.
const CHART: u32 = 380;
/// Height of a bar, its gap included.
const BAR: i32 = 17;
/// Height of a panel's title.
const TITLE: i32 = 34;
/// Where bars begin, and how long they are at most.
const LEFT: i32 = 400;
const LONG: i32 = 400;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The figure as SVG.
///
/// # Errors
/// An error of the backend: not to be expected.
pub(super) fn svg(figure: &Figure) -> anyhow::Result<String> {
    let mut units: Vec<&str> = Vec::new();
    figure.rows.iter().for_each(|row| {
        if !units.contains(&row.unit) {
            units.push(row.unit);
        }
    });
    let chart = if figure.curves.is_some() { CHART } else { 0 };
    let bars = u32::try_from(BAR).unwrap_or(0) * u32::try_from(figure.rows.len())?;
    let titles = u32::try_from(TITLE).unwrap_or(0) * u32::try_from(units.len())?;
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, (WIDTH, chart + bars + titles + 16));
        let area = area.into_drawing_area();
        area.fill(&WHITE)?;
        let (above, mut below) = area.split_vertically(chart);
        if let Some(curves) = &figure.curves {
            draw_curves(&above, curves).context("lines")?;
        }
        for unit in units {
            let rows: Vec<&Row> = figure.rows.iter().filter(|row| row.unit == unit).collect();
            let height = TITLE + BAR * i32::try_from(rows.len())?;
            let (panel, rest) = below.split_vertically(height);
            draw_bars(&panel, unit, &rows).context("bars")?;
            below = rest;
        }
        area.present()?;
    }
    Ok(picture)
}

fn draw_curves(area: &Area<'_>, curves: &Curves) -> anyhow::Result<()> {
    let sound = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
    let points = || curves.lines.iter().flat_map(|(_, points)| points).filter(sound);
    let highest = points().map(|(_, y)| *y).fold(0.0, f64::max).max(1e-9) * 1.05;
    let least = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min).min(0.0);
    let most = points().map(|(x, _)| *x).fold(least + 1e-9, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(least..most, 0.0..highest)?;
    chart.configure_mesh().light_line_style(TRANSPARENT).x_desc(curves.x).y_desc(curves.y).draw()?;
    for (number, (name, points)) in curves.lines.iter().enumerate() {
        let style = Palette99::pick(number).stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().filter(sound).copied(), style))?
            .label(name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
    Ok(())
}

fn draw_bars(area: &Area<'_>, unit: &str, rows: &[&Row]) -> anyhow::Result<()> {
    let values = rows.iter().flat_map(|row| [row.mean + row.error, row.paper.unwrap_or(0.0)]);
    let most = values.filter(|value| value.is_finite()).fold(1e-12, f64::max);
    #[expect(clippy::cast_possible_truncation, reason = "within the picture")]
    let at = |value: f64| LEFT + ((value / most).clamp(0.0, 1.0) * f64::from(LONG)) as i32;
    let small = ("sans-serif", 12).into_font();
    let left = TextStyle::from(small.clone()).pos(Pos::new(HPos::Left, VPos::Center));
    let right = TextStyle::from(small).pos(Pos::new(HPos::Right, VPos::Center));
    let heading = TextStyle::from(("sans-serif", 15).into_font()).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(format!("{unit}   (black tick: the paper)"), (LEFT, TITLE / 2), heading))?;
    let mut names: Vec<&str> = Vec::new();
    for (number, row) in (0..).zip(rows) {
        let colour = names.iter().position(|name| *name == row.name).unwrap_or_else(|| {
            names.push(&row.name);
            names.len() - 1
        });
        let top = TITLE + BAR * number;
        let middle = top + BAR / 2;
        let bar = [(LEFT, top + 2), (at(row.mean), top + BAR - 2)];
        area.draw(&Rectangle::new(bar, Palette99::pick(colour).mix(0.7).filled()))?;
        let spread = [(at(row.mean - row.error), middle), (at(row.mean + row.error), middle)];
        area.draw(&PathElement::new(spread, BLACK.mix(0.6)))?;
        if let Some(paper) = row.paper {
            let tick = [(at(paper), top), (at(paper), top + BAR)];
            area.draw(&PathElement::new(tick, BLACK.stroke_width(3)))?;
        }
        let label = format!("{} · {}", row.point, row.name);
        area.draw(&Text::new(label, (LEFT - 6, middle), right.clone()))?;
        let beside = at(row.mean + row.error).max(at(row.paper.unwrap_or(0.0))) + 6;
        area.draw(&Text::new(format!("{:.3}", row.mean), (beside, middle), left.clone()))?;
    }
    Ok(())
}
