//! Arrays of PostgreSQL, which become lists, one inside the other for each dimension.

use super::{Column, Values};
use crate::message::Cursor;
use crate::types::Kind;
use hypostyle_types::{Error, Result};

/// PostgreSQL's arrays have no more dimensions.
const DIMENSIONS_MAX: i32 = 6;

/// The bytes that each element has at least: those of its length.
const ELEMENT_BYTES: usize = 4;

/// Appends an array to a list of which these are the offsets and the elements.
pub fn append(offsets: &mut Vec<i64>, element: &mut Column, bytes: &[u8]) -> Result<()> {
    // Where elements have no binary form here, arrays may come as text, too.
    if bytes.first().is_some_and(|byte| matches!(byte, b'{' | b'[')) {
        return append_text(offsets, element, bytes);
    }
    let mut cursor = Cursor(bytes);
    let (count, _flags, _oid) = (cursor.i32()?, cursor.i32()?, cursor.u32()?);
    if !(0..=DIMENSIONS_MAX).contains(&count) {
        return Err(Error::protocol("an array has a number of dimensions that it cannot have"));
    }
    let mut dimensions = Vec::new();
    for _ in 0..count {
        let (length, _first) = (cursor.i32()?, cursor.i32()?);
        dimensions.push(usize::try_from(length).map_err(|_| wrong_length())?);
    }
    // An oidvector or int2vector of nothing has a dimension nevertheless.
    if dimensions == [0] {
        dimensions.clear();
    }
    if dimensions.contains(&0) {
        return Err(wrong_length());
    }
    let elements = dimensions.iter().try_fold(1_usize, |product, length| product.checked_mul(*length));
    let is_there = elements.and_then(|elements| elements.checked_mul(ELEMENT_BYTES));
    if !dimensions.is_empty() && is_there.is_none_or(|bytes| bytes > cursor.0.len()) {
        return Err(wrong_length());
    }
    if !dimensions.is_empty() {
        check_depth(element, dimensions.len())?;
        append_dimension(element, &dimensions, &mut cursor)?;
    }
    if !cursor.is_empty() {
        return Err(wrong_length());
    }
    offsets.push(element.len() as i64);
    Ok(())
}

fn wrong_length() -> Error {
    Error::protocol("an array has a length that it cannot have")
}

/// Appends the elements of a dimension, which are arrays themselves unless it is the last one.
fn append_dimension(element: &mut Column, dimensions: &[usize], cursor: &mut Cursor<'_>) -> Result<()> {
    let Some((length, inner)) = dimensions.split_first() else { return Ok(()) };
    for _ in 0..*length {
        match (&mut element.values, inner) {
            (_, []) => element.append(cursor.value()?)?,
            (Values::List(offsets, below), _) => {
                append_dimension(below, inner, cursor)?;
                offsets.push(below.len() as i64);
                element.nulls.append_non_null();
            }
            _ => return Err(other_depth(dimensions.len())),
        }
    }
    Ok(())
}

/// Checks that an array has as many dimensions as lists are inside each other here.
fn check_depth(element: &Column, dimensions: usize) -> Result<()> {
    let mut depth = 1;
    let mut inner = element;
    while let Values::List(_, below) = &inner.values {
        depth += 1;
        inner = below;
    }
    match depth == dimensions {
        true => Ok(()),
        false => Err(other_depth(dimensions)),
    }
}

fn other_depth(dimensions: usize) -> Error {
    Error::invalid_input(format!(
        "an array has {dimensions} dimensions, and its column was declared with another number; cast \
         the column to text \
         in the query, or select its elements"
    ))
    .with_sqlstate("2202E")
}

/// Appends an array from its text, such as `{a,"b c",NULL}` or `[0:1]={a,b}`.
fn append_text(offsets: &mut Vec<i64>, element: &mut Column, bytes: &[u8]) -> Result<()> {
    let mut innermost = &*element;
    let mut depth = 1;
    while let Values::List(_, below) = &innermost.values {
        innermost = below;
        depth += 1;
    }
    if !matches!(innermost.kind, Kind::Shown | Kind::ShownRow) {
        return Err(Error::protocol("an array comes as text where it was asked for in binary"));
    }
    let start = match bytes.first() {
        Some(b'[') => memchr::memchr(b'=', bytes).map_or(bytes.len(), |at| at + 1),
        _ => 0,
    };
    let mut text = Text { bytes: bytes.get(start..).unwrap_or_default(), at: 0 };
    let has_depth = text.bytes.iter().take_while(|byte| **byte == b'{').count();
    if has_depth != depth && text.bytes != b"{}" {
        return Err(other_depth(has_depth));
    }
    text.list(element)?;
    match text.at == text.bytes.len() {
        true => offsets.push(element.len() as i64),
        false => return Err(malformed()),
    }
    Ok(())
}

fn malformed() -> Error {
    Error::protocol("the text of an array is not one")
}

/// The text of an array, and how far it is read.
struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Text<'_> {
    fn next(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied().ok_or_else(malformed)?;
        self.at += 1;
        Ok(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Reads `{…}` into a column of its elements.
    fn list(&mut self, element: &mut Column) -> Result<()> {
        if self.next()? != b'{' {
            return Err(malformed());
        }
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            match &mut element.values {
                Values::List(offsets, below) => {
                    self.list(below)?;
                    offsets.push(below.len() as i64);
                    element.nulls.append_non_null();
                }
                _ => self.value(element)?,
            }
            match self.next()? {
                b',' => {}
                b'}' => return Ok(()),
                _ => return Err(malformed()),
            }
        }
    }

    /// Reads an element, which is in quotes where it could be taken for something else.
    fn value(&mut self, element: &mut Column) -> Result<()> {
        let is_quoted = self.peek() == Some(b'"');
        self.at += usize::from(is_quoted);
        let mut value = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') if is_quoted => {
                    self.at += 1;
                    break;
                }
                Some(b',' | b'}') if !is_quoted => break,
                Some(b'{' | b'"') if !is_quoted => return Err(malformed()),
                Some(b'\\') => {
                    self.at += 1;
                    value.push(self.next()?);
                }
                _ => value.push(self.next()?),
            }
        }
        match !is_quoted && value == b"NULL" {
            true => element.append(None),
            false => element.append(Some(&value)),
        }
    }
}
