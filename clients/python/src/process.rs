//! Threads: waiting for one without Python's lock, and the process that has them.

use std::cell::RefCell;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;

use pascaline_worker::Interrupt;
use pyo3::prelude::*;

use crate::errors::Fault;
use crate::operation::LOOK;

/// Runs a slow function on a thread of its own, and waits for the end. Ctrl-C ends the wait; the function
/// continues, and its result is dropped.
pub(crate) fn apart<T: Send + 'static>(
    py: Python<'_>,
    act: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, mut outcome) = channel();
    // The caller may have gone.
    Builder::new().name("pascaline-waits".to_owned()).spawn(move || drop(done.send(act())))?;
    loop {
        let waiting = &mut outcome;
        match py.detach(move || waiting.recv_timeout(LOOK)) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Fault::closed().raise(py)),
        }
    }
}

thread_local! {
    /// The exception that Ctrl-C has raised while this thread joined.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Makes joining check for Ctrl-C.
pub(crate) const INTERRUPT: Interrupt = Interrupt(|| {
    let Some(Err(error)) = Python::try_attach(|py| py.check_signals()) else { return false };
    RAISED.set(Some(error));
    true
});

/// Joins, with [`INTERRUPT`], and without Python's lock.
pub(crate) fn joined<T: Send>(py: Python<'_>, join: impl FnOnce() -> T + Send) -> PyResult<T> {
    let joined = py.detach(join);
    RAISED.take().map_or(Ok(joined), Err)
}

/// The process that made an object. A forked child does not have its threads, and the sockets are those of
/// the parent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn new() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn is_here(self) -> bool {
        self.0 == std::process::id()
    }

    /// An error in any other process.
    pub(crate) fn check(self) -> Result<(), Fault> {
        if self.is_here() { Ok(()) } else { Err(Fault::forked()) }
    }
}
