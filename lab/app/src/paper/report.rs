//! The report of all figures: Markdown, a page with the pictures inside, and JSON.

use core::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use pascaline_shared::println;
use serde_json::{Value, json};

use super::draw;
use super::figure::{Entry, Figure, Row};

/// A figure that was made, and how long it took.
pub(super) struct Made {
    pub(super) entry: &'static Entry,
    pub(super) figure: Figure,
    pub(super) took: Duration,
}

/// All figures as one object, with the number of those that could not be made.
pub(super) fn json(made: &[Made], failed: usize, quick: bool, took: Duration) -> Value {
    let rows = || made.iter().flat_map(|made| &made.figure.rows);
    json!({
        "quick": quick,
        "seconds": took.as_secs_f64(),
        "names": made.iter().map(|made| made.entry.name).collect::<Vec<_>>(),
        "compared": rows().filter(|row| row.paper.is_some()).count(),
        "unexplained": rows().filter(|row| row.unexplained()).count(),
        "broken": failed + made.iter().filter(|made| made.figure.broken()).count(),
        "figures": made.iter().map(|made| {
            let mut figure = made.figure.json(made.entry.name);
            figure["seconds"] = json!(made.took.as_secs_f64());
            figure
        }).collect::<Vec<_>>(),
    })
}

/// Writes `report.md`, `report.html`, `report.json`, and a picture for each figure.
///
/// # Errors If a file cannot be written.
pub(super) fn write(into: &Path, made: &[Made], quick: bool, json: &Value) -> anyhow::Result<()> {
    make(into)?;
    let save = |name: &str, text: &str| {
        let path = into.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    let how = if quick { "quick: few seeds and points, small models" } else { "all seeds and points" };
    let intro = format!(
        "Made by `pascaline-lab paper all` in {:.0} s ({how}). Each row is the mean over the seeds, with its \
         standard error, next to the paper's number where its text prints one.",
        json["seconds"].as_f64().unwrap_or(f64::NAN)
    );
    let mut markdown = format!("# The papers' tables and figures\n\n{intro}\n");
    let mut html = format!("{HEAD}<h1>The papers' tables and figures</h1><p>{}</p>", escaped(&intro));
    for one in made {
        let picture = draw::svg(&one.figure).with_context(|| one.entry.name)?;
        save(&format!("{}.svg", one.entry.name), &picture)?;
        let (name, about, seeds) = (one.entry.name, one.entry.about, seeds(one.entry, &one.figure));
        let _ = write!(markdown, "\n## {name}\n\n{about}; {seeds}. [Picture]({name}.svg)\n\n");
        markdown.push_str("| at | what | here | ± | unit | paper | deviation | why |\n");
        markdown.push_str("|---|---|---|---|---|---|---|---|\n");
        let _ = write!(html, "<h2>{name}</h2><p>{}; {seeds}.</p>{picture}<table>", escaped(about));
        html.push_str("<tr><th>at<th>what<th>here<th>±<th>unit<th>paper<th>deviation<th>why");
        let reasons = reasons(&one.figure);
        for row in &one.figure.rows {
            let cells = cells(row, one.figure.seeds, &reasons);
            let _ = writeln!(markdown, "| {} |", cells.join(" | "));
            let _ = write!(html, "<tr><td>{}", cells.map(|cell| escaped(&cell)).join("<td>"));
        }
        html.push_str("</table><ol>");
        markdown.push('\n');
        for (number, reason) in (1..).zip(&reasons) {
            let _ = writeln!(markdown, "{number}. {reason}");
            let _ = write!(html, "<li>{}", escaped(reason));
        }
        html.push_str("</ol>");
    }
    save("report.md", &markdown)?;
    save("report.html", &html)?;
    save("report.json", &json.to_string())
}

/// Makes the folder.
///
/// # Errors If it cannot be made.
pub(super) fn make(into: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))
}

/// The number of a figure's seeds, in words.
fn seeds(entry: &Entry, figure: &Figure) -> String {
    if entry.seeded { format!("{} seeds", figure.seeds) } else { "a single run".to_owned() }
}

/// A row's name, with the number of its seeds if that differs.
fn name(row: &Row, seeds: u64) -> String {
    match row.seeds {
        Some(own) if own != seeds => format!("{} ({own} seeds)", row.name),
        Some(_) | None => row.name.clone(),
    }
}

const HEAD: &str = "<!doctype html><meta charset=utf-8><title>The papers' tables and figures</title>\
<style>body{font:15px sans-serif;max-width:1000px;margin:2em auto}table{border-collapse:collapse}\
td,th{border:1px solid #ccc;padding:2px 6px;text-align:left;vertical-align:top}svg{max-width:100%}</style>";

/// The reasons of a figure, each once.
fn reasons(figure: &Figure) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for reason in figure.rows.iter().map(|row| row.reason.as_ref()).filter(|reason| !reason.is_empty()) {
        if !all.contains(&reason) {
            all.push(reason);
        }
    }
    all
}

/// The number of a row's reason, in brackets.
fn mark(row: &Row, reasons: &[&str]) -> String {
    let at = reasons.iter().position(|reason| *reason == row.reason);
    at.map_or(String::new(), |at| format!("[{}]", at + 1))
}

fn cells(row: &Row, seeds: u64, reasons: &[&str]) -> [String; 8] {
    let paper = row.paper.map_or(String::new(), |paper| paper.to_string());
    [
        row.point.clone(),
        name(row, seeds),
        format!("{:.3}", row.mean),
        format!("{:.3}", row.error),
        row.unit.to_owned(),
        paper,
        row.deviates(),
        mark(row, reasons),
    ]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A figure as text.
pub(super) fn print(entry: &Entry, figure: &Figure) {
    let (seeds, reasons) = (seeds(entry, figure), reasons(figure));
    println!(
        "{}, {seeds}: mean ± standard error, next to the paper's number where its text prints one",
        entry.name
    );
    for row in &figure.rows {
        let paper = row.paper.map_or(String::new(), |paper| {
            format!("  paper {paper}, {} {}", row.deviates(), mark(row, &reasons))
        });
        let (point, name, unit) = (&row.point, name(row, figure.seeds), row.unit);
        println!("  {point:<30} {name:<22} {:>9.3} ± {:<7.3} {unit}{paper}", row.mean, row.error);
    }
    for (number, reason) in (1..).zip(&reasons) {
        println!("  [{number}] {reason}");
    }
}
