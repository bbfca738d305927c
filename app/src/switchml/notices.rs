//! What the log gets of mistakes that any host can repeat: each kind at once, then at most once a minute.

use core::time::Duration;

/// How long a kind of mistake is counted before it is logged again.
const PERIOD: Duration = Duration::from_secs(60);

/// When each kind was logged last, and how often it has come since.
#[derive(Debug)]
pub(crate) struct Notices<K>(Vec<(K, Duration, u64)>);

impl<K> Default for Notices<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> Notices<K> {
    /// Counts a mistake. How many of its kind the log lacks, this one among them, if it is to be logged now.
    /// There must be few kinds.
    pub(crate) fn count(&mut self, now: Duration, kind: K) -> Option<u64> {
        let Some((_, logged, lacks)) = self.0.iter_mut().find(|(known, ..)| *known == kind) else {
            self.0.push((kind, now, 0));
            return Some(1);
        };
        *lacks += 1;
        if now.saturating_sub(*logged) < PERIOD {
            return None;
        }
        *logged = now;
        Some(core::mem::take(lacks))
    }
}

#[cfg(test)]
mod tests;
