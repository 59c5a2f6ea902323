//! Items of SELECT that need the columns of tables before a statement is planned: the order of the columns
//! that USING merges, COLUMNS(…), the fields of `s.*`, `(s).*` and `unnest(s)`, and the columns that REPLACE
//! replaces and RENAME renames.

use crate::name_repair::written_out;
use crate::scope::{ASKED_MAX, Context, Scope, change_select, first_select};
use arrow::array::StringArray;
use arrow::compute::{ilike, regexp_is_match_scalar};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr as Planned, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    JoinConstraint, JoinOperator, ObjectName, OneOrManyWithParens, Query, RenameSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, Statement, TableFactor, TableWithJoins, UnaryOperator,
    Value, Visitor, VisitorMut, WildcardAdditionalOptions,
};
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::build;
use hypostyle_sql::call::call;
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_sql::plain::{alias_of, constraint_of, relations_of};
use hypostyle_sql::walk::{expressions, expressions_mut, walk, walk_mut};
use hypostyle_types::{Error, ErrorKind};
use std::ops::ControlFlow;

/// Writes out what is said of columns that are not named.
///
/// # Errors
/// Those of binding what is asked for its columns; `UnknownName` for a column that is not there.
pub async fn rewrite(scope: Scope<'_>, statement: &mut DfStatement) -> Result<()> {
    let statement = match statement {
        DfStatement::Statement(statement) => statement.as_mut(),
        DfStatement::Explain(explain) => return Box::pin(rewrite(scope, &mut explain.statement)).await,
        _ => return Ok(()),
    };
    if !is_needed(statement) {
        return Ok(());
    }
    write_columns(scope, statement).await
}

/// Says whether a statement says something of columns that are not named: another one is bound for it within
/// its binding.
fn is_needed(statement: &Statement) -> bool {
    walk(statement, &mut Any).is_break()
}

/// Finds out whether columns are needed at all.
struct Any;

