//! One Python object as a value that does not need Python any more.

use arrow::array::types::IntervalMonthDayNano;
use arrow::datatypes::i256;
use hypostyle::calendar::days_of;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyMemoryView,
    PyString, PyTime, PyTuple, PyType,
};
use std::ops::RangeInclusive;

const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// The digits of the widest decimal.
const DIGITS_MAX: usize = 76;

/// The levels of lists and dicts that a value may have. They are followed by recursion, and a list may be
/// in itself.
const LEVELS_MAX: usize = 256;

/// The years that microseconds from 1970 reach. pandas has more than Python.
const YEARS: RangeInclusive<i64> = -290_000..=290_000;

#[derive(Debug)]
pub enum Value {
    Null,
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Decimal {
        unscaled: i256,
        digits: usize,
        scale: usize,
    },
    Text(String),
    Binary(Vec<u8>),
    Date(i32),
    /// A point in time: nanoseconds since 1970-01-01, in UTC if `zoned`.
    Timestamp {
        nanoseconds: i128,
        zoned: bool,
    },
    /// A time of day: microseconds since midnight.
    Time(i64),
    Interval(IntervalMonthDayNano),
    Uuid([u8; 16]),
    List(Vec<Value>),
    Struct(Vec<(String, Value)>),
}

fn is_instance(
    value: &Bound<'_, PyAny>,
    cell: &'static PyOnceLock<Py<PyType>>,
    module: &str,
    name: &str,
) -> PyResult<bool> {
    value.is_instance(cell.import(value.py(), module, name)?)
}

impl Value {
    /// # Errors
    /// Any Python exception; its text says what is wrong with the value.
    pub fn new(value: &Bound<'_, PyAny>, nan_is_null: bool) -> PyResult<Self> {
        Self::within(value, nan_is_null, LEVELS_MAX)
    }

