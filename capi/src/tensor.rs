//! Memory of the caller, and what is done with it.

use core::slice;

use pascaline_wire::DType;
use pascaline_worker::{Collective, Hints, Op, Parts, Report, Worker};

use crate::status::{Fault, pascaline_status as Status};

/// Elements that lie in the caller's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tensor {
    at: *mut u8,
    bytes: usize,
    dtype: DType,
}

// SAFETY: the memory is the caller's, who promises of each call that nobody else uses it until the operation
// has ended, whichever thread carries it out.
unsafe impl Send for Tensor {}

impl Tensor {
    /// What a barrier takes.
    pub(crate) const NONE: Self = Self { at: core::ptr::null_mut(), bytes: 0, dtype: DType::I32 };

    /// Checks what can be checked of a pointer.
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

    /// So many bytes, whatever they mean.
    pub(crate) fn of_bytes(at: *mut u8, bytes: usize) -> Result<Self, Fault> {
        // No shorter than they are, which only a broadcast takes.
        Ok(Self { bytes, ..Self::new(at, bytes.div_ceil(4), DType::I32)? })
    }

    /// Copies what lies in another place into this one; nothing if it is the same place.
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

    /// The bytes as they lie there.
    ///
    /// # Safety
    /// They must be readable and writable, and nobody else may use them while the slice lives.
    unsafe fn bytes<'a>(self) -> &'a mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: not null, and no longer than isize::MAX, as `new` has seen; the rest is the contract.
        unsafe { slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

/// What the ranks do together, with what it has to remember.
#[derive(Debug)]
pub(crate) enum What {
    Allreduce(Op),
    Reduce {
        op: Op,
        root: u16,
        /// This rank is not the root: its tensor is read, and never written.
        reads: bool,
    },
    Broadcast(u16),
    Barrier,
    ReduceScatter(Op, Option<Vec<usize>>),
    Allgather(Option<Vec<usize>>),
}

/// Whose part is where: even parts if there are no counts.
pub(crate) fn parts(counts: &Option<Vec<usize>>) -> Parts<'_> {
    counts.as_deref().map_or(Parts::Even, Parts::Counts)
}

/// One operation on a tensor.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) tensor: Tensor,
    pub(crate) what: What,
}

impl Operation {
    /// Carries it out.
    ///
    /// # Safety
    /// The tensor's memory must be readable, and writable unless it is only read, and nobody else may use it
    /// meanwhile.
    pub(crate) unsafe fn run(&self, worker: &mut Worker, hints: Hints) -> Result<Report, Fault> {
        let collective = match &self.what {
            What::Allreduce(op) => Collective::Allreduce(*op),
            &What::Reduce { op, root, .. } => Collective::Reduce { op, root },
            What::Broadcast(root) => Collective::Broadcast { root: *root },
            What::Barrier => Collective::Barrier,
            What::ReduceScatter(op, counts) => Collective::ReduceScatter { op: *op, parts: parts(counts) },
            What::Allgather(counts) => Collective::Allgather { parts: parts(counts) },
        };
        let Tensor { at, bytes, dtype } = self.tensor;
        let mut copy = Vec::new();
        let tensor = if matches!(self.what, What::Reduce { reads: true, .. }) && bytes > 0 {
            // The caller's memory may be read by others meanwhile, or not be writable at all.
            // SAFETY: as in `bytes`, but that it is only read.
            copy.extend_from_slice(unsafe { slice::from_raw_parts(at, bytes) });
            &mut copy[..]
        } else {
            // SAFETY: this function's contract.
            unsafe { self.tensor.bytes() }
        };
        Ok(worker.collective(&collective, dtype, tensor, hints)?)
    }
}
