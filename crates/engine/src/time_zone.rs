//! AT TIME ZONE, as the function `timezone` that PostgreSQL has for it.

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, Duration, NaiveDateTime, Offset, TimeZone};
use datafusion::common::plan_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use hypostyle_types::{Error, LogicalType};
use std::sync::Arc;

pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(InZone { signature: Signature::any(2, Volatility::Immutable) })
}

/// Of a point in time, what clocks in a zone show then; of what they show, the point in time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InZone {
    signature: Signature,
}

impl ScalarUDFImpl for InZone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [zone, of] if zone.is_string() || zone.is_null() => match of {
                DataType::Timestamp(_, None) => Ok(LogicalType::timestamp_with_time_zone().arrow_type()),
                DataType::Timestamp(_, Some(_)) | DataType::Date32 | DataType::Null => {
                    Ok(LogicalType::timestamp().arrow_type())
                }
                other => Err(plan_datafusion_err!(
                    "AT TIME ZONE is of a TIMESTAMP, not of {}",
                    super::cast::type_name(other)
                )),
            },
            _ => Err(plan_datafusion_err!(
                "a time zone is named by a text, such as 'Europe/Amsterdam' or '+02:00'"
            )),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [zone, of] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("timezone(zone, timestamp)"));
        };
        let rows = args.number_rows;
        let zones = cast(&zone.to_array(rows)?, &DataType::Utf8)?;
        let zones = zones.as_string::<i32>();
        let is_local = matches!(of.data_type(), DataType::Timestamp(_, None));
        let plain = DataType::Timestamp(TimeUnit::Microsecond, of_zone(&of.data_type()));
        let times = cast(&of.to_array(rows)?, &plain)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let mut last: Option<(String, Tz)> = None;
        let moved = (0..rows).map(|row| {
            if zones.is_null(row) || times.is_null(row) {
                return Ok(None);
            }
            let name = zones.value(row);
            let zone = match &last {
                Some((known, zone)) if known == name => *zone,
                _ => {
                    let zone = zone_of(name)?;
                    last.insert((name.to_string(), zone)).1
                }
            };
            moved(times.value(row), zone, is_local).map(Some)
        });
        let moved: TimestampMicrosecondArray = moved.collect::<Result<_>>()?;
        let moved: ArrayRef = Arc::new(moved);
        Ok(ColumnarValue::Array(cast(&moved, args.return_field.data_type())?))
    }
}

fn of_zone(of: &DataType) -> Option<Arc<str>> {
    match of {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    }
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn zone_of(name: &str) -> Result<Tz> {
    name.trim().parse().map_err(|_| {
        external(Error::invalid_input(format!("time zone \"{name}\" is not known")).with_sqlstate("22023"))
    })
}

/// Microseconds since 1970, of the clocks in a zone or of UTC, as the other.
fn moved(microseconds: i64, zone: Tz, is_local: bool) -> Result<i64> {
    let out_of_range = || external(Error::invalid_input("timestamp out of range").with_sqlstate("22008"));
    let time = DateTime::from_timestamp_micros(microseconds).ok_or_else(out_of_range)?.naive_utc();
    let seconds = match is_local {
        true => -offset_of_local(time, zone),
        false => zone.offset_from_utc_datetime(&time).fix().local_minus_utc(),
    };
    microseconds.checked_add(i64::from(seconds) * 1_000_000).ok_or_else(out_of_range)
}

/// The offset from UTC in seconds. Of an hour that clocks show twice it is the later one, of one that they leave out that
/// before it, as in PostgreSQL.
fn offset_of_local(time: NaiveDateTime, zone: Tz) -> i32 {
    let found = zone.offset_from_local_datetime(&time);
    let found = found.latest().map(|offset| offset.fix().local_minus_utc());
    found.unwrap_or_else(|| {
        let before = time - Duration::hours(3);
        let offset = zone.offset_from_local_datetime(&before).latest();
        offset.map_or(0, |offset| offset.fix().local_minus_utc())
    })
}
