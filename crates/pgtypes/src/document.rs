//! Values that PostgreSQL lacks, structures, maps and lists of lists, as its `to_json` would write them:
//! texts within them are what they are outside, numbers and JSON stand without quotes, and points in time
//! are in ISO 8601's form.

use crate::calendar::put_json_timestamp;
use crate::column::Column;
use crate::encode::{Cells, Values, offset, own_elements, range};
use crate::style::Style;
use arrow::array::{Array, ArrayRef, AsArray, LargeListArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use bytes::{BufMut, BytesMut};
use hypostyle_types::{Error, LogicalType, Result};

/// Some rows that are written as JSON.
pub enum Document {
    /// The names in quotes, and the values.
    Structure(Vec<(BytesMut, Cells)>),
    /// Where the entries of each begin and end, their keys and their values.
    Map(Vec<usize>, Box<Cells>, Box<Cells>),
    List(LargeListArray, Box<Cells>),
    /// Values that JSON has.
    Plain(Box<Cells>),
}

impl Document {
    /// `style` is the session's, `column` the one that they are of.
    ///
    /// # Errors
    /// `InvalidInput` for a value that PostgreSQL's type does not hold.
    pub fn new(array: &ArrayRef, column: &Column, style: Style) -> Result<Self> {
        let cells = |values: &ArrayRef, field: &Field| {
            let of = match field.data_type() {
                DataType::Null => LogicalType::Varchar,
                DataType::Dictionary(_, of) => {
                    LogicalType::from_arrow(&field.clone().with_data_type(of.as_ref().clone()))?
                }
                _ => match LogicalType::from_arrow(field)? {
                    // They are texts while they are processed.
                    LogicalType::Uuid if field.data_type().is_string() => LogicalType::Varchar,
                    of => of,
                },
            };
            Cells::new(values, &Column::new(&column.name, &of), style)
        };
        Ok(match array.data_type() {
            DataType::Struct(fields) => {
                let parts = fields.iter().zip(array.as_struct().columns()).map(|(field, values)| {
                    let mut name = BytesMut::new();
                    put_quoted(&mut name, field.name().as_bytes());
                    Ok((name, cells(values, field)?))
                });
                Self::Structure(parts.collect::<Result<_>>()?)
            }
            DataType::Map(..) => {
                let (_, offsets, entries, ..) = array.as_map().clone().into_parts();
                // A slice has the entries of the whole.
                let (start, end) = (offsets[0], offsets[offsets.len() - 1]);
                let own = entries.slice(start as usize, (end - start) as usize);
                let offsets = offsets.iter().map(|offset| (offset - start) as usize).collect();
                let part = |place: usize| cells(own.column(place), &own.fields()[place]).map(Box::new);
                Self::Map(offsets, part(0)?, part(1)?)
            }
            DataType::List(of)
            | DataType::LargeList(of)
            | DataType::ListView(of)
            | DataType::LargeListView(of)
            | DataType::FixedSizeList(of, _) => {
                let lists = cast(array, &DataType::LargeList(of.clone()))
                    .map_err(|error| Error::internal(format!("a list that is none: {error}")))?;
                let lists = own_elements(lists.as_list())?;
                let elements = cells(lists.values(), of)?;
                Self::List(lists, Box::new(elements))
            }
            other => Self::Plain(Box::new(cells(array, &Field::new("", other.clone(), true))?)),
        })
    }

    /// Writes a value, which is not NULL.
    pub fn put(&self, row: usize, out: &mut BytesMut) {
        match self {
            Self::Structure(fields) => {
                let parts = fields.iter().map(|(name, values)| (name, values, row));
                put_parts(out, [b'{', b'}'], parts, |out, (name, values, row)| {
                    out.put_slice(name);
                    out.put_u8(b':');
                    values.put_json(row, out);
                });
            }
            Self::Map(offsets, keys, values) => {
                put_parts(out, [b'{', b'}'], offsets[row]..offsets[row + 1], |out, entry| {
                    let mut name = BytesMut::new();
                    keys.text(entry, &mut name);
                    put_quoted(out, &name);
                    out.put_u8(b':');
                    values.put_json(entry, out);
                });
            }
            Self::List(lists, elements) => put_list(lists, elements, row, out),
            Self::Plain(cells) => cells.put_json(row, out),
        }
    }
}

impl Cells {
    /// Writes a value as JSON.
    fn put_json(&self, row: usize, out: &mut BytesMut) {
        if self.is_null(row) {
            return out.put_slice(b"null");
        }
        let is_bare = match &self.values {
            Values::Bool(array) => {
                return out.put_slice(if array.value(row) { b"true" } else { b"false" });
            }
            Values::List { lists, elements, .. } => return put_list(lists, elements, row, out),
            Values::Timestamp(array, zone) => {
                let value = array.value(row);
                out.put_u8(b'"');
                put_json_timestamp(out, value, zone.map(|zone| offset(value, zone)));
                return out.put_u8(b'"');
            }
            Values::Float4(array) => array.value(row).is_finite(),
            Values::Float8(array) => array.value(row).is_finite(),
            Values::Int2(_)
            | Values::Int4(_)
            | Values::Int8(_)
            | Values::Oid(_)
            | Values::Numeric128(_)
            | Values::Numeric256(_)
            | Values::Json(_)
            | Values::Document(_) => true,
            Values::Text(_)
            | Values::Bytes(..)
            | Values::Uuid(_)
            | Values::Date(_)
            | Values::Time(_)
            | Values::Interval(..) => false,
        };
        if is_bare {
            return self.text(row, out);
        }
        let mut text = BytesMut::new();
        self.text(row, &mut text);
        put_quoted(out, &text);
    }
}

fn put_list(lists: &LargeListArray, elements: &Cells, row: usize, out: &mut BytesMut) {
    put_parts(out, [b'[', b']'], range(lists, row), |out, element| elements.put_json(element, out));
}

/// Writes parts with commas between them.
fn put_parts<T>(
    out: &mut BytesMut,
    [start, end]: [u8; 2],
    parts: impl Iterator<Item = T>,
    put: impl Fn(&mut BytesMut, T),
) {
    out.put_u8(start);
    for (place, part) in parts.enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        put(out, part);
    }
    out.put_u8(end);
}