impl Visitor for Any {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match is_asked(select) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Says the same of a SELECT, but not of those within it.
pub fn is_asked(select: &Select) -> bool {
    select.projection.iter().any(|item| {
        is_merging(item, select)
            || gives_others(item)
            || columns_in(item).is_some()
            || structure_in(item).is_some()
            || structure_named(item, &select.from).is_some()
    })
}

/// The items of a SELECT that are asked for, each with the queries that tell their columns.
/// And the condition that says which of these are meant.
type Asked = Vec<(usize, Vec<(Query, Vec<Merging>)>, Option<Condition>)>;

/// A condition of a name, and what it calls this.
pub type Condition = (Ident, Expr);

/// Items for whose columns the tables are asked.
async fn write_columns(scope: Scope<'_>, statement: &mut Statement) -> Result<()> {
    let _done = walk_mut(statement, &mut Structures);
    let mut done = 0;
    for _ in 0..ASKED_MAX {
        let mut number = 0;
        let found = first_select(statement, |select, context| {
            number += 1;
            (number > done && is_asked(select)).then(|| (number, asked(select, context)))
        });
        let Some((number, asked)) = found else { return Ok(()) };
        done = number;
        let mut columns = Vec::with_capacity(asked.len());
        let mut conditions = Vec::new();
        for (place, queries, condition) in asked {
            let mut of_item = Vec::with_capacity(queries.len());
            let wanted = queries.len();
            for (query, merged) in queries {
                match scope.schema_as_it_is(query).await {
                    Ok(schema) => of_item.push((schema, merged)),
                    Err(_) => break,
                }
            }
            // Tables that are no query by themselves, because they use outer columns, are left to
            // the planner.
            if of_item.len() == wanted {
                columns.push((place, of_item));
                if let Some(condition) = condition {
                    conditions.push((place, condition));
                }
            }
        }
        let mut chosen = Vec::with_capacity(conditions.len());
        for (place, condition) in conditions {
            let of_item = columns.iter().find(|(of, _)| *of == place).map(|(_, of_item)| of_item.as_slice());
            chosen.push((place, chosen_by(scope, &condition, &names_of(of_item.unwrap_or_default())).await?));
        }
        let write = |select: &mut Select| write_items(select, &columns, &chosen);
        change_select(statement, number, write).transpose().map_err(external)?;
    }
    Ok(())
}

fn asked(select: &Select, context: &Context) -> Asked {
    let items = select.projection.iter().enumerate();
    let of_item = |(place, item): (usize, &SelectItem)| {
        if let Some(structure) = structure_in(item) {
            if unnested(item).is_some_and(is_list) {
                return None;
            }
            let structure = SelectItem::UnnamedExpr(structure.clone());
            return Some((
                place,
                vec![(context.query(vec![structure], select.from.clone()), Vec::new())],
                None,
            ));
        }
        if is_merging(item, select) {
            let of_tables = |tables: &TableWithJoins| {
                (context.query(vec![unreplaced(item)], vec![unmerged(tables)]), merged(tables))
            };
            return Some((place, select.from.iter().map(of_tables).collect(), None));
        }
        if !renames(item).is_empty() || pattern_of_names(item).is_some() {
            return Some((
                place,
                vec![(context.query(vec![unreplaced(item)], select.from.clone()), Vec::new())],
                None,
            ));
        }
        let which = columns_in(item);
        let condition = match &which {
            Some(Wanted::Meant(condition)) => Some(condition.as_ref().clone()),
            _ => None,
        };
        let all = match (replaces(item), which) {
            (Some(_), _) => SelectItem::Wildcard(WildcardAdditionalOptions::default()),
            (None, Some(Wanted::Wildcard(options))) => unreplaced(&SelectItem::Wildcard(*options)),
            (None, Some(_)) => SelectItem::Wildcard(WildcardAdditionalOptions::default()),
            (None, None) => return None,
        };
        let all = match item {
            SelectItem::QualifiedWildcard(of, _) => {
                SelectItem::QualifiedWildcard(of.clone(), WildcardAdditionalOptions::default())
            }
            _ => all,
        };
        Some((place, vec![(context.query(vec![all], select.from.clone()), Vec::new())], condition))
    };
    items.filter_map(of_item).collect()
}

/// The columns of a query, and which of them are merged.
type Told = (DFSchemaRef, Vec<Merging>);

/// A column that joins merge.
struct Merging {
    name: String,
    /// The number of joins, each of which makes one of two columns.
    joins: usize,
}

/// Puts columns in the places of items of a SELECT. The schemas that were asked for, with the columns that
/// are merged, and the names for which conditions hold, are told by the places of items.
fn write_items(
    select: &mut Select,
    columns: &[(usize, Vec<Told>)],
    chosen: &[(usize, Vec<String>)],
) -> hypostyle_types::Result<()> {
    let mut items = Vec::with_capacity(select.projection.len());
    for (place, item) in std::mem::take(&mut select.projection).into_iter().enumerate() {
        let Some((_, columns)) = columns.iter().find(|(of, _)| *of == place) else {
            if let Some(error) = unknown_structure(&item) {
                return Err(error);
            }
            items.push(item);
            continue;
        };
        let chosen: &[String] = chosen.iter().find(|(of, _)| *of == place).map_or(&[], |(_, names)| names);
        items.extend(items_of(&item, columns, chosen)?);
    }
    select.projection = items;
    Ok(())
}

/// Returns what is written in the place of an item.
fn items_of(
    item: &SelectItem,
    columns: &[Told],
    chosen: &[String],
) -> hypostyle_types::Result<Vec<SelectItem>> {
    if let Some(structure) = structure_in(item) {
        let of = columns.first().and_then(|(schema, _)| schema.fields().first());
        let is_structure = of.is_some_and(|of| matches!(of.data_type(), DataType::Struct(_)));
        return match is_structure || unnested(item).is_none() {
            true => fields_of(structure, item, columns),
            false => Ok(vec![item.clone()]),
        };
    }
    if let Some(wanted) = columns_in(item) {
        return for_each_column(item, &wanted, &names_of(columns), chosen);
    }
    let renames = renames(item);
    let replaced =
        replaces(item).unwrap_or_default().into_iter().map(|name| (name, "REPLACE gives another value"));
    let renamed = renames.iter().map(|(name, _)| (name.clone(), "RENAME gives another name"));
    for (name, what) in replaced.chain(renamed) {
        let has = columns.iter().any(|(schema, _)| schema.fields().iter().any(|field| *field.name() == name));
        if !has {
            let error = Error::new(ErrorKind::UnknownName, format!("no column \"{name}\", which {what}"));
            return Err(error.with_sqlstate("42703").about(&name));
        }
    }
    let is_merged = columns.iter().any(|(_, merged)| !merged.is_empty());
    let pattern = pattern_of_names(item);
    let all = match (is_merged, renames.is_empty() && pattern.is_none()) {
        (false, true) => return Ok(vec![item.clone()]),
        (false, false) => columns.iter().flat_map(|(schema, _)| written_out(item, schema)).collect(),
        (true, _) => merged_first(item, columns),
    };
    let all = match pattern {
        Some(pattern) => named_alike(all, pattern)?,
        None => all,
    };
    Ok(all.into_iter().map(|item| renamed_by(&renames, item)).collect())
}

fn names_of(columns: &[Told]) -> Vec<&String> {
    columns.iter().flat_map(|(schema, _)| schema.fields().iter().map(|field| field.name())).collect()
}

/// Returns the names for which a condition holds.
///
/// # Errors
/// Those of planning it; `InvalidInput` (42804) for one that is no condition, and `Unsupported` for one that
/// depends on more than the name.
async fn chosen_by(scope: Scope<'_>, condition: &Condition, names: &[&String]) -> Result<Vec<String>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let (parameter, body) = condition;
    let of_name = |name: &&String| {
        let mut body = body.clone();
        let _done = expressions_mut(&mut body, &mut |expr| {
            if matches!(&*expr, Expr::Identifier(found) if fold(found) == fold(parameter)) {
                *expr = Expr::value(Value::SingleQuotedString(name.to_string()));
            }
            ControlFlow::<()>::Continue(())
        });
        body
    };
    let item = |(place, name): (usize, &&String)| build::item_named(of_name(name), &format!("c{place}"));
    let query = build::select(names.iter().enumerate().map(item).collect(), Vec::new());
    let plan = scope.state.optimize(&scope.plan_as_it_is(query).await?)?;
    let depends = || {
        let message =
            "COLUMNS(…) of a condition that depends on more than the names of columns is not supported";
        external(Error::unsupported(message))
    };
    let LogicalPlan::Projection(projection) = &plan else { return Err(depends()) };
    let mut chosen = Vec::new();
    for (name, holds) in names.iter().zip(&projection.expr) {
        match holds.clone().unalias() {
            Planned::Literal(ScalarValue::Boolean(Some(true)), _) => chosen.push(name.to_string()),
            Planned::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => {}
            Planned::Literal(other, _) => {
                let of = type_name(&other.data_type());
                let error =
                    Error::invalid_input(format!("the condition in COLUMNS(…) is of type {of}, not BOOLEAN"));
                return Err(external(error.with_sqlstate("42804")));
            }
            _ => return Err(depends()),
        }
    }
    Ok(chosen)
}

/// Returns the structure whose fields `(s).*` gives, and what `unnest(s)` unnests, which may be one.
fn structure_in(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(structure), _) => Some(structure),
        item => unnested(item),
    }
}

