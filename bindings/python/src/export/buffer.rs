//! Offers the memory of an Arrow buffer to NumPy through the buffer protocol.
//!
//! Invariant: the buffer is private to one Python array (a copy-on-write mapping, or memory that
//! was allocated for it), so that writes through it reach nobody else.

use arrow::buffer::Buffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;

#[pyclass(frozen, module = "hypostyle._native")]
pub struct WritableBuffer(pub Buffer);

#[pymethods]
impl WritableBuffer {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no place was given for the view"));
        }
        let buffer = &slf.get().0;
        // SAFETY: the view keeps a reference to this object, which owns the memory. The pointer is
        // valid for the buffer's length, and by this file's invariant writable.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                buffer.as_ptr().cast_mut().cast(),
                buffer.len() as ffi::Py_ssize_t,
                0,
                flags,
            )
        };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
