//! The values of an INSERT: DEFAULT among them, and columns that compute their own. Also its clause
//! for rows whose keys exist already.

use crate::session::given_value::is_default;
use crate::statement::refusal::{refuse, refuse_given, refuse_output};
use crate::statement::target::{Target, value_or_default};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, DoUpdate, Expr, Ident, Insert, ObjectName, OnConflict,
    OnConflictAction, OnInsert, SetExpr, SqliteOnConflict, Value, Values,
};
use hypostyle_sql::build;
use hypostyle_sql::names::{name_columns, width};
use hypostyle_sql::type_tree::type_of;
use hypostyle_storage::{ColumnEntry, ConstraintEntry, ConstraintRule};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};

/// Refuses what other systems know and the planner would pass over.
pub(super) fn refuse_foreign(insert: &Insert) -> Result<()> {
    if let Some(or @ (SqliteOnConflict::Abort | SqliteOnConflict::Fail | SqliteOnConflict::Rollback)) =
        insert.or
    {
        return Err(Error::unsupported(format!(
            "INSERT {or} is not supported; what fails changes nothing, and aborts its transaction"
        )));
    }
    if insert.ignore {
        return Err(Error::unsupported("INSERT IGNORE is not supported; write INSERT OR IGNORE"));
    }
    if let Some(OnInsert::DuplicateKeyUpdate(_)) = insert.on {
        return Err(Error::unsupported(
            "ON DUPLICATE KEY UPDATE is not supported; write ON CONFLICT (…) DO UPDATE SET …",
        ));
    }
    refuse_output(insert.output.as_ref())?;
    refuse(insert.overwrite, "INSERT OVERWRITE")?;
    refuse(insert.priority.is_some(), "INSERT with a priority")?;
    refuse(insert.partitioned.is_some() || !insert.after_columns.is_empty(), "INSERT with PARTITION")?;
    refuse(insert.insert_alias.is_some(), "INSERT with an alias of the new rows")?;
    refuse(!insert.assignments.is_empty(), "INSERT with SET")?;
    refuse(insert.settings.is_some() || insert.format_clause.is_some(), "INSERT with SETTINGS or FORMAT")?;
    refuse(insert.multi_table_insert_type.is_some(), "INSERT into several tables")
}

/// Returns what becomes of the rows whose keys are there already.
///
/// # Errors
/// `Syntax` when both OR and ON CONFLICT say it.
pub(super) fn take_conflict(target: &Target, insert: &mut Insert) -> Result<Option<OnConflict>> {
    let replaces = std::mem::take(&mut insert.replace_into);
    let or = insert.or.take().or(replaces.then_some(SqliteOnConflict::Replace));
    match (or, insert.on.take()) {
        (None, Some(OnInsert::OnConflict(conflict))) => Ok(Some(conflict)),
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Error::new(
            ErrorKind::Syntax,
            "INSERT OR … has no ON CONFLICT: both say what becomes of rows whose keys are there",
        )),
        (Some(SqliteOnConflict::Replace), None) => replacement(target, insert).map(Some),
        (Some(_), None) => {
            Ok(Some(OnConflict { conflict_target: None, action: OnConflictAction::DoNothing }))
        }
    }
}

/// Returns the ON CONFLICT that gives the row with the same key the new values of the named
/// columns.
fn replacement(target: &Target, insert: &Insert) -> Result<OnConflict> {
    let table = target.data.entry();
    let is_primary =
        |constraint: &&ConstraintEntry| matches!(constraint.rule, ConstraintRule::PrimaryKey { .. });
    let primary = table.constraints.iter().find(is_primary);
    let key = primary.or(table.constraints.iter().find(|constraint| constraint.rule.key().is_some()));
    let key = key.and_then(|constraint| constraint.rule.key()).unwrap_or_default();
    let mut given = target.given_columns(&insert.columns)?;
    if given.is_empty() {
        given = (0..table.columns.len()).collect();
    }
    let columns = given.into_iter().map(|place| &table.columns[place]);
    let columns = columns.filter(|column| !key.contains(&column.id) && refuse_given("", column).is_ok());
    let quoted = |name: &str| Ident::with_quote('"', name);
    let assignments: Vec<Assignment> = columns
        .map(|column| Assignment {
            target: AssignmentTarget::ColumnName(ObjectName::from(vec![quoted(&column.name)])),
            value: Expr::CompoundIdentifier(vec![Ident::new("excluded"), quoted(&column.name)]),
        })
        .collect();
    let constraint = |primary: &ConstraintEntry| ObjectName::from(vec![quoted(&primary.name)]);
    Ok(OnConflict {
        conflict_target: primary.map(|primary| ConflictTarget::OnConstraint(constraint(primary))),
        action: match assignments.is_empty() {
            true => OnConflictAction::DoNothing,
            false => OnConflictAction::DoUpdate(DoUpdate { assignments, selection: None }),
        },
    })
}

/// Names the columns of an INSERT that names none and has fewer values than the table has columns: the
/// first ones, as in PostgreSQL. The others get their defaults.
pub(super) fn name_first_columns(target: &Target, insert: &mut Insert) {
    let Some(source) = insert.source.as_ref().filter(|_| insert.columns.is_empty()) else { return };
    // These may stand for several columns.
    let is_one = |expr: &Expr| match expr {
        Expr::Function(function) => {
            let name = function.name.to_string();
            !name.eq_ignore_ascii_case("unnest") && !name.eq_ignore_ascii_case("columns")
        }
        _ => true,
    };
    let Some(width) = width(&source.body, &is_one) else { return };
    let columns = target.data.entry().columns.iter().enumerate();
    let given: Vec<usize> =
        columns.filter(|(_, column)| column.generated.is_none()).map(|(place, _)| place).collect();
    if width < given.len() {
        insert.columns = given[..width].iter().map(|place| name(target, *place)).collect();
    }
}

