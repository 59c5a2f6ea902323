//! Checks what a program passes by Arrow's C data interface, and gives it streams. arrow-rs takes the
//! numbers in the interface's structs as they are: a negative length is an enormous one, and a buffer
//! that is not there is read.
//!
//! What a pointer leads to cannot be checked, and neither can the length of a buffer, for which the
//! interface has no field.

use crate::driver_session::caught;
use arrow::array::{ArrayData, RecordBatch, RecordBatchReader, layout};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, SchemaRef, UnionMode,
};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use hypostyle_types::{Error, ErrorKind, Result};

/// The rows that an array may have, before its first one too: as many as a process has addresses.
const ROWS_MAX: i64 = 1 << 47;

/// The parts that a type may have.
const PARTS_MAX: i64 = 1 << 20;

/// The levels that a type may have: types are followed by recursion.
const LEVELS_MAX: usize = 256;

/// Checks a schema, before a type is made of it.
///
/// # Errors
/// `InvalidInput` for what the interface does not allow, and for a type of too many levels.
pub fn check_arrow_schema(schema: &FFI_ArrowSchema) -> Result<()> {
    in_words(|| check_schema(schema, 1))
}

/// Checks an array by the type of its schema, before it is imported.
///
/// # Errors
/// `InvalidInput` for negative or impossible numbers, and for buffers and parts that the type does not
/// have.
pub fn check_arrow_array(array: &FFI_ArrowArray, data_type: &DataType) -> Result<()> {
    in_words(|| check_array(array, data_type))
}

/// Checks the buffers that were imported, whose lengths are among their values.
///
/// # Errors
/// `InvalidInput` for one that is longer than memory.
pub fn check_arrow_buffers(data: &ArrayData) -> Result<()> {
    if let Some(buffer) = data.buffers().iter().find(|buffer| isize::try_from(buffer.len()).is_err()) {
        return Err(damaged(data.data_type(), format!("a buffer of {} bytes", buffer.len() as isize)));
    }
    data.child_data().iter().try_for_each(check_arrow_buffers)
}

/// Returns the rows of an imported array, all of whose values are sound. Structs and lists of a fixed
/// length in it begin at their first row: arrow-rs takes the offset of a struct in one of them twice.
///
/// # Errors
/// `InvalidInput` for values that their types do not have.
pub fn sound_arrow_rows(data: &ArrayData) -> Result<ArrayData> {
    check_arrow_buffers(data)?;
    in_words(|| sound_rows(data, 0, data.len()))
}

/// Gives rows to C.
pub fn export_arrow_stream(rows: Box<dyn RecordBatchReader + Send>) -> FFI_ArrowArrayStream {
    FFI_ArrowArrayStream::new(Box::new(Exported(rows)))
}

/// Rows for C, which a panic must not reach. arrow-rs panics at an error with a NUL character, which an
/// error that quotes a value may have.
struct Exported(Box<dyn RecordBatchReader + Send>);

impl Iterator for Exported {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = caught(|| Ok(self.0.next()));
        let next = next.unwrap_or_else(|panic| Some(Err(ArrowError::ExternalError(Box::new(panic)))));
        next.map(|batch| batch.map_err(without_nul))
    }
}

