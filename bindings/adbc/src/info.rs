//! Information about the driver and the database.

use crate::error::Result;
use crate::postgres;
use crate::session::Session;
use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::error::Error;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray, new_empty_array,
};
use arrow_schema::DataType;
use std::collections::HashSet;
use std::sync::Arc;

enum Value {
    Text(String),
    Bool(bool),
    Number(i64),
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who has made the database.
pub struct Vendor {
    name: &'static str,
    version: String,
}

impl Vendor {
    pub fn of(session: &Session) -> Result<Self> {
        Ok(match session.connection().is_postgres() {
            true => Self { name: "PostgreSQL", version: postgres::version(session)? },
            false => Self { name: "Hypostyle", version: VERSION.into() },
        })
    }
}

fn values(vendor: Vendor) -> [(InfoCode, Value); 9] {
    let arrow = hypostyle::arrow::ARROW_VERSION;
    [
        (InfoCode::VendorName, Value::Text(vendor.name.into())),
        (InfoCode::VendorVersion, Value::Text(vendor.version)),
        (InfoCode::VendorArrowVersion, Value::Text(arrow.into())),
        (InfoCode::VendorSql, Value::Bool(true)),
        (InfoCode::VendorSubstrait, Value::Bool(false)),
        (InfoCode::DriverName, Value::Text("ADBC Hypostyle Driver".into())),
        (InfoCode::DriverVersion, Value::Text(VERSION.into())),
        (InfoCode::DriverArrowVersion, Value::Text(arrow.into())),
        (InfoCode::DriverAdbcVersion, Value::Number(i64::from(ADBC_VERSION_1_1_0))),
    ]
}

/// Returns the requested codes that are known, or all of them.
pub fn info(vendor: Vendor, codes: Option<&HashSet<InfoCode>>) -> Result<RecordBatch> {
    let schema = GET_INFO_SCHEMA.clone();
    let DataType::Union(members, _) = schema.field(1).data_type() else {
        return Err(crate::error::internal("the values of get_info are a union"));
    };
    let (mut names, mut types, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    let (mut texts, mut bools, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (code, value) in
        values(vendor).into_iter().filter(|(code, _)| codes.is_none_or(|codes| codes.contains(code)))
    {
        names.push(u32::from(&code));
        let (member, offset) = match value {
            Value::Text(text) => {
                texts.push(text);
                (0, texts.len())
            }
            Value::Bool(is_so) => {
                bools.push(is_so);
                (1, bools.len())
            }
            Value::Number(number) => {
                numbers.push(number);
                (2, numbers.len())
            }
        };
        types.push(member);
        offsets.push(offset as i32 - 1);
    }
    let filled: [ArrayRef; 3] = [
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(bools)),
        Arc::new(Int64Array::from(numbers)),
    ];
    let empty = members.iter().skip(filled.len()).map(|(_, field)| new_empty_array(field.data_type()));
    let children = filled.iter().cloned().chain(empty).collect();
    let values = UnionArray::try_new(members.clone(), types.into(), Some(offsets.into()), children)
        .map_err(Error::from)?;
    RecordBatch::try_new(schema, vec![Arc::new(UInt32Array::from(names)), Arc::new(values)])
        .map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_codes_are_answered() {
        let vendor = || Vendor { name: "Hypostyle", version: VERSION.into() };
        assert_eq!(info(vendor(), None).unwrap().num_rows(), values(vendor()).len());
        let asked = HashSet::from([InfoCode::DriverAdbcVersion, InfoCode::Other(600)]);
        assert_eq!(info(vendor(), Some(&asked)).unwrap().num_rows(), 1);
        assert_eq!(info(vendor(), Some(&HashSet::new())).unwrap().num_rows(), 0);
    }
}
