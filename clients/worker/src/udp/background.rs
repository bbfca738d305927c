//! A worker on a thread of its own: several operations in flight, each with a [`Handle`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};

use core::fmt;
use core::time::Duration;

use zerocopy::IntoBytes as _;

use super::{AllreduceError, Departure, Worker};
use crate::allreduce::Report;
use crate::collective::{Collective, Parts};
use crate::element::Element;
use crate::priority::Hints;

/// How often an idle worker answers others: as often as heartbeats are sent.
const TEND: Duration = Duration::from_millis(100);

type Work = Box<dyn FnOnce(&mut Worker) + Send>;

/// A worker that a thread drives. Operations run in the order in which they were started, which must be the
/// same at all ranks; the caller continues meanwhile. Between them the thread answers other ranks.
///
/// Dropping it leaves without waiting for the end.
pub struct Background {
    work: Sender<Work>,
    /// How many ends of generations have been reported to the caller.
    told: Arc<AtomicU64>,
    aborted: Arc<AtomicBool>,
    thread: JoinHandle<Departure>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

impl Worker {
    /// Hands the worker over to a thread.
    ///
    /// # Errors
    /// The operating system's, if there can be no thread.
    pub fn into_background(self) -> io::Result<Background> {
        let (work, orders) = channel();
        let told = Arc::new(AtomicU64::new(self.ended));
        let aborted = Arc::clone(&self.aborted);
        let thread = Builder::new().name("pascaline".to_owned()).spawn(move || serve(self, &orders))?;
        Ok(Background { work, told, aborted, thread })
    }
}

fn serve(mut worker: Worker, orders: &Receiver<Work>) -> Departure {
    loop {
        match orders.recv_timeout(TEND) {
            Ok(work) => work(&mut worker),
            // Errors show in the next operation.
            Err(RecvTimeoutError::Timeout) => drop(worker.tend()),
            Err(RecvTimeoutError::Disconnected) => return worker.leave(),
        }
    }
}

impl Background {
    /// Starts an operation on a tensor, which comes back with the outcome: nothing is copied.
    pub fn start<T: Element + Send + 'static>(
        &self,
        collective: &Collective<'_>,
        mut tensor: Vec<T>,
        hints: Hints,
    ) -> Handle<T> {
        let (collective, counts) = collective.detached();
        let work = move |worker: &mut Worker| {
            let collective = collective.with(&counts);
            let bytes = tensor.as_mut_slice().as_mut_bytes();
            let outcome = worker.collective(&collective, T::DTYPE, bytes, hints);
            Finished { tensor, outcome }
        };
        Handle { outcome: self.submit(work), finished: None }
    }

    /// Runs a function on the worker in its thread, after the operations started before.
    ///
    /// If a generation has ended by then and its end has not been reported yet, operations fail with it: they
    /// would be taken for the first ones of the next generation, and other ranks may have failed at another
    /// one.
    pub fn submit<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Submitted<R> {
        let (done, outcome) = channel();
        let known = self.told.load(Ordering::Acquire);
        let work = move |worker: &mut Worker| {
            worker.outdated = worker.ended != known;
            let outcome = work(worker);
            worker.outdated = false;
            // The caller may have dropped the handle.
            let _ = done.send((outcome, worker.ended));
        };
        // If the thread has ended, the handle reports it.
        let _ = self.work.send(Box::new(work));
        Submitted { outcome, told: Arc::clone(&self.told) }
    }

    /// Leaves the job after the operations that have been started, as [`Worker::leave`]. `None` if the thread
    /// has panicked.
    #[must_use]
    pub fn leave(self) -> Option<Departure> {
        self.begin_to_leave().join().ok()
    }

    /// Likewise, without waiting for the end. One of several [`Streams`](super::Streams) begins before any is
    /// waited for, since each stays until the other ranks have left, too.
    #[must_use]
    pub fn begin_to_leave(self) -> JoinHandle<Departure> {
        drop(self.work);
        self.thread
    }

    /// Likewise, and started operations fail within 100 ms, with an error of the system's of the kind
    /// `Interrupted`. Other ranks that still need something of this one may fail, too.
    #[must_use]
    pub fn abort(self) -> JoinHandle<Departure> {
        self.aborted.store(true, Ordering::Relaxed);
        self.begin_to_leave()
    }
}

/// Work handed to the thread.
#[derive(Debug)]
pub struct Submitted<R> {
    outcome: Receiver<(R, u64)>,
    told: Arc<AtomicU64>,
}

