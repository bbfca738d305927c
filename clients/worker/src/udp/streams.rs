//! Several streams of operations on one job: a small one that is urgent overtakes a large one.

use std::io;

use core::fmt;

use super::{Background, Config, Departure, Handle, JoinError, Worker};
use crate::collective::Collective;
use crate::element::Element;
use crate::priority::Hints;

/// Streams that a rank may have: each takes a thread, a socket and a window.
pub const MAX_STREAMS: u16 = 64;

/// Several workers of one rank, each on a thread of its own. Operations of one stream are carried out one
/// after the other, in the order in which they were started, which must be the same at all ranks; those of
/// another stream do not wait for them. Each stream has a window of its own, so that a small operation does
/// not wait for the rest of a large one; where both contend for the appliance's memory, their [`Hints`]
/// decide (DSA's priorities, section V).
///
/// Each stream is a job of its own at the appliance: stream *s* of a job with *t* trees has the numbers from
/// `job + s · t` on. Configure them with the same keys, or admit their numbers.
pub struct Streams(Vec<Background>);

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Streams").field(&self.0.len()).finish()
    }
}

impl Streams {
    /// Joins each stream's job in turn, and waits until all ranks have. All ranks name the same number of
    /// streams, 1 to [`MAX_STREAMS`].
    ///
    /// # Errors See [`JoinError`]. Streams joined before that are left again.
    pub fn join(config: &Config, streams: u16) -> Result<Self, JoinError> {
        let thread = |source: io::Error| JoinError::Io { what: "cannot start a thread", source };
        let config = config.clone().settled()?;
        let join = |stream| Worker::join(stream)?.into_background().map_err(thread);
        config.of_streams(streams)?.map(join).collect::<Result<_, _>>().map(Self)
    }

    /// The number of streams.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.0.len()
    }

    /// Starts an operation on a tensor, which comes back with the outcome: nothing is copied.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn start<T: Element + Send + 'static>(
        &self,
        stream: usize,
        collective: &Collective<'_>,
        tensor: Vec<T>,
        hints: Hints,
    ) -> Handle<T> {
        self.0[stream].start(collective, tensor, hints)
    }

    /// The workers, to tend each by itself.
    #[must_use]
    pub fn into_workers(self) -> Vec<Background> {
        self.0
    }

    /// Leaves after the operations that have been started. Returns how each stream's worker left; `None` if
    /// its thread has panicked.
    #[must_use]
    pub fn leave(self) -> Vec<Option<Departure>> {
        // All begin to leave before any is waited for: each stays until the other ranks have left, too.
        let leaving: Vec<_> = self.0.into_iter().map(Background::begin_to_leave).collect();
        leaving.into_iter().map(|thread| thread.join().ok()).collect()
    }
}
