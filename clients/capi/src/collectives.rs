//! The operations that the ranks do together.

use core::ffi::{c_int, c_void};
use core::slice;

use pascaline_wire::DType;
use pascaline_worker::{Op, StartError};

use crate::handle::{Call, pascaline_handle};
use crate::status::{Fault, pascaline_status};
use crate::tensor::{Operation, Tensor, What, narrow, parts};
use crate::{pascaline_request, required, with};

use pascaline_status as Status;

/// Replaces each of `count` elements at `output` by what `op` makes of those at `input` of all ranks. The
/// same pointer twice works in place; otherwise the two must not overlap. All ranks must call it with the
/// same count, `dtype` (a `pascaline_dtype`) and `op` (a `pascaline_op`). Ends with an error at the deadline
/// at the latest; the output is then unspecified.
///
/// # Safety
/// `handle` must be null or a handle, and the buffers hold `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_allreduce(
    handle: *mut pascaline_handle,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
) -> pascaline_status {
    with(handle, |handle, call| {
        // SAFETY: this function's contract.
        let operation = unsafe { prepare(input, output, count, dtype, op) }?;
        // SAFETY: this function's contract.
        unsafe { now(handle, call, operation) }
    })
}

/// Begins an allreduce and returns at once. Neither buffer may be used until `pascaline_wait` or
/// `pascaline_test` has said that the request is done. Operations of a handle are carried out in the order in
/// which they are called.
///
/// # Safety
/// As for `pascaline_allreduce`, until the request is done; `request` must be null or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_iallreduce(
    handle: *mut pascaline_handle,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    request: *mut pascaline_request,
) -> pascaline_status {
    with(handle, |handle, call| {
        let place = required(request, "request")?;
        // SAFETY: this function's contract.
        let operation = unsafe { prepare(input, output, count, dtype, op) }?;
        // SAFETY: this function's contract, and `place` is not null.
        unsafe { place.write(handle.submit(operation, call.manner)?) };
        Ok(())
    })
}

/// As `pascaline_allreduce`, but only the rank `root` gets the result: `output` of the others is not used,
/// and may be null.
///
/// # Safety
/// As for `pascaline_allreduce`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_reduce(
    handle: *mut pascaline_handle,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    root: c_int,
) -> pascaline_status {
    with(handle, |handle, call| {
        let (dtype, op, root) = (dtype_of(dtype)?, op_of(op)?, root_of(root)?);
        let only_read = root != handle.rank;
        let input = Tensor::new(input.cast_mut().cast(), count, dtype)?;
        let tensor = if only_read { input } else { Tensor::new(output.cast(), count, dtype)? };
        // SAFETY: this function's contract; the same place, where this rank only reads.
        unsafe { tensor.fill(&input) }?;
        // SAFETY: this function's contract.
        unsafe { now(handle, call, Operation { tensor, what: What::Reduce { op, root }, only_read }) }
    })
}

/// Replaces the `bytes` bytes at `buffer` of every rank by those of the rank `root`, whose own are only read.
///
/// # Safety
/// `handle` must be null or a handle, and the buffer hold as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_broadcast(
    handle: *mut pascaline_handle,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
) -> pascaline_status {
    with(handle, |handle, call| {
        let (tensor, root) = (Tensor::of_bytes(buffer.cast(), bytes)?, root_of(root)?);
        let only_read = root == handle.rank;
        // SAFETY: this function's contract.
        unsafe { now(handle, call, Operation { tensor, what: What::Broadcast { root }, only_read }) }
    })
}

/// Returns once every rank has called it. One round trip.
///
/// # Safety
/// `handle` must be null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_barrier(handle: *mut pascaline_handle) -> pascaline_status {
    with(handle, |handle, call| {
        // SAFETY: there is no memory.
        unsafe { now(handle, call, Operation::new(Tensor::NONE, What::Barrier)) }
    })
}

/// Replaces this rank's part of the `count` elements at `tensor` by what `op` makes of that part of the
/// tensors of all ranks; the rest stays as it is. The parts follow each other in the order of ranks: `counts`
/// has the elements of each rank's, or is null for even ones. `pascaline_part` says where a part is.
///
/// # Safety
/// `handle` must be null or a handle, the buffer hold `count` elements, and `counts` be null or hold as many
/// numbers as the job has ranks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_reduce_scatter(
    handle: *mut pascaline_handle,
    tensor: *mut c_void,
    count: usize,
    counts: *const usize,
    dtype: c_int,
    op: c_int,
) -> pascaline_status {
    with(handle, |handle, call| {
        let (tensor, op) = (Tensor::new(tensor.cast(), count, dtype_of(dtype)?)?, op_of(op)?);
        // SAFETY: this function's contract.
        let counts = unsafe { counts_of(handle, counts) };
        // SAFETY: this function's contract.
        unsafe { now(handle, call, Operation::new(tensor, What::ReduceScatter(op, counts))) }
    })
}

