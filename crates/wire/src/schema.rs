//! Types of columns on the wire and as Arrow has them (protocol.md §9).
//!
//! Engines have several Arrow types for one SQL type (views, short offsets, dictionaries inside of
//! structs). On the wire there is one, the *canonical* one: that of a column at rest, except that a
//! decimal keeps its width and that a whole column may be a dictionary.

use crate::cursor::{Reader, Writer};
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit};
use hypostyle_types::{DECIMAL_PRECISION_MAX, Error, LogicalType, Result, TABLE_COLUMNS_MAX};
use std::sync::Arc;

/// Types within types.
const NESTING_MAX: usize = 64;

/// Fields of a schema, those within types included (§13).
pub const FIELDS_MAX: usize = 1 << 18;

/// Bytes of a field with an empty name and a type of one byte.
const FIELD_BYTES_MIN: usize = 6;

/// A field with the one Arrow type that its values have on the wire.
///
/// # Errors
/// `Unsupported` for Arrow types that no SQL type holds.
pub fn canonical_field(field: &Field) -> Result<Field> {
    let data_type = match field.data_type() {
        DataType::Dictionary(key, value)
            if matches!(**key, DataType::Int8 | DataType::Int16 | DataType::Int32)
                && (value.is_string() || value.is_binary()) =>
        {
            let values = canonical_type(&Field::new("", value.as_ref().clone(), true))?;
            DataType::Dictionary(key.clone(), Box::new(values))
        }
        _ => canonical_type(field)?,
    };
    let logical_type = LogicalType::from_arrow(field)?;
    Ok(logical_type.mark(Field::new(field.name(), data_type, field.is_nullable())))
}

/// # Errors
/// As [`canonical_field`]; `54011` when there are more columns than a receiver takes.
pub fn canonical_schema(schema: &Schema) -> Result<SchemaRef> {
    let columns = schema.fields().len();
    let fields = schema.fields().iter().map(|field| fields_of(field)).sum::<usize>();
    if columns > TABLE_COLUMNS_MAX || fields > FIELDS_MAX {
        return Err(Error::invalid_input(format!(
            "{columns} columns with {fields} fields are too many to be sent: at most {TABLE_COLUMNS_MAX} with \
             {FIELDS_MAX}"
        ))
        .with_sqlstate("54011"));
    }
    let fields: Fields =
        schema.fields().iter().map(|field| canonical_field(field)).collect::<Result<Vec<_>>>()?.into();
    Ok(Arc::new(Schema::new(fields)))
}

/// A field and those within its type.
fn fields_of(field: &Field) -> usize {
    1 + match field.data_type() {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _)
        | DataType::Map(element, _) => fields_of(element),
        DataType::Struct(members) => members.iter().map(|member| fields_of(member)).sum(),
        _ => 0,
    }
}

fn canonical_type(field: &Field) -> Result<DataType> {
    let within = |child: &FieldRef| -> Result<FieldRef> {
        let data_type = canonical_type(child)?;
        let logical_type = LogicalType::from_arrow(child)?;
        Ok(Arc::new(logical_type.mark(Field::new(child.name(), data_type, child.is_nullable()))))
    };
    Ok(match field.data_type() {
        decimal @ (DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)) => {
            LogicalType::from_arrow(field)?;
            decimal.clone()
        }
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => DataType::LargeList(within(element)?),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(within(element)?, *length),
        DataType::Struct(members) => DataType::Struct(members.iter().map(within).collect::<Result<_>>()?),
        DataType::Map(entries, sorted) => DataType::Map(within(entries)?, *sorted),
        DataType::Null => DataType::Null,
        _ => LogicalType::from_arrow(field)?.arrow_type(),
    })
}

/// # Panics
/// When a type is not canonical; see [`canonical_field`].
pub fn write_schema(to: &mut Writer, schema: &Schema) {
    to.list(schema.fields().iter(), |to, field| write_field(to, field));
}

fn write_field(to: &mut Writer, field: &Field) {
    to.text(field.name()).u8(u8::from(field.is_nullable()));
    write_type(to, field);
}