/// Returns what an item unnests. A name of it is that of the elements of a list; fields have their own.
fn unnested(item: &SelectItem) -> Option<&Expr> {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return None };
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else { return None };
    function.name.to_string().eq_ignore_ascii_case("unnest").then_some(argument)
}

/// Says whether an expression is a list as it is written. Of others only a plan tells the type: it is
/// asked for before the statement is planned, because the names of a structure's fields are those of
/// columns, which clauses and queries around may use.
fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_list(inner),
        Expr::Array(_) | Expr::Cast { data_type: SqlType::Array(_), .. } => true,
        _ => false,
    }
}

/// Writes `s.*` as `(s).*` where no relation is called `s`.
struct Structures;

impl VisitorMut for Structures {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let Some(structure) = structure_named(item, &select.from)
                && let SelectItem::QualifiedWildcard(of, _) = item
            {
                *of = SelectItemQualifiedWildcardKind::Expr(structure);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns what `s.*` is of, where no relation of FROM is called `s`: a column, or a field of one.
fn structure_named(item: &SelectItem, from: &[TableWithJoins]) -> Option<Expr> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
        return None;
    };
    let parts = name.0.iter().map(|part| part.as_ident().cloned()).collect::<Option<Vec<Ident>>>()?;
    let last = fold(parts.last()?);
    let relations = relations_of(from);
    let is_relation = |relation: &&TableFactor| match (alias_of(relation), relation) {
        (Some(alias), _) => fold(&alias.name) == last,
        (None, TableFactor::Table { name, .. } | TableFactor::Function { name, .. }) => {
            name.0.last().and_then(|part| part.as_ident()).is_none_or(|name| fold(name) == last)
        }
        (None, TableFactor::Derived { .. }) => false,
        // What the others are called is not known here.
        _ => true,
    };
    match (relations.iter().any(is_relation), parts.as_slice()) {
        (true, _) => None,
        (false, [name]) => Some(Expr::Identifier(name.clone())),
        (false, _) => Some(Expr::CompoundIdentifier(parts)),
    }
}