impl RecordBatchReader for Exported {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

fn without_nul(error: ArrowError) -> ArrowError {
    let shown = |text: String| text.replace('\0', "\\0");
    match error {
        ArrowError::ExternalError(inner) => match inner.to_string() {
            text if text.contains('\0') => ArrowError::ExternalError(shown(text).into()),
            _ => ArrowError::ExternalError(inner),
        },
        error => match error.to_string() {
            text if text.contains('\0') => ArrowError::CDataInterface(shown(text)),
            _ => error,
        },
    }
}

/// Runs a check. The functions of arrow-rs panic where a struct has no other way to say that it lies.
fn in_words<T>(check: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(check).map_err(|error| match error.kind() {
        ErrorKind::Internal => {
            Error::invalid_input("damaged Arrow data: it is not as Arrow's C data interface says")
        }
        _ => error,
    })
}

fn damaged(data_type: &DataType, what: impl AsRef<str>) -> Error {
    Error::invalid_input(format!("damaged Arrow data of the type {data_type}: {}", what.as_ref()))
}

fn check_schema(schema: &FFI_ArrowSchema, level: usize) -> Result<()> {
    if level > LEVELS_MAX {
        return Err(Error::invalid_input(format!("an Arrow type of more than {LEVELS_MAX} levels")));
    }
    let parts = schema.n_children;
    if !(0..=PARTS_MAX).contains(&parts) || (parts > 0 && schema.children.is_null()) {
        return Err(Error::invalid_input(format!("damaged Arrow data: a type of {parts} parts")));
    }
    // Both panic at what is no text.
    let (_format, _name) = (schema.format(), schema.name());
    if let Some(values) = schema.dictionary() {
        check_schema(values, level + 1)?;
    }
    schema.children().try_for_each(|part| check_schema(part, level + 1))
}

fn check_array(array: &FFI_ArrowArray, data_type: &DataType) -> Result<()> {
    check_type(data_type)?;
    let rows = rows_with_offset(array, data_type)?;
    check_buffers(array, data_type)?;
    check_parts(array, data_type, rows)
}

/// Checks the numbers of a type, but not those of its parts.
fn check_type(data_type: &DataType) -> Result<()> {
    let digits = match data_type {
        DataType::Decimal32(precision, _) => Some((*precision, Decimal32Type::MAX_PRECISION)),
        DataType::Decimal64(precision, _) => Some((*precision, Decimal64Type::MAX_PRECISION)),
        DataType::Decimal128(precision, _) => Some((*precision, Decimal128Type::MAX_PRECISION)),
        DataType::Decimal256(precision, _) => Some((*precision, Decimal256Type::MAX_PRECISION)),
        _ => None,
    };
    if let Some((precision, most)) = digits
        && !(1..=most).contains(&precision)
    {
        return Err(damaged(data_type, format!("{precision} digits, where 1 to {most} may be")));
    }
    let is_sound = match data_type {
        DataType::FixedSizeBinary(size) | DataType::FixedSizeList(_, size) => *size >= 0,
        DataType::Map(entries, _) => {
            matches!(entries.data_type(), DataType::Struct(fields) if fields.len() == 2)
        }
        DataType::Dictionary(keys, _) => keys.is_dictionary_key_type(),
        DataType::RunEndEncoded(ends, _) => ends.data_type().is_run_ends_type(),
        _ => true,
    };
    is_sound.then_some(()).ok_or_else(|| damaged(data_type, "there is no such type"))
}

/// Returns the number of rows from the beginning of the buffers on.
fn rows_with_offset(array: &FFI_ArrowArray, data_type: &DataType) -> Result<usize> {
    let (offset, length) = (array.offset, array.length);
    let rows = offset.checked_add(length).filter(|rows| offset >= 0 && length >= 0 && *rows <= ROWS_MAX);
    let rows = rows.and_then(|rows| usize::try_from(rows).ok());
    let rows = rows.ok_or_else(|| damaged(data_type, format!("{length} rows from the row {offset} on")))?;
    // -1 says that nobody has counted them.
    if !(-1..=length).contains(&array.null_count) {
        return Err(damaged(data_type, format!("{} NULLs in {length} rows", array.null_count)));
    }
    if let DataType::FixedSizeBinary(size) = data_type
        && i128::from(*size) * rows as i128 > i128::from(ROWS_MAX)
    {
        return Err(damaged(data_type, format!("{rows} values")));
    }
    Ok(rows)
}

fn check_buffers(array: &FFI_ArrowArray, data_type: &DataType) -> Result<()> {
    if *data_type == DataType::Null {
        // It has none, but some libraries give it one, which nobody reads.
        return Ok(());
    }
    let layout = layout(data_type);
    let own = layout.buffers.len();
    let least = usize::from(layout.can_contain_null_mask) + own;
    let given = usize::try_from(array.n_buffers).unwrap_or(usize::MAX);
    let fits = match layout.variadic {
        // The last one has the lengths of the others.
        true => given > least && given <= PARTS_MAX as usize,
        false => given == least || (own == 0 && given == 0),
    };
    if !fits || (given > 0 && array.buffers.is_null()) {
        return Err(damaged(data_type, format!("{} buffers", array.n_buffers)));
    }
    if layout.can_contain_null_mask && array.null_count > 0 && (given == 0 || array.buffer(0).is_null()) {
        return Err(damaged(data_type, format!("{} NULLs, and none says which", array.null_count)));
    }
    if layout.variadic && given > least + 1 {
        let lengths = array.buffer(given - 1);
        if lengths.is_null() || lengths.align_offset(align_of::<i64>()) != 0 {
            return Err(damaged(data_type, "buffers without lengths"));
        }
    }
    Ok(())
}

/// Checks the parts of an array: elements, fields, and the values of a dictionary.
fn check_parts(array: &FFI_ArrowArray, data_type: &DataType, rows: usize) -> Result<()> {
    let mut least = 0;
    let parts: Vec<&DataType> = match data_type {
        DataType::List(part)
        | DataType::LargeList(part)
        | DataType::ListView(part)
        | DataType::LargeListView(part)
        | DataType::Map(part, _) => vec![part.data_type()],
        DataType::FixedSizeList(part, size) => {
            let values = usize::try_from(*size).ok().and_then(|size| rows.checked_mul(size));
            least = values.ok_or_else(|| damaged(data_type, format!("{rows} lists")))?;
            vec![part.data_type()]
        }
        DataType::Struct(fields) => {
            least = rows;
            fields.iter().map(|field| field.data_type()).collect()
        }
        DataType::Union(fields, mode) => {
            least = if *mode == UnionMode::Sparse { rows } else { 0 };
            fields.iter().map(|(_, field)| field.data_type()).collect()
        }
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        DataType::Dictionary(_, values) => {
            let dictionary = array.dictionary().ok_or_else(|| damaged(data_type, "no dictionary"))?;
            return check_array(dictionary, values);
        }
        _ => return Ok(()),
    };
    let are_there = parts.is_empty() || !array.children.is_null();
    if usize::try_from(array.n_children).ok() != Some(parts.len()) || !are_there {
        return Err(damaged(data_type, format!("{} parts instead of {}", array.n_children, parts.len())));
    }
    for (index, part) in parts.into_iter().enumerate() {
        let child = array.child(index);
        check_array(child, part)?;
        if child.len() < least {
            return Err(damaged(data_type, format!("a part of {} rows instead of {least}", child.len())));
        }
    }
    Ok(())
}

fn sound_rows(data: &ArrayData, start: usize, rows: usize) -> Result<ArrayData> {
    let of = data.data_type();
    if start.checked_add(rows).is_none_or(|end| end > data.len()) {
        let needed = start.saturating_add(rows);
        return Err(damaged(of, format!("{} values where {needed} are needed", data.len())));
    }
    let first = data.offset() + start;
    let builder =
        ArrayData::builder(of.clone()).len(rows).nulls(data.nulls().map(|nulls| nulls.slice(start, rows)));
    let parts = |at: usize, rows: usize| -> Result<Vec<ArrayData>> {
        data.child_data().iter().map(|part| sound_rows(part, at, rows)).collect()
    };
    let builder = match of {
        DataType::Struct(_) => builder.child_data(parts(first, rows)?),
        DataType::FixedSizeList(_, size) => {
            let place = |rows: usize| {
                let values = usize::try_from(*size).ok().and_then(|size| rows.checked_mul(size));
                values.ok_or_else(|| damaged(of, "more values than there can be"))
            };
            builder.child_data(parts(place(first)?, place(rows)?)?)
        }
        _ => {
            let whole = data.child_data().iter().map(|part| sound_rows(part, 0, part.len()));
            let whole = whole.collect::<Result<_>>()?;
            builder.offset(first).buffers(data.buffers().to_vec()).child_data(whole)
        }
    };
    // This looks at the values of this level; those of the parts have been looked at.
    builder.build().map_err(|error| match error {
        ArrowError::InvalidArgumentError(message) => damaged(of, message),
        other => damaged(of, other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Array, ArrayRef, BooleanArray, Int32Array, ListArray, StringArray, StringViewArray, StructArray,
        make_array,
    };
    use arrow::datatypes::{Field, Int32Type, Schema};
    use arrow::ffi_stream::ArrowArrayStreamReader;
    use std::sync::Arc;

    fn arrays() -> Vec<ArrayRef> {
        vec![
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(BooleanArray::from(vec![true, false, true])),
            Arc::new(StringArray::from(vec!["a", "b", "c"])),
            Arc::new(StringViewArray::from(vec!["a", "a text that is long enough for a buffer", "c"])),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
                Some(vec![Some(1)]),
                None,
                Some(vec![]),
            ])),
        ]
    }