/// Replaces every part of the `count` elements at `tensor` by that of the rank whose part it is. The parts
/// are those of `pascaline_reduce_scatter`.
///
/// # Safety
/// As for `pascaline_reduce_scatter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_allgather(
    handle: *mut pascaline_handle,
    tensor: *mut c_void,
    count: usize,
    counts: *const usize,
    dtype: c_int,
) -> pascaline_status {
    with(handle, |handle, call| {
        let tensor = Tensor::new(tensor.cast(), count, dtype_of(dtype)?)?;
        // SAFETY: this function's contract.
        let counts = unsafe { counts_of(handle, counts) };
        // SAFETY: this function's contract.
        unsafe { now(handle, call, Operation::new(tensor, What::Allgather(counts))) }
    })
}

/// Where this rank's part of `count` elements is: `*first` is its first element, `*length` how many it has.
///
/// # Safety
/// `handle` must be null or a handle, `counts` as for `pascaline_reduce_scatter`, and the others null or
/// places for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_part(
    handle: *mut pascaline_handle,
    count: usize,
    counts: *const usize,
    first: *mut usize,
    length: *mut usize,
) -> pascaline_status {
    with(handle, |handle, _| {
        let (first, length) = (required(first, "first")?, required(length, "length")?);
        // SAFETY: this function's contract.
        let counts = unsafe { counts_of(handle, counts) };
        let wrong = |error: StartError| Fault::new(Status::PASCALINE_ERR_ARGUMENT, error);
        let part = parts(&counts).of(handle.rank, handle.ranks, count).map_err(wrong)?;
        // SAFETY: not null, and places by this function's contract.
        unsafe {
            first.write(part.start);
            length.write(part.len());
        }
        Ok(())
    })
}

/// What `float` elements travel as from now on in the handle's operations that add: as `dtype`, one of
/// PASCALINE_F16, PASCALINE_BF16, PASCALINE_MXFP8 and PASCALINE_MXINT8, in half or a quarter of the bytes and
/// rounded, or as they are with PASCALINE_F32, as in the beginning. All ranks must say the same. Sums and
/// means are rounded so in pascaline_allreduce, pascaline_iallreduce, pascaline_reduce and
/// pascaline_reduce_scatter, whose parts must be whole blocks of 32 for the MX types; nothing else changes.
///
/// # Safety
/// `handle` must be null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_set_wire(handle: *mut pascaline_handle, dtype: c_int) -> pascaline_status {
    with(handle, |_, call| {
        call.manner.wire = narrow(dtype_of(dtype)?)?;
        Ok(())
    })
}

/// Carries an operation out, and notes what it was like.
///
/// # Safety
/// As for [`Operation::run`].
unsafe fn now(handle: &pascaline_handle, call: &mut Call, operation: Operation) -> Result<(), Fault> {
    // SAFETY: this function's contract.
    call.report = unsafe { handle.run(&operation, call.manner) }?;
    Ok(())
}

fn dtype_of(code: c_int) -> Result<DType, Fault> {
    let known = u8::try_from(code).ok().and_then(DType::from_code);
    known.ok_or_else(|| unsupported("element type", code))
}

fn op_of(code: c_int) -> Result<Op, Fault> {
    let known = u8::try_from(code).ok().and_then(Op::from_code);
    known.ok_or_else(|| unsupported("operation", code))
}

fn unsupported(what: &str, code: c_int) -> Fault {
    Fault::new(Status::PASCALINE_ERR_UNSUPPORTED, format_args!("there is no {what} {code}"))
}

fn root_of(root: c_int) -> Result<u16, Fault> {
    let text = format_args!("root {root}: ranks are counted from 0");
    u16::try_from(root).map_err(|_| Fault::new(Status::PASCALINE_ERR_ARGUMENT, text))
}

/// # Safety
/// `counts` must be null or hold as many numbers as the job has ranks.
unsafe fn counts_of(handle: &pascaline_handle, counts: *const usize) -> Option<Vec<usize>> {
    // SAFETY: not null, and of that length by this function's contract.
    (!counts.is_null()).then(|| unsafe { slice::from_raw_parts(counts, handle.ranks.into()) }.to_vec())
}

/// Checks the arguments of an allreduce, and brings the input to where the output will be.
///
/// # Safety
/// As for `pascaline_allreduce`.
unsafe fn prepare(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
) -> Result<Operation, Fault> {
    let (dtype, op) = (dtype_of(dtype)?, op_of(op)?);
    let tensor = Tensor::new(output.cast(), count, dtype)?;
    let from = Tensor::new(input.cast_mut().cast(), count, dtype)?;
    // SAFETY: this function's contract.
    unsafe { tensor.fill(&from) }?;
    Ok(Operation::new(tensor, What::Allreduce(op)))
}