/// The outcome. Opening it reports all generations that had ended by then.
#[derive(Debug)]
pub struct Sealed<R> {
    outcome: R,
    ended: u64,
    told: Arc<AtomicU64>,
}

impl<R> Submitted<R> {
    /// Its outcome, once, without waiting.
    ///
    /// # Errors `Empty` before it has ended, `Disconnected` if it was already returned or the thread has
    /// panicked.
    pub fn look(&self) -> Result<Sealed<R>, TryRecvError> {
        self.outcome.try_recv().map(|outcome| self.seal(outcome))
    }

    /// Likewise, waiting for this time at most.
    ///
    /// # Errors `Timeout` before it has ended, `Disconnected` as above.
    pub fn look_for(&self, patience: Duration) -> Result<Sealed<R>, RecvTimeoutError> {
        self.outcome.recv_timeout(patience).map(|outcome| self.seal(outcome))
    }

    /// Likewise, waiting until there is an outcome.
    ///
    /// # Errors If it was already returned or the thread has panicked.
    pub fn wait(&self) -> Result<Sealed<R>, RecvError> {
        self.outcome.recv().map(|outcome| self.seal(outcome))
    }

    fn seal(&self, (outcome, ended): (R, u64)) -> Sealed<R> {
        Sealed { outcome, ended, told: Arc::clone(&self.told) }
    }
}

impl<R> Sealed<R> {
    /// The outcome.
    pub fn open(&self) -> &R {
        self.told.fetch_max(self.ended, Ordering::Release);
        &self.outcome
    }

    /// Likewise, by value.
    #[must_use]
    pub fn into_opened(self) -> R {
        let _ = self.open();
        self.outcome
    }
}

/// An operation in flight.
#[derive(Debug)]
pub struct Handle<T> {
    outcome: Submitted<Finished<T>>,
    /// `None` in it: the thread has ended.
    finished: Option<Option<Sealed<Finished<T>>>>,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Finished<T> {
    /// The tensor. Unless the outcome is a report, its content is unspecified.
    pub tensor: Vec<T>,
    /// The outcome.
    pub outcome: Result<Report, AllreduceError>,
}

impl<T> Handle<T> {
    /// Whether [`wait`](Self::wait) would return at once.
    pub fn test(&mut self) -> bool {
        if self.finished.is_none() {
            self.finished = match self.outcome.look() {
                Ok(finished) => Some(Some(finished)),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(None),
            };
        }
        self.finished.is_some()
    }

    /// Waits for the end, at the longest for the deadlines of this operation and of those before it. Where
    /// the thread has panicked, the tensor is lost, and the outcome says so.
    #[must_use]
    pub fn wait(self) -> Finished<T> {
        let Self { outcome, finished } = self;
        finished.unwrap_or_else(|| outcome.wait().ok()).map_or_else(gone, Sealed::into_opened)
    }
}

fn gone<T>() -> Finished<T> {
    let source = io::Error::other("it has ended");
    let outcome = Err(AllreduceError::Io { what: "the worker's thread", source });
    Finished { tensor: Vec::new(), outcome }
}

impl<'a> Collective<'a> {
    /// Without its borrowed counts, which are returned beside it.
    fn detached(&self) -> (Collective<'static>, Vec<usize>) {
        let (mut counts, none) = (Vec::new(), Parts::Counts(&[]));
        let mut owned = |parts: Parts<'_>| match parts {
            Parts::Even => Parts::Even,
            Parts::Counts(borrowed) => {
                counts = borrowed.to_vec();
                none
            }
        };
        let detached = match *self {
            Collective::Allreduce(op) => Collective::Allreduce(op),
            Collective::Reduce { op, root } => Collective::Reduce { op, root },
            Collective::Broadcast { root } => Collective::Broadcast { root },
            Collective::Barrier => Collective::Barrier,
            Collective::ReduceScatter { op, parts } => Collective::ReduceScatter { op, parts: owned(parts) },
            Collective::Allgather { parts } => Collective::Allgather { parts: owned(parts) },
        };
        (detached, counts)
    }

    /// With the counts that [`detached`](Self::detached) has given.
    const fn with(self, counts: &'a [usize]) -> Self {
        match self {
            Self::ReduceScatter { op, parts: Parts::Counts(_) } => {
                Self::ReduceScatter { op, parts: Parts::Counts(counts) }
            }
            Self::Allgather { parts: Parts::Counts(_) } => Self::Allgather { parts: Parts::Counts(counts) },
            other => other,
        }
    }
}
