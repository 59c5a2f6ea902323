//! lineitem as Protocol Buffers (the chapter's Table 3.7): as a list of rows, and as a repeated
//! field for each column.
//!
//! Decimals and dates are the integers that store them. The messages are as in generated code, with
//! an owned `String` for each value.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use prost::Message;

use super::Result;
use super::columns::{Column, ColumnBuilder, builders, columns, to_batch};
use super::format::Serializer;

#[derive(Clone, PartialEq, Message)]
struct Rows {
    #[prost(message, repeated, tag = "1")]
    rows: Vec<Row>,
}

#[derive(Clone, PartialEq, Message)]
struct Row {
    #[prost(int64, tag = "1")]
    orderkey: i64,
    #[prost(int64, tag = "2")]
    partkey: i64,
    #[prost(int64, tag = "3")]
    suppkey: i64,
    #[prost(int32, tag = "4")]
    linenumber: i32,
    #[prost(int64, tag = "5")]
    quantity: i64,
    #[prost(int64, tag = "6")]
    extendedprice: i64,
    #[prost(int64, tag = "7")]
    discount: i64,
    #[prost(int64, tag = "8")]
    tax: i64,
    #[prost(string, tag = "9")]
    returnflag: String,
    #[prost(string, tag = "10")]
    linestatus: String,
    #[prost(int32, tag = "11")]
    shipdate: i32,
    #[prost(int32, tag = "12")]
    commitdate: i32,
    #[prost(int32, tag = "13")]
    receiptdate: i32,
    #[prost(string, tag = "14")]
    shipinstruct: String,
    #[prost(string, tag = "15")]
    shipmode: String,
    #[prost(string, tag = "16")]
    comment: String,
}

/// A message of columns. Numbers are packed: one tag for all of a chunk.
#[derive(Clone, PartialEq, Message)]
struct Columns {
    #[prost(int64, repeated, tag = "1")]
    orderkey: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    partkey: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    suppkey: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    linenumber: Vec<i32>,
    #[prost(int64, repeated, tag = "5")]
    quantity: Vec<i64>,
    #[prost(int64, repeated, tag = "6")]
    extendedprice: Vec<i64>,
    #[prost(int64, repeated, tag = "7")]
    discount: Vec<i64>,
    #[prost(int64, repeated, tag = "8")]
    tax: Vec<i64>,
    #[prost(string, repeated, tag = "9")]
    returnflag: Vec<String>,
    #[prost(string, repeated, tag = "10")]
    linestatus: Vec<String>,
    #[prost(int32, repeated, tag = "11")]
    shipdate: Vec<i32>,
    #[prost(int32, repeated, tag = "12")]
    commitdate: Vec<i32>,
    #[prost(int32, repeated, tag = "13")]
    receiptdate: Vec<i32>,
    #[prost(string, repeated, tag = "14")]
    shipinstruct: Vec<String>,
    #[prost(string, repeated, tag = "15")]
    shipmode: Vec<String>,
    #[prost(string, repeated, tag = "16")]
    comment: Vec<String>,
}

/// A value of a message, and the column that it belongs to.
trait Value: Sized {
    fn at(column: &Column, row: usize) -> Result<Self>;
    fn push(self, builder: &mut ColumnBuilder) -> Result<()>;
}

const WRONG_TYPE: &str = "this is not lineitem: a column has another type";

impl Value for i32 {
    fn at(column: &Column, row: usize) -> Result<Self> {
        let Column::Four(values) = column else { return Err(WRONG_TYPE.into()) };
        Ok(values[row] as i32)
    }

    fn push(self, builder: &mut ColumnBuilder) -> Result<()> {
        let ColumnBuilder::Four(values) = builder else { return Err(WRONG_TYPE.into()) };
        values.push(self as u32);
        Ok(())
    }
}

impl Value for i64 {
    fn at(column: &Column, row: usize) -> Result<Self> {
        let Column::Eight(values) = column else { return Err(WRONG_TYPE.into()) };
        Ok(values[row] as i64)
    }

    fn push(self, builder: &mut ColumnBuilder) -> Result<()> {
        let ColumnBuilder::Eight(values) = builder else { return Err(WRONG_TYPE.into()) };
        values.push(self as u64);
        Ok(())
    }
}

