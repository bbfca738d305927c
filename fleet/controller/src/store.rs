//! What a controller remembers across restarts: alone in SQLite, or together with others in etcd.

mod etcd;
mod sqlite;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::config::{Config, StoreAt};
use crate::core::{Note, Standing, Stored};

/// Why a store cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says why.
    #[error("{file}: {error}; {}", sqlite::remedy(.error))]
    Sqlite {
        /// The file.
        file: String,
        /// What is wrong.
        error: rusqlite::Error,
    },
    /// Another program's, or another version's.
    #[error("{file} is version {found} of the database, and this program writes {wanted}; name another file")]
    Version {
        /// The file.
        file: String,
        /// What it says.
        found: i64,
        /// What it should say.
        wanted: i64,
    },
    /// A file that a connection to etcd needs, or threads for it.
    #[error("etcd: {what}: {error}; name a file that this user may read")]
    File {
        /// Which.
        what: String,
        /// What is wrong.
        error: std::io::Error,
    },
}

/// Remembers, and says whether this controller leads those who remember the same.
pub trait Store: Send {
    /// This controller's name among them; none if it is alone.
    fn member(&self) -> Option<&str>;

    /// How it stands.
    fn standing(&self) -> Standing;

    /// Whether another controller has written since the last [`Store::load`].
    fn has_changes(&self) -> bool;

    /// What was remembered; nothing while it is not known. What cannot be read any more is as if it had
    /// never been.
    ///
    /// # Errors
    /// It never will be.
    fn load(&mut self) -> Result<Option<Stored>, StoreError>;

    /// Remembers these, in their order, if this controller still leads in its term. False if they may not
    /// have been: [`Store::standing`] says why, and the same notes may be written again in the same term.
    ///
    /// # Errors
    /// It never will.
    fn write(&mut self, notes: &[Note], term: i64) -> Result<bool, StoreError>;
}

/// Opens the store of a configuration.
///
/// # Errors
/// It cannot be used. That etcd does not answer is none: it will.
pub fn open(config: &Config, clock: Clock) -> Result<Box<dyn Store>, StoreError> {
    Ok(match &config.store {
        StoreAt::Sqlite(file) => Box::new(sqlite::Sqlite::open(file, clock)?),
        StoreAt::Etcd(at) => Box::new(etcd::Etcd::open(at, &config.name, clock)?),
    })
}

/// The core's clock, and what it is on everybody's.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    zero: Instant,
    /// Seconds from the epoch to the core's zero.
    epoch: f64,
}

impl Clock {
    /// `zero` is when the core's clock began.
    pub fn since(zero: Instant) -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { zero, epoch: epoch.as_secs_f64() - zero.elapsed().as_secs_f64() }
    }

    /// The core's time.
    pub fn now(&self) -> Duration {
        self.zero.elapsed()
    }

    /// Seconds from the epoch, of seconds of the core.
    fn outside(&self, at: f64) -> f64 {
        at + self.epoch
    }

    /// And back.
    fn inside(&self, at: f64) -> f64 {
        at - self.epoch
    }
}

#[cfg(test)]
mod tests;
