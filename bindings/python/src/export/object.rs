//! Converts values to Python objects: exactly, and always to the same class for an SQL type.

use crate::error;
use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use hypostyle::calendar::{Date, date_of};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyList, PyTime, PyTuple, PyType, PyTzInfo};
use std::ops::Range;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;
const NANOSECONDS_PER_MICROSECOND: i64 = 1_000;

/// Creates Python objects from one array's values.
pub struct Converter<'py> {
    py: Python<'py>,
    name: String,
    array: ArrayRef,
    kind: Kind<'py>,
}

/// The objects that are looked up once per array.
enum Kind<'py> {
    Scalar,
    Decimal(Bound<'py, PyType>),
    Uuid(Bound<'py, PyType>),
    Interval(Bound<'py, PyType>),
    Zoned { utc: Bound<'py, PyTzInfo>, zone: Bound<'py, PyAny> },
    Dictionary { values: Vec<Bound<'py, PyAny>>, keys: Vec<usize> },
    List(Box<Converter<'py>>),
    Struct(Vec<Converter<'py>>),
    Map(Box<Converter<'py>>, Box<Converter<'py>>),
}

/// Appends the rows of `range`, as tuples, to `rows`.
pub fn rows_to_list<'py>(
    converters: &mut [Converter<'py>],
    range: Range<usize>,
    rows: &Bound<'py, PyList>,
) -> PyResult<()> {
    let mut columns = converters
        .iter_mut()
        .map(|converter| converter.convert(range.clone()).map(Vec::into_iter))
        .collect::<PyResult<Vec<_>>>()?;
    for _ in range {
        let row = PyTuple::new(rows.py(), columns.iter_mut().flat_map(Iterator::next).collect::<Vec<_>>())?;
        rows.append(row)?;
    }
    Ok(())
}

fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyType>> {
    cell.import(py, module, name).cloned()
}

impl<'py> Converter<'py> {
    pub fn for_batch(py: Python<'py>, batch: &RecordBatch) -> PyResult<Vec<Self>> {
        let schema = batch.schema();
        batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(array, field)| Self::new(py, array.clone(), field))
            .collect()
    }

    pub fn new(py: Python<'py>, array: ArrayRef, field: &Field) -> PyResult<Self> {
        static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static INTERVAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let array = match same_object(array.data_type()) {
            Some(usual) => cast(&array, &usual).map_err(|error| error::from_arrow(py, &error))?,
            None => array,
        };
        let kind = match array.data_type() {
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Kind::Decimal(class(py, &DECIMAL, "decimal", "Decimal")?),
            DataType::FixedSizeBinary(16)
                if field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.uuid") =>
            {
                Kind::Uuid(class(py, &UUID, "uuid", "UUID")?)
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Kind::Interval(class(py, &INTERVAL, "hypostyle.interval", "Interval")?)
            }
            DataType::Timestamp(_, Some(zone)) => {
                let zones = py.import("hypostyle.interval")?;
                Kind::Zoned {
                    utc: py.import("datetime")?.getattr("timezone")?.getattr("utc")?.cast_into()?,
                    zone: zones.getattr("time_zone")?.call1((zone.as_ref(),))?,
                }
            }
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values().clone();
                let value_field = field.clone().with_data_type(values.data_type().clone());
                let rows = values.len();
                Kind::Dictionary {
                    values: Self::new(py, values, &value_field)?.convert(0..rows)?,
                    keys: super::codes(dictionary),
                }
            }
            DataType::List(item) => Kind::List(Self::boxed(py, array.as_list::<i32>().values(), item)?),
            DataType::LargeList(item) => Kind::List(Self::boxed(py, array.as_list::<i64>().values(), item)?),
            DataType::FixedSizeList(item, _) => {
                Kind::List(Self::boxed(py, array.as_fixed_size_list().values(), item)?)
            }
            DataType::Struct(fields) => Kind::Struct(
                array
                    .as_struct()
                    .columns()
                    .iter()
                    .zip(fields)
                    .map(|(child, field)| Self::new(py, child.clone(), field))
                    .collect::<PyResult<_>>()?,
            ),
            DataType::Map(_, _) => {
                let map = array.as_map();
                let (key, value) = map.entries_fields();
                Kind::Map(Self::boxed(py, map.keys(), key)?, Self::boxed(py, map.values(), value)?)
            }
            _ => Kind::Scalar,
        };
        Ok(Self { py, name: field.name().clone(), array, kind })
    }

    fn boxed(py: Python<'py>, array: &ArrayRef, field: &Field) -> PyResult<Box<Self>> {
        Self::new(py, array.clone(), field).map(Box::new)
    }

    /// Returns the values of some rows, with `None` for NULL.
    pub fn convert(&mut self, range: Range<usize>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let array = self.array.clone();
        macro_rules! each {
            ($array:expr, |$value:ident| $object:expr) => {{
                let array = $array;
                range
                    .map(|row| {
                        if array.is_null(row) {
                            return Ok(self.py.None().into_bound(self.py));
                        }
                        let $value = array.value(row);
                        $object
                    })
                    .collect()
            }};
        }
        macro_rules! simple {
            ($array:expr) => {
                each!($array, |value| Ok(value.into_pyobject(self.py)?.into_any()))
            };
        }
        macro_rules! ticks {
            ($of:expr, $convert:ident, $($unit:ident => $type:ty, $nanoseconds:expr);+) => {
                match $of {
                    $(TimeUnit::$unit => each!(array.as_primitive::<$type>(), |value| {
                        self.$convert(microseconds(value, $nanoseconds))
                    }),)+
                }
            };
        }
        match array.data_type() {
            DataType::Null => Ok(range.map(|_| self.py.None().into_bound(self.py)).collect()),
            DataType::Boolean => {
                each!(array.as_boolean(), |value| Ok(value.into_pyobject(self.py)?.to_owned().into_any()))
            }
            DataType::Int8 => simple!(array.as_primitive::<Int8Type>()),
            DataType::Int16 => simple!(array.as_primitive::<Int16Type>()),
            DataType::Int32 => simple!(array.as_primitive::<Int32Type>()),
            DataType::Int64 => simple!(array.as_primitive::<Int64Type>()),
            DataType::UInt8 => simple!(array.as_primitive::<UInt8Type>()),
            DataType::UInt16 => simple!(array.as_primitive::<UInt16Type>()),
            DataType::UInt32 => simple!(array.as_primitive::<UInt32Type>()),
            DataType::UInt64 => simple!(array.as_primitive::<UInt64Type>()),
            DataType::Float32 => simple!(array.as_primitive::<Float32Type>()),
            DataType::Float64 => simple!(array.as_primitive::<Float64Type>()),
            DataType::Utf8 => simple!(array.as_string::<i32>()),
            DataType::LargeUtf8 => simple!(array.as_string::<i64>()),
            DataType::Utf8View => simple!(array.as_string_view()),
            DataType::Binary => each!(array.as_binary::<i32>(), |value| self.bytes(value)),
            DataType::LargeBinary => each!(array.as_binary::<i64>(), |value| self.bytes(value)),
            DataType::BinaryView => each!(array.as_binary_view(), |value| self.bytes(value)),
            DataType::FixedSizeBinary(_) => each!(array.as_fixed_size_binary(), |value| self.bytes(value)),
            DataType::Decimal32(_, scale) => each!(array.as_primitive::<Decimal32Type>(), |value| {
                self.decimal(Decimal32Type::format_decimal(value, Decimal32Type::MAX_PRECISION, *scale))
            }),
            DataType::Decimal64(_, scale) => each!(array.as_primitive::<Decimal64Type>(), |value| {
                self.decimal(Decimal64Type::format_decimal(value, Decimal64Type::MAX_PRECISION, *scale))
            }),
            DataType::Decimal128(_, scale) => each!(array.as_primitive::<Decimal128Type>(), |value| {
                self.decimal(Decimal128Type::format_decimal(value, Decimal128Type::MAX_PRECISION, *scale))
            }),
            DataType::Decimal256(_, scale) => each!(array.as_primitive::<Decimal256Type>(), |value| {
                self.decimal(Decimal256Type::format_decimal(value, Decimal256Type::MAX_PRECISION, *scale))
            }),
            DataType::Date32 => {
                each!(array.as_primitive::<Date32Type>(), |value| self.date(i64::from(value)))
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                each!(array.as_primitive::<Time64MicrosecondType>(), |value| self.time(value))
            }
            DataType::Time64(TimeUnit::Nanosecond) => {
                each!(array.as_primitive::<Time64NanosecondType>(), |value| {
                    self.time(value / NANOSECONDS_PER_MICROSECOND)
                })
            }
            DataType::Timestamp(unit, _) => ticks!(
                unit, timestamp,
                Second => TimestampSecondType, 1_000_000_000;
                Millisecond => TimestampMillisecondType, 1_000_000;
                Microsecond => TimestampMicrosecondType, 1_000;
                Nanosecond => TimestampNanosecondType, 1
            ),
            DataType::Duration(unit) => ticks!(
                unit, duration,
                Second => DurationSecondType, 1_000_000_000;
                Millisecond => DurationMillisecondType, 1_000_000;
                Microsecond => DurationMicrosecondType, 1_000;
                Nanosecond => DurationNanosecondType, 1
            ),
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                each!(array.as_primitive::<IntervalMonthDayNanoType>(), |value| self.interval(value))
            }
            DataType::Dictionary(..) => {
                let Kind::Dictionary { values, keys } = &self.kind else { return Err(self.unsupported()) };
                let none = self.py.None().into_bound(self.py);
                Ok(range
                    .map(|row| if array.is_null(row) { none.clone() } else { values[keys[row]].clone() })
                    .collect())
            }
            DataType::List(_) => {
                let offsets = array.as_list::<i32>().value_offsets();
                self.lists(range, |row| offsets[row] as usize..offsets[row + 1] as usize)
            }
            DataType::LargeList(_) => {
                let offsets = array.as_list::<i64>().value_offsets();
                self.lists(range, |row| offsets[row] as usize..offsets[row + 1] as usize)
            }
            DataType::FixedSizeList(..) => {
                let lists = array.as_fixed_size_list();
                let length = lists.value_length() as usize;
                self.lists(range, |row| {
                    let start = lists.value_offset(row) as usize;
                    start..start + length
                })
            }
            DataType::Struct(_) => self.structs(range),
            DataType::Map(..) => {
                let offsets = array.as_map().value_offsets();
                self.maps(range, |row| offsets[row] as usize..offsets[row + 1] as usize)
            }
            _ => Err(self.unsupported()),
        }
    }

    fn lists(
        &mut self,
        range: Range<usize>,
        items: impl Fn(usize) -> Range<usize>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = self.py;
        let Kind::List(child) = &mut self.kind else { return Err(self.unsupported()) };
        let array = self.array.clone();
        range
            .map(|row| match array.is_null(row) {
                true => Ok(py.None().into_bound(py)),
                false => Ok(PyList::new(py, child.convert(items(row))?)?.into_any()),
            })
            .collect()
    }

    fn structs(&mut self, range: Range<usize>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = self.py;
        let Kind::Struct(children) = &mut self.kind else { return Err(self.unsupported()) };
        let mut columns = children
            .iter_mut()
            .map(|child| Ok((child.name.clone(), child.convert(range.clone())?.into_iter())))
            .collect::<PyResult<Vec<_>>>()?;
        let mut dicts = Vec::with_capacity(range.len());
        for row in range {
            let dict = PyDict::new(py);
            for (name, values) in &mut columns {
                dict.set_item(name.as_str(), values.next())?;
            }
            dicts.push(if self.array.is_null(row) { py.None().into_bound(py) } else { dict.into_any() });
        }
        Ok(dicts)
    }

    fn maps(
        &mut self,
        range: Range<usize>,
        items: impl Fn(usize) -> Range<usize>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = self.py;
        let Kind::Map(keys, values) = &mut self.kind else { return Err(self.unsupported()) };
        let (array, name) = (self.array.clone(), &self.name);
        range
            .map(|row| {
                if array.is_null(row) {
                    return Ok(py.None().into_bound(py));
                }
                let dict = PyDict::new(py);
                for (key, value) in keys.convert(items(row))?.into_iter().zip(values.convert(items(row))?) {
                    // Lists and dicts have no hash.
                    dict.set_item(key, value).map_err(|_| {
                        let message = format!(
                            "column \"{name}\" is a MAP with keys that no dict can have; use map_entries() or \
                             arrow()"
                        );
                        error::invalid_input(py, message)
                    })?;
                }
                Ok(dict.into_any())
            })
            .collect()
    }

    fn bytes(&self, value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let bytes = PyBytes::new(self.py, value).into_any();
        match &self.kind {
            Kind::Uuid(uuid) => uuid.call1((self.py.None(), bytes)),
            _ => Ok(bytes),
        }
    }

    fn decimal(&self, text: String) -> PyResult<Bound<'py, PyAny>> {
        let Kind::Decimal(decimal) = &self.kind else { return Err(self.unsupported()) };
        decimal.call1((text,))
    }

    fn date(&self, days: i64) -> PyResult<Bound<'py, PyAny>> {
        let (year, month, day) = self.civil(days)?;
        Ok(PyDate::new(self.py, year, month, day)?.into_any())
    }

    fn time(&self, microseconds: i64) -> PyResult<Bound<'py, PyAny>> {
        // A file may have said so.
        if !(0..MICROSECONDS_PER_DAY).contains(&microseconds) {
            return Err(self.out_of_range());
        }
        let (hour, minute, second, microsecond) = clock(microseconds);
        Ok(PyTime::new(self.py, hour, minute, second, microsecond, None)?.into_any())
    }

    fn timestamp(&self, microseconds: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        let microseconds = microseconds.ok_or_else(|| self.out_of_range())?;
        let (year, month, day) = self.civil(microseconds.div_euclid(MICROSECONDS_PER_DAY))?;
        let (hour, minute, second, microsecond) = clock(microseconds.rem_euclid(MICROSECONDS_PER_DAY));
        let utc = match &self.kind {
            Kind::Zoned { utc, .. } => Some(utc),
            _ => None,
        };
        let value = PyDateTime::new(self.py, year, month, day, hour, minute, second, microsecond, utc)?;
        match &self.kind {
            Kind::Zoned { utc, zone } if !zone.is(utc) => {
                value.call_method1("astimezone", (zone,)).map_err(|_| self.out_of_range())
            }
            _ => Ok(value.into_any()),
        }
    }

    fn duration(&self, microseconds: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        microseconds.and_then(|value| self.timedelta(value.into())).ok_or_else(|| self.out_of_range())
    }

    fn timedelta(&self, microseconds: i128) -> Option<Bound<'py, PyAny>> {
        let days = i32::try_from(microseconds.div_euclid(MICROSECONDS_PER_DAY.into())).ok()?;
        let rest = microseconds.rem_euclid(MICROSECONDS_PER_DAY.into()) as i64;
        let (seconds, rest) = ((rest / 1_000_000) as i32, (rest % 1_000_000) as i32);
        Some(PyDelta::new(self.py, days, seconds, rest, false).ok()?.into_any())
    }

    /// Returns a timedelta if it is equal to the interval, otherwise `hypostyle.Interval`.
    fn interval(&self, value: IntervalMonthDayNano) -> PyResult<Bound<'py, PyAny>> {
        if value.months == 0 && value.nanoseconds % NANOSECONDS_PER_MICROSECOND == 0 {
            let microseconds = i128::from(value.days) * i128::from(MICROSECONDS_PER_DAY)
                + i128::from(value.nanoseconds / NANOSECONDS_PER_MICROSECOND);
            if let Some(delta) = self.timedelta(microseconds) {
                return Ok(delta);
            }
        }
        let Kind::Interval(interval) = &self.kind else { return Err(self.unsupported()) };
        interval.call1((value.months, value.days, value.nanoseconds))
    }

    fn civil(&self, days: i64) -> PyResult<(i32, u8, u8)> {
        let Date { year, month, day } = date_of(days);
        if !(1..=9999).contains(&year) {
            return Err(error::invalid_input(
                self.py,
                format!(
                    "column \"{}\" holds a date in the year {year}, which Python's datetime cannot; \
                     use fetchnumpy() or arrow()",
                    self.name
                ),
            ));
        }
        Ok((year as i32, month as u8, day as u8))
    }

    fn out_of_range(&self) -> PyErr {
        error::invalid_input(
            self.py,
            format!(
                "column \"{}\" holds a time that Python's datetime cannot; use fetchnumpy() or arrow()",
                self.name
            ),
        )
    }

    fn unsupported(&self) -> PyErr {
        error::invalid_input(
            self.py,
            format!(
                "column \"{}\" has the Arrow type {}, which has no Python object; use arrow()",
                self.name,
                self.array.data_type()
            ),
        )
    }
}

/// Returns the type whose values have the same Python objects, for a type that only files and other
/// libraries have.
fn same_object(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Float16 => DataType::Float32,
        DataType::Time32(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Date64 => DataType::Date32,
        DataType::ListView(item) => DataType::List(item.clone()),
        DataType::LargeListView(item) => DataType::LargeList(item.clone()),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        _ => return None,
    })
}

/// Converts ticks to microseconds, rounded down. Returns `None` when the result is out of range.
fn microseconds(ticks: i64, nanoseconds_per_tick: i64) -> Option<i64> {
    match nanoseconds_per_tick {
        1 => Some(ticks.div_euclid(NANOSECONDS_PER_MICROSECOND)),
        nanoseconds => ticks.checked_mul(nanoseconds / NANOSECONDS_PER_MICROSECOND),
    }
}

/// Returns hour, minute, second and microsecond of microseconds since midnight.
fn clock(microseconds: i64) -> (u8, u8, u8, u32) {
    let seconds = microseconds / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    (hour as u8, minute as u8, second as u8, (microseconds % 1_000_000) as u32)
}