/// Writes a text as JSON has it.
fn put_quoted(out: &mut BytesMut, text: &[u8]) {
    out.put_u8(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.put_slice(&[b'\\', *byte]),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            ..0x20 => out.put_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.put_u8(*byte),
        }
    }
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::timezone::Tz;
    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int32Array,
        LargeBinaryArray, ListArray, MapArray, NullArray, StringArray, StructArray,
        TimestampMicrosecondArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Fields;
    use std::sync::Arc;

    const YEAR_10000: i32 = 2_932_897;
    const BEFORE_CHRIST: i32 = -719_163;

    /// Returns the rows of an array as a client gets them.
    fn written(array: ArrayRef, zone: &str) -> Vec<String> {
        let field = Field::new("c", array.data_type().clone(), true);
        let of = LogicalType::from_arrow(&field).unwrap_or(LogicalType::Json);
        let column = Column::new("c", &of);
        let cells = Cells::new(&array, &column, Style::from(zone.parse::<Tz>().unwrap())).unwrap();
        let text = |row| {
            let (mut text, mut binary) = (BytesMut::new(), BytesMut::new());
            cells.text(row, &mut text);
            cells.binary(row, &mut binary);
            if column.shown.scalar == crate::types::JSON {
                assert_eq!(text, binary);
            }
            String::from_utf8(text.to_vec()).unwrap()
        };
        (0..array.len()).map(|row| if cells.is_null(row) { "NULL".into() } else { text(row) }).collect()
    }

    fn structure(fields: Vec<(Field, ArrayRef)>) -> StructArray {
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = fields.into_iter().unzip();
        StructArray::new(fields.into(), columns, None)
    }

    fn dates() -> ArrayRef {
        Arc::new(Date32Array::from(vec![
            Some(0),
            Some(YEAR_10000),
            Some(BEFORE_CHRIST),
            None,
            Some(i32::MAX),
        ]))
    }

    #[test]
    fn dates_of_all_years_are_those_of_postgresql_within_other_values() {
        const SHOWN: [&str; 5] = ["1970-01-01", "10000-01-01", "0001-12-31 BC", "NULL", "5881580-07-11"];
        assert_eq!(written(dates(), "UTC"), SHOWN);
        let quoted = SHOWN.map(|shown| if shown == "NULL" { "null".into() } else { format!("\"{shown}\"") });
        let field = Arc::new(Field::new("item", DataType::Date32, true));
        let list: ArrayRef =
            Arc::new(ListArray::new(field.clone(), OffsetBuffer::from_lengths([5]), dates(), None));
        assert_eq!(
            written(list.clone(), "UTC"),
            ["{1970-01-01,10000-01-01,\"0001-12-31 BC\",NULL,5881580-07-11}"]
        );
        let of_lists = Arc::new(Field::new("item", list.data_type().clone(), true));
        let lists = ListArray::new(of_lists, OffsetBuffer::from_lengths([1]), list.clone(), None);
        assert_eq!(written(Arc::new(lists), "UTC"), [format!("[[{}]]", quoted.join(","))]);
        let all = structure(vec![(Field::new("d", DataType::Date32, true), dates())]);
        assert_eq!(written(Arc::new(all), "UTC"), quoted.clone().map(|date| format!("{{\"d\":{date}}}")));
        let within = structure(vec![(Field::new("l", list.data_type().clone(), true), list)]);
        assert_eq!(written(Arc::new(within), "UTC"), [format!("{{\"l\":[{}]}}", quoted.join(","))]);
        let entries = structure(vec![
            (Field::new("key", DataType::Date32, false), Arc::new(Date32Array::from(vec![0, YEAR_10000]))),
            (
                Field::new("value", DataType::Date32, true),
                Arc::new(Date32Array::from(vec![0, BEFORE_CHRIST])),
            ),
        ]);
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let maps = MapArray::new(field, OffsetBuffer::from_lengths([1, 1]), entries, None, false);
        assert_eq!(written(Arc::new(maps.slice(1, 1)), "UTC"), ["{\"10000-01-01\":\"0001-12-31 BC\"}"]);
    }

    #[test]
    fn points_in_time_are_in_the_zone_of_the_session() {
        let day = 86_400_000_000;
        let ticks = vec![0, i64::from(YEAR_10000) * day, i64::from(BEFORE_CHRIST) * day + 500_000];
        let plain = TimestampMicrosecondArray::from(ticks.clone());
        let zoned = TimestampMicrosecondArray::from(ticks).with_timezone("UTC");
        let both = structure(vec![
            (Field::new("p", plain.data_type().clone(), true), Arc::new(plain)),
            (Field::new("z", zoned.data_type().clone(), true), Arc::new(zoned)),
        ]);
        assert_eq!(
            written(Arc::new(both), "Asia/Kolkata")[..2],
            [
                r#"{"p":"1970-01-01T00:00:00","z":"1970-01-01T05:30:00+05:30"}"#,
                r#"{"p":"10000-01-01T00:00:00","z":"10000-01-01T05:30:00+05:30"}"#,
            ]
        );
        let before = TimestampMicrosecondArray::from(vec![i64::from(BEFORE_CHRIST) * day + 500_000]);
        let before = structure(vec![(Field::new("p", before.data_type().clone(), true), Arc::new(before))]);
        assert_eq!(written(Arc::new(before), "UTC"), [r#"{"p":"0001-12-31T00:00:00.5 BC"}"#]);
    }

    #[test]
    fn values_within_others_are_what_they_are_outside() {
        let json = LogicalType::Json.arrow_field("j", true);
        let documents =
            cast(&StringArray::from(vec![Some(r#"{"a": [1]}"#), None]), json.data_type()).unwrap();
        let uuid = FixedSizeBinaryArray::try_from_iter([[7_u8; 16], [8_u8; 16]].into_iter()).unwrap();
        let decimal = Decimal128Array::from(vec![150, -1]).with_precision_and_scale(18, 2).unwrap();
        let field = |name: &str, of: DataType| Field::new(name, of, true);
        let row = structure(vec![
            (json, documents),
            (LogicalType::Uuid.arrow_field("u", true), Arc::new(uuid)),
            (field("f", DataType::Float64), Arc::new(Float64Array::from(vec![f64::NAN, 1.5]))),
            (field("b", DataType::Boolean), Arc::new(BooleanArray::from(vec![true, false]))),
            (field("n", decimal.data_type().clone()), Arc::new(decimal)),
            (
                field("y", DataType::LargeBinary),
                Arc::new(LargeBinaryArray::from_vec(vec![b"\x00\xff".as_slice(), b""])),
            ),
            (field("t\"", DataType::Utf8), Arc::new(StringArray::from(vec!["a\n\u{1}\"\\é", ""]))),
            (field("o", DataType::Null), Arc::new(NullArray::new(2))),
        ]);
        assert_eq!(
            written(Arc::new(row), "UTC"),
            [
                concat!(
                    r#"{"j":{"a": [1]},"u":"07070707-0707-0707-0707-070707070707","f":"NaN","b":true,"n":1.50,"#,
                    r#""y":"\\x00ff","t\"":"a\n\u0001\"\\é","o":null}"#
                ),
                concat!(
                    r#"{"j":null,"u":"08080808-0808-0808-0808-080808080808","f":1.5,"b":false,"n":-0.01,"#,
                    r#""y":"\\x","t\"":"","o":null}"#
                ),
            ]
        );
        let inner = structure(vec![(field("i", DataType::Int32), Arc::new(Int32Array::from(vec![1, 2])))]);
        let outer = StructArray::new(
            Fields::from(vec![field("s", inner.data_type().clone())]),
            vec![Arc::new(inner)],
            Some(vec![true, false].into()),
        );
        assert_eq!(written(Arc::new(outer), "UTC"), [r#"{"s":{"i":1}}"#, "NULL"]);
    }
}
