//! What follows PARTITION BY in CREATE TABLE.

use super::{Bound, Distribution, bound};
use crate::cursor::Cursor;
use hypostyle_placement::catalog::NODES_MAX;
use hypostyle_placement::partition::{FRAGMENTS_MAX, KEY_COLUMNS_MAX};
use hypostyle_types::Result;

/// Reads the clause behind PARTITION BY.
///
/// # Errors
/// `Syntax` at its place in the text.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Distribution> {
    if cursor.take("HASH") {
        let columns = columns(cursor)?;
        let (fragments, replicas) = (fragments(cursor)?, replicas(cursor)?);
        return Ok(Distribution::Hash { columns, fragments, replicas });
    }
    if cursor.take("RANGE") {
        cursor.expect_symbol("(")?;
        let column = cursor.name("the name of a column")?;
        if cursor.peek().is_some_and(|token| token.is_symbol(",")) {
            return Err(cursor.wrong(cursor.start(), "RANGE is of one column; HASH is of several"));
        }
        cursor.expect_symbol(")")?;
        let (bounds, replicas) = (bounds(cursor)?, replicas(cursor)?);
        return Ok(Distribution::Range { column, bounds, replicas });
    }
    if cursor.take_all(&["ROUND", "ROBIN"]) {
        let (fragments, replicas) = (fragments(cursor)?, replicas(cursor)?);
        return Ok(Distribution::RoundRobin { fragments, replicas });
    }
    Err(cursor.unexpected("HASH, RANGE or ROUND ROBIN behind PARTITION BY"))
}

/// Reads the columns of a hash.
fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    cursor.expect_symbol("(")?;
    let mut columns = Vec::new();
    loop {
        let at = cursor.start();
        let column = cursor.name("the name of a column")?;
        if columns.contains(&column) {
            return Err(cursor.wrong(at, format!("the column \"{column}\" is in the partition key twice")));
        }
        columns.push(column);
        if columns.len() > KEY_COLUMNS_MAX {
            return Err(cursor.wrong(at, format!("a partition key has 1 to {KEY_COLUMNS_MAX} columns")));
        }
        if !cursor.take_symbol(",") {
            break;
        }
    }
    cursor.expect_symbol(")")?;
    Ok(columns)
}

/// Reads INTO n FRAGMENTS.
fn fragments(cursor: &mut Cursor<'_>) -> Result<u32> {
    cursor.expect(&["INTO"])?;
    let fragments = cursor.number("fragments", 1, FRAGMENTS_MAX)?;
    cursor.expect(&["FRAGMENTS"])?;
    Ok(fragments)
}

/// Reads REPLICAS r, which may be left out.
fn replicas(cursor: &mut Cursor<'_>) -> Result<u32> {
    if cursor.take("REPLICAS") { cursor.number("replicas", 1, NODES_MAX) } else { Ok(1) }
}

/// Reads the bounds of ranges in their parentheses.
fn bounds(cursor: &mut Cursor<'_>) -> Result<Vec<Bound>> {
    if !cursor.take_symbol("(") {
        return Err(
            cursor.unexpected("a list of bounds, (VALUES LESS THAN (10), VALUES LESS THAN (MAXVALUE)),")
        );
    }
    let mut bounds: Vec<Bound> = Vec::new();
    loop {
        let at = cursor.start();
        cursor.expect(&["VALUES", "LESS", "THAN"])?;
        if bounds.last() == Some(&Bound::MaxValue) {
            return Err(cursor.wrong(at, "no bound follows MAXVALUE: the last fragment has all other values"));
        }
        bounds.push(bound::parse(cursor)?);
        if bounds.len() > FRAGMENTS_MAX as usize {
            return Err(cursor.wrong(at, format!("a table has 1 to {FRAGMENTS_MAX} fragments")));
        }
        if !cursor.take_symbol(",") {
            break;
        }
    }
    cursor.expect_symbol(")")?;
    Ok(bounds)
}