/// Returns the error for `s.*` and `(s).*` of what no relation of FROM has; `None` for other items.
fn unknown_structure(item: &SelectItem) -> Option<Error> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(structure), _) = item else {
        return None;
    };
    let (message, sqlstate) = match structure {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            (format!("{structure}.*: neither a relation of FROM nor a column is called {structure}"), "42P01")
        }
        _ => (format!("{structure}.* is of a column that FROM does not have"), "42703"),
    };
    Some(Error::new(ErrorKind::UnknownName, message).with_sqlstate(sqlstate))
}

/// Returns the names that a wildcard leaves out.
///
/// # Errors
/// `Unsupported` for what else may be said behind the wildcard of a structure.
fn excluded(item: &SelectItem) -> hypostyle_types::Result<Vec<String>> {
    let SelectItem::QualifiedWildcard(_, options) = item else { return Ok(Vec::new()) };
    let others = WildcardAdditionalOptions { opt_exclude: None, ..options.clone() };
    if others != WildcardAdditionalOptions::default() {
        let message = "more than EXCLUDE behind the wildcard of a structure is not supported";
        return Err(Error::unsupported(message));
    }
    let names = match &options.opt_exclude {
        None => [].as_slice(),
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    names.iter().map(last_of).collect()
}

/// Returns the fields of a structure, which is the column of a query.
fn fields_of(
    structure: &Expr,
    item: &SelectItem,
    columns: &[Told],
) -> hypostyle_types::Result<Vec<SelectItem>> {
    let of = columns.first().and_then(|(schema, _)| schema.fields().first());
    let fields = match of.map(|field| field.data_type()) {
        Some(DataType::Struct(fields)) => fields,
        Some(other) => {
            let message = format!("{structure}.* is of a structure, not of {}", type_name(other));
            return Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42809"));
        }
        None => return Ok(Vec::new()),
    };
    let field = |name: &String| {
        let text = Expr::value(Value::SingleQuotedString(name.clone()));
        let expr = call("get_field", vec![structure.clone(), text]);
        SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name.as_str()) }
    };
    let excluded = excluded(item)?;
    if let Some(unknown) = excluded.iter().find(|name| fields.iter().all(|field| field.name() != *name)) {
        let message = format!("no field \"{unknown}\" of {structure}, which EXCLUDE leaves out");
        return Err(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42703"));
    }
    let kept = fields.iter().filter(|of| !excluded.contains(of.name()));
    Ok(kept.map(|of| field(of.name())).collect())
}

/// Returns the pattern of `* ILIKE 'pattern'`.
fn pattern_of_names(item: &SelectItem) -> Option<&str> {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            options.opt_ilike.as_ref().map(|ilike| ilike.pattern.as_str())
        }
        _ => None,
    }
}

