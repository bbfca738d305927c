//! A controller's state across restarts: alone in SQLite, or together with others in etcd.

mod etcd;
mod sqlite;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::config::{Config, StoreAt};
use crate::core::{Note, Standing, Stored};

/// Why a store cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error of SQLite.
    #[error("{file}: {error}; {}", sqlite::remedy(.error))]
    Sqlite {
        /// The file.
        file: String,
        /// The error.
        error: rusqlite::Error,
    },
    /// It belongs to another program or version.
    #[error("{file} is version {found} of the database, and this program writes {wanted}; name another file")]
    Version {
        /// The file.
        file: String,
        /// The version found.
        found: i64,
        /// The version expected.
        wanted: i64,
    },
    /// An error with a file for the connection to etcd, or with its threads.
    #[error("etcd: {what}: {error}; name a file that this user may read")]
    File {
        /// The file or resource.
        what: String,
        /// The error.
        error: std::io::Error,
    },
}

/// Stores notes, and decides which of the controllers with the same store leads.
pub trait Store: Send {
    /// This controller's name among them; none if it is alone.
    fn member(&self) -> Option<&str>;

    /// This controller's standing.
    fn standing(&self) -> Standing;

    /// Whether another controller has written since the last [`Store::load`].
    fn has_changes(&self) -> bool;

    /// The stored state; none while it is not known. Unreadable entries are left out.
    ///
    /// If it never will be known.
    fn load(&mut self) -> Result<Option<Stored>, StoreError>;

    /// Stores these, in their order, if this controller still leads in its term. False if they may not have
    /// been stored: [`Store::standing`] has the reason, and the same notes may be written again in the same
    /// term.
    ///
    /// If it never will succeed.
    fn write(&mut self, notes: &[Note], term: i64) -> Result<bool, StoreError>;
}

/// Opens the store of a configuration.
///
/// # Errors If it cannot be used. A silent etcd is no error: it will answer later.
pub fn open(config: &Config, clock: Clock) -> Result<Box<dyn Store>, StoreError> {
    Ok(match &config.store {
        StoreAt::Sqlite(file) => Box::new(sqlite::Sqlite::open(file, clock)?),
        StoreAt::Etcd(at) => Box::new(etcd::Etcd::open(at, &config.name, clock)?),
    })
}

/// The core's clock, and its offset to the system's.
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

    /// The inverse.
    fn inside(&self, at: f64) -> f64 {
        at - self.epoch
    }
}

#[cfg(test)]
mod tests;
