//! The engine's own view of stored columns.
//!
//! Most arrays are passed on unchanged. These are not:
//!
//! * Narrow decimals become Decimal128, because DataFusion 55 rounds `1 - 0.04` to 1 when a
//!   Decimal32 or Decimal64 meets an integer.
//! * Dictionary codes become string views (a gather of 16 bytes a row), because some kernels would
//!   look up the −1 under a NULL.
//! * UUIDs become text, so that they compare with literals; those within lists, structures and maps, too.
//! * Strings and bytes of a table with deleted rows become views, so that leaving out rows moves no
//!   bytes. Those of a cluster's table are views always: its type is the same on all nodes.
//!
//! Columns that no operator reads, because they are only selected for a result, keep their stored
//! type.

use crate::scan::filter::Pick;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, StringViewArray, StringViewBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Decimal32Type, Decimal64Type, DecimalType, Field};
use datafusion::error::Result;
use hypostyle_expr::said::in_plans;
use hypostyle_expr::typed::in_type;
use hypostyle_storage::{ColumnData, TableData};
use hypostyle_types::LogicalType;
use std::sync::Arc;
use uuid::Uuid;

/// Returns the field of a table's column in a result that only picks rows of it.
pub(super) fn result_field(table: &TableData, column: &ColumnData) -> Field {
    let field = column.field();
    let data_type = match field.data_type() {
        // Rows of the log may have values that the dictionary has no code for.
        DataType::Dictionary(_, values) if table.beyond_files().tail.rows() > 0 => {
            DataType::Dictionary(Box::new(DataType::Int32), values.clone())
        }
        other => other.clone(),
    };
    field.with_data_type(data_type)
}

/// Returns the field of a table's column in plans.
pub fn engine_field(table: &TableData, column: &ColumnData) -> Field {
    let field = column.field();
    let as_views = table.is_viewed();
    let data_type = match field.data_type() {
        DataType::LargeUtf8 if as_views => DataType::Utf8View,
        DataType::LargeBinary if as_views => DataType::BinaryView,
        DataType::Dictionary(_, _) => DataType::Utf8View,
        _ => engine_type(&column.entry().logical_type),
    };
    field.with_data_type(data_type)
}

/// Returns the type of plain values in plans.
pub fn engine_type(logical_type: &LogicalType) -> DataType {
    match logical_type.arrow_type() {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(precision, scale)
        }
        _ => in_plans(&logical_type.arrow_field("", true)).data_type().clone(),
    }
}

/// A stored column, ready to be sliced into batches.
#[derive(Clone, Debug)]
pub enum EngineColumn {
    AsStored(ArrayRef),
    AsViews(ArrayRef),
    Dictionary {
        codes: ArrayRef,
        values: ArrayRef,
    },
    /// UUIDs, or values with some within them.
    Uuids {
        array: ArrayRef,
        text: DataType,
    },
    Decimal {
        array: ArrayRef,
        wide: DataType,
    },
}

impl EngineColumn {
    pub fn open(table: &TableData, column: &ColumnData) -> hypostyle_types::Result<Self> {
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
        let logical_type = &column.entry().logical_type;
        if *logical_type == LogicalType::Uuid || array.data_type().is_nested() {
            let text = engine_type(logical_type);
            if text != *array.data_type() {
                return Ok(Self::Uuids { array, text });
            }
        }
        match array.data_type() {
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                let wide = DataType::Decimal128(*precision, *scale);
                Ok(Self::Decimal { array, wide })
            }
            DataType::LargeUtf8 | DataType::LargeBinary if table.is_viewed() => Ok(Self::AsViews(array)),
            _ => Ok(Self::AsStored(array)),
        }
    }

    /// Returns the whole column as it is stored; a dictionary column's codes.
    pub fn at_rest(&self) -> &ArrayRef {
        match self {
            Self::AsStored(array) | Self::AsViews(array) | Self::Uuids { array, .. } => array,
            Self::Dictionary { codes, .. } => codes,
            Self::Decimal { array, .. } => array,
        }
    }

    /// Returns rows of a window of [`Self::at_rest`] in the engine's own type.
    pub fn read(&self, window: ArrayRef, pick: &Pick) -> Result<ArrayRef> {
        let in_one_pass = match self {
            Self::AsViews(_) => pick.views(&window),
            Self::Decimal { wide, .. } => widened(&window, wide, pick),
            _ => None,
        };
        if let Some(array) = in_one_pass {
            return Ok(array);
        }
        let picked = pick.of(window)?;
        match self {
            Self::AsStored(_) => Ok(picked),
            Self::AsViews(array) => match array.data_type() {
                DataType::LargeUtf8 => Ok(cast(&picked, &DataType::Utf8View)?),
                _ => Ok(cast(&picked, &DataType::BinaryView)?),
            },
            Self::Dictionary { values, .. } => Ok(take(values, &picked, None)?),
            Self::Decimal { wide, .. } => Ok(cast(&picked, wide)?),
            Self::Uuids { text, .. } => engine_array(&picked, text),
        }
    }
}

/// Returns plain values, such as rows that only the log has, in the engine's own type.
pub fn engine_array(rows: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match rows.data_type() {
        // This is a UUID: no other type becomes text.
        DataType::FixedSizeBinary(_) if *data_type == DataType::Utf8View => Ok(Arc::new(uuid_text(rows))),
        of if of.is_nested() => Ok(in_type(rows, data_type)?),
        _ => Ok(cast(rows, data_type)?),
    }
}

/// Returns the rows of a mask, widened while they are picked; `None` where that is not to be done.
fn widened(window: &ArrayRef, wide: &DataType, pick: &Pick) -> Option<ArrayRef> {
    fn values<T: DecimalType>(window: &ArrayRef, mask: &BooleanBuffer, count: usize) -> Vec<i128>
    where
        T::Native: Into<i128>,
    {
        let narrow = window.as_primitive::<T>().values();
        let mut values = Vec::with_capacity(count);
        for (start, end) in mask.set_slices() {
            values.extend(narrow[start..end].iter().map(|value| (*value).into()));
        }
        values
    }
    let Pick::Mask { mask, predicate } = pick else { return None };
    let count = predicate.count();
    let values = match window.data_type() {
        _ if window.null_count() > 0 => return None,
        DataType::Decimal32(_, _) => values::<Decimal32Type>(window, mask, count),
        DataType::Decimal64(_, _) => values::<Decimal64Type>(window, mask, count),
        _ => return None,
    };
    Some(Arc::new(Decimal128Array::from(values).with_data_type(wide.clone())))
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
