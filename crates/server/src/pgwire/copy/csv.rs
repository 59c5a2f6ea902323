//! Rows of COPY in the CSV format.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use super::command::Copy;
use bytes::{BufMut, BytesMut};

/// Writes a field, in quotes where it needs them, or is to have them.
pub(super) fn put_csv(body: &mut BytesMut, text: &[u8], copy: &Copy, is_quoted: bool) {
    let special = |byte: &u8| [copy.delimiter, copy.quote, b'\n', b'\r'].contains(byte);
    // A text that looks like NULL is not NULL.
    if !is_quoted && !text.iter().any(special) && text != copy.null.as_bytes() && text != b"\\." {
        return body.put_slice(text);
    }
    body.put_u8(copy.quote);
    for byte in text {
        if *byte == copy.quote || *byte == copy.escape {
            body.put_u8(copy.escape);
        }
        body.put_u8(*byte);
    }
    body.put_u8(copy.quote);
}

/// The fields of a row of CSV. Only what is not in quotes can be NULL.
pub(in crate::pgwire) fn csv_fields(row: &str, copy: &Copy) -> Vec<Option<String>> {
    let (mut fields, mut field, mut was_quoted, mut quoted) = (Vec::new(), Vec::new(), false, false);
    let mut finish = |field: &mut Vec<u8>, was_quoted: &mut bool| {
        let text = String::from_utf8_lossy(&std::mem::take(field)).into_owned();
        fields.push((std::mem::take(was_quoted) || text != copy.null).then_some(text));
    };
    let mut bytes = row.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let next_is_special = bytes.peek().is_some_and(|next| *next == copy.quote || *next == copy.escape);
        if quoted && byte == copy.escape && next_is_special {
            field.extend(bytes.next());
        } else if byte == copy.quote {
            quoted = !quoted;
            was_quoted = true;
        } else if byte == copy.delimiter && !quoted {
            finish(&mut field, &mut was_quoted);
        } else {
            field.push(byte);
        }
    }
    finish(&mut field, &mut was_quoted);
    fields
}
