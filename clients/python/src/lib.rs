//! The module `pascaline._core`: one rank of a job as a Python object, without the conveniences of
//! `clients/python/pascaline`.
//!
//! A worker has a thread that carries out one operation after the other; Python waits without its lock. An
//! operation uses the caller's memory, by the buffer protocol: nothing is copied.
#![deny(unsafe_code)]

use pyo3::prelude::*;

mod asynchronous;
mod errors;
mod memory;
mod operation;
mod process;
mod report;
mod worker;

/// The worker of one rank.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<worker::Core>()?;
    module.add_class::<asynchronous::AsyncCore>()?;
    module.add_class::<operation::Kept>()?;
    module.add_class::<operation::Pending>()?;
    module.add_class::<report::Report>()?;
    module.add_function(wrap_pyfunction!(worker::join_streams, module)?)?;
    module.add_function(wrap_pyfunction!(worker::leave_streams, module)?)
}
