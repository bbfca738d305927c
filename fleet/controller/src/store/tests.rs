//! Common tests for every store.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::core::Move;
use crate::tree::{Node, Tree};

const PATIENCE: Duration = Duration::from_secs(15);

pub(super) fn tree() -> Tree {
    Tree { nodes: vec![Node { appliance: "a".into(), parent: None, ranks: vec![0, 1], ..Node::default() }] }
}

pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        // Real processes are polled, and need the processor meanwhile.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The term in which a store leads.
pub(super) fn leads(store: &dyn Store) -> i64 {
    until("it leads", || {
        let standing = store.standing();
        standing.leads_until.map(|_| standing.term)
    })
}

/// Writes in a term. On a busy machine a member of etcd may answer too late.
pub(super) fn takes(store: &mut dyn Store, notes: &[Note], term: i64) {
    until("it writes", || store.write(notes, term).unwrap().then_some(()));
}

/// Written, read, overwritten, removed: after a restart the state is the same.
pub(super) fn remembers(open: &dyn Fn(Clock) -> Box<dyn Store>) {
    let pushed = |name: &str, body| Note::Pushed(name.into(), 1, body);
    {
        let mut store = open(Clock::since(Instant::now()));
        let term = leads(&*store);
        let before = store.load().unwrap().unwrap();
        assert!(before.trees.is_empty() && before.pushed.is_empty() && before.moves.is_empty());
        let moved = Note::Moved(Move { at: 5.0, text: "planned".into() });
        let first = [Note::Tree(1, "w0".into(), tree()), pushed("a/b", Some(json!({"id": 1}))), moved];
        takes(&mut *store, &first, term);
        let second = [pushed("b", Some(Value::Null)), pushed("b", None), pushed("c", Some(json!(2)))];
        takes(&mut *store, &second, term);
        takes(&mut *store, &[pushed("c", None)], term);
        // More than etcd accepts at once, and more moves than are kept.
        let many = (0..300).map(|at| Note::Moved(Move { at: f64::from(at), text: format!("move {at}") }));
        let jobs = (2..300).map(|job| Note::Tree(job, "w".into(), tree()));
        takes(&mut *store, &many.chain(jobs).collect::<Vec<_>>(), term);
    }
    let clock = Clock::since(Instant::now());
    let mut store = open(Clock { epoch: clock.epoch + 3600.0, ..clock });
    leads(&*store);
    let stored = store.load().unwrap().unwrap();
    assert_eq!(stored.trees[&1], ("w0".to_owned(), tree()));
    assert_eq!(stored.trees.len(), 299);
    assert_eq!(stored.pushed, BTreeMap::from([(("a/b".to_owned(), 1), json!({"id": 1}))]));
    assert_eq!(stored.moves.len(), crate::core::MOVES);
    assert_eq!(stored.moves[199].text, "move 299");
    // It was 299 s after a zero that is an hour before this one.
    assert!((stored.moves[199].at - 299.0 + 3600.0).abs() < 60.0, "{}", stored.moves[199].at);
}

#[test]
fn sqlite_remembers_and_lets_nobody_else() {
    let file = std::env::temp_dir().join(format!("pascaline-store-{}.sqlite", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let open = |clock| Box::new(sqlite::Sqlite::open(&file, clock).unwrap()) as Box<dyn Store>;
    remembers(&open);
    let _first = open(Clock::since(Instant::now()));
    let second = sqlite::Sqlite::open(&file, Clock::since(Instant::now()));
    let why = second.map(drop).expect_err("two programs on one database").to_string();
    assert!(why.contains("another controller remembers there") && why.contains("[etcd]"), "{why}");
    std::fs::remove_file(&file).unwrap();
}