/// Returns the columns whose names match a pattern of ILIKE.
fn named_alike(items: Vec<SelectItem>, pattern: &str) -> hypostyle_types::Result<Vec<SelectItem>> {
    let names = StringArray::from_iter_values(items.iter().map(|item| output_name(item).unwrap_or_default()));
    let is_alike = ilike(&names, &StringArray::new_scalar(pattern))
        .map_err(|error| Error::invalid_input(format!("* ILIKE '{pattern}': {error}")))?;
    let all = items.into_iter().enumerate().filter(|(place, _)| is_alike.value(*place));
    let found: Vec<SelectItem> = all.map(|(_, item)| item).collect();
    match found.is_empty() {
        true => {
            Err(Error::invalid_input(format!("* ILIKE '{pattern}' stands for no column"))
                .with_sqlstate("42703"))
        }
        false => Ok(found),
    }
}

/// Returns the name of an item's column, where it has one.
fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(fold),
        _ => None,
    }
}

/// Returns the columns of tables, those first that are merged.
fn merged_first(item: &SelectItem, columns: &[Told]) -> Vec<SelectItem> {
    let mut all = Vec::new();
    for (schema, merged) in columns {
        let mut of_tables: Vec<(usize, SelectItem)> = Vec::new();
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        // Upper and lower case matter if another column is spelled alike.
        let is_of = |merging: &Merging, name: &str| match names.contains(&&merging.name) {
            true => merging.name == name,
            false => merging.name.eq_ignore_ascii_case(name),
        };
        let of_other_tables = written_out(&unreplaced(item), schema);
        for (place, written) in written_out(item, schema).into_iter().enumerate() {
            match merged.iter().position(|merging| is_of(merging, names[place])) {
                Some(rank) => match names[..place].iter().filter(|name| is_of(&merged[rank], name)).count() {
                    0 => of_tables.push((rank, written)),
                    before if before <= merged[rank].joins => {}
                    // A column of the name that is not merged is no other column's value.
                    _ => of_tables.push((merged.len(), of_other_tables[place].clone())),
                },
                None => of_tables.push((merged.len(), written)),
            }
        }
        of_tables.sort_by_key(|(rank, _)| *rank);
        all.extend(of_tables.into_iter().map(|(_, item)| item));
    }
    all
}

/// Returns a column under the name that RENAME gives it.
fn renamed_by(renames: &[(String, Ident)], item: SelectItem) -> SelectItem {
    let name = output_name(&item);
    let Some((_, alias)) = renames.iter().find(|(of, _)| Some(of) == name.as_ref()) else { return item };
    match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => {
            SelectItem::ExprWithAlias { expr, alias: alias.clone() }
        }
        other => other,
    }
}

/// Says whether it is `*` for tables of which columns are merged.
fn is_merging(item: &SelectItem, select: &Select) -> bool {
    let is_merged = |tables: &TableWithJoins| !merged(tables).is_empty();
    matches!(item, SelectItem::Wildcard(_)) && select.from.iter().any(is_merged)
}

/// Returns the columns that USING merges, in the order in which the joined table has them first
/// (ISO/IEC 9075-2, 7.10).
fn merged(tables: &TableWithJoins) -> Vec<Merging> {
    let mut all: Vec<Merging> = match &tables.relation {
        TableFactor::NestedJoin { table_with_joins, alias: None } => merged(table_with_joins),
        _ => Vec::new(),
    };
    for join in &tables.joins {
        let Some(JoinConstraint::Using(columns)) = constraint_of(&join.join_operator) else { continue };
        let name = |column: &ObjectName| column.0.last().and_then(|part| part.as_ident()).map(fold);
        let mut first: Vec<Merging> = columns
            .iter()
            .filter_map(name)
            .map(|name| {
                let joins =
                    all.iter().find(|merging| merging.name == name).map_or(0, |merging| merging.joins);
                Merging { name, joins: joins + 1 }
            })
            .collect();
        all.retain(|merging| first.iter().all(|other| other.name != merging.name));
        first.append(&mut all);
        all = first;
    }
    all
}

