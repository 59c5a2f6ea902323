//! What an INSERT gives of its table's columns: DEFAULT among its values, and columns that make their own.

use super::complete::refuse_given;
use super::ddl::last_of;
use super::names::name_columns;
use super::write::{Target, is_default, value_or_default};
use super::{parse_expression, parse_query};
use datafusion::sql::sqlparser::ast::{Ident, Insert, ObjectName, SetExpr, Values};
use hypostyle_types::{Error, ErrorKind, Result};

/// Leaves to the planner only columns that have values, and puts expressions in the place of DEFAULT.
///
/// # Errors
/// `UnknownName`; `Constraint` when a column that makes its own values is given another.
pub(super) fn prepare(target: &Target, insert: &mut Insert) -> Result<()> {
    let columns = &target.data.entry().columns;
    let makes_own = |place: &usize| refuse_given(&target.name, &columns[*place]).is_err();
    let named = insert.columns.iter().map(|name| target.column(&last_of(name)?));
    let named = named.collect::<Result<Vec<usize>>>()?;
    let Some(source) = &mut insert.source else {
        // INSERT … DEFAULT VALUES.
        let given = (0..columns.len()).find(|place| columns[*place].generated.is_none());
        let given = given.ok_or_else(|| Error::internal("a table of generated columns only"))?;
        insert.source =
            Some(Box::new(parse_query(&format!("VALUES ({})", value_or_default(target, given, None)?))?));
        insert.columns = vec![name(target, given)];
        return Ok(());
    };
    let not_generated = || (0..columns.len()).filter(|place| columns[*place].generated.is_none());
    let SetExpr::Values(values) = source.body.as_mut() else {
        name_columns(source);
        let given = if named.is_empty() { not_generated().collect() } else { named };
        given.iter().try_for_each(|place| refuse_given(&target.name, &columns[*place]))?;
        if given.len() < columns.len() {
            insert.columns = given.iter().map(|place| name(target, *place)).collect();
        }
        return Ok(());
    };
    let width = values.rows.first().map_or(0, |row| row.len());
    let mut given = match named.is_empty() {
        false => named,
        // Generated columns may stand among the others, as DEFAULT, or be left out.
        true if width == not_generated().count() => not_generated().collect(),
        true => (0..columns.len()).collect(),
    };
    let as_wide = given.len() == width && values.rows.iter().all(|row| row.len() == width);
    let some_default = values.rows.iter().any(|row| row.iter().any(is_default));
    if !as_wide || !(some_default || given.iter().any(makes_own) || given.len() < columns.len()) {
        // As it is; or for the planner to refuse.
        return Ok(());
    }
    for index in (0..given.len()).rev() {
        let place = given[index];
        let defaults = values.rows.iter().filter(|row| is_default(&row[index])).count();
        if makes_own(&place) && defaults < values.rows.len() {
            refuse_given(&target.name, &columns[place])?;
        }
        if defaults == values.rows.len() && given.len() > 1 {
            given.remove(index);
            remove(values, index);
            continue;
        }
        for row in values.rows.iter_mut().filter(|row| is_default(&row[index])) {
            row[index] = parse_expression(&value_or_default(target, place, None)?)?;
        }
    }
    if let [only] = given.as_slice()
        && columns[*only].generated.is_some()
    {
        return Err(Error::new(ErrorKind::Syntax, "write INSERT … DEFAULT VALUES"));
    }
    insert.columns = given.iter().map(|place| name(target, *place)).collect();
    Ok(())
}

fn remove(values: &mut Values, index: usize) {
    for row in &mut values.rows {
        row.remove(index);
    }
}

fn name(target: &Target, place: usize) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', &target.data.entry().columns[place].name)])
}
