//! The types of a result, from a list of fields in which parents come before what is within them.

use crate::layout::Field;
use crate::node::{Node, Shape};
use arrow_array::{ArrayRef, LargeStringArray};
use arrow_schema::{DataType, Field as ArrowField, Schema, SchemaRef};
use hypostyle_types::{Error, LogicalType, Result};
use hypostyle_wire::canonical_schema;
use std::ffi::{CStr, c_char};
use std::sync::Arc;

/// Types within types.
const NESTING_MAX: usize = 32;

/// The columns of a result: their types, and a node for each field.
pub(crate) struct Columns {
    pub schema: SchemaRef,
    pub nodes: Vec<Node>,
    /// The nodes that are columns.
    pub columns: Vec<usize>,
}

impl Columns {
    /// # Safety
    /// The fields' pointers are valid for as much as the fields say.
    pub unsafe fn read(fields: &[Field]) -> Result<Self> {
        let mut reader = Reader { fields, nodes: Vec::with_capacity(fields.len()) };
        let (mut columns, mut read) = (Vec::new(), Vec::new());
        while reader.nodes.len() < fields.len() {
            columns.push(reader.nodes.len());
            // SAFETY: as the caller's.
            read.push(unsafe { reader.field(0)? });
        }
        let schema = canonical_schema(&Schema::new(read))?;
        for (index, field) in columns.iter().zip(schema.fields()) {
            set_types(&mut reader.nodes, *index, field);
        }
        Ok(Self { schema, nodes: reader.nodes, columns })
    }
}

/// Gives the nodes below a field the types that the canonical schema has for them.
fn set_types(nodes: &mut [Node], index: usize, field: &ArrowField) {
    nodes[index].data_type = field.data_type().clone();
    let members = nodes[index].members.clone();
    match field.data_type() {
        DataType::LargeList(element) => {
            members.iter().for_each(|member| set_types(nodes, *member, element));
        }
        DataType::Struct(fields) => {
            members.iter().zip(fields).for_each(|(member, field)| set_types(nodes, *member, field));
        }
        _ => {}
    }
}

struct Reader<'a> {
    fields: &'a [Field],
    nodes: Vec<Node>,
}

impl Reader<'_> {
    /// Reads a field and those within it.
    ///
    /// # Safety
    /// As of [`Columns::read`].
    unsafe fn field(&mut self, depth: usize) -> Result<ArrowField> {
        let index = self.nodes.len();
        let field = *self.fields.get(index).ok_or_else(|| Error::internal("a field has no members"))?;
        if depth > NESTING_MAX {
            return Err(Error::unsupported(format!("types are nested deeper than {NESTING_MAX}")));
        }
        // SAFETY: as the caller's.
        let name = unsafe { text(field.name, field.name_length)? };
        self.nodes.push(Node::new(name));
        let mut members = Vec::new();
        for _ in 0..field.members {
            let member = self.nodes.len();
            self.nodes[index].members.push(member);
            // SAFETY: as the caller's.
            members.push(unsafe { self.field(depth + 1)? });
        }
        // SAFETY: as the caller's.
        let labels = unsafe { labels(&field)? };
        let data_type = arrow_type(&field, labels.as_ref(), members)?;
        self.nodes[index].shape = shape(&data_type, labels);
        let arrow = ArrowField::new(name, data_type, true);
        Ok(match field.kind {
            21 => LogicalType::Uuid.mark(arrow),
            23 => LogicalType::Json.mark(arrow),
            _ => arrow,
        })
    }
}

fn arrow_type(field: &Field, labels: Option<&ArrayRef>, mut members: Vec<ArrowField>) -> Result<DataType> {
    let logical = |logical_type: LogicalType| Ok(logical_type.arrow_type());
    match (field.kind, members.len()) {
        (1, 0) => logical(LogicalType::Boolean),
        (3, 0) => logical(LogicalType::SmallInt),
        (4, 0) => logical(LogicalType::Integer),
        (5, 0) => logical(LogicalType::BigInt),
        (8, 0) => logical(LogicalType::UInteger),
        (10, 0) => logical(LogicalType::Float),
        (11, 0) => logical(LogicalType::Double),
        (12, 0) => logical(LogicalType::decimal(field.precision.into(), field.scale.into())?),
        (13 | 23, 0) => logical(LogicalType::Varchar),
        (14, 0) => logical(LogicalType::Blob),
        (15, 0) => logical(LogicalType::Date),
        (16, 0) => logical(LogicalType::Time),
        (17, 0) => logical(LogicalType::timestamp()),
        (18, 0) => logical(LogicalType::timestamp_with_time_zone()),
        (19, 0) => logical(LogicalType::Interval),
        (21, 0) => logical(LogicalType::Uuid),
        (24, 1) => Ok(DataType::LargeList(Arc::new(members.remove(0)))),
        (26, 1..) => Ok(DataType::Struct(members.into())),
        (28, 0) => {
            let key = match labels.map_or(0, |labels| labels.len()) {
                0..=0x80 => DataType::Int8,
                0x81..=0x8000 => DataType::Int16,
                _ => DataType::Int32,
            };
            Ok(DataType::Dictionary(Box::new(key), Box::new(DataType::LargeUtf8)))
        }
        (kind, members) => {
            Err(Error::internal(format!("no field of type {kind} with {members} members can be sent")))
        }
    }
}

fn shape(data_type: &DataType, labels: Option<ArrayRef>) -> Shape {
    match (data_type, labels) {
        (DataType::Boolean, _) => Shape::Bool,
        (DataType::LargeUtf8 | DataType::LargeBinary, _) => Shape::Text,
        (DataType::LargeList(_), _) => Shape::List,
        (DataType::Struct(_), _) => Shape::Struct,
        (DataType::Dictionary(key, _), Some(labels)) => {
            Shape::Dictionary { width: key.primitive_width().unwrap_or(4), labels }
        }
        (DataType::FixedSizeBinary(width), _) => Shape::Fixed { width: width.unsigned_abs() as usize },
        (other, _) => Shape::Fixed { width: other.primitive_width().unwrap_or(16) },
    }
}

/// # Safety
/// `text` points to so many bytes.
unsafe fn text<'a>(text: *const c_char, length: usize) -> Result<&'a str> {
    if length == 0 {
        return Ok("");
    }
    // SAFETY: the caller promises it.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    std::str::from_utf8(bytes).map_err(|_| not_utf8("a name"))
}

pub(crate) fn not_utf8(what: &str) -> Error {
    Error::invalid_input(format!("{what} is not valid UTF-8")).with_sqlstate("22021")
}

/// The names of an enumeration's values.
///
/// # Safety
/// As of [`Columns::read`].
unsafe fn labels(field: &Field) -> Result<Option<ArrayRef>> {
    if field.labels.is_null() {
        return Ok(None);
    }
    // SAFETY: there are so many labels, each ended by a zero.
    let names = unsafe {
        let labels = std::slice::from_raw_parts(field.labels, field.label_count as usize);
        labels.iter().map(|label| CStr::from_ptr(*label))
    };
    let names = names.map(|name| name.to_str().map_err(|_| not_utf8("the name of a value")));
    let names: Vec<&str> = names.collect::<Result<_>>()?;
    Ok(Some(Arc::new(LargeStringArray::from(names))))
}