    fn struct_of(fields: Vec<(&str, ArrayRef)>) -> StructArray {
        let fields = fields
            .into_iter()
            .map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
        StructArray::from(fields.collect::<Vec<_>>())
    }

    /// Checks an array with a lie in its struct.
    fn with(array: &ArrayRef, lie: impl FnOnce(&mut FFI_ArrowArray)) -> Result<()> {
        let mut given = FFI_ArrowArray::new(&array.to_data());
        lie(&mut given);
        check_arrow_array(&given, array.data_type())
    }

    #[test]
    fn what_is_as_the_interface_says_passes() {
        for array in arrays() {
            with(&array, |_| ()).unwrap();
            with(&array.slice(1, 2), |_| ()).unwrap();
            with(&array.slice(1, 0), |_| ()).unwrap();
            with(&array, |given| given.null_count = -1).unwrap();
            let rows: ArrayRef = Arc::new(struct_of(vec![("a", array.clone())]));
            with(&rows, |_| ()).unwrap();
            let schema = FFI_ArrowSchema::try_from(rows.data_type()).unwrap();
            check_arrow_schema(&schema).unwrap();
            assert_eq!(make_array(sound_arrow_rows(&array.to_data()).unwrap()).as_ref(), array.as_ref());
        }
    }

    #[test]
    fn numbers_that_lie_are_refused() {
        let lies: [fn(&mut FFI_ArrowArray, i64); 3] = [
            |given, number| given.length = number,
            |given, number| given.offset = number,
            |given, number| given.n_buffers = number,
        ];
        for array in arrays() {
            for number in [-1, -2, i64::MIN, i64::MAX, 1 << 61] {
                for lie in lies {
                    let error = with(&array, |given| lie(given, number)).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{number}: {error}");
                }
            }
            for number in [-2, 4, i64::MAX] {
                with(&array, |given| given.null_count = number).unwrap_err();
            }
            for number in [0, 1] {
                with(&array, |given| given.n_buffers = number).unwrap_err();
            }
            with(&array, |given| given.buffers = std::ptr::null_mut()).unwrap_err();
        }
        let array: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let error = with(&array, |given| given.null_count = 2).unwrap_err();
        assert!(error.message().contains("2 NULLs, and none says which"), "{error}");
    }

