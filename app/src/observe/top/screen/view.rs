//! What is on the screen: drawing only, no terminal.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};

use super::panels;
use crate::observe::snapshot::Snapshot;

/// Samples that the curves remember.
const HISTORY: usize = 240;

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) snapshot: Snapshot,
    /// Bytes per second, received and sent, the oldest first.
    pub(super) history: VecDeque<(u64, u64)>,
    /// The job that is looked at, by its place in the list.
    pub(super) selected: usize,
    pub(super) paused: bool,
    /// Why there is nothing new.
    pub(super) problem: Option<String>,
}

impl View {
    /// Shows the next snapshot.
    pub(super) fn show(&mut self, snapshot: Snapshot) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates, for a curve")]
        let point = (
            snapshot.traffic.received.bytes_per_second as u64,
            snapshot.traffic.sent.bytes_per_second as u64,
        );
        // The same sample again is no point of its own.
        if snapshot.uptime_seconds > self.snapshot.uptime_seconds || self.history.is_empty() {
            self.history.push_back(point);
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        self.problem = None;
        self.selected = self.selected.min(snapshot.jobs.len().saturating_sub(1));
        self.snapshot = snapshot;
    }

    /// Looks at the next job, or the one before.
    pub(super) fn select(&mut self, forward: bool) {
        let last = self.snapshot.jobs.len().saturating_sub(1);
        self.selected = if forward { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
    }

    /// Draws everything; on a small screen, what matters most.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        panels::head(self, frame, head);
        panels::foot(self, frame, foot);
        if area.width < 90 {
            self.narrow(frame, body);
        } else {
            self.wide(frame, body);
        }
    }

    /// One column: traffic, jobs, ranks.
    fn narrow(&self, frame: &mut Frame<'_>, area: Rect) {
        let jobs = self.job_lines();
        let [traffic, jobs, ranks] =
            Layout::vertical([Constraint::Length(6), Constraint::Length(jobs), Constraint::Fill(1)])
                .areas(area);
        panels::traffic(self, frame, traffic);
        panels::jobs(self, frame, jobs);
        panels::ranks(self, frame, ranks);
    }

    fn wide(&self, frame: &mut Frame<'_>, area: Rect) {
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(42)]).areas(area);
        let lcores = lines(self.snapshot.lcores.len()).min(area.height / 4);
        let [traffic, jobs, ranks, load] = Layout::vertical([
            Constraint::Length(8),
            Constraint::Length(self.job_lines()),
            Constraint::Fill(1),
            Constraint::Length(lcores),
        ])
        .areas(left);
        panels::traffic(self, frame, traffic);
        panels::jobs(self, frame, jobs);
        panels::ranks(self, frame, ranks);
        panels::lcores(self, frame, load);
        let counted = self.snapshot.olaf.iter().filter(|series| series.value != 0.0).count();
        let olaf = if counted == 0 { 0 } else { lines(counted).min(12) };
        let [books, pool, olaf, drops] = Layout::vertical([
            Constraint::Length(8),
            Constraint::Length(11),
            Constraint::Length(olaf),
            Constraint::Fill(1),
        ])
        .areas(right);
        panels::books(self, frame, books);
        panels::pool(self, frame, pool);
        panels::olaf(self, frame, olaf);
        panels::drops(self, frame, drops);
    }

    fn job_lines(&self) -> u16 {
        lines(self.snapshot.jobs.len().clamp(1, 9))
    }

    /// The screen as text, for those who have no terminal.
    pub(super) fn to_text(&self, width: u16, height: u16) -> anyhow::Result<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height))?;
        terminal.draw(|frame| self.draw(frame))?;
        Ok(text(terminal.backend().buffer()))
    }
}

/// A frame, a heading and so many lines.
fn lines(rows: usize) -> u16 {
    u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(3)
}

fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    let mut text = String::new();
    for y in area.top()..area.bottom() {
        let line: String =
            (area.left()..area.right()).filter_map(|x| Some(buffer.cell((x, y))?.symbol())).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
