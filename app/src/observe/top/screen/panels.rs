//! The parts of the screen.

use pascaline_pipelines::membership::JobState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Cell, Paragraph, Row, Sparkline, Table, Wrap};

use super::format::{bits, count, percent, rate, seconds, span};
use super::view::View;
use crate::observe::snapshot::{Job, Series};

const IN: Color = Color::Blue;
const OUT: Color = Color::Cyan;
/// Cells of the map of the pool in a line.
const ACROSS: usize = 32;

fn block(title: &str) -> Block<'_> {
    Block::bordered().border_type(BorderType::Rounded).border_style(Style::new().dim()).title(title.bold())
}

fn heads<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().dim())
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// A bar of so many cells.
fn bar(share: f64, cells: usize) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a few cells"
    )]
    let full = (share.clamp(0.0, 1.0) * cells as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(cells - full))
}

pub(super) fn head(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let snapshot = &view.snapshot;
    let state = match (&view.problem, snapshot.healthy, view.paused) {
        (Some(_), ..) => Span::styled("no answer", Style::new().fg(Color::Red)),
        (None, _, true) => Span::styled("paused", Style::new().fg(Color::Yellow)),
        (None, true, _) => Span::styled("live", Style::new().fg(Color::Green)),
        (None, false, _) => Span::styled("ending", Style::new().fg(Color::Yellow)),
    };
    let mut line = Line::from(vec![
        " Pascaline ".bold(),
        Span::raw(snapshot.name.clone()),
        Span::raw("  "),
        state,
        Span::styled(
            format!("  up {}  {}", span(snapshot.uptime_seconds), snapshot.version),
            Style::new().dim(),
        ),
    ]);
    let troubles = snapshot.ports.iter().filter_map(|port| port.trouble.as_ref());
    line.extend(troubles.map(|trouble| Span::styled(format!("  {trouble}"), Style::new().fg(Color::Red))));
    frame.render_widget(line, area);
}

pub(super) fn foot(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let line = match &view.problem {
        Some(problem) => Line::styled(format!(" {problem}"), Style::new().fg(Color::Red)),
        None => Line::styled(" ↑ ↓ job   space pause   q quit", Style::new().dim()),
    };
    frame.render_widget(line, area);
}

pub(super) fn traffic(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let traffic = &view.snapshot.traffic;
    let outer = block(" Traffic ");
    let inner = outer.inner(area);
    frame.render_widget(outer, area);
    let [figures, curves] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inner);
    let reduction = traffic.reduction.map_or("–".to_owned(), |factor| format!("{factor:.2} to 1"));
    let figures_line = Line::from(vec![
        Span::styled(format!(" in {}", bits(traffic.received.bytes_per_second)), Style::new().fg(IN).bold()),
        Span::styled(format!("  out {}", bits(traffic.sent.bytes_per_second)), Style::new().fg(OUT).bold()),
        Span::raw("  reduced "),
        Span::styled(reduction, Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!(
            "  {} in, {} sums",
            rate(traffic.received.packets_per_second),
            rate(traffic.results.packets_per_second)
        )),
    ]);
    frame.render_widget(figures_line, figures);
    let [received, sent] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(curves);
    let top = view.history.iter().map(|&(received, sent)| received.max(sent)).max().unwrap_or(1);
    let curve = |pick: fn(&(u64, u64)) -> u64, area: Rect, colour: Color| {
        let shown = usize::from(area.width);
        let skipped = view.history.len().saturating_sub(shown);
        // The newest at the right.
        let blank = shown.saturating_sub(view.history.len());
        let data: Vec<u64> =
            std::iter::repeat_n(0, blank).chain(view.history.iter().skip(skipped).map(pick)).collect();
        (Sparkline::default().data(data).max(top.max(1)).style(Style::new().fg(colour)), area)
    };
    for (curve, area) in [curve(|point| point.0, received, IN), curve(|point| point.1, sent, OUT)] {
        frame.render_widget(curve, area);
    }
}

