//! One operation: its arguments, and its outcome.

use core::time::Duration;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pascaline_wire::DType;
use pascaline_worker::masked::Key;
use pascaline_worker::{Collective, Feedback, Hints, Narrow, Op, Parts, Sealed, Submitted, Worker};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;

use crate::errors::{Fault, wrong};
use crate::memory::Memory;
use crate::process::Home;
use crate::report::Report;

/// How often a waiting thread checks for signals, such as Ctrl-C.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// A lock whose holder has panicked is still valid: its data is consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of seconds from Python.
pub(crate) fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    let told = || wrong(format_args!("{name}={value}: seconds, not negative"));
    Duration::try_from_secs_f64(value).map_err(|_| told())
}

/// The arguments of an operation, from Python.
#[derive(Debug, FromPyObject)]
pub(crate) struct Wish {
    collective: String,
    dtype: String,
    op: String,
    root: u16,
    counts: Option<Vec<usize>>,
    layer: u32,
    layers: u32,
    wire: Option<String>,
    feedback: Option<Py<Kept>>,
    timeout: Option<f64>,
}

/// The rounding errors of a tensor, from call to call.
#[pyclass(frozen, name = "Feedback", module = "pascaline")]
#[derive(Debug, Default)]
pub(crate) struct Kept(Arc<Mutex<Feedback>>);

#[pymethods]
impl Kept {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Elements of the tensor; none before the first call has ended.
    fn __len__(&self, py: Python<'_>) -> usize {
        // An operation that uses it locks it until its end.
        py.detach(|| lock(&self.0).kept().len())
    }
}

/// An operation, checked.
#[derive(Debug)]
pub(crate) struct Operation {
    collective: Collective<'static>,
    counts: Option<Vec<usize>>,
    dtype: DType,
    narrow: Option<Narrow>,
    feedback: Option<Arc<Mutex<Feedback>>>,
    hints: Hints,
    deadline: Option<Duration>,
    memory: Memory,
}

impl Operation {
    pub(crate) fn new(wish: Wish, memory: Memory) -> PyResult<Self> {
        let op = match wish.op.as_str() {
            "sum" => Op::Sum,
            "min" => Op::Min,
            "max" => Op::Max,
            "mean" => Op::Mean,
            other => return Err(wrong(format_args!("op={other:?}: there are sum, min, max and mean"))),
        };
        let root = wish.root;
        let collective = match wish.collective.as_str() {
            "allreduce" => Collective::Allreduce(op),
            "reduce" => Collective::Reduce { op, root },
            "broadcast" => Collective::Broadcast { root },
            "barrier" => Collective::Barrier,
            "reduce_scatter" => Collective::ReduceScatter { op, parts: Parts::Even },
            "allgather" => Collective::Allgather { parts: Parts::Even },
            other => return Err(wrong(format_args!("there is no collective {other:?}"))),
        };
        let dtype = match wish.dtype.as_str() {
            "float32" => DType::F32,
            "float64" => DType::F64,
            "int32" => DType::I32,
            "uint32" => DType::U32,
            "float16" => DType::F16,
            "bfloat16" => DType::Bf16,
            other => return Err(wrong(format_args!("elements of {other} do not travel"))),
        };
        let narrow = wish.wire.as_deref().map(|wire| narrow(wire, dtype)).transpose()?;
        if wish.feedback.is_some() && narrow.is_none() {
            return Err(wrong("feedback is of what rounding leaves: say wire=... as well"));
        }
        let feedback = wish.feedback.map(|kept| Arc::clone(&kept.get().0));
        let hints = Hints { layer: wish.layer, layers: wish.layers, remaining: None };
        let deadline = wish.timeout.map(|value| seconds("timeout", value)).transpose()?;
        Ok(Self { collective, counts: wish.counts, dtype, narrow, feedback, hints, deadline, memory })
    }

    /// Whether elements travel as a smaller type.
    pub(crate) const fn is_narrow(&self) -> bool {
        self.narrow.is_some()
    }

    /// Carries it out, hidden from the appliance if there is a key.
    pub(crate) fn run(mut self, worker: &mut Worker, key: Option<&Key>) -> Outcome {
        let usual = self.deadline.map(|deadline| worker.set_deadline(deadline));
        let outcome = self.carry_out(worker, key);
        if let Some(usual) = usual {
            worker.set_deadline(usual);
        }
        outcome
    }

