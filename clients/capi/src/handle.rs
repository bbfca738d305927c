//! The worker behind a handle, and its thread, which runs operations without a waiting caller.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::panic::catch_unwind;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow};
use pascaline_worker::masked::Key;
use pascaline_worker::{Hints, Narrow, Report, Worker};

use crate::status::{Fault, pascaline_status as Status};
use crate::tensor::Operation;
use crate::url::Told;

/// How often the thread answers other ranks and shows that this one is alive while it is idle.
const TEND: Duration = Duration::from_millis(50);
/// Requests that a handle may have before they are waited for.
const MOST_REQUESTS: usize = 1 << 16;

/// One rank of a job.
#[allow(non_camel_case_types, reason = "the name of the header")]
#[derive(Debug)]
pub struct pascaline_handle {
    /// The process that made it: the thread does not survive a fork.
    process: u32,
    pub(crate) rank: u16,
    pub(crate) ranks: u16,
    shared: Arc<Shared>,
    /// Held by the thread that is in a call.
    call: Mutex<Call>,
}

/// The state of the thread that is in a call.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) error: CString,
    pub(crate) report: Report,
    /// Of the operations to come.
    pub(crate) manner: Manner,
    thread: Option<JoinHandle<()>>,
}

/// How an operation is carried out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) hints: Hints,
    /// The type in which sums of `float` travel, if another one.
    pub(crate) wire: Option<Narrow>,
}

#[derive(Debug)]
struct Shared {
    /// Taken for one operation. None if it could not join, or has left.
    worker: Mutex<Option<Worker>>,
    /// If its operations are hidden from the appliance.
    key: Option<Key>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Operations that the thread carries out, in the order of their numbers.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(u64, Operation, Manner)>,
    running: Option<u64>,
    done: BTreeMap<u64, Result<Report, Fault>>,
    /// How many of those have failed with the end of a generation, and have not been waited for yet.
    unreported: usize,
    latest: u64,
    closing: bool,
}

