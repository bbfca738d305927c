//! An example as a picture: each cluster's age over time, and what happened to its updates.

use std::fmt::Write as _;

use crate::report::{Answer, Example, Report};

#[cfg(test)]
mod tests;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 130.0;
const LANE: f64 = 110.0;
const TOP: f64 = 70.0;
/// The most clusters that are drawn.
const LANES: usize = 12;

/// Draws the first query that fails, or otherwise the first one that has an example, as SVG. None if none
/// has.
#[must_use]
pub fn picture(report: &Report) -> Option<String> {
    let fails = report.queries.iter().find(|answer| answer.verdict != crate::Verdict::Holds);
    let some = fails.into_iter().chain(&report.queries).find(|answer| answer.example.is_some())?;
    some.example.as_ref().map(|example| draw(some, example))
}

fn draw(answer: &Answer, example: &Example) -> String {
    let end = example.until_ms.max(1e-9);
    let asked = |at: &usize| example.clusters[*at].measure_ms.is_some();
    // The clusters of queries first, in the file's order.
    let (mut lanes, rest): (Vec<usize>, Vec<usize>) = (0..example.clusters.len()).partition(asked);
    lanes.extend(rest);
    let undrawn = lanes.len().saturating_sub(LANES);
    lanes.truncate(LANES);
    #[expect(clippy::cast_precision_loss, reason = "at most a dozen lanes")]
    let height = TOP + LANE * lanes.len() as f64 + 76.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let title = format!("{}: {} ({})", answer.name, answer.verdict.name(), answer.quantifier);
    text(&mut svg, 10.0, 22.0, "16", &title);
    text(&mut svg, 10.0, 40.0, "12", &answer.asked);
    text(&mut svg, 10.0, 56.0, "12", &answer.because);
    for (place, cluster) in lanes.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "at most a dozen lanes")]
        lane(&mut svg, example, *cluster, TOP + LANE * place as f64, end);
    }
    let legend =
        "line: the age of the model at the server; ▲ sent, ▽ merged, ✕ dropped, ○ held back, ● arrives";
    text(&mut svg, 10.0, height - 28.0, "12", legend);
    text(&mut svg, 10.0, height - 12.0, "12", &left_out(example, undrawn));
    for tick in 0..=5 {
        let (share, y) = (f64::from(tick) / 5.0, height - 50.0);
        text(&mut svg, LEFT + share * (WIDTH - LEFT - 70.0), y, "11", &format!("{:.1} ms", share * end));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The parts missing from the picture, in words; empty if none.
fn left_out(example: &Example, clusters: usize) -> String {
    let mut lacks = Vec::new();
    if example.left_out > 0 {
        lacks.push(format!("{} moments after {:.3} ms", example.left_out, example.until_ms));
    }
    if clusters > 0 {
        lacks.push(format!("{clusters} clusters"));
    }
    if lacks.is_empty() { String::new() } else { format!("not drawn: {}", lacks.join(", ")) }
}

fn lane(svg: &mut String, example: &Example, cluster: usize, top: f64, end: f64) {
    let part = &example.clusters[cluster];
    let moments: Vec<_> = example.timeline.iter().filter(|moment| moment.cluster == part.name).collect();
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - 20.0);
    // Corners of the sawtooth: time and age.
    let (mut corners, mut newest) = (vec![(0.0, 0.0)], 0.0);
    for moment in &moments {
        if let Some(generated) = moment.generated_ms {
            corners.push((moment.at_ms, moment.at_ms - newest));
            newest = generated;
            corners.push((moment.at_ms, moment.at_ms - newest));
        }
    }
    corners.push((end, end - newest));
    let most = corners.iter().fold(1e-9, |most: f64, corner| most.max(corner.1));
    let bottom = top + LANE - 36.0;
    let y = |age: f64| bottom - age / most * (LANE - 50.0);
    text(svg, 10.0, top + 24.0, "13", &part.name);
    if let Some(measure) = part.measure_ms {
        text(svg, 10.0, top + 42.0, "11", &format!("{measure:.3} ms"));
    }
    let of = if example.left_out > 0 { "highest drawn" } else { "highest" };
    text(svg, 10.0, top + 58.0, "11", &format!("{of} {most:.3} ms"));
    let points: Vec<String> =
        corners.iter().map(|(at, age)| format!("{:.2},{:.2}", x(*at), y(*age))).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"1.5\"/>\n\
         <line x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{}\" y2=\"{bottom}\" stroke=\"#888\"/>",
        points.join(" "),
        WIDTH - 20.0
    );
    for moment in moments {
        let (sign, colour) = match moment.what {
            "appended" => ("▲", "#2a7d2a"),
            "merged" => ("▽", "#2a7d2a"),
            "dropped" => ("✕", "#c02020"),
            "held_back" => ("○", "#b07000"),
            "arrives" => ("●", "#1f5fa8"),
            _ => continue,
        };
        let row = if moment.what == "arrives" { bottom + 24.0 } else { bottom + 12.0 };
        let _ = writeln!(
            svg,
            "<text x=\"{:.2}\" y=\"{row}\" font-size=\"9\" text-anchor=\"middle\" \
             fill=\"{colour}\">{sign}</text>",
            x(moment.at_ms)
        );
    }
}

fn text(svg: &mut String, x: f64, y: f64, size: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\">{words}</text>");
}
