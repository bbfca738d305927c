//! The state of a single controller, in SQLite.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, params};
use serde_json::Value;

use super::{Clock, Store, StoreError};
use crate::core::{MOVES, Move, Note, Standing, Stored};
use crate::tree::Tree;

const VERSION: i64 = 1;
const TABLES: &str = "
    CREATE TABLE trees (job INTEGER PRIMARY KEY, made_for TEXT NOT NULL, tree TEXT NOT NULL);
    CREATE TABLE pushed (appliance TEXT, job INTEGER, body TEXT NOT NULL, PRIMARY KEY (appliance, job));
    CREATE TABLE moves (at REAL NOT NULL, text TEXT NOT NULL);
    PRAGMA user_version = 1;";
/// One program uses the database at a time: its term never ends.
const TERM: i64 = 1;

/// The database. One program uses it at a time.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: Connection,
    file: String,
    clock: Clock,
}

impl Sqlite {
    /// Opens a file, or makes it.
    ///
    /// # Errors If it cannot be opened, is in use, or is no such database.
    pub(super) fn open(file: &Path, clock: Clock) -> Result<Self, StoreError> {
        let name = file.display().to_string();
        let sqlite = |error| StoreError::Sqlite { file: name.clone(), error };
        let connection = Connection::open(file).map_err(sqlite)?;
        // A second process is refused, and does not write in between.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(sqlite)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(sqlite)?;
        let found: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite)?;
        match found {
            0 => connection.execute_batch(TABLES).map_err(sqlite)?,
            VERSION => {}
            _ => return Err(StoreError::Version { file: name, found, wanted: VERSION }),
        }
        Ok(Self { connection, file: name, clock })
    }

    fn error(&self, error: rusqlite::Error) -> StoreError {
        StoreError::Sqlite { file: self.file.clone(), error }
    }

    fn read(&self) -> rusqlite::Result<Stored> {
        let mut stored = Stored::default();
        let mut trees = self.connection.prepare("SELECT job, made_for, tree FROM trees")?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        for found in trees.query_map([], row)? {
            let (job, made_for, tree): (u16, String, String) = found?;
            if let Ok(tree) = serde_json::from_str::<Tree>(&tree) {
                stored.trees.insert(job, (made_for, tree));
            }
        }
        let mut pushed = self.connection.prepare("SELECT appliance, job, body FROM pushed")?;
        for found in pushed.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))? {
            let (appliance, job, body): (String, u16, String) = found?;
            stored.pushed.insert((appliance, job), serde_json::from_str(&body).unwrap_or(Value::Null));
        }
        let mut moves = self.connection.prepare("SELECT at, text FROM moves ORDER BY rowid")?;
        for found in moves.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
            let (at, text): (f64, String) = found?;
            stored.moves.push(Move { at: self.clock.inside(at), text });
        }
        Ok(stored)
    }

    /// Writes all of these, or none.
    fn put(&mut self, notes: &[Note]) -> rusqlite::Result<()> {
        let all = self.connection.transaction()?;
        for note in notes {
            match note {
                Note::Tree(job, made_for, tree) => {
                    // Texts and numbers only: it cannot fail.
                    let tree = serde_json::to_string(tree).unwrap_or_default();
                    let row = params![job, made_for, tree];
                    all.execute("INSERT OR REPLACE INTO trees VALUES (?, ?, ?)", row)?
                }
                Note::Pushed(appliance, job, Some(body)) => {
                    let row = params![appliance, job, body.to_string()];
                    all.execute("INSERT OR REPLACE INTO pushed VALUES (?, ?, ?)", row)?
                }
                Note::Pushed(appliance, job, None) => {
                    let row = params![appliance, job];
                    all.execute("DELETE FROM pushed WHERE appliance = ? AND job = ?", row)?
                }
                Note::Moved(Move { at, text }) => {
                    all.execute("INSERT INTO moves VALUES (?, ?)", params![self.clock.outside(*at), text])?;
                    let old = "DELETE FROM moves WHERE rowid <= (SELECT max(rowid) FROM moves) - ?";
                    all.execute(old, params![i64::try_from(MOVES).unwrap_or(i64::MAX)])?
                }
            };
        }
        all.commit()
    }
}

/// The remedy for an error.
pub(super) fn remedy(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another controller remembers there: end it, or name another file; several use [etcd]"
        }
        Some(_) | None => "name a file in a directory that this user may write to",
    }
}

impl Store for Sqlite {
    fn member(&self) -> Option<&str> {
        None
    }

    fn standing(&self) -> Standing {
        Standing { leads_until: Some(Duration::MAX), term: TERM, ..Standing::default() }
    }

    fn has_changes(&self) -> bool {
        false
    }

    fn load(&mut self) -> Result<Option<Stored>, StoreError> {
        self.read().map(Some).map_err(|error| self.error(error))
    }

    fn write(&mut self, notes: &[Note], _term: i64) -> Result<bool, StoreError> {
        self.put(notes).map(|()| true).map_err(|error| self.error(error))
    }
}
