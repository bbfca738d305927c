//! Memory of Python objects.
#![allow(unsafe_code, reason = "Python lends its memory by pointers")]

use core::slice;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use zerocopy::FromBytes as _;

/// The bytes of an array. It keeps them where they are for as long as it lives.
#[derive(Debug)]
pub(crate) struct Memory(Option<PyBuffer<u8>>);

impl Memory {
    /// Of an object that lends bytes in one piece, to read and to write; of none, none.
    pub(crate) fn of(object: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(object) = object else { return Ok(Self(None)) };
        let buffer = PyBuffer::<u8>::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the array is not in one piece: pass a contiguous one"));
        }
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the array cannot be written to: pass a copy of it"));
        }
        Ok(Self(Some(buffer)))
    }

    /// The bytes. By contract the caller in Python does not use an array while an operation is in flight, as
    /// with every library of collectives; otherwise the numbers are meaningless.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match &self.0 {
            // SAFETY: the object lends these bytes there, in one piece and writable as `of` has seen, until
            // the buffer is released, which this borrow does not outlive. They are initialised, and any
            // value of them is one.
            Some(buffer) if buffer.len_bytes() > 0 => unsafe {
                slice::from_raw_parts_mut(buffer.buf_ptr().cast(), buffer.len_bytes())
            },
            _ => &mut [],
        }
    }

    /// The same as floats, unless they lie across the boundaries of floats.
    pub(crate) fn floats(&mut self) -> Option<&mut [f32]> {
        match self.bytes() {
            // An empty slice may have any address.
            [] => Some(&mut []),
            bytes => <[f32]>::mut_from_bytes(bytes).ok(),
        }
    }
}
