//! The generations that a worker's session goes through.

use super::Worker;

/// A session has gone from one generation of its job to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) to: u16,
    /// With its former PSNs; otherwise from the first.
    pub(crate) resumed: bool,
}

impl Worker {
    /// The next generation begins from the first PSN.
    pub(crate) const fn renew(&mut self) {
        self.take += 1;
        self.fresh = true;
        self.operation = 0;
    }

    /// PSNs begin from the first one, in this generation.
    pub(crate) fn begin_anew(&mut self, epoch: u16) {
        if !core::mem::take(&mut self.fresh) {
            self.renew();
            self.fresh = false;
        }
        self.root = epoch;
        self.epochs.push(epoch);
    }

    /// Whether the session has gone to another generation since the last check.
    pub(crate) fn moved(&mut self) -> Option<Moved> {
        let session = self.session.as_ref()?;
        let (to, resumed) = (session.membership().epoch, session.counters().resumed);
        if self.epochs.last() == Some(&to) {
            return None;
        }
        let moved = Moved { to, resumed: resumed > self.resumed };
        self.resumed = resumed;
        if moved.resumed {
            self.epochs.push(to);
        } else {
            self.begin_anew(to);
        }
        Some(moved)
    }
}
