//! Accesses NumPy's variable-width strings through NumPy's own C functions.
//!
//! The table of functions is part of NumPy 2's stable ABI; its entries are named in
//! `numpy/ndarrayobject.h` and below. An array's strings belong to the allocator of its dtype,
//! which is locked while it is in use.

use crate::error;
use arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, LargeStringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;
use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;

const SLOT_LOAD: usize = 313;
const SLOT_PACK: usize = 314;
const SLOT_PACK_NULL: usize = 315;
const SLOT_ACQUIRE_ALLOCATOR: usize = 316;
const SLOT_RELEASE_ALLOCATOR: usize = 318;

type Allocator = *mut c_void;

/// The C type `npy_static_string`.
#[repr(C)]
struct Loaded {
    bytes: usize,
    start: *const c_char,
}

type Load = unsafe extern "C" fn(Allocator, *const c_void, *mut Loaded) -> c_int;
type Pack = unsafe extern "C" fn(Allocator, *mut c_void, *const c_char, usize) -> c_int;
type PackNull = unsafe extern "C" fn(Allocator, *mut c_void) -> c_int;
type Acquire = unsafe extern "C" fn(*const PyObject) -> Allocator;
type Release = unsafe extern "C" fn(Allocator);

#[derive(Clone, Copy)]
struct Functions {
    load: Load,
    pack: Pack,
    pack_null: PackNull,
    acquire: Acquire,
    release: Release,
}

impl Functions {
    fn get(py: Python<'_>) -> PyResult<Self> {
        static FUNCTIONS: PyOnceLock<Functions> = PyOnceLock::new();
        FUNCTIONS
            .get_or_try_init(py, || {
                let module = py.import("numpy._core._multiarray_umath")?;
                let capsule = module.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
                let table = capsule.pointer_checked(None)?.cast::<*const c_void>().as_ptr();
                // SAFETY: the capsule points to NumPy's function table. The existence of
                // StringDType, which the caller already has, means that these entries have these
                // functions.
                unsafe {
                    Ok(Self {
                        load: transmute::<*const c_void, Load>(*table.add(SLOT_LOAD)),
                        pack: transmute::<*const c_void, Pack>(*table.add(SLOT_PACK)),
                        pack_null: transmute::<*const c_void, PackNull>(*table.add(SLOT_PACK_NULL)),
                        acquire: transmute::<*const c_void, Acquire>(*table.add(SLOT_ACQUIRE_ALLOCATOR)),
                        release: transmute::<*const c_void, Release>(*table.add(SLOT_RELEASE_ALLOCATOR)),
                    })
                }
            })
            .copied()
    }
}

/// The locked allocator of one dtype, and the memory of its array's strings. The lock is held for
/// the life of this value. It is taken and released without being attached, so that a thread that
/// waits for it cannot keep another from finishing.
struct Strings {
    functions: Functions,
    allocator: Allocator,
    address: usize,
    item_bytes: usize,
}

impl Strings {
    /// # Safety
    /// `dtype` must be a live `StringDType` and `address` the memory of a contiguous array of it.
    unsafe fn acquire(functions: Functions, dtype: usize, address: usize, item_bytes: usize) -> Self {
        // SAFETY: the caller promises this.
        let allocator = unsafe { (functions.acquire)(dtype as *const PyObject) };
        Self { functions, allocator, address, item_bytes }
    }

    fn slot(&self, row: usize) -> *mut c_void {
        (self.address + row * self.item_bytes) as *mut c_void
    }
}

impl Drop for Strings {
    fn drop(&mut self) {
        // SAFETY: it was acquired in `acquire`, and is released once.
        unsafe { (self.functions.release)(self.allocator) };
    }
}

/// Writes an array of strings, plain or dictionary, into a new NumPy array of the same length.
pub fn pack(
    py: Python<'_>,
    array: &ArrayRef,
    address: usize,
    item_bytes: usize,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let functions = Functions::get(py)?;
    let dtype = dtype.as_ptr() as usize;
    let packed = py.detach(|| {
        // SAFETY: the caller created the array with this dtype for this call and keeps both alive.
        let strings = unsafe { Strings::acquire(functions, dtype, address, item_bytes) };
        match array.as_any_dictionary_opt() {
            Some(dictionary) => {
                let values = plain(dictionary.values())?;
                let values = values.as_string::<i64>();
                let keys = super::codes(dictionary);
                let nulls = array.logical_nulls();
                write(&strings, array.len(), |row| {
                    match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                        true => None,
                        false => Some(values.value(keys[row])),
                    }
                })
            }
            None => {
                let values = plain(array)?;
                let values = values.as_string::<i64>();
                write(&strings, array.len(), |row| values.is_valid(row).then(|| values.value(row)))
            }
        }
    });
    packed.map_err(|error| error::from_arrow(py, &error))
}

fn plain(array: &ArrayRef) -> Result<ArrayRef, arrow::error::ArrowError> {
    cast(array, &DataType::LargeUtf8)
}

fn write<'a>(
    strings: &Strings,
    rows: usize,
    value: impl Fn(usize) -> Option<&'a str>,
) -> Result<(), arrow::error::ArrowError> {
    for row in 0..rows {
        // SAFETY: the row's element is inside the array, and the call copies the string's bytes.
        let status = unsafe {
            match value(row) {
                Some(text) => (strings.functions.pack)(
                    strings.allocator,
                    strings.slot(row),
                    text.as_ptr().cast(),
                    text.len(),
                ),
                None => (strings.functions.pack_null)(strings.allocator, strings.slot(row)),
            }
        };
        if status != 0 {
            return Err(arrow::error::ArrowError::MemoryError("no memory for NumPy's strings".into()));
        }
    }
    Ok(())
}

/// Reads a contiguous NumPy StringDType array.
pub fn unpack(
    py: Python<'_>,
    rows: usize,
    address: usize,
    item_bytes: usize,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<LargeStringArray> {
    let functions = Functions::get(py)?;
    let dtype = dtype.as_ptr() as usize;
    py.detach(|| {
        // SAFETY: the caller's array has this dtype and memory, and the caller keeps both alive.
        let strings = unsafe { Strings::acquire(functions, dtype, address, item_bytes) };
        let mut builder = LargeStringBuilder::with_capacity(rows, rows * item_bytes);
        for row in 0..rows {
            let mut loaded = Loaded { bytes: 0, start: std::ptr::null() };
            // SAFETY: the row's element is inside the array; the loaded string lives while the lock
            // is held.
            let status = unsafe { (functions.load)(strings.allocator, strings.slot(row), &mut loaded) };
            match status {
                0 if loaded.bytes == 0 => builder.append_value(""),
                0 => {
                    // SAFETY: as above.
                    let bytes =
                        unsafe { std::slice::from_raw_parts(loaded.start.cast::<u8>(), loaded.bytes) };
                    builder
                        .append_value(std::str::from_utf8(bytes).map_err(|error| (row, error.to_string()))?);
                }
                1 => builder.append_null(),
                _ => return Err((row, "NumPy cannot load the string".to_string())),
            }
        }
        Ok(builder.finish())
    })
    .map_err(|(row, problem)| error::invalid_input(py, format!("row {row}: {problem}")))
}