/// Leaves to the planner only columns that have values, and puts expressions in the place of
/// DEFAULT.
///
/// # Errors
/// `UnknownName`; `Constraint` when a column that makes its own values is given another, unless
/// that is an identity and `overriding`.
pub(super) fn prepare(target: &Target, insert: &mut Insert, overriding: bool) -> Result<()> {
    let columns = &target.data.entry().columns;
    let refuse_given = |place: &usize| match &columns[*place] {
        column if overriding && column.identity.is_some() => Ok(()),
        column => refuse_given(&target.name, column),
    };
    let makes_own = |place: &usize| refuse_given(place).is_err();
    let named = target.given_columns(&insert.columns)?;
    insert.columns = named.iter().map(|place| name(target, *place)).collect();
    let Some(source) = &mut insert.source else {
        // INSERT … DEFAULT VALUES.
        let given = (0..columns.len()).find(|place| columns[*place].generated.is_none());
        let given = given.ok_or_else(|| Error::internal("a table of generated columns only"))?;
        insert.source = Some(Box::new(build::values(vec![vec![value_or_default(target, given, None)?]])));
        insert.columns = vec![name(target, given)];
        return Ok(());
    };
    let not_generated = || (0..columns.len()).filter(|place| columns[*place].generated.is_none());
    let SetExpr::Values(values) = source.body.as_mut() else {
        name_columns(source);
        let given = if named.is_empty() { not_generated().collect() } else { named };
        given.iter().try_for_each(refuse_given)?;
        if given.len() < columns.len() {
            insert.columns = given.iter().map(|place| name(target, *place)).collect();
        }
        return Ok(());
    };
    // The planner assumes that a parameter by itself has its column's type already; in parentheses
    // it casts the value.
    for value in values.rows.iter_mut().flat_map(|row| row.iter_mut()) {
        if matches!(value, Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) {
            *value = Expr::Nested(Box::new(value.clone()));
        }
    }
    let width = values.rows.first().map_or(0, |row| row.len());
    let mut given = match named.is_empty() {
        false => named,
        // Generated columns may stand among the others, as DEFAULT, or be left out.
        true if width == not_generated().count() => not_generated().collect(),
        true => (0..columns.len()).collect(),
    };
    let as_wide = given.len() == width && values.rows.iter().all(|row| row.len() == width);
    if as_wide {
        structures_by_name(columns, &given, values);
    }
    let some_default = values.rows.iter().any(|row| row.iter().any(is_default));
    if !as_wide || !(some_default || given.iter().any(makes_own) || given.len() < columns.len()) {
        // The value stays as it is, or the planner refuses it.
        return Ok(());
    }
    without_defaults(target, values, &mut given, &refuse_given)?;
    if let [only] = given.as_slice()
        && columns[*only].generated.is_some()
    {
        return Err(Error::new(ErrorKind::Syntax, "write INSERT … DEFAULT VALUES"));
    }
    insert.columns = given.iter().map(|place| name(target, *place)).collect();
    Ok(())
}

/// Leaves columns out of VALUES of which all rows have the default, unless it is the only one, and puts
/// expressions in the place of the others' defaults.
///
/// # Errors
/// That of `refuse_given` for a column whose value is not the default in some row.
fn without_defaults(
    target: &Target,
    values: &mut Values,
    given: &mut Vec<usize>,
    refuse_given: &dyn Fn(&usize) -> Result<()>,
) -> Result<()> {
    for index in (0..given.len()).rev() {
        let place = given[index];
        let defaults = values.rows.iter().filter(|row| is_default(&row[index])).count();
        if defaults < values.rows.len() {
            refuse_given(&place)?;
        }
        if defaults == values.rows.len() && given.len() > 1 {
            given.remove(index);
            remove(values, index);
            continue;
        }
        for row in values.rows.iter_mut().filter(|row| is_default(&row[index])) {
            row[index] = value_or_default(target, place, None)?;
        }
    }
    Ok(())
}

/// Casts the values of columns of structures: the planner takes no structures with other fields.
fn structures_by_name(columns: &[ColumnEntry], given: &[usize], values: &mut Values) {
    for (index, place) in given.iter().enumerate() {
        let of = &columns[*place].logical_type;
        // The planner reads no types of maps within structures.
        if !has_structure(of) || of.has_map() {
            continue;
        }
        for value in values.rows.iter_mut().filter_map(|row| row.get_mut(index)) {
            let is_left = match &*value {
                Expr::Nested(inner) => matches!(inner.as_ref(), Expr::Value(_)),
                Expr::Value(_) => true,
                value => is_default(value),
            };
            if !is_left {
                let given = std::mem::replace(value, build::null());
                *value = build::cast(given, type_of(of));
            }
        }
    }
}

/// Says whether values of a type are structures, or lists of them.
pub(super) fn has_structure(of: &LogicalType) -> bool {
    match of {
        LogicalType::Struct { .. } => true,
        LogicalType::List { element } | LogicalType::Array { element, .. } => has_structure(element),
        _ => false,
    }
}

fn remove(values: &mut Values, index: usize) {
    for row in &mut values.rows {
        row.remove(index);
    }
}

fn name(target: &Target, place: usize) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', &target.data.entry().columns[place].name)])
}