const fn state(state: JobState) -> (&'static str, Color) {
    match state {
        JobState::Empty => ("no rank yet", Color::DarkGray),
        JobState::Forming => ("forming", Color::Yellow),
        JobState::Running => ("running", Color::Blue),
        JobState::Quiet => ("quiet", Color::DarkGray),
        JobState::Halted => ("halted", Color::Yellow),
        JobState::Finished => ("finished", Color::Green),
        JobState::Lost | JobState::Broken => ("ranks lost", Color::Red),
    }
}

pub(super) fn jobs(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let shown = usize::from(area.height.saturating_sub(3));
    let first = (view.selected + 1).saturating_sub(shown);
    let row = |(at, job): (usize, &Job)| {
        let (said, colour) = state(job.state);
        let asynchronous = job.told.aggregated == "updates";
        let flow = if asynchronous { job.contributions } else { job.results };
        let age = job.model_age_seconds.map(|age| format!("model {}", seconds(age)));
        let straggler = job.straggler.map(|rank| format!("waits for {rank}"));
        let row = Row::new([
            Cell::from(job.id.to_string()),
            Cell::from(job.name.clone()),
            Cell::from(said).style(Style::new().fg(colour)),
            Cell::from(format!("{}/{}", job.joined, job.ranks)),
            Cell::from(bits(flow.bytes_per_second)),
            Cell::from(count(flow.packets)),
            Cell::from(straggler.or(age).unwrap_or_default()),
        ]);
        if at == view.selected { row.style(Style::new().add_modifier(Modifier::REVERSED)) } else { row }
    };
    let rows = view.snapshot.jobs.iter().enumerate().skip(first).map(row);
    let more = view.snapshot.jobs_total.saturating_sub(view.snapshot.jobs.len());
    let title = if more > 0 { format!(" Jobs ({more} more) ") } else { " Jobs ".to_owned() };
    let widths = [
        Constraint::Length(6),
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(13),
        Constraint::Length(9),
        Constraint::Length(14),
    ];
    let table = Table::new(rows, widths)
        .header(heads(["job", "name", "", "ranks", "goodput", "sums", ""]))
        .block(block(&title));
    frame.render_widget(table, area);
}

pub(super) fn ranks(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let Some(job) = view.snapshot.jobs.get(view.selected) else {
        return frame.render_widget(Paragraph::new(" No job yet.").dim().block(block(" Ranks ")), area);
    };
    let fastest = job.progress.iter().map(|rank| rank.bytes_per_second).fold(1.0, f64::max);
    let rows = job.progress.iter().map(|rank| {
        Row::new([
            rank.rank.to_string(),
            format!("{} {}", bar(rank.bytes_per_second / fastest, 8), bits(rank.bytes_per_second)),
            rank.psn.map_or("–".to_owned(), |psn| psn.to_string()),
            rank.behind.to_string(),
            rank.silent_seconds.map_or("–".to_owned(), seconds),
            rank.again.to_string(),
            format!("{} {}", bar(rank.last_share, 6), percent(rank.last_share)),
        ])
    });
    let title =
        format!(" Ranks of job {}: the last comes {} after the first ", job.id, seconds(job.waited_seconds));
    let widths = [
        Constraint::Length(5),
        Constraint::Length(21),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Length(10),
        Constraint::Length(6),
        Constraint::Fill(1),
    ];
    let table = Table::new(rows, widths).header(heads([
        "rank",
        "sends",
        "PSN",
        "behind",
        "silent for",
        "resent",
        "was last",
    ]));
    let outer = block(&title);
    // Whether the job is aggregated here, and if not, why: as long as there is room for a few ranks as well.
    let lines = if area.height > 8 { 2 } else { 0 };
    let [told, below] =
        Layout::vertical([Constraint::Length(lines), Constraint::Fill(1)]).areas(outer.inner(area));
    frame.render_widget(outer, area);
    frame.render_widget(Paragraph::new(job.told.summary.as_str()).wrap(Wrap { trim: true }).dim(), told);
    frame.render_widget(table, below);
}

