//! The keys below the network's prefix, and what they mean.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::Clock;
use crate::core::{MOVES, Move, Note, Stored};
use crate::tree::Tree;

/// A key without the prefix, and its value; none if it is removed.
pub(super) type Put = (String, Option<String>);

const MOVED: &str = "moves";
/// Operations, and bytes of keys and values, of one transaction: etcd refuses more than 128, and a request of
/// more than 1.5 MiB, by default.
const TOGETHER: (usize, usize) = (100, 1 << 20);

/// The changes split into transactions. A single change may exceed the limit.
pub(super) fn together(puts: &[Put]) -> impl Iterator<Item = &[Put]> {
    let size = |(key, value): &Put| key.len() + value.as_ref().map_or(0, String::len);
    let (mut many, mut bytes) = (1, puts.first().map_or(0, size));
    puts.chunk_by(move |_, next| {
        let more = (many + 1, bytes + size(next));
        let fits = more.0 <= TOGETHER.0 && more.1 <= TOGETHER.1;
        (many, bytes) = if fits { more } else { (1, size(next)) };
        fits
    })
}

/// Below `trees/`.
#[derive(Serialize, Deserialize)]
struct TreeRecord {
    made_for: String,
    tree: Tree,
}

/// One of `moves`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct MoveRecord {
    /// Milliseconds from the epoch.
    at: i64,
    text: String,
}

/// All known keys, with the revisions that have written them.
#[derive(Debug, Default)]
pub(super) struct Records {
    keys: BTreeMap<String, (i64, Option<String>)>,
    /// The revision at which they were read.
    read_at: i64,
}

impl Records {
    /// As read at a revision: key, value, and the revision that has written it.
    pub(super) fn read(found: impl Iterator<Item = (String, String, i64)>, read_at: i64) -> Self {
        let keys = found.map(|(key, value, revision)| (key, (revision, Some(value)))).collect();
        Self { keys, read_at }
    }

    /// Applies a value of a key. Older values than the known one are ignored.
    pub(super) fn apply(&mut self, key: &str, value: Option<String>, revision: i64) {
        if revision <= self.read_at {
            return;
        }
        let known = self.keys.entry(key.to_owned()).or_insert((0, None));
        if known.0 < revision {
            *known = (revision, value);
        }
    }

    /// Applies the changes written just now.
    pub(super) fn take(&mut self, puts: &[Put], revision: i64) {
        for (key, value) in puts {
            self.apply(key, value.clone(), revision);
        }
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.keys.get(key)?.1.as_deref()
    }

    fn moves(&self) -> Vec<MoveRecord> {
        self.value(MOVED).and_then(|moves| serde_json::from_str(moves).ok()).unwrap_or_default()
    }

    /// The state that they stand for. Unreadable entries are left out.
    pub(super) fn stored(&self, clock: &Clock) -> Stored {
        let mut stored = Stored::default();
        for (key, (_, value)) in &self.keys {
            let Some(value) = value else { continue };
            let place: Vec<&str> = key.split('/').collect();
            match place[..] {
                ["trees", job] => {
                    let record = serde_json::from_str::<TreeRecord>(value);
                    if let (Ok(job), Ok(TreeRecord { made_for, tree })) = (job.parse(), record) {
                        stored.trees.insert(job, (made_for, tree));
                    }
                }
                ["told", job, ..] => {
                    // A name may have any character in it.
                    let name = key.splitn(3, '/').last().unwrap_or_default().to_owned();
                    if let Ok(job) = job.parse() {
                        let body = serde_json::from_str(value).unwrap_or(Value::Null);
                        stored.pushed.insert((name, job), body);
                    }
                }
                _ => {}
            }
        }
        let moved = |MoveRecord { at, text }| Move { at: clock.inside(at as f64 / 1000.0), text };
        stored.moves = self.moves().into_iter().map(moved).collect();
        stored
    }

    /// The changes for notes: the latest value of each key.
    pub(super) fn puts(&self, notes: &[Note], clock: &Clock) -> Vec<Put> {
        let mut puts = BTreeMap::new();
        let mut moves = None;
        for note in notes {
            match note {
                Note::Tree(job, made_for, tree) => {
                    let record = TreeRecord { made_for: made_for.clone(), tree: tree.clone() };
                    // Texts and numbers only: it cannot fail.
                    puts.insert(format!("trees/{job}"), serde_json::to_string(&record).ok());
                }
                Note::Pushed(appliance, job, body) => {
                    puts.insert(format!("told/{job}/{appliance}"), body.as_ref().map(Value::to_string));
                }
                Note::Moved(Move { at, text }) => {
                    #[expect(clippy::cast_possible_truncation, reason = "milliseconds for ages to come")]
                    let at = (clock.outside(*at) * 1000.0).round() as i64;
                    let record = MoveRecord { at, text: text.clone() };
                    let moves = moves.get_or_insert_with(|| self.moves());
                    // Written before, and not confirmed.
                    if !moves.contains(&record) {
                        moves.push(record);
                    }
                }
            }
        }
        if let Some(mut moves) = moves {
            let old = moves.len().saturating_sub(MOVES);
            moves.drain(..old);
            puts.insert(MOVED.to_owned(), serde_json::to_string(&moves).ok());
        }
        // Trees come first: a pushed part has its tree.
        let (mut trees, rest): (Vec<Put>, Vec<Put>) =
            puts.into_iter().partition(|(key, _)| key.starts_with("trees/"));
        trees.extend(rest);
        trees
    }
}