impl Value for String {
    fn at(column: &Column, row: usize) -> Result<Self> {
        let Column::Text(text) = column else { return Err(WRONG_TYPE.into()) };
        Ok(text.value(row).to_owned())
    }

    fn push(self, builder: &mut ColumnBuilder) -> Result<()> {
        let ColumnBuilder::Text(text) = builder else { return Err(WRONG_TYPE.into()) };
        text.push(self.as_bytes());
        Ok(())
    }
}

/// Converts both messages from columns and back; the fields are in the columns' order.
macro_rules! conversions {
    ($($field:ident)*) => {
        const COLUMNS: usize = [$(stringify!($field)),*].len();

        fn to_row([$($field),*]: &[Column; COLUMNS], row: usize) -> Result<Row> {
            Ok(Row { $($field: Value::at($field, row)?),* })
        }

        fn push_row(message: Row, [$($field),*]: &mut [ColumnBuilder; COLUMNS]) -> Result<()> {
            $(message.$field.push($field)?;)*
            Ok(())
        }

        fn to_columns([$($field),*]: &[Column; COLUMNS], rows: usize) -> Result<Columns> {
            Ok(Columns { $($field: (0..rows).map(|row| Value::at($field, row)).collect::<Result<_>>()?),* })
        }

        fn push_columns(message: Columns, [$($field),*]: &mut [ColumnBuilder; COLUMNS]) -> Result<()> {
            let rows = [$(message.$field.len()),*];
            if rows.iter().any(|other| *other != rows[0]) {
                return Err("columns of a message have different lengths".into());
            }
            $(message.$field.into_iter().try_for_each(|value| value.push($field))?;)*
            Ok(())
        }
    };
}

conversions! {
    orderkey partkey suppkey linenumber quantity extendedprice discount tax
    returnflag linestatus shipdate commitdate receiptdate shipinstruct shipmode comment
}

fn lineitem_columns(chunk: &RecordBatch) -> Result<[Column; COLUMNS]> {
    columns(chunk)?.try_into().map_err(|_| WRONG_TYPE.into())
}

fn lineitem_builders(schema: &SchemaRef, rows: usize) -> Result<[ColumnBuilder; COLUMNS]> {
    builders(schema, rows)?.try_into().map_err(|_| WRONG_TYPE.into())
}

/// A format with a message for each row.
pub struct ProtobufRows;

impl Serializer for ProtobufRows {
    fn write(&self, chunk: &RecordBatch, message: &mut Vec<u8>) -> Result<()> {
        let columns = lineitem_columns(chunk)?;
        let rows = (0..chunk.num_rows()).map(|row| to_row(&columns, row)).collect::<Result<_>>()?;
        Ok(Rows { rows }.encode(message)?)
    }

    fn read(&self, message: &[u8], schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = Rows::decode(message)?.rows;
        let mut builders = lineitem_builders(schema, rows.len())?;
        rows.into_iter().try_for_each(|row| push_row(row, &mut builders))?;
        to_batch(schema, builders.into())
    }
}

/// A format with a repeated field for each column.
pub struct ProtobufColumns;

impl Serializer for ProtobufColumns {
    fn write(&self, chunk: &RecordBatch, message: &mut Vec<u8>) -> Result<()> {
        Ok(to_columns(&lineitem_columns(chunk)?, chunk.num_rows())?.encode(message)?)
    }

    fn read(&self, message: &[u8], schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = Columns::decode(message)?;
        let mut builders = lineitem_builders(schema, columns.orderkey.len())?;
        push_columns(columns, &mut builders)?;
        to_batch(schema, builders.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design_space::lineitem;

    #[test]
    fn messages_come_back_and_cut_ones_are_refused() {
        let batch = lineitem(0.001).unwrap().slice(3, 1000);
        let formats: [&dyn Serializer; 2] = [&ProtobufRows, &ProtobufColumns];
        for format in formats {
            let mut message = Vec::new();
            format.write(&batch, &mut message).unwrap();
            assert_eq!(format.read(&message, &batch.schema()).unwrap(), batch);
            assert!(format.read(&message[..message.len() - 1], &batch.schema()).is_err());
        }
    }
}
