//! Block synopses as DataFusion statistics and scalars.

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use hypostyle_storage::{BlockSynopsis, Bound, ColumnData, TableData};

/// The end of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Minimum,
    Maximum,
}

/// Returns a bound as a scalar of the column's type; `None` when it has no scalar that surely
/// bounds.
pub fn scalar(bound: &Bound, data_type: &DataType, end: End) -> Option<ScalarValue> {
    match bound {
        Bound::Integer(value) => integer(*value, data_type),
        Bound::Float(value) => match data_type {
            DataType::Float32 => Some(ScalarValue::Float32(Some(*value as f32))),
            DataType::Float64 => Some(ScalarValue::Float64(Some(*value))),
            _ => None,
        },
        Bound::Bytes { prefix, exact } => {
            let text = match std::str::from_utf8(prefix) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&prefix[..error.valid_up_to()]).ok()?,
            };
            let text = match (exact, end) {
                (true, _) | (false, End::Minimum) => text.to_string(),
                (false, End::Maximum) => successor(text)?,
            };
            match data_type {
                DataType::Utf8View => Some(ScalarValue::Utf8View(Some(text))),
                DataType::LargeUtf8 => Some(ScalarValue::LargeUtf8(Some(text))),
                _ => None,
            }
        }
    }
}

/// Returns a string above every string that starts with `prefix`.
fn successor(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let next = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32);
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

fn integer(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    use ScalarValue::*;
    Some(match data_type {
        DataType::Boolean => Boolean(Some(value != 0)),
        DataType::Int8 => Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => Int32(Some(value.try_into().ok()?)),
        DataType::Int64 => Int64(Some(value.try_into().ok()?)),
        DataType::UInt8 => UInt8(Some(value.try_into().ok()?)),
        DataType::UInt16 => UInt16(Some(value.try_into().ok()?)),
        DataType::UInt32 => UInt32(Some(value.try_into().ok()?)),
        DataType::UInt64 => UInt64(Some(value.try_into().ok()?)),
        DataType::Date32 => Date32(Some(value.try_into().ok()?)),
        DataType::Decimal32(precision, scale) => Decimal32(Some(value.try_into().ok()?), *precision, *scale),
        DataType::Decimal64(precision, scale) => Decimal64(Some(value.try_into().ok()?), *precision, *scale),
        DataType::Decimal128(precision, scale) => Decimal128(Some(value), *precision, *scale),
        DataType::Time64(TimeUnit::Microsecond) => Time64Microsecond(Some(value.try_into().ok()?)),
        DataType::Timestamp(unit, zone) => {
            let ticks = Some(i64::try_from(value).ok()?);
            match unit {
                TimeUnit::Second => TimestampSecond(ticks, zone.clone()),
                TimeUnit::Millisecond => TimestampMillisecond(ticks, zone.clone()),
                TimeUnit::Microsecond => TimestampMicrosecond(ticks, zone.clone()),
                TimeUnit::Nanosecond => TimestampNanosecond(ticks, zone.clone()),
            }
        }
        _ => return None,
    })
}

/// Statistics of the projected columns of a whole table, exact where its column files are all of
/// it.
pub fn table_statistics(table: &TableData, projection: &[usize], fields: &[Field]) -> Statistics {
    let columns = projection
        .iter()
        .zip(fields)
        .map(|(index, field)| match table.columns().get(*index) {
            Some(column) => {
                let statistics = column_statistics(column, field.data_type());
                // The synopses know nothing of rows that only the log has, or that are deleted:
                // they are then an estimate.
                match table.is_in_files() {
                    true => statistics,
                    false => statistics.to_inexact(),
                }
            }
            None => ColumnStatistics::new_unknown(),
        })
        .collect();
    Statistics {
        num_rows: Precision::Exact(table.rows() as usize),
        total_byte_size: Precision::Absent,
        column_statistics: columns,
    }
}

fn column_statistics(column: &ColumnData, data_type: &DataType) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    statistics.null_count = Precision::Exact(column.null_count() as usize);
    if let Some(distinct) = column.distinct_count() {
        statistics.distinct_count = Precision::Inexact(distinct as usize);
    }
    // CHECK DATABASE reports damaged synopses; a plan works without them.
    let synopses = column.synopses().unwrap_or_default();
    statistics.min_value = fold(synopses, data_type, End::Minimum);
    statistics.max_value = fold(synopses, data_type, End::Maximum);
    statistics
}

fn fold(synopses: &[BlockSynopsis], data_type: &DataType, end: End) -> Precision<ScalarValue> {
    let mut best: Option<ScalarValue> = None;
    let mut exact = true;
    for synopsis in synopses {
        // NaN sorts above all numbers, and is not in the bounds.
        exact &= !synopsis.has_nan;
        let Some((low, high)) = &synopsis.bounds else {
            if synopsis.nulls < synopsis.rows {
                return Precision::Absent;
            }
            continue;
        };
        let bound = if end == End::Minimum { low } else { high };
        exact &= !matches!(bound, Bound::Bytes { exact: false, .. });
        let Some(found) = scalar(bound, data_type, end) else { return Precision::Absent };
        let better = match &best {
            None => true,
            Some(best) if end == End::Minimum => found < *best,
            Some(best) => found > *best,
        };
        if better {
            best = Some(found);
        }
    }
    match best {
        Some(value) if exact => Precision::Exact(value),
        Some(value) => Precision::Inexact(value),
        None => Precision::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_maximum_still_bounds() {
        let bound = Bound::Bytes { prefix: b"abc".to_vec(), exact: false };
        let text = |end| scalar(&bound, &DataType::LargeUtf8, end).map(|value| value.to_string());
        assert_eq!(text(End::Minimum).as_deref(), Some("abc"));
        assert_eq!(text(End::Maximum).as_deref(), Some("abd"));
        assert_eq!(successor("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(successor("\u{10FFFF}"), None);
        assert_eq!(successor("\u{D7FF}").as_deref(), Some("\u{E000}"));
    }
}