/// A lock whose holder has panicked is still valid: its data is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl pascaline_handle {
    /// Joins. After a failure the handle has the error.
    pub(crate) fn join(told: Result<Told, Fault>) -> (Self, Status) {
        let place = told.as_ref().map_or((0, 0), |told| (told.config.rank, told.config.ranks));
        match told.and_then(Self::member) {
            Ok(member) => (member, Status::PASCALINE_OK),
            Err(fault) => (Self::no_member(place, &fault), fault.status),
        }
    }

    /// The handle of a rank that has joined.
    pub(crate) fn member(told: Told) -> Result<Self, Fault> {
        let Told { config, wire, key } = told;
        let place = (config.rank, config.ranks);
        let shared = Arc::new(Shared::new(Some(Worker::join(config)?), key));
        let thread = Shared::start(&shared)?;
        let manner = Manner { wire, ..Manner::default() };
        Ok(Self::new(place, shared, Call { manner, thread: Some(thread), ..Call::default() }))
    }

    /// The handle of a failed Join: it only has the error.
    pub(crate) fn no_member(place: (u16, u16), fault: &Fault) -> Self {
        let call = Call { error: c_string(fault.text.clone()), ..Call::default() };
        Self::new(place, Arc::new(Shared::new(None, None)), call)
    }

    fn new((rank, ranks): (u16, u16), shared: Arc<Shared>, call: Call) -> Self {
        Self { process: process::id(), rank, ranks, shared, call: Mutex::new(call) }
    }

    /// Makes this thread the one that is in a call.
    pub(crate) fn enter(&self) -> Result<MutexGuard<'_, Call>, Status> {
        if self.process != process::id() {
            return Err(Status::PASCALINE_ERR_STATE);
        }
        match self.call.try_lock() {
            Ok(call) => Ok(call),
            Err(TryLockError::WouldBlock) => Err(Status::PASCALINE_ERR_BUSY),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        }
    }

    /// Carries an operation out in this thread, after those of the handle's thread.
    ///
    /// # Safety
    /// As for [`Operation::run`].
    pub(crate) unsafe fn run(&self, operation: &Operation, manner: Manner) -> Result<Report, Fault> {
        let mut queue = lock(&self.shared.queue);
        // Each of them has a deadline, and no others come.
        while queue.running.is_some() || !queue.waiting.is_empty() {
            queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.check_ends_reported()?;
        drop(queue);
        // SAFETY: this function's contract.
        unsafe { self.shared.run(operation, manner) }
    }

    /// Leaves an operation to the thread. Returns its number.
    ///
    /// # Safety
    /// As for [`Operation::run`], until the request is done.
    pub(crate) unsafe fn submit(&self, operation: Operation, manner: Manner) -> Result<u64, Fault> {
        // If it is locked, there is one, and an operation in progress.
        let gone = match self.shared.worker.try_lock() {
            Ok(worker) => worker.is_none(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().is_none(),
            Err(TryLockError::WouldBlock) => false,
        };
        if gone {
            return Err(of_no_use());
        }
        let mut queue = lock(&self.shared.queue);
        queue.check_ends_reported()?;
        if queue.waiting.len() + queue.done.len() >= MOST_REQUESTS {
            let text = format_args!("{MOST_REQUESTS} requests have not been waited for");
            return Err(Fault::new(Status::PASCALINE_ERR_REQUEST, text));
        }
        queue.latest += 1;
        let number = queue.latest;
        queue.waiting.push_back((number, operation, manner));
        self.shared.changed.notify_all();
        Ok(number)
    }

    /// How an operation has ended, if it has. With `wait`, waits for that.
    pub(crate) fn outcome(&self, number: u64, wait: bool) -> Result<Option<Report>, Fault> {
        let mut queue = lock(&self.shared.queue);
        loop {
            if let Some(outcome) = queue.done.remove(&number) {
                queue.unreported -= usize::from(has_ended(&outcome));
                return outcome.map(Some);
            }
            let known = queue.running == Some(number) || queue.waiting.iter().any(|(of, ..)| *of == number);
            if !known {
                let text = format_args!("the handle has no request {number}, or it was waited for");
                return Err(Fault::new(Status::PASCALINE_ERR_REQUEST, text));
            }
            if !wait {
                return Ok(None);
            }
            queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes the thread leave the job and end, after its remaining operations.
    pub(crate) fn begin_to_close(&self) {
        lock(&self.shared.queue).closing = true;
        self.shared.changed.notify_all();
    }

    /// Ends one that has only joined: it has no result that another rank could lack.
    pub(crate) fn give_up(self) {
        // Dropping a worker reports that to the others.
        drop(lock(&self.shared.worker).take());
        self.begin_to_close();
    }

    /// Waits until it has.
    pub(crate) fn close(&self, call: &mut Call) -> Result<(), Fault> {
        self.begin_to_close();
        let ended = call.thread.take().map_or(Ok(()), JoinHandle::join);
        ended.map_err(|panic| Fault::panicked(&*panic))
    }
}

impl Queue {
    /// An operation of the thread has ended. If a generation has ended, operations begun before its user
    /// could see that fail, too: they would be taken for the first ones of the next generation, and other
    /// ranks may have failed at another one.
    fn end(&mut self, number: u64, outcome: Result<Report, Fault>) {
        self.running = None;
        if has_ended(&outcome) {
            self.unreported += 1 + self.waiting.len();
            self.done.extend(self.waiting.drain(..).map(|(waiting, ..)| (waiting, Err(outdated()))));
        }
        self.done.insert(number, outcome);
    }

    /// No operation begins before all of that was reported to the user.
    fn check_ends_reported(&self) -> Result<(), Fault> {
        if self.unreported == 0 { Ok(()) } else { Err(outdated()) }
    }
}

impl Shared {
    fn new(worker: Option<Worker>, key: Option<Key>) -> Self {
        Self { worker: Mutex::new(worker), key, queue: Mutex::default(), changed: Condvar::new() }
    }

    fn start(shared: &Arc<Self>) -> Result<JoinHandle<()>, Fault> {
        let shared = Arc::clone(shared);
        thread("pascaline", move || shared.serve())
    }

    /// The thread's main loop.
    fn serve(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some((number, operation, manner)) = queue.waiting.pop_front() {
                queue.running = Some(number);
                drop(queue);
                // SAFETY: the submitter promised so until the request is done, which it is not yet.
                let outcome = unsafe { self.run(&operation, manner) };
                queue = lock(&self.queue);
                queue.end(number, outcome);
                self.changed.notify_all();
            } else if queue.closing {
                drop(queue);
                let worker = lock(&self.worker).take();
                worker.map(Worker::leave);
                return;
            } else {
                let waited = self.changed.wait_timeout(queue, TEND);
                let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                queue = again;
                if timeout.timed_out() && queue.waiting.is_empty() {
                    drop(queue);
                    self.tend();
                    queue = lock(&self.queue);
                }
            }
        }
    }

    /// For the pauses between operations; an operation does all this itself.
    fn tend(&self) {
        if let Ok(mut worker) = self.worker.try_lock()
            && let Some(member) = &mut *worker
        {
            let tended = catch_unwind(AssertUnwindSafe(|| member.tend()));
            if tended.is_err() {
                *worker = None;
            }
        }
    }

    /// # Safety
    /// As for [`Operation::run`].
    unsafe fn run(&self, operation: &Operation, manner: Manner) -> Result<Report, Fault> {
        let mut worker = lock(&self.worker);
        let member = worker.as_mut().ok_or_else(of_no_use)?;
        // SAFETY: this function's contract.
        let ran =
            catch_unwind(AssertUnwindSafe(|| unsafe { operation.run(member, manner, self.key.as_ref()) }));
        ran.unwrap_or_else(|panic| {
            // A half-finished state must not be used.
            *worker = None;
            Err(Fault::panicked(&*panic))
        })
    }
}

/// Starts a thread. The program's signals are for its own, and a thread inherits its mask.
pub(crate) fn thread(name: &str, life: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Fault> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let thread = Builder::new().name(name.to_owned()).spawn(life);
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    thread.map_err(|error| {
        Fault::new(Status::PASCALINE_ERR_SYSTEM, format_args!("cannot start a thread: {error}"))
    })
}

fn has_ended(outcome: &Result<Report, Fault>) -> bool {
    outcome.as_ref().is_err_and(|fault| fault.status == Status::PASCALINE_ERR_GENERATION)
}

fn outdated() -> Fault {
    let text = "not begun: a request before it, which is to be waited for, has met the end of the generation";
    Fault::new(Status::PASCALINE_ERR_GENERATION, text)
}

fn of_no_use() -> Fault {
    Fault::new(Status::PASCALINE_ERR_STATE, "the handle could not join, or has met a defect: finalize it")
}

/// Without the bytes that C would take for the end.
pub(crate) fn c_string(text: String) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