    /// Converts a value of at most so many levels.
    fn within(value: &Bound<'_, PyAny>, nan_is_null: bool, levels: usize) -> PyResult<Self> {
        static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static INTERVAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let py = value.py();
        if value.is_none() {
            return Ok(Self::Null);
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Self::Text(text.to_str()?.to_owned()));
        }
        if let Ok(boolean) = value.cast::<PyBool>() {
            return Ok(Self::Boolean(boolean.is_true()));
        }
        if let Ok(integer) = value.cast::<PyInt>() {
            return match integer.extract::<i128>() {
                Ok(integer) => Ok(Self::Integer(integer)),
                Err(_) => Self::long_integer(integer),
            };
        }
        if let Ok(float) = value.cast::<PyFloat>() {
            let float = float.value();
            return Ok(if nan_is_null && float.is_nan() { Self::Null } else { Self::Float(float) });
        }
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Self::Binary(bytes.as_bytes().to_vec()));
        }
        if is_instance(value, &DECIMAL, "decimal", "Decimal")? {
            return Self::decimal(value, nan_is_null);
        }
        if let Ok(items) = value.cast::<PyList>() {
            return Self::list(items.iter(), nan_is_null, one_less(py, levels)?);
        }
        if let Ok(items) = value.cast::<PyTuple>() {
            return Self::list(items.iter(), nan_is_null, one_less(py, levels)?);
        }
        if let Ok(members) = value.cast::<PyDict>() {
            let levels = one_less(py, levels)?;
            let members = members.iter().map(|(name, member)| {
                let name = name
                    .cast::<PyString>()
                    .map_err(|_| PyValueError::new_err(format!("the key {name} of a dict is not a str")))?;
                Ok((name.to_str()?.to_owned(), Self::within(&member, nan_is_null, levels)?))
            });
            return Ok(Self::Struct(members.collect::<PyResult<_>>()?));
        }
        // pandas' and NumPy's own missing values. NaT is a datetime, so it is looked for first.
        let class = value.get_type().name()?;
        if matches!(class.to_str()?, "NaTType" | "NAType" | "MaskedConstant") {
            return Ok(Self::Null);
        }
        if value.cast::<PyDateTime>().is_ok() {
            return Self::timestamp(value);
        }
        if value.cast::<PyDate>().is_ok() {
            return Ok(Self::Date(days(value)? as i32));
        }
        if value.cast::<PyTime>().is_ok() {
            if !value.getattr(intern!(py, "tzinfo"))?.is_none() {
                return Err(PyValueError::new_err(format!(
                    "the time {value} has a time zone, which TIME has not"
                )));
            }
            return Ok(Self::Time(microseconds_of_day(value)?));
        }
        if value.cast::<PyDelta>().is_ok() {
            return Self::timedelta(value);
        }
        if is_instance(value, &UUID, "uuid", "UUID")? {
            return Ok(Self::Uuid(value.getattr(intern!(py, "bytes"))?.extract()?));
        }
        if is_instance(value, &INTERVAL, "hypostyle.interval", "Interval")? {
            return Ok(Self::Interval(IntervalMonthDayNano {
                months: value.getattr(intern!(py, "months"))?.extract()?,
                days: value.getattr(intern!(py, "days"))?.extract()?,
                nanoseconds: value.getattr(intern!(py, "nanoseconds"))?.extract()?,
            }));
        }
        if value.cast::<PyByteArray>().is_ok() || value.cast::<PyMemoryView>().is_ok() {
            return Ok(Self::Binary(py.get_type::<PyBytes>().call1((value,))?.extract()?));
        }
        if value.hasattr(intern!(py, "dtype"))? {
            let plain = py.import("hypostyle.inputs")?.call_method1("plain_object", (value,))?;
            return Self::within(&plain, nan_is_null, one_less(py, levels)?);
        }
        Err(PyValueError::new_err(format!("a value of the Python type {class} fits no SQL type")))
    }

    /// Converts a list whose elements are of at most so many levels.
    fn list<'py>(
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        nan_is_null: bool,
        levels: usize,
    ) -> PyResult<Self> {
        items.map(|item| Self::within(&item, nan_is_null, levels)).collect::<PyResult<_>>().map(Self::List)
    }

    /// Converts an integer beyond 128 bits.
    fn long_integer(value: &Bound<'_, PyInt>) -> PyResult<Self> {
        let py = value.py();
        let too_long =
            || PyValueError::new_err(format!("an integer of more than {DIGITS_MAX} digits fits no DECIMAL"));
        // Python makes no text of one that is very long.
        if value.call_method0(intern!(py, "bit_length"))?.extract::<usize>()? > 256 {
            return Err(too_long());
        }
        let text: String =
            py.get_type::<PyInt>().call_method1(intern!(py, "__repr__"), (value,))?.extract()?;
        let digits = text.trim_start_matches('-').len();
        let unscaled = i256::from_string(&text).filter(|_| digits <= DIGITS_MAX).ok_or_else(too_long)?;
        Ok(Self::Decimal { unscaled, digits, scale: 0 })
    }

    fn decimal(value: &Bound<'_, PyAny>, nan_is_null: bool) -> PyResult<Self> {
        let py = value.py();
        if !value.call_method0(intern!(py, "is_finite"))?.is_truthy()? {
            let nan = value.call_method0(intern!(py, "is_nan"))?.is_truthy()?;
            return match nan && nan_is_null {
                true => Ok(Self::Null),
                false => Err(PyValueError::new_err(format!("DECIMAL cannot hold {value}"))),
            };
        }
        let too_long =
            || PyValueError::new_err(format!("a decimal of more than {DIGITS_MAX} digits fits no DECIMAL"));
        if value.call_method0(intern!(py, "adjusted"))?.extract::<i64>()?.unsigned_abs() > DIGITS_MAX as u64 {
            return Err(too_long());
        }
        let text: String = value.call_method1(intern!(py, "__format__"), ("f",))?.extract()?;
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
        let whole = whole.trim_start_matches('0');
        let digits = whole.len() + fraction.len();
        // They are counted first: a text of millions of digits is parsed by recursion.
        if digits > DIGITS_MAX {
            return Err(too_long());
        }
        let unscaled = i256::from_string(&format!("{sign}0{whole}{fraction}")).ok_or_else(too_long)?;
        Ok(Self::Decimal { unscaled, digits, scale: fraction.len() })
    }

    fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let seconds = days(value)? * SECONDS_PER_DAY;
        let microseconds = microseconds_of_day(value)?;
        let mut nanoseconds = i128::from(seconds) * NANOSECONDS_PER_SECOND + i128::from(microseconds) * 1_000;
        // pandas.Timestamp, a subclass, is finer than microseconds.
        if !value.is_exact_instance_of::<PyDateTime>()
            && let Some(more) = value.getattr_opt(intern!(py, "nanosecond"))?
        {
            nanoseconds += i128::from(more.extract::<i64>()?);
        }
        let offset = value.call_method0(intern!(py, "utcoffset"))?;
        let zoned = !offset.is_none();
        if zoned {
            nanoseconds -= timedelta_nanoseconds(&offset)?;
        }
        Ok(Self::Timestamp { nanoseconds, zoned })
    }

    fn timedelta(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let nanoseconds = timedelta_nanoseconds(value)?;
        let per_day = i128::from(SECONDS_PER_DAY) * NANOSECONDS_PER_SECOND;
        // pandas has longer ones than Python.
        let days = i32::try_from(nanoseconds.div_euclid(per_day))
            .map_err(|_| PyValueError::new_err(format!("{value} is out of range for INTERVAL")))?;
        Ok(Self::Interval(IntervalMonthDayNano {
            months: 0,
            days,
            nanoseconds: nanoseconds.rem_euclid(per_day) as i64,
        }))
    }

    /// Returns the SQL type as error messages name it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Boolean(_) => "BOOLEAN",
            Self::Integer(_) => "BIGINT",
            Self::Float(_) => "DOUBLE",
            Self::Decimal { .. } => "DECIMAL",
            Self::Text(_) => "VARCHAR",
            Self::Binary(_) => "BLOB",
            Self::Date(_) => "DATE",
            Self::Timestamp { zoned: false, .. } => "TIMESTAMP",
            Self::Timestamp { zoned: true, .. } => "TIMESTAMP WITH TIME ZONE",
            Self::Time(_) => "TIME",
            Self::Interval(_) => "INTERVAL",
            Self::Uuid(_) => "UUID",
            Self::List(_) => "LIST",
            Self::Struct(_) => "STRUCT",
        }
    }
}