#[expect(clippy::panic, reason = "senders have made the schema canonical")]
fn write_type(to: &mut Writer, field: &Field) {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    let is = |logical_type| LogicalType::from_arrow(field).is_ok_and(|found| found == logical_type);
    let mut decimal = |precision: &u8, scale: &i8, bytes: u8| {
        to.u8(12).u8(*precision).i8(*scale).u8(bytes);
    };
    match field.data_type() {
        DataType::Boolean => _ = to.u8(1),
        DataType::Int8 => _ = to.u8(2),
        DataType::Int16 => _ = to.u8(3),
        DataType::Int32 => _ = to.u8(4),
        DataType::Int64 => _ = to.u8(5),
        DataType::UInt8 => _ = to.u8(6),
        DataType::UInt16 => _ = to.u8(7),
        DataType::UInt32 => _ = to.u8(8),
        DataType::UInt64 => _ = to.u8(9),
        DataType::Float32 => _ = to.u8(10),
        DataType::Float64 => _ = to.u8(11),
        DataType::Decimal32(precision, scale) => decimal(precision, scale, 4),
        DataType::Decimal64(precision, scale) => decimal(precision, scale, 8),
        DataType::Decimal128(precision, scale) => decimal(precision, scale, 16),
        DataType::Decimal256(precision, scale) => decimal(precision, scale, 32),
        DataType::LargeUtf8 if is(LogicalType::Json) => _ = to.u8(23),
        DataType::LargeUtf8 => _ = to.u8(13),
        DataType::LargeBinary => _ = to.u8(14),
        DataType::Date32 => _ = to.u8(15),
        DataType::Time64(_) => _ = to.u8(16),
        DataType::Timestamp(of, None) => _ = to.u8(17).u8(unit(of)),
        DataType::Timestamp(of, Some(zone)) => _ = to.u8(18).u8(unit(of)).text(zone),
        DataType::Interval(_) => _ = to.u8(19),
        DataType::Duration(of) => _ = to.u8(20).u8(unit(of)),
        DataType::FixedSizeBinary(16) if is(LogicalType::Uuid) => _ = to.u8(21),
        DataType::FixedSizeBinary(bytes) => _ = to.u8(22).u32(bytes.unsigned_abs()),
        DataType::LargeList(element) => write_field(to.u8(24), element),
        DataType::FixedSizeList(element, length) => {
            write_field(to.u8(25).u32(length.unsigned_abs()), element);
        }
        DataType::Struct(members) => {
            to.u8(26).list(members.iter(), |to, member| write_field(to, member));
        }
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { panic!("entries of a map are structs") };
            to.u8(27);
            pair.iter().for_each(|member| write_field(to, member));
            to.u8(u8::from(*sorted));
        }
        DataType::Dictionary(key, values) => {
            to.u8(28).u8(match key.as_ref() {
                DataType::Int8 => 1,
                DataType::Int16 => 2,
                _ => 4,
            });
            write_type(to, &Field::new("", values.as_ref().clone(), true));
        }
        DataType::Null => _ = to.u8(29),
        other => panic!("{other} is not a canonical type"),
    }
}

/// # Errors
/// `08P01` when the bytes are not those of a schema.
pub fn read_schema(from: &mut Reader<'_>) -> Result<SchemaRef> {
    read_counted_schema(from).map(|(schema, _)| schema)
}

/// A schema, and how many fields it has, those within types included.
pub(crate) fn read_counted_schema(from: &mut Reader<'_>) -> Result<(SchemaRef, usize)> {
    let mut left = FIELDS_MAX;
    let fields = from.list(FIELD_BYTES_MIN, TABLE_COLUMNS_MAX, |from| read_field(from, &mut left, 0))?;
    Ok((Arc::new(Schema::new(fields)), FIELDS_MAX - left))
}

/// Reads a field and those within its type, of which `left` may come.
fn read_field(from: &mut Reader<'_>, left: &mut usize, depth: usize) -> Result<FieldRef> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| Error::protocol(format!("a schema of more than {FIELDS_MAX} fields")))?;
    let name = from.text()?.to_string();
    let nullable = from.flag()?;
    let (data_type, marked) = read_type(from, left, depth)?;
    let field = Field::new(name, data_type, nullable);
    Ok(Arc::new(match marked {
        Some(logical_type) => logical_type.mark(field),
        None => field,
    }))
}

