//! Threads of DPDK, one per configured core.

use core::any::Any;
use core::ffi::{c_int, c_void};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pascaline_dpdk_sys as sys;

use crate::eal::EalInner;
use crate::error::Errno;

/// The lcore the calling thread is; `None` on threads DPDK does not know.
#[must_use]
pub fn current() -> Option<u32> {
    // SAFETY: reads a thread-local variable.
    let id = unsafe { sys::psc_lcore_id() };
    (id < sys::PSC_MAX_LCORES).then_some(id)
}

/// A thread of DPDK that waits for a job.
#[derive(Debug)]
pub struct Lcore {
    id: u32,
    core: usize,
    eal: Arc<EalInner>,
}

/// Why a job was not started.
#[expect(missing_docs, reason = "the message says what each field is")]
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// It has not finished the job before.
    #[error("lcore {lcore} is still at work")]
    Busy { lcore: u32 },
    /// DPDK refused.
    #[error("lcore {lcore} could not be started: {errno}")]
    Refused { lcore: u32, errno: Errno },
}

/// A job that ended in a panic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the job of lcore {lcore} panicked: {message}")]
pub struct LcorePanic {
    /// The lcore.
    pub lcore: u32,
    /// The panic's message, if it was text.
    pub message: String,
}

type Job = Box<dyn FnOnce() + Send>;

impl Lcore {
    pub(crate) fn new(id: u32, core: usize, eal: Arc<EalInner>) -> Self {
        Self { id, core, eal }
    }

    /// Its number: 1 for the first dataplane lcore.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The CPU that was configured for it.
    #[must_use]
    pub fn core(&self) -> usize {
        self.core
    }

    /// Runs `job` on this lcore, once.
    ///
    /// A panic in it ends the job only and is reported by [`LcoreHandle::join`].
    ///
    /// # Errors
    /// If the lcore is at work. The job is dropped then.
    pub fn launch<T, F>(&self, job: F) -> Result<LcoreHandle<T>, LaunchError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let lcore = self.id;
        let index = lcore as usize;
        let busy = &self.eal.busy[index];
        // Acquire: the previous job's writes are visible to the next.
        if busy.swap(true, Ordering::Acquire) {
            return Err(LaunchError::Busy { lcore });
        }
        let slot = Arc::new(Slot::default());
        // The job holds the flags only, not the environment: otherwise it might shut that down as its last
        // act.
        let (flags, result) = (self.eal.busy.clone(), slot.clone());
        let whole: Job = Box::new(move || {
            let outcome = panic::catch_unwind(AssertUnwindSafe(job))
                .map_err(|payload| LcorePanic { lcore, message: text_of(payload) });
            // Release: the job's work, and the packets it gave back, come before. See `EalInner::is_quiet`.
            result.deliver(outcome, || flags[index].store(false, Ordering::Release));
        });

        let argument = Box::into_raw(Box::new(whole)).cast::<c_void>();
        // SAFETY: the lcore exists, being one of `Eal::lcores`; the flag set above makes this the only thread
        // that talks to it. The job before has cleared that flag as its last act, so this waits for a few
        // instructions.
        unsafe { sys::rte_eal_wait_lcore(lcore) };
        // SAFETY: as above; `run` takes the argument back exactly once, on the lcore.
        let refused = unsafe { sys::rte_eal_remote_launch(Some(run), argument, lcore) };
        if refused != 0 {
            // SAFETY: a job that was refused is not run, so the box is still ours.
            drop(unsafe { Box::from_raw(argument.cast::<Job>()) });
            busy.store(false, Ordering::Release);
            return Err(LaunchError::Refused { lcore, errno: Errno::from_return(refused) });
        }
        Ok(LcoreHandle { lcore, slot })
    }
}

extern "C" fn run(argument: *mut c_void) -> c_int {
    // SAFETY: `launch` passes a leaked box of `Job` and DPDK calls this once for it.
    let job = unsafe { Box::from_raw(argument.cast::<Job>()) };
    job();
    0
}

fn text_of(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap_or_else(|_| Box::new("(no text)"))).to_owned(),
    }
}

/// Holds the job's result for the joiner.
struct Slot<T> {
    state: Mutex<State<T>>,
    delivered: Condvar,
}

enum State<T> {
    Running,
    Done(Result<T, LcorePanic>),
    /// The result will not be asked for.
    Abandoned,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State::Running), delivered: Condvar::new() }
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the result, or drops it if unwanted. `leave` runs before the joiner can see the result, so the
    /// joiner finds the lcore free.
    fn deliver(&self, outcome: Result<T, LcorePanic>, leave: impl FnOnce()) {
        let mut state = self.lock();
        if matches!(*state, State::Abandoned) {
            drop(state);
            drop(outcome);
            leave();
        } else {
            *state = State::Done(outcome);
            leave();
            self.delivered.notify_all();
        }
    }
}

/// A running job. Dropping it lets the job continue unobserved.
#[must_use = "a job whose handle is dropped runs on unobserved"]
pub struct LcoreHandle<T> {
    lcore: u32,
    slot: Arc<Slot<T>>,
}

impl<T> LcoreHandle<T> {
    /// The lcore it runs on.
    #[must_use]
    pub fn lcore(&self) -> u32 {
        self.lcore
    }

    /// True once `join` would not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(*self.slot.lock(), State::Done(_))
    }

    /// Waits, asleep, for the job to end.
    ///
    /// # Errors
    /// If the job panicked.
    pub fn join(self) -> Result<T, LcorePanic> {
        let mut state = self.slot.lock();
        loop {
            match core::mem::replace(&mut *state, State::Running) {
                State::Done(outcome) => return outcome,
                other => *state = other,
            }
            state = self.slot.delivered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for LcoreHandle<T> {
    fn drop(&mut self) {
        let left = core::mem::replace(&mut *self.slot.lock(), State::Abandoned);
        // Outside the lock: the result's destructor is the caller's code.
        drop(left);
    }
}

impl<T> fmt::Debug for LcoreHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LcoreHandle(lcore {}, finished: {})", self.lcore, self.is_finished())
    }
}