    fn carry_out(&mut self, worker: &mut Worker, key: Option<&Key>) -> Outcome {
        let parts = self.counts.as_deref().map_or(Parts::Even, Parts::Counts);
        let collective = match self.collective {
            Collective::ReduceScatter { op, .. } => Collective::ReduceScatter { op, parts },
            Collective::Allgather { .. } => Collective::Allgather { parts },
            other => other,
        };
        let report = match (self.narrow, key) {
            (None, Some(key)) => {
                let tensor = (self.dtype, self.memory.bytes());
                worker.collective_masked(key, &collective, tensor, self.hints)?
            }
            (None, None) => worker.collective(&collective, self.dtype, self.memory.bytes(), self.hints)?,
            (Some(narrow), _) => {
                let floats = self.memory.floats().ok_or_else(Fault::misaligned)?;
                let mut kept = self.feedback.as_deref().map(lock);
                let narrowing = kept.as_deref_mut().map_or(narrow.into(), |kept| narrow.with(kept));
                worker.collective_narrow(&collective, floats, narrowing, self.hints)?
            }
        };
        Ok(Report::from(&report))
    }
}

/// The type in which float32 travels.
fn narrow(wire: &str, dtype: DType) -> PyResult<Narrow> {
    match wire {
        "float16" if dtype == DType::F32 => Ok(Narrow::F16),
        "bfloat16" if dtype == DType::F32 => Ok(Narrow::Bf16),
        "mxfp8" if dtype == DType::F32 => Ok(Narrow::MxFp8),
        "mxint8" if dtype == DType::F32 => Ok(Narrow::MxInt8),
        other => {
            let known = "float32 travels as float16, bfloat16, mxfp8 or mxint8, and nothing else does";
            Err(wrong(format_args!("wire={other:?}: {known}")))
        }
    }
}

/// The outcome of an operation.
pub(crate) type Outcome = Result<Report, Fault>;

/// An operation in flight.
#[pyclass(frozen, module = "pascaline")]
#[derive(Debug)]
pub(crate) struct Pending {
    home: Home,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Running(Submitted<Outcome>),
    Ended(Sealed<Outcome>),
    /// The worker has left, or its thread has panicked.
    Closed,
}

impl Pending {
    /// For a worker that may have left.
    pub(crate) fn new(home: Home, outcome: Option<Submitted<Outcome>>) -> Self {
        Self { home, state: Mutex::new(outcome.map_or(State::Closed, State::Running)) }
    }

    /// Waits for a while. False if it has not ended by then.
    fn has_ended(&self, patience: Duration) -> bool {
        if self.home.check().is_err() {
            return true;
        }
        let mut state = lock(&self.state);
        let State::Running(submitted) = &*state else { return true };
        let looked = if patience.is_zero() {
            submitted.look().map_err(|error| error == TryRecvError::Empty)
        } else {
            submitted.look_for(patience).map_err(|error| error == RecvTimeoutError::Timeout)
        };
        *state = match looked {
            Ok(ended) => State::Ended(ended),
            Err(true) => return false,
            Err(false) => State::Closed,
        };
        true
    }

    /// Its outcome, once it has ended.
    fn outcome(&self) -> Outcome {
        self.home.check()?;
        match &*lock(&self.state) {
            State::Ended(ended) => ended.open().clone(),
            State::Running(_) | State::Closed => Err(Fault::closed()),
        }
    }
}

#[pymethods]
impl Pending {
    /// Whether it has ended, well or not.
    fn done(&self, py: Python<'_>) -> bool {
        py.detach(|| self.has_ended(Duration::ZERO))
    }

    /// Waits for the end and returns the report, or raises the error. With a timeout, in seconds, raises
    /// TimeoutError if it has not ended by then; the operation continues.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Report> {
        let patience = timeout.map(|value| seconds("timeout", value)).transpose()?;
        let begun = Instant::now();
        loop {
            let left = patience.map(|patience| patience.saturating_sub(begun.elapsed()));
            let slice = left.map_or(LOOK, |left| left.min(LOOK));
            if py.detach(|| self.has_ended(slice)) {
                return self.outcome().map_err(|fault| fault.raise(py));
            }
            py.check_signals()?;
            if left.is_some_and(|left| left.is_zero()) {
                let text = "the operation has not ended by then; it goes on";
                return Err(PyTimeoutError::new_err(text));
            }
        }
    }
}