/// Returns the same tables with all of their columns.
fn unmerged(tables: &TableWithJoins) -> TableWithJoins {
    let mut tables = tables.clone();
    if let TableFactor::NestedJoin { table_with_joins, alias: None } = &mut tables.relation {
        **table_with_joins = unmerged(table_with_joins);
    }
    for join in &mut tables.joins {
        if let Some(JoinConstraint::Using(_)) = constraint_of(&join.join_operator) {
            let always = Expr::Value(Value::Boolean(true).into());
            join.join_operator = JoinOperator::Inner(JoinConstraint::On(always));
        }
    }
    tables
}

/// Returns the wildcard without what it puts in the place of columns, and of their names.
fn unreplaced(item: &SelectItem) -> SelectItem {
    let mut item = item.clone();
    if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = &mut item {
        options.opt_replace = None;
        options.opt_rename = None;
        options.opt_ilike = None;
    }
    item
}

/// Says whether a wildcard gives columns other values or names, or only some of them.
fn gives_others(item: &SelectItem) -> bool {
    replaces(item).is_some() || !renames(item).is_empty() || pattern_of_names(item).is_some()
}

/// Returns the columns that a wildcard renames, and their new names.
fn renames(item: &SelectItem) -> Vec<(String, Ident)> {
    let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) = item else {
        return Vec::new();
    };
    let renamed = match &options.opt_rename {
        None => [].as_slice(),
        Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(RenameSelectItem::Multiple(several)) => several,
    };
    renamed.iter().map(|renamed| (fold(&renamed.ident), renamed.alias.clone())).collect()
}

/// Returns the names of the columns that a wildcard replaces; those that only merging has put
/// there, too.
fn replaces(item: &SelectItem) -> Option<Vec<String>> {
    let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) = item else {
        return None;
    };
    let replaced = options.opt_replace.as_ref()?;
    Some(replaced.items.iter().map(|item| fold(&item.column_name)).collect())
}

/// The columns that COLUMNS(…) stands for.
pub enum Wanted {
    Wildcard(Box<WildcardAdditionalOptions>),
    /// Columns whose names match a regular expression, or do not.
    Like(String),
    Unlike(String),
    /// Columns of these names, in their order.
    Named(Vec<String>),
    /// Columns for whose names a condition holds.
    Meant(Box<Condition>),
}

/// Returns the COLUMNS(…) in an item.
pub fn columns_in(item: &SelectItem) -> Option<Wanted> {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return None };
    let mut found = None;
    let _done = expressions(expr, &mut |expr| {
        found = found.take().or_else(|| wanted(expr));
        ControlFlow::<()>::Continue(())
    });
    found
}

fn wanted(expr: &Expr) -> Option<Wanted> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return None };
    if !function.name.to_string().eq_ignore_ascii_case("columns") {
        return None;
    }
    match argument {
        FunctionArgExpr::Wildcard => Some(Wanted::Wildcard(Box::default())),
        FunctionArgExpr::WildcardWithOptions(options) => Some(Wanted::Wildcard(Box::new(options.clone()))),
        FunctionArgExpr::Expr(Expr::UnaryOp { op: UnaryOperator::Not, expr }) => {
            text_of(expr).map(|pattern| Wanted::Unlike(pattern.into()))
        }
        FunctionArgExpr::Expr(Expr::Lambda(lambda)) => match &lambda.params {
            OneOrManyWithParens::One(parameter) => {
                Some(Wanted::Meant(Box::new((parameter.name.clone(), lambda.body.as_ref().clone()))))
            }
            OneOrManyWithParens::Many(_) => None,
        },
        FunctionArgExpr::Expr(Expr::Array(names)) => names
            .elem
            .iter()
            .map(|name| text_of(name).map(String::from))
            .collect::<Option<_>>()
            .map(Wanted::Named),
        FunctionArgExpr::Expr(expr) => text_of(expr).map(|pattern| Wanted::Like(pattern.into())),
        _ => None,
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => text_of(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the columns whose names match a regular expression, or do not.
fn matching<'a>(
    names: &[&'a String],
    pattern: &str,
    wanted: bool,
) -> hypostyle_types::Result<Vec<&'a String>> {
    let texts = StringArray::from_iter_values(names);
    let matches = regexp_is_match_scalar(&texts, pattern, None).map_err(|error| {
        Error::invalid_input(format!("COLUMNS('{pattern}') has no regular expression: {error}"))
            .with_sqlstate("2201B")
    })?;
    let found = names.iter().enumerate().filter(|(place, _)| matches.value(*place) == wanted);
    Ok(found.map(|(_, name)| *name).collect())
}

/// Returns the column of a name, or the one that differs from it in capitals.
fn named<'a>(names: &[&'a String], wanted: &str) -> hypostyle_types::Result<&'a String> {
    let same = names.iter().find(|name| name.as_str() == wanted);
    let found = same.or_else(|| names.iter().find(|name| name.eq_ignore_ascii_case(wanted)));
    found.copied().ok_or_else(|| {
        let error =
            Error::new(ErrorKind::UnknownName, format!("no column \"{wanted}\", which COLUMNS names"));
        error.with_sqlstate("42703").about(wanted)
    })
}

