//! Between the keyboard, the appliance and the screen.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::fetch::Source;
use super::view::View;

/// Shows snapshots until the user has seen enough.
///
/// # Errors
/// The first snapshot's; later ones are shown, and the next look may succeed. The terminal's.
pub(super) fn run(source: &Source, interval: Duration) -> anyhow::Result<()> {
    let mut view = View::default();
    view.show(source.snapshot()?);
    let mut terminal = ratatui::try_init()?;
    let outcome = watch(&mut terminal, &mut view, source, interval);
    ratatui::restore();
    Ok(outcome?)
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    view: &mut View,
    source: &Source,
    interval: Duration,
) -> std::io::Result<()> {
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| view.draw(frame))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press && !press(view, key) => return Ok(()),
                _ => continue,
            }
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + interval;
        if !view.paused {
            match source.snapshot() {
                Ok(snapshot) => view.show(snapshot),
                Err(error) => view.problem = error.to_string().lines().next().map(str::to_owned),
            }
        }
    }
}

/// Does what a key says. False if that is to end.
pub(super) fn press(view: &mut View, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Down | KeyCode::Char('j') => view.select(true),
        KeyCode::Up | KeyCode::Char('k') => view.select(false),
        KeyCode::Char(' ') => view.paused = !view.paused,
        _ => {}
    }
    true
}