    #[test]
    fn parts_that_lie_are_refused() {
        let part: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let rows: ArrayRef = Arc::new(struct_of(vec![("a", part.clone())]));
        for number in [-1, 0, 2] {
            with(&rows, |given| given.n_children = number).unwrap_err();
        }
        with(&rows, |given| given.children = std::ptr::null_mut()).unwrap_err();
        let mut nothing = [std::ptr::null_mut()];
        let error = with(&rows, |given| given.children = nothing.as_mut_ptr()).unwrap_err();
        assert!(error.message().contains("C data interface"), "{error}");
        for length in [-1, 2] {
            let mut child = FFI_ArrowArray::new(&part.to_data());
            child.length = length;
            let mut children = [&raw mut child];
            let error = with(&rows, |given| given.children = children.as_mut_ptr()).unwrap_err();
            assert!(error.message().contains("damaged Arrow data"), "{error}");
        }
    }

    #[test]
    fn types_that_are_none_are_refused() {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let given = FFI_ArrowArray::new(&array.to_data());
        let item = Arc::new(Field::new("item", DataType::Int32, true));
        for data_type in [
            DataType::Decimal128(200, 5),
            DataType::Decimal32(0, 0),
            DataType::FixedSizeBinary(-1),
            DataType::FixedSizeList(item.clone(), -1),
            DataType::Map(item, false),
            DataType::Dictionary(Box::new(DataType::Float32), Box::new(DataType::Int32)),
        ] {
            let error = check_arrow_array(&given, &data_type).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{data_type}: {error}");
        }
        let mut schema = FFI_ArrowSchema::try_from(&DataType::Int32).unwrap();
        schema.n_children = -1;
        check_arrow_schema(&schema).unwrap_err();
        (schema.n_children, schema.children) = (2, std::ptr::null_mut());
        check_arrow_schema(&schema).unwrap_err();
        check_arrow_schema(&FFI_ArrowSchema::empty()).unwrap_err();
        let deep = (0..300)
            .fold(DataType::Int32, |inner, _| DataType::List(Arc::new(Field::new("item", inner, true))));
        let error = check_arrow_schema(&FFI_ArrowSchema::try_from(&deep).unwrap()).unwrap_err();
        assert!(error.message().contains("levels"), "{error}");
    }

    /// Rows that fail in some way.
    struct Failing(fn() -> ArrowError);

    impl Iterator for Failing {
        type Item = std::result::Result<RecordBatch, ArrowError>;

        fn next(&mut self) -> Option<Self::Item> {
            Some(Err((self.0)()))
        }
    }

    impl RecordBatchReader for Failing {
        fn schema(&self) -> SchemaRef {
            Arc::new(Schema::empty())
        }
    }

    #[test]
    fn errors_with_a_nul_and_panics_reach_c_as_errors() {
        type Fails = fn() -> ArrowError;
        let cases: [(Fails, &str); 4] = [
            (|| ArrowError::ExternalError("a\0b".into()), "External error: a\\0b"),
            (|| ArrowError::CastError("a\0b".into()), "a\\0b"),
            (|| ArrowError::CastError("plain".into()), "plain"),
            (|| panic!("within"), "within"),
        ];
        for (fails, said) in cases {
            let stream = export_arrow_stream(Box::new(Failing(fails)));
            let error = ArrowArrayStreamReader::try_new(stream).unwrap().next().unwrap().unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn structs_in_slices_of_structs_keep_their_rows() {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..10));
        let inner: ArrayRef = Arc::new(struct_of(vec![("n", numbers)]));
        let outer = struct_of(vec![("inner", inner)]);
        // The offset is that of the outer struct alone, as other producers have it.
        let whole = outer.to_data();
        let sliced = ArrayData::builder(outer.data_type().clone())
            .len(2)
            .offset(1)
            .child_data(whole.child_data().to_vec())
            .build()
            .unwrap();
        let rows = StructArray::from(sound_arrow_rows(&sliced).unwrap());
        assert_eq!(&rows, &outer.slice(1, 2));
    }
}
