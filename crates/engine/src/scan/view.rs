//! The engine's own view of stored columns.
//!
//! Most arrays are handed over as they lie. Three are not: narrow decimals become Decimal128, because
//! DataFusion 55 rounds `1 - 0.04` to 1 when a Decimal32 or Decimal64 meets an integer; dictionary
//! codes, whose −1 under a NULL some kernels would look up, become string views (a gather of 16 bytes
//! a row); and UUIDs become text, so that they compare with literals.

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use hypostyle_storage::ColumnData;
use hypostyle_types::LogicalType;
use std::sync::Arc;
use uuid::Uuid;

/// The field of a column in plans.
pub(crate) fn engine_field(column: &ColumnData) -> Field {
    let field = column.field();
    let data_type = match field.data_type() {
        DataType::Dictionary(_, _) => DataType::Utf8View,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        _ if column.entry().logical_type == LogicalType::Uuid => DataType::Utf8View,
        other => other.clone(),
    };
    field.with_data_type(data_type)
}

/// A stored column, ready to be sliced into batches.
#[derive(Clone, Debug)]
pub(crate) enum EngineColumn {
    AsStored(ArrayRef),
    Dictionary { codes: ArrayRef, values: ArrayRef },
    Uuid(ArrayRef),
    Decimal { array: ArrayRef, wide: DataType },
}

impl EngineColumn {
    pub fn open(column: &ColumnData) -> hypostyle_types::Result<Self> {
        let array = column.array()?;
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            // Its strings are read here, before any row is.
            column.verify_dictionary_once()?;
            let values = cast(dictionary.values(), &DataType::Utf8View).map_err(|error| {
                hypostyle_types::Error::internal(format!("cannot view a dictionary: {error}"))
            })?;
            let codes = arrow::array::make_array(dictionary.keys().to_data());
            return Ok(Self::Dictionary { codes, values });
        }
        if column.entry().logical_type == LogicalType::Uuid {
            return Ok(Self::Uuid(array));
        }
        match array.data_type() {
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                let wide = DataType::Decimal128(*precision, *scale);
                Ok(Self::Decimal { array, wide })
            }
            _ => Ok(Self::AsStored(array)),
        }
    }

    /// The whole column as it is stored; a dictionary column's codes.
    pub fn at_rest(&self) -> &ArrayRef {
        match self {
            Self::AsStored(array) | Self::Uuid(array) => array,
            Self::Dictionary { codes, .. } => codes,
            Self::Decimal { array, .. } => array,
        }
    }

    /// Rows picked from [`Self::at_rest`] in the engine's own type.
    pub fn show(&self, picked: ArrayRef) -> Result<ArrayRef> {
        match self {
            Self::AsStored(_) => Ok(picked),
            Self::Dictionary { values, .. } => Ok(take(values, &picked, None)?),
            Self::Decimal { wide, .. } => Ok(cast(&picked, wide)?),
            Self::Uuid(_) => Ok(Arc::new(uuid_text(&picked))),
        }
    }
}

/// Rows of a column that only the log has, in the engine's own type.
pub(crate) fn engine_array(column: &ColumnData, rows: &ArrayRef) -> Result<ArrayRef> {
    match &column.entry().logical_type {
        LogicalType::Uuid => Ok(Arc::new(uuid_text(rows))),
        _ => Ok(cast(rows, engine_field(column).data_type())?),
    }
}

fn uuid_text(array: &ArrayRef) -> StringViewArray {
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut text = Uuid::encode_buffer();
    for bytes in array.as_fixed_size_binary().iter() {
        match bytes.and_then(|bytes| Uuid::from_slice(bytes).ok()) {
            Some(uuid) => builder.append_value(uuid.hyphenated().encode_lower(&mut text)),
            None => builder.append_null(),
        }
    }
    builder.finish()
}