pub(super) fn lcores(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let rows = view.snapshot.lcores.iter().map(|lcore| {
        Row::new([
            lcore.lcore.to_string(),
            format!("{} {}", bar(lcore.busy, 12), percent(lcore.busy)),
            rate(lcore.packets_per_second),
            format!("{:.1}", lcore.burst_packets),
            rate(lcore.empty_polls_per_second),
        ])
    });
    let widths = [
        Constraint::Length(6),
        Constraint::Length(20),
        Constraint::Length(12),
        Constraint::Length(8),
        Constraint::Fill(1),
    ];
    let table = Table::new(rows, widths)
        .header(heads(["lcore", "busy", "packets", "burst", "empty polls"]))
        .block(block(" Lcores "));
    frame.render_widget(table, area);
}

pub(super) fn books(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let (traffic, times) = (&view.snapshot.traffic, &view.snapshot.times);
    let line = |name: &str, packets: u64| Line::from(format!(" {name:<12}{:>12}", count(packets)));
    let quantiles = |name: &str, of: crate::observe::snapshot::Quantiles| {
        Line::from(format!(" {name:<14}{:>9}, 99 % {:>9}", seconds(of.p50), seconds(of.p99)))
    };
    let lines = vec![
        line("absorbed", traffic.absorbed_packets),
        line("forwarded", traffic.forwarded_packets),
        line("answered", traffic.answered_packets),
        line("dropped", traffic.dropped_packets),
        quantiles("service", times.service),
        quantiles("first to last", times.spread),
    ];
    frame.render_widget(Paragraph::new(lines).block(block(" Where packets went ")), area);
}

pub(super) fn pool(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let pool = &view.snapshot.pool;
    let outer = block(" Pool ");
    let inner = outer.inner(area);
    frame.render_widget(outer, area);
    let mut lines = vec![
        Line::from(format!(" {} partials, {} kept, of {} slots", pool.open, pool.done, pool.slots)),
        Line::from(format!(" oldest partial {}", seconds(pool.oldest_seconds))).dim(),
    ];
    for cells in pool.cells.chunks(ACROSS) {
        let mut spans = vec![Span::raw(" ")];
        spans.extend(cells.iter().map(|&(open, done)| cell(open, done, pool.slots_per_cell)));
        lines.push(Line::from(spans));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// How full a part of the pool is, and whether by partials.
fn cell(open: u32, done: u32, slots: usize) -> Span<'static> {
    let used = f64::from(open + done);
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = used / slots.max(1) as f64;
    let symbol = match share {
        ..=0.0 => "·",
        ..0.34 => "░",
        ..0.67 => "▒",
        ..0.95 => "▓",
        _ => "█",
    };
    let colour = match (open, done) {
        (0, 0) => Color::DarkGray,
        (0, _) => Color::Cyan,
        _ => Color::Blue,
    };
    Span::styled(symbol, Style::new().fg(colour))
}

pub(super) fn drops(view: &View, frame: &mut Frame<'_>, area: Rect) {
    if view.snapshot.drops.is_empty() {
        let text = Paragraph::new(" Nothing has been dropped.").dim();
        return frame.render_widget(text.block(block(" Drops ")), area);
    }
    let rows = view
        .snapshot
        .drops
        .iter()
        .map(|drop| Row::new([words(&drop.reason), count(drop.packets), rate(drop.packets_per_second)]));
    let widths = [Constraint::Fill(1), Constraint::Length(9), Constraint::Length(11)];
    let table = Table::new(rows, widths).header(heads(["reason", "packets", "now"])).block(block(" Drops "));
    frame.render_widget(table, area);
}

pub(super) fn olaf(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let row = |series: &Series| {
        let labels: Vec<&str> = series.labels.iter().map(|(_, value)| value.as_str()).collect();
        Row::new([words(&series.name), labels.join(", "), format!("{}", series.value)])
    };
    let widths = [Constraint::Fill(2), Constraint::Fill(1), Constraint::Length(10)];
    let counted = view.snapshot.olaf.iter().filter(|series| series.value != 0.0);
    let table = Table::new(counted.map(row), widths).block(block(" OlafQueue "));
    frame.render_widget(table, area);
}