/// A type, and the logical type that its field is marked with.
fn read_type(
    from: &mut Reader<'_>,
    left: &mut usize,
    depth: usize,
) -> Result<(DataType, Option<LogicalType>)> {
    if depth > NESTING_MAX {
        return Err(Error::protocol(format!("types are nested deeper than {NESTING_MAX}")));
    }
    let data_type = match from.u8()? {
        1 => DataType::Boolean,
        2 => DataType::Int8,
        3 => DataType::Int16,
        4 => DataType::Int32,
        5 => DataType::Int64,
        6 => DataType::UInt8,
        7 => DataType::UInt16,
        8 => DataType::UInt32,
        9 => DataType::UInt64,
        10 => DataType::Float32,
        11 => DataType::Float64,
        12 => read_decimal(from)?,
        13 => DataType::LargeUtf8,
        14 => DataType::LargeBinary,
        15 => DataType::Date32,
        16 => DataType::Time64(TimeUnit::Microsecond),
        17 => DataType::Timestamp(read_unit(from)?, None),
        18 => {
            let unit = read_unit(from)?;
            DataType::Timestamp(unit, Some(from.text()?.into()))
        }
        19 => DataType::Interval(IntervalUnit::MonthDayNano),
        20 => DataType::Duration(read_unit(from)?),
        21 => return Ok((DataType::FixedSizeBinary(16), Some(LogicalType::Uuid))),
        22 => DataType::FixedSizeBinary(read_length(from)?),
        23 => return Ok((DataType::LargeUtf8, Some(LogicalType::Json))),
        24 => DataType::LargeList(read_field(from, left, depth + 1)?),
        25 => {
            let length = read_length(from)?;
            DataType::FixedSizeList(read_field(from, left, depth + 1)?, length)
        }
        26 => {
            let members = from.list(FIELD_BYTES_MIN, *left, |from| read_field(from, left, depth + 1))?;
            DataType::Struct(members.into())
        }
        27 => {
            let pair = vec![read_field(from, left, depth + 1)?, read_field(from, left, depth + 1)?];
            let entries = Field::new("entries", DataType::Struct(pair.into()), false);
            DataType::Map(Arc::new(entries), from.flag()?)
        }
        28 if depth == 0 => {
            let key = match from.u8()? {
                1 => DataType::Int8,
                2 => DataType::Int16,
                4 => DataType::Int32,
                other => return Err(Error::protocol(format!("codes cannot have {other} bytes"))),
            };
            let values = match from.u8()? {
                13 => DataType::LargeUtf8,
                14 => DataType::LargeBinary,
                other => {
                    return Err(Error::protocol(format!("a dictionary cannot have values of type {other}")));
                }
            };
            DataType::Dictionary(Box::new(key), Box::new(values))
        }
        29 => DataType::Null,
        other => return Err(Error::protocol(format!("there is no type {other} here"))),
    };
    Ok((data_type, None))
}

fn read_decimal(from: &mut Reader<'_>) -> Result<DataType> {
    let (precision, scale, bytes) = (from.u8()?, from.i8()?, from.u8()?);
    let (data_type, precision_max) = match bytes {
        4 => (DataType::Decimal32(precision, scale), 9),
        8 => (DataType::Decimal64(precision, scale), 18),
        16 => (DataType::Decimal128(precision, scale), 38),
        32 => (DataType::Decimal256(precision, scale), DECIMAL_PRECISION_MAX),
        other => return Err(Error::protocol(format!("a decimal cannot have {other} bytes"))),
    };
    if precision == 0 || precision > precision_max || scale < 0 || scale as u8 > precision {
        return Err(Error::protocol(format!("DECIMAL({precision},{scale}) cannot be in {bytes} bytes")));
    }
    Ok(data_type)
}

fn read_unit(from: &mut Reader<'_>) -> Result<TimeUnit> {
    match from.u8()? {
        0 => Ok(TimeUnit::Second),
        1 => Ok(TimeUnit::Millisecond),
        2 => Ok(TimeUnit::Microsecond),
        3 => Ok(TimeUnit::Nanosecond),
        other => Err(Error::protocol(format!("there is no unit {other} of time"))),
    }
}

