//! Memory of the caller, and what is done with it.

use core::slice;

use pascaline_wire::DType;
use pascaline_worker::{Hints, Op, Report, Worker, with_element};

use crate::status::{Fault, pascaline_status as Status};

/// Elements that lie in the caller's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tensor {
    at: *mut u8,
    count: usize,
    dtype: DType,
}

// SAFETY: the memory is the caller's, who promises of each call that nobody else uses it until the operation
// has ended, whichever thread carries it out.
unsafe impl Send for Tensor {}

impl Tensor {
    /// Checks what can be checked of a pointer.
    pub(crate) fn new(at: *mut u8, count: usize, dtype: DType) -> Result<Self, Fault> {
        let bytes = count.checked_mul(dtype.size()).filter(|&bytes| isize::try_from(bytes).is_ok());
        if bytes.is_none() {
            let text = format_args!("{count} elements of {dtype} have no place in memory");
            return Err(Fault::new(Status::PASCALINE_ERR_COUNT, text));
        }
        if count > 0 && at.is_null() {
            return Err(Fault::new(Status::PASCALINE_ERR_NULL, "the buffer is null, and the count is not 0"));
        }
        if !(at as usize).is_multiple_of(dtype.size()) {
            let text = format_args!("the buffer at {at:p} is not aligned for {dtype}");
            return Err(Fault::new(Status::PASCALINE_ERR_ARGUMENT, text));
        }
        Ok(Self { at, count, dtype })
    }

    const fn bytes(&self) -> usize {
        self.count * self.dtype.size()
    }

    /// Copies what lies in another place into this one; nothing if it is the same place.
    ///
    /// # Safety
    /// As many elements of the same type must be readable at `from` as are writable here.
    pub(crate) unsafe fn fill(&self, from: &Self) -> Result<(), Fault> {
        if from.at == self.at || self.count == 0 {
            return Ok(());
        }
        if (from.at as usize).abs_diff(self.at as usize) < self.bytes() {
            let text = "input and output overlap; in place means that they are the same";
            return Err(Fault::new(Status::PASCALINE_ERR_ARGUMENT, text));
        }
        // SAFETY: readable and writable by this function's contract, and just seen not to overlap.
        unsafe { self.at.copy_from_nonoverlapping(from.at, self.bytes()) };
        Ok(())
    }
}

/// One operation on a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) tensor: Tensor,
    pub(crate) op: Op,
}

impl Operation {
    /// Carries it out.
    ///
    /// # Safety
    /// The tensor's memory must be readable and writable, and nobody else may use it meanwhile.
    pub(crate) unsafe fn run(&self, worker: &mut Worker) -> Result<Report, Fault> {
        let Self { tensor: Tensor { at, count, dtype }, op } = *self;
        with_element!(dtype, T => {
            let elements: &mut [T] = if count == 0 {
                &mut []
            } else {
                // SAFETY: not null, aligned and of a length below isize::MAX, as `Tensor::new` has seen;
                // every pattern of bits is an element; the rest is this function's contract.
                unsafe { slice::from_raw_parts_mut(at.cast::<T>(), count) }
            };
            Ok(worker.allreduce_with(elements, op, Hints::default())?)
        })
    }
}
