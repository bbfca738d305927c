//! Passes the leadership from the store to the core, and the core's notes to the store.

use crate::core::{Note, Standing};
use crate::routes::Shared;
use crate::store::{Store, StoreError};

/// Keeps a core and its store together.
pub struct Keeper {
    store: Box<dyn Store>,
    /// Not confirmed by the store yet.
    pending: Vec<Note>,
    term: i64,
}

impl core::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Keeper").field("term", &self.term).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Of this store.
    pub fn new(store: Box<dyn Store>) -> Self {
        Self { store, pending: Vec::new(), term: 0 }
    }

    /// This controller's name among those with the same store.
    pub fn member(&self) -> Option<&str> {
        self.store.member()
    }

    /// Passes the standing to the core, and the core's notes to the store. Returns the notes newly stored.
    ///
    /// # Errors The store can no longer be used. A controller without a store must stop.
    pub fn turn(&mut self, shared: &Shared) -> Result<Vec<Note>, StoreError> {
        let standing = self.store.standing();
        let term = standing.term;
        if core::mem::replace(&mut self.term, term) != term {
            self.pending.clear();
        }
        let until = standing.leads_until;
        let begins = shared.core().set_standing(standing, shared.now());
        if begins || self.store.has_changes() {
            let stored = self.store.load()?;
            let (mut core, now) = (shared.core(), shared.now());
            match (stored, until) {
                (Some(stored), Some(until)) if begins => {
                    self.pending.clear();
                    core.lead(stored, until, now);
                }
                (Some(stored), _) => core.learn(stored, now),
                (None, _) => {}
            }
        }
        {
            let (mut core, now) = (shared.core(), shared.now());
            if !core.leads(now) {
                self.pending.clear();
                return Ok(Vec::new());
            }
            self.pending.extend(core.take_notes());
        }
        if self.pending.is_empty() || !self.store.write(&self.pending, term)? {
            return Ok(Vec::new());
        }
        shared.core().remembered(&self.pending);
        Ok(core::mem::take(&mut self.pending))
    }

    /// Hands the lead over: the core stops pushing, and the store informs the others.
    pub fn hand_over(self, shared: &Shared) {
        shared.core().set_standing(Standing::default(), shared.now());
    }
}

#[cfg(test)]
mod tests;