fn read_length(from: &mut Reader<'_>) -> Result<i32> {
    let length = from.u32()?;
    i32::try_from(length).map_err(|_| Error::protocol(format!("a length of {length} is too long")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let text = |name| Field::new(name, DataType::Utf8View, true);
        let logical = |name, logical_type: LogicalType| logical_type.arrow_field(name, true);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
        let deep = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
        Schema::new(vec![
            Field::new("a", DataType::Decimal128(9, 2), false),
            text("b"),
            logical("c", LogicalType::Json),
            logical("d", LogicalType::Uuid),
            Field::new("e", dictionary, true),
            Field::new("f", deep, true),
            Field::new("g", DataType::List(Arc::new(text("item"))), true),
            Field::new("h", DataType::Struct(vec![text("x"), logical("y", LogicalType::Json)].into()), true),
            logical(
                "i",
                LogicalType::Map { key: LogicalType::Varchar.into(), value: LogicalType::Date.into() },
            ),
            logical("j", LogicalType::timestamp_with_time_zone()),
            logical("k", LogicalType::Interval),
            Field::new("l", DataType::Null, true),
            logical("m", LogicalType::Array { element: LogicalType::Float.into(), length: 3 }),
            Field::new("n", DataType::Date64, true),
        ])
    }

    #[test]
    fn a_schema_comes_back_canonical() {
        let canonical = canonical_schema(&schema()).unwrap();
        let mut writer = Writer::default();
        write_schema(&mut writer, &canonical);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(read_schema(&mut reader).unwrap(), canonical);
        reader.end().unwrap();
        assert_eq!(canonical.field(1).data_type(), &DataType::LargeUtf8);
        assert_eq!(canonical.field(5).data_type(), &DataType::LargeUtf8, "codes are signed");
        assert_eq!(canonical.field(0).data_type(), &DataType::Decimal128(9, 2));
        for (own, wire) in schema().fields().iter().zip(canonical.fields()) {
            assert_eq!(LogicalType::from_arrow(own).unwrap(), LogicalType::from_arrow(wire).unwrap());
        }
    }

    #[test]
    fn every_cut_of_a_schema_is_refused() {
        let mut writer = Writer::default();
        write_schema(&mut writer, &canonical_schema(&schema()).unwrap());
        let bytes = writer.finish();
        for length in 0..bytes.len() {
            assert_eq!(read_schema(&mut Reader::new(&bytes[..length])).unwrap_err().sqlstate(), "08P01");
        }
    }

    /// So many columns, each of a struct with so many members.
    fn structs(columns: u32, members: u32) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(columns);
        for _ in 0..columns {
            writer.text("").u8(1).u8(26).u32(members);
            (0..members).for_each(|_| _ = writer.text("").u8(1).u8(1));
        }
        writer.finish()
    }

    #[test]
    fn columns_and_fields_have_a_limit_for_both_sides() {
        for (columns, members, fits) in
            [(16_384, 15, true), (16_385, 0, false), (16_384, 16, false), (1, 1 << 18, false)]
        {
            let bytes = structs(columns, members);
            assert_eq!(read_schema(&mut Reader::new(&bytes)).is_ok(), fits, "{columns} {members}");
            let member = Arc::new(Field::new("", DataType::Boolean, true));
            let members: Fields = vec![member; members as usize].into();
            let column = Arc::new(Field::new("", DataType::Struct(members), true));
            let sent = canonical_schema(&Schema::new(vec![column; columns as usize]));
            assert_eq!(
                sent.map_err(|error| error.sqlstate().to_string()).err().as_deref(),
                (!fits).then_some("54011")
            );
        }
    }

    #[test]
    fn endless_nesting_is_refused() {
        let mut writer = Writer::default();
        writer.u32(1);
        for _ in 0..10_000 {
            writer.text("").u8(1).u8(24);
        }
        assert!(read_schema(&mut Reader::new(&writer.finish())).unwrap_err().message().contains("nested"));
    }
}
