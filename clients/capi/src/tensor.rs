//! Memory of the caller, and operations on it.

use core::slice;

use pascaline_wire::DType;
use pascaline_worker::masked::Key;
use pascaline_worker::{Collective, Narrow, Op, Parts, Report, Worker};

use crate::handle::Manner;
use crate::status::{Fault, pascaline_status as Status};
use crate::url::NO_WIRE;

/// Elements that lie in the caller's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tensor {
    at: *mut u8,
    bytes: usize,
    dtype: DType,
}

// SAFETY: the memory is the caller's, who promises for each call that no other thread uses it until the
// operation has ended, whichever thread runs it.
unsafe impl Send for Tensor {}

impl Tensor {
    /// The tensor of a barrier.
    pub(crate) const NONE: Self = Self { at: core::ptr::null_mut(), bytes: 0, dtype: DType::I32 };

    /// Checks a pointer as far as possible.
    pub(crate) fn new(at: *mut u8, count: usize, dtype: DType) -> Result<Self, Fault> {
        let bytes = count.checked_mul(dtype.size()).filter(|&bytes| isize::try_from(bytes).is_ok());
        let Some(bytes) = bytes else {
            let text = format_args!("{count} elements of {dtype} have no place in memory");
            return Err(Fault::new(Status::PASCALINE_ERR_COUNT, text));
        };
        if bytes > 0 && at.is_null() {
            return Err(Fault::new(Status::PASCALINE_ERR_NULL, "the buffer is null, and the count is not 0"));
        }
        Ok(Self { at, bytes, dtype })
    }

    /// Bytes without a type.
    pub(crate) fn of_bytes(at: *mut u8, bytes: usize) -> Result<Self, Fault> {
        // Their exact length, which only a broadcast accepts.
        Ok(Self { bytes, ..Self::new(at, bytes.div_ceil(4), DType::I32)? })
    }

    /// Copies the bytes of another place into this one; nothing if it is the same place.
    ///
    /// # Safety
    /// As many bytes must be readable at `from` as are writable here.
    pub(crate) unsafe fn fill(&self, from: &Self) -> Result<(), Fault> {
        if from.at == self.at || self.bytes == 0 {
            return Ok(());
        }
        if (from.at as usize).abs_diff(self.at as usize) < self.bytes {
            let text = "input and output overlap; in place means that they are the same";
            return Err(Fault::new(Status::PASCALINE_ERR_ARGUMENT, text));
        }
        // SAFETY: readable and writable by this function's contract, and just seen not to overlap.
        unsafe { self.at.copy_from_nonoverlapping(from.at, self.bytes) };
        Ok(())
    }

    /// The memory itself, or a copy if it is only read: others may read it meanwhile, or it may not be
    /// writable.
    ///
    /// # Safety It must be readable, and writable unless it is only read, and no other thread may use it
    /// while the slice lives. Any bytes must be a `T`.
    unsafe fn lent<T: Copy>(self, only_read: bool, copy: &mut Vec<T>) -> Result<&mut [T], Fault> {
        let (at, count) = (self.at.cast::<T>(), self.bytes / size_of::<T>());
        if count == 0 {
            return Ok(&mut []);
        }
        if !at.is_aligned() {
            let text = format_args!("the buffer is not at a multiple of {} bytes", align_of::<T>());
            return Err(Fault::new(Status::PASCALINE_ERR_ARGUMENT, text));
        }
        if only_read {
            // SAFETY: not null, no longer than isize::MAX, as `new` has seen, and aligned; the rest is the
            // contract.
            copy.extend_from_slice(unsafe { slice::from_raw_parts(at, count) });
            return Ok(copy);
        }
        // SAFETY: as above.
        Ok(unsafe { slice::from_raw_parts_mut(at, count) })
    }
}

/// The narrower type for `float` elements that travel as this type; `None` if they travel as they are.
pub(crate) fn narrow(dtype: DType) -> Result<Option<Narrow>, Fault> {
    let narrow = Narrow::of(dtype);
    if narrow.is_none() && dtype != DType::F32 {
        let text = format_args!("float does not travel as {dtype}");
        return Err(Fault::new(Status::PASCALINE_ERR_UNSUPPORTED, text));
    }
    Ok(narrow)
}

/// An operation of all ranks, with its arguments.
#[derive(Debug)]
pub(crate) enum What {
    Allreduce(Op),
    Reduce { op: Op, root: u16 },
    Broadcast { root: u16 },
    Barrier,
    ReduceScatter(Op, Option<Vec<usize>>),
    Allgather(Option<Vec<usize>>),
}

/// The parts of the ranks: even ones without counts.
pub(crate) fn parts(counts: &Option<Vec<usize>>) -> Parts<'_> {
    counts.as_deref().map_or(Parts::Even, Parts::Counts)
}

/// One operation on a tensor.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) tensor: Tensor,
    pub(crate) what: What,
    /// This rank's tensor is only read: it is not the root of a reduce, or it is the root of a broadcast.
    pub(crate) only_read: bool,
}

impl Operation {
    /// One whose tensor is written, too.
    pub(crate) const fn new(tensor: Tensor, what: What) -> Self {
        Self { tensor, what, only_read: false }
    }

    /// Carries it out.
    ///
    /// # Safety The tensor's memory must be readable, and writable unless it is only read, and no other
    /// thread may use it meanwhile.
    pub(crate) unsafe fn run(
        &self,
        worker: &mut Worker,
        manner: Manner,
        key: Option<&Key>,
    ) -> Result<Report, Fault> {
        let Manner { hints, wire } = manner;
        let collective = match &self.what {
            What::Allreduce(op) => Collective::Allreduce(*op),
            &What::Reduce { op, root } => Collective::Reduce { op, root },
            &What::Broadcast { root } => Collective::Broadcast { root },
            What::Barrier => Collective::Barrier,
            What::ReduceScatter(op, counts) => Collective::ReduceScatter { op: *op, parts: parts(counts) },
            What::Allgather(counts) => Collective::Allgather { parts: parts(counts) },
        };
        if let Some(narrow) = wire.filter(|_| self.adds_floats()) {
            if key.is_some() {
                return Err(Fault::new(Status::PASCALINE_ERR_UNSUPPORTED, NO_WIRE));
            }
            let mut copy = Vec::<f32>::new();
            // SAFETY: this function's contract.
            let tensor = unsafe { self.tensor.lent(self.only_read, &mut copy) }?;
            return Ok(worker.collective_narrow(&collective, tensor, narrow, hints)?);
        }
        let mut copy = Vec::<u8>::new();
        // SAFETY: this function's contract.
        let tensor = unsafe { self.tensor.lent(self.only_read, &mut copy) }?;
        let dtype = self.tensor.dtype;
        Ok(match key {
            Some(key) => worker.collective_masked(key, &collective, (dtype, tensor), hints)?,
            None => worker.collective(&collective, dtype, tensor, hints)?,
        })
    }

    fn adds_floats(&self) -> bool {
        let adds = match &self.what {
            What::Allreduce(op) | What::Reduce { op, .. } | What::ReduceScatter(op, _) => op.adds(),
            What::Broadcast { .. } | What::Barrier | What::Allgather(_) => false,
        };
        adds && self.tensor.dtype == DType::F32
    }
}
