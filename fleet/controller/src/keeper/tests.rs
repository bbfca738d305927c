//! With a store whose answers the test decides.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::*;
use crate::core::{Core, Move, Standing, Stored};
use crate::{Config, StoreError};

#[derive(Default)]
struct Script {
    standing: Standing,
    takes: bool,
    /// Writes requested, accepted or not, with their term.
    written: Vec<(i64, Vec<Note>)>,
}

struct Scripted(Arc<Mutex<Script>>);

impl Store for Scripted {
    fn member(&self) -> Option<&str> {
        Some("a")
    }

    fn standing(&self) -> Standing {
        self.0.lock().unwrap().standing.clone()
    }

    fn has_changes(&self) -> bool {
        false
    }

    fn load(&mut self) -> Result<Option<Stored>, StoreError> {
        Ok(Some(Stored::default()))
    }

    fn write(&mut self, notes: &[Note], term: i64) -> Result<bool, StoreError> {
        let mut script = self.0.lock().unwrap();
        script.written.push((term, notes.to_vec()));
        Ok(script.takes)
    }
}

fn leads(notes: &[Note]) -> usize {
    let leads = |note: &&Note| matches!(note, Note::Moved(Move { text, .. }) if text.contains("leads"));
    notes.iter().filter(leads).count()
}

#[test]
fn what_a_store_does_not_take_is_written_again_in_its_own_term_only() {
    let text = include_str!("../../../../conf/controller.toml");
    let config = Config::parse(Path::new("controller.toml"), text).unwrap();
    let script = Arc::new(Mutex::new(Script::default()));
    let mut keeper = Keeper::new(Box::new(Scripted(Arc::clone(&script))));
    let core = Core::following(&config, keeper.member(), Duration::ZERO);
    let shared = Shared::new(core, Instant::now());
    let set = |leads_until, term, takes| {
        let mut script = script.lock().unwrap();
        script.standing = Standing { leads_until, term, ..Standing::default() };
        script.takes = takes;
        core::mem::take(&mut script.written)
    };
    assert!(keeper.turn(&shared).unwrap().is_empty());
    assert!(set(Some(Duration::MAX), 1, false).is_empty(), "one that follows has written");
    assert!(keeper.turn(&shared).unwrap().is_empty() && keeper.turn(&shared).unwrap().is_empty());
    let tried = set(Some(Duration::MAX), 2, false);
    assert_eq!(tried.iter().map(|(term, _)| *term).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(tried[0].1, tried[1].1);
    assert_eq!(leads(&tried[0].1), 1);
    // Another term begins with the stored state only.
    assert!(keeper.turn(&shared).unwrap().is_empty());
    let tried = set(Some(Duration::MAX), 2, true);
    assert_eq!((tried[0].0, leads(&tried[0].1)), (2, 1));
    assert_eq!(keeper.turn(&shared).unwrap(), tried[0].1);
    assert!(keeper.turn(&shared).unwrap().is_empty(), "it was written");
    // A term that is over by the clock, whatever the store says.
    set(Some(Duration::ZERO), 2, true);
    assert!(keeper.turn(&shared).unwrap().is_empty() && !shared.core().leads(shared.now()));
    assert!(set(Some(Duration::MAX), 3, true).is_empty());
    // A controller that hands over no longer leads, and releases the store, so the others learn that they may
    // lead.
    assert!(!keeper.turn(&shared).unwrap().is_empty() && shared.core().leads(shared.now()));
    keeper.hand_over(&shared);
    assert!(!shared.core().leads(shared.now()) && shared.core().take_notes().is_empty());
    assert_eq!(Arc::strong_count(&script), 1, "the store is still there");
}