/// Returns the levels that are left within a value of so many. It handles signals: a value that has another
/// one twice, and that one a third one twice, has more parts than anybody waits for.
fn one_less(py: Python<'_>, levels: usize) -> PyResult<usize> {
    py.check_signals()?;
    levels.checked_sub(1).ok_or_else(|| {
        PyValueError::new_err(format!("a value of more than {LEVELS_MAX} levels, or one that is in itself"))
    })
}

/// Returns a part of a date or time. Subclasses of Python's may have any.
fn part(value: &Bound<'_, PyAny>, name: &Bound<'_, PyString>, range: RangeInclusive<i64>) -> PyResult<i64> {
    let number: i64 = value.getattr(name)?.extract()?;
    match range.contains(&number) {
        true => Ok(number),
        false => Err(PyValueError::new_err(format!("{number} is out of range for the {name} of {value}"))),
    }
}

fn days(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = value.py();
    let month = part(value, intern!(py, "month"), 1..=12)?;
    Ok(days_of(
        part(value, intern!(py, "year"), YEARS)?,
        month as u32,
        part(value, intern!(py, "day"), 1..=31)?,
    ))
}

fn microseconds_of_day(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = value.py();
    let hour = part(value, intern!(py, "hour"), 0..=23)?;
    let minute = part(value, intern!(py, "minute"), 0..=59)?;
    let second = part(value, intern!(py, "second"), 0..=59)?;
    let microsecond = part(value, intern!(py, "microsecond"), 0..=999_999)?;
    Ok(((hour * 60 + minute) * 60 + second) * 1_000_000 + microsecond)
}

fn timedelta_nanoseconds(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    let py = value.py();
    let number = |name: &Bound<'_, PyString>| value.getattr(name)?.extract::<i64>().map(i128::from);
    let days = number(intern!(py, "days"))?;
    let seconds = number(intern!(py, "seconds"))?;
    let microseconds = number(intern!(py, "microseconds"))?;
    // pandas.Timedelta, a subclass, is finer than microseconds.
    let more: i128 = match value.getattr_opt(intern!(py, "nanoseconds"))? {
        Some(nanoseconds) => nanoseconds.extract::<i64>()?.into(),
        None => 0,
    };
    Ok((days * i128::from(SECONDS_PER_DAY) + seconds) * NANOSECONDS_PER_SECOND + microseconds * 1_000 + more)
}
