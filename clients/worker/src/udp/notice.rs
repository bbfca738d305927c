//! Reports to the user while a call waits: see [`Config::notice`](super::Config::notice).

use core::fmt;
use core::time::Duration;

use crate::membership::Join;
use crate::session::Session;

/// A function that shows the user a message: see [`Config::notice`](super::Config::notice).
#[derive(Clone, Copy)]
pub struct Notice(pub fn(&dyn fmt::Display));

impl Notice {
    /// For drivers: reports a stalled Join, and a payload that was shortened.
    pub fn of_join(self, join: &mut Join, now: Duration) {
        let Self(tell) = self;
        if let Some(waiting) = join.stalled(now) {
            tell(&format_args!("joining is stalled: {waiting}"));
        }
        if let Some(shortened) = join.shortened() {
            tell(&shortened);
        }
    }

    /// For drivers: reports a stalled operation.
    pub fn of_session(self, session: &mut Session, now: Duration) {
        let Self(tell) = self;
        if let Some(progress) = session.stalled(now) {
            tell(&format_args!("allreduce is stalled: {progress}"));
        }
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}

impl PartialEq for Notice {
    /// Configurations are compared for what they do to packets.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Notice {}