/// Returns an item for each of some columns.
///
/// # Errors
/// `UnknownName` (42703) where there is none, or a name is that of none; `InvalidInput` for a pattern that is none.
pub fn for_each_column(
    item: &SelectItem,
    which: &Wanted,
    names: &[&String],
    chosen: &[String],
) -> hypostyle_types::Result<Vec<SelectItem>> {
    let names = match which {
        Wanted::Wildcard(_) => names.to_vec(),
        Wanted::Like(pattern) => matching(names, pattern, true)?,
        Wanted::Unlike(pattern) => matching(names, pattern, false)?,
        Wanted::Meant(_) => names.iter().copied().filter(|name| chosen.contains(name)).collect(),
        Wanted::Named(wanted) => {
            let found = wanted.iter().map(|name| named(names, name));
            let found = found.collect::<hypostyle_types::Result<Vec<_>>>()?;
            names.iter().copied().filter(|name| found.contains(name)).collect()
        }
    };
    let of_column = |name: &&String| {
        let column = Ident::with_quote('"', name.as_str());
        let (mut expr, alias) = match item {
            // A name that it got from its text is no name of its own.
            SelectItem::ExprWithAlias { expr, alias } if alias.value != expr.to_string() => {
                (expr.clone(), alias.clone())
            }
            SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => {
                (expr.clone(), column.clone())
            }
            _ => return item.clone(),
        };
        let value = replacement(which, name).unwrap_or(Expr::Identifier(column));
        let _done = expressions_mut(&mut expr, &mut |expr| {
            if wanted(expr).is_some() {
                *expr = value.clone();
            }
            ControlFlow::<()>::Continue(())
        });
        SelectItem::ExprWithAlias { expr, alias }
    };
    let items: Vec<SelectItem> = names.iter().map(of_column).collect();
    match items.is_empty() {
        true => Err(Error::invalid_input("COLUMNS(…) stands for no column")
            .with_sqlstate("42703")
            .about("columns")),
        false => Ok(items),
    }
}

/// Returns the value that REPLACE within COLUMNS(…) gives a column.
fn replacement(which: &Wanted, name: &str) -> Option<Expr> {
    let Wanted::Wildcard(options) = which else { return None };
    let replaced = options.opt_replace.as_ref()?.items.iter().find(|item| fold(&item.column_name) == name)?;
    Some(Expr::Nested(Box::new(replaced.expr.clone())))
}

#[cfg(test)]
mod tests {
    use super::is_list;
    use hypostyle_sql::parse::parse_as_written;

    #[test]
    fn lists_are_known_by_how_they_are_written() {
        for (text, is_one) in [
            ("[1, 2]", true),
            ("ARRAY[{'a': 1}]", true),
            ("([x])", true),
            ("CAST(x AS INTEGER[])", true),
            ("x::TEXT[]", true),
            ("x", false),
            ("{'a': [1]}", false),
            ("x::TEXT", false),
            ("string_to_array(x, ',')", false),
        ] {
            assert_eq!(is_list(&parse_as_written(text).unwrap()), is_one, "{text}");
        }
    }
}
