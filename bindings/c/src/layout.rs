//! The structs of the header. `tests/test_c.py` reads the offsets below, and has the C compiler check
//! the same ones.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::ptr;

/// A struct that begins with its size.
///
/// # Safety
/// It begins with a `u32`, and all bits zero are a value of it.
pub unsafe trait Sized32: Copy {
    const NAME: &'static str;
}

/// `hypostyle_value`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Value {
    pub size: u32,
    pub of: i32,
    pub scale: i32,
    pub reserved: i32,
    pub integer: i64,
    pub high: i64,
    pub number: f64,
    pub data: *const c_void,
    pub length: usize,
}

/// `hypostyle_column`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub size: u32,
    pub of: i32,
    pub name: *const c_char,
    pub name_length: usize,
    pub type_name: *const c_char,
    pub type_name_length: usize,
    pub precision: i32,
    pub scale: i32,
    pub nullable: i32,
    pub reserved: i32,
}

/// `hypostyle_values`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Values {
    pub size: u32,
    pub of: i32,
    pub scale: i32,
    pub width: u32,
    pub flags: u32,
    pub reserved: u32,
    pub count: u64,
    pub null_count: u64,
    pub data: *const c_void,
    pub data_offset: u64,
    pub validity: *const u8,
    pub validity_offset: u64,
    pub offsets: *const i64,
    pub heap: *const u8,
    pub heap_length: u64,
    pub dictionary_count: u64,
    pub owner: *mut c_void,
}

/// `hypostyle_statistics`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    pub size: u32,
    pub known: u32,
    pub row_count: u64,
    pub null_count: u64,
    pub distinct_count: u64,
    pub minimum: Value,
    pub maximum: Value,
}

/// `hypostyle_progress`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub size: u32,
    pub is_running: i32,
    pub is_transfer: i32,
    pub has_total: i32,
    pub rows_done: u64,
    pub rows_total: u64,
    pub seconds: f64,
    pub seconds_left: f64,
}

/// `hypostyle_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub size: u32,
    pub read_only: i32,
    pub allow_network_filesystem: i32,
    pub threads: u32,
    pub memory_limit: u64,
    pub temp_directory: *const c_char,
    pub verify: *const c_char,
    pub user: *const c_char,
    pub password: *const c_char,
}

/// Checks the offsets of a struct's fields while compiling, and makes it a [`Sized32`].
macro_rules! layout {
    ($name:ident as $c:literal, $size:literal, $($field:ident as $c_field:literal $offset:literal),+) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $offset);)+
        };

        // SAFETY: its first field is its size, and numbers and pointers may be zero.
        unsafe impl Sized32 for $name {
            const NAME: &'static str = $c;
        }
    };
}

#[cfg(target_pointer_width = "64")]
layout!(Value as "hypostyle_value", 56,
    size as "size" 0, of as "type" 4, scale as "scale" 8, reserved as "reserved" 12, integer as "integer" 16,
    high as "high" 24, number as "number" 32, data as "data" 40, length as "length" 48);
#[cfg(target_pointer_width = "64")]
layout!(Column as "hypostyle_column", 56,
    size as "size" 0, of as "type" 4, name as "name" 8, name_length as "name_length" 16,
    type_name as "type_name" 24, type_name_length as "type_name_length" 32, precision as "precision" 40,
    scale as "scale" 44, nullable as "nullable" 48, reserved as "reserved" 52);
#[cfg(target_pointer_width = "64")]
layout!(Values as "hypostyle_values", 112,
    size as "size" 0, of as "type" 4, scale as "scale" 8, width as "width" 12, flags as "flags" 16,
    reserved as "reserved" 20, count as "count" 24, null_count as "null_count" 32, data as "data" 40,
    data_offset as "data_offset" 48, validity as "validity" 56, validity_offset as "validity_offset" 64,
    offsets as "offsets" 72, heap as "heap" 80, heap_length as "heap_length" 88,
    dictionary_count as "dictionary_count" 96, owner as "owner" 104);
#[cfg(target_pointer_width = "64")]
layout!(Statistics as "hypostyle_statistics", 144,
    size as "size" 0, known as "known" 4, row_count as "row_count" 8, null_count as "null_count" 16,
    distinct_count as "distinct_count" 24, minimum as "minimum" 32, maximum as "maximum" 88);
#[cfg(target_pointer_width = "64")]
layout!(Progress as "hypostyle_progress", 48,
    size as "size" 0, is_running as "is_running" 4, is_transfer as "is_transfer" 8, has_total as "has_total" 12,
    rows_done as "rows_done" 16, rows_total as "rows_total" 24, seconds as "seconds" 32,
    seconds_left as "seconds_left" 40);
#[cfg(target_pointer_width = "64")]
layout!(Options as "hypostyle_options", 56,
    size as "size" 0, read_only as "read_only" 4, allow_network_filesystem as "allow_network_filesystem" 8,
    threads as "threads" 12, memory_limit as "memory_limit" 16, temp_directory as "temp_directory" 24,
    verify as "verify" 32, user as "user" 40, password as "password" 48);

impl Value {
    /// NULL.
    pub const NULL: Self = Self {
        size: size_of::<Self>() as u32,
        of: 0,
        scale: 0,
        reserved: 0,
        integer: 0,
        high: 0,
        number: 0.0,
        data: ptr::null(),
        length: 0,
    };
}

// The flags of `hypostyle_values`.
pub const MAPPED: u32 = 1;
pub const PRIVATE: u32 = 2;
pub const MISSING: u32 = 4;
pub const DICTIONARY: u32 = 8;
pub const PLAIN: u32 = 16;

// What `hypostyle_statistics` knows.
pub const KNOWN_NULLS: u32 = 1;
pub const KNOWN_DISTINCT: u32 = 2;
pub const KNOWN_RANGE: u32 = 4;
pub const KNOWN_EXACT: u32 = 8;
pub const MAY_HAVE_NAN: u32 = 16;

// How rows are appended or bound.
pub const CREATE: u32 = 1;
pub const BY_NAME: u32 = 2;

// The types of values and columns.
pub const NULL: i32 = 0;
pub const BOOLEAN: i32 = 1;
pub const TINYINT: i32 = 2;
pub const SMALLINT: i32 = 3;
pub const INTEGER: i32 = 4;
pub const BIGINT: i32 = 5;
pub const UTINYINT: i32 = 6;
pub const USMALLINT: i32 = 7;
pub const UINTEGER: i32 = 8;
pub const UBIGINT: i32 = 9;
pub const FLOAT: i32 = 10;
pub const DOUBLE: i32 = 11;
pub const DECIMAL: i32 = 12;
pub const DATE: i32 = 13;
pub const TIME: i32 = 14;
pub const TIMESTAMP: i32 = 15;
pub const TIMESTAMPTZ: i32 = 16;
pub const INTERVAL: i32 = 17;
pub const DURATION: i32 = 18;
pub const VARCHAR: i32 = 19;
pub const JSON: i32 = 20;
pub const BLOB: i32 = 21;
pub const UUID: i32 = 22;
pub const FIXED_BINARY: i32 = 23;
pub const LIST: i32 = 24;
pub const ARRAY: i32 = 25;
pub const STRUCT: i32 = 26;
pub const MAP: i32 = 27;
