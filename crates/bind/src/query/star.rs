//! Items of SELECT: `*`, `t.*` and `(s).*` with EXCLUDE, REPLACE, RENAME and ILIKE, the fields of a structure
//! that is unnested, and what an item without a name is called.

use crate::query::columns;
use crate::query::expression::{self, Names, field_of, name_in, no_relation};
use crate::query::frame::Seen;
use crate::query::parts::Item;
use crate::query::refusal::{refused, unknown, unsupported};
use crate::query::scope::called;
use arrow::array::StringArray;
use arrow::compute::ilike;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr as SqlExpr, Ident, ObjectName, RenameSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_types::Error;

/// Binds the list of a SELECT. An item may name those before it.
///
/// # Errors
/// `UnknownName` for a column that a clause behind `*` names and that there is not; those of the expressions.
pub fn items(select: &Select, names: &Names<'_>) -> Result<Vec<Item>> {
    let mut items: Vec<Item> = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        let more = item_of(item, &Names { items: &items, ..*names })?;
        items.extend(more);
    }
    match items.is_empty() && !select.projection.is_empty() {
        true => Err(refused("42703", "a wildcard stands for no column")),
        false => Ok(items),
    }
}

fn item_of(item: &SelectItem, names: &Names<'_>) -> Result<Vec<Item>> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            if let Some(items) = columns::written_out(item, names)? {
                let items = items.iter().map(|item| item_of(item, names));
                return Ok(items.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect());
            }
            let alias = match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias),
                _ => None,
            };
            computed(expr, alias, names)
        }
        SelectItem::Wildcard(options) => {
            let frame = names.scope.frame().filter(|frame| !frame.relations.is_empty());
            let frame =
                frame.ok_or_else(|| refused("42601", "SELECT * with no tables specified is not valid"))?;
            shown(&frame.columns, options, names)
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
            of_relation(name, options, names)
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), options) => {
            let bound = expression::bind(expr, names)?;
            fields(&expr.to_string(), &bound, options, names)
        }
        SelectItem::ExprWithAliases { .. } => Err(unsupported("an item with several aliases")),
    }
}

/// Binds an item that is an expression.
fn computed(expr: &SqlExpr, alias: Option<&Ident>, names: &Names<'_>) -> Result<Vec<Item>> {
    let (bound, own) = expression::bind_named(expr, names)?;
    if let Expr::Unnest(unnest) = &bound
        && let DataType::Struct(of) = type_of(&unnest.expr, names)?
    {
        let state = names.scope.tables.state;
        let field = |name: &String| {
            let expr = field_of(state, unnest.expr.as_ref().clone(), name)?;
            Ok::<_, DataFusionError>(Item { name: name.clone(), expr })
        };
        return of.iter().map(|of| field(of.name())).collect();
    }
    let name = match alias {
        Some(alias) => fold(alias),
        None => own.unwrap_or_else(|| name_of(expr)),
    };
    Ok(vec![Item { name, expr: bound }])
}

/// Returns what an item without a name is called: as a column or a field that it is, also where that is cast,
/// and else as it is written.
fn name_of(expr: &SqlExpr) -> String {
    let name = match expr {
        SqlExpr::Cast { expr: inner, .. } => name_in(inner),
        other => name_in(other),
    };
    name.and_then(<[Ident]>::last).map_or_else(|| expr.to_string(), fold)
}

/// Returns the type of an expression over the rows of names.
fn type_of(expr: &Expr, names: &Names<'_>) -> Result<DataType> {
    let empty = DFSchema::empty();
    expr.get_type(names.scope.frame().map_or(&empty, |frame| frame.plan.schema().as_ref()))
}

/// Binds `t.*`, where `t` is a relation, or else a structure.
fn of_relation(
    name: &ObjectName,
    options: &WildcardAdditionalOptions,
    names: &Names<'_>,
) -> Result<Vec<Item>> {
    let parts = name.0.iter().map(|part| part.as_ident().cloned()).collect::<Option<Vec<Ident>>>();
    let parts = parts.ok_or_else(|| no_relation(name))?;
    for (depth, frame) in names.scope.frames() {
        let Some(relation) = called(frame, &parts)? else { continue };
        if depth == 0 {
            return shown(&relation.columns, options, names);
        }
        let outer = |seen: &Seen| {
            let expr = frame.outer(seen.expr.clone())?;
            Ok::<_, DataFusionError>(Seen { expr, ..seen.clone() })
        };
        let columns = relation.columns.iter().map(outer).collect::<Result<Vec<_>>>()?;
        return shown(&columns, options, names);
    }
    if names.find(&parts).is_err() {
        return Err(no_relation(name));
    }
    let structure = match parts.len() {
        1 => SqlExpr::Identifier(parts[0].clone()),
        _ => SqlExpr::CompoundIdentifier(parts),
    };
    let bound = expression::bind(&structure, names)?;
    fields(&structure.to_string(), &bound, options, names)
}

/// Returns the fields of a structure.
fn fields(
    shown: &str,
    structure: &Expr,
    options: &WildcardAdditionalOptions,
    names: &Names<'_>,
) -> Result<Vec<Item>> {
    let others = WildcardAdditionalOptions { opt_exclude: None, ..options.clone() };
    if others != WildcardAdditionalOptions::default() {
        return Err(unsupported("more than EXCLUDE behind the wildcard of a structure"));
    }
    let fields = match type_of(structure, names)? {
        DataType::Struct(fields) => fields,
        other => {
            let message = format!("{shown}.* is of a structure, not of {}", type_name(&other));
            return Err(refused("42809", message));
        }
    };
    let excluded = excluded(options)?;
    if let Some(name) = excluded.iter().find(|name| fields.iter().all(|field| field.name() != *name)) {
        let message = format!("no field \"{name}\" of {shown}, which EXCLUDE leaves out");
        return Err(unknown("42703", message, name));
    }
    let state = names.scope.tables.state;
    let kept = fields.iter().filter(|field| !excluded.contains(field.name()));
    let item = |name: &String| {
        let expr = field_of(state, structure.clone(), name)?;
        Ok::<_, DataFusionError>(Item { name: name.clone(), expr })
    };
    kept.map(|field| item(field.name())).collect()
}

/// Returns columns as a wildcard shows them.
///
/// # Errors
/// `UnknownName` (42703) for a column that there is not.
pub fn shown(columns: &[Seen], options: &WildcardAdditionalOptions, names: &Names<'_>) -> Result<Vec<Item>> {
    let excluded = excluded(options)?;
    let of_relations = excluded_of_relations(options, names)?;
    let replaced = options.opt_replace.iter().flat_map(|replaced| &replaced.items);
    let replaced: Vec<(String, &SqlExpr)> =
        replaced.map(|item| (fold(&item.column_name), &item.expr)).collect();
    let renamed: Vec<(String, String)> = match &options.opt_rename {
        None => Vec::new(),
        Some(RenameSelectItem::Single(one)) => vec![(fold(&one.ident), fold(&one.alias))],
        Some(RenameSelectItem::Multiple(several)) => {
            several.iter().map(|one| (fold(&one.ident), fold(&one.alias))).collect()
        }
    };
    if options.opt_alias.is_some() {
        return Err(unsupported("an alias of a wildcard"));
    }
    let wanted = excluded.iter().map(|name| (name, "EXCLUDE leaves out"));
    let wanted = wanted.chain(replaced.iter().map(|(name, _)| (name, "REPLACE gives another value")));
    let mut wanted = wanted.chain(renamed.iter().map(|(name, _)| (name, "RENAME gives another name")));
    if let Some((name, what)) = wanted.find(|(name, _)| columns.iter().all(|seen| seen.name != **name)) {
        return Err(unknown("42703", format!("no column \"{name}\", which {what}"), name));
    }
    let mut items = Vec::with_capacity(columns.len());
    let is_shown = |seen: &&Seen| !excluded.contains(&seen.name) && !of_relations.contains(&seen.expr);
    for seen in columns.iter().filter(is_shown) {
        let expr = match replaced.iter().find(|(name, _)| *name == seen.name) {
            Some((_, expr)) => expression::bind(expr, names)?,
            None => seen.expr.clone(),
        };
        let name = renamed.iter().find(|(name, _)| *name == seen.name).map_or(&seen.name, |(_, other)| other);
        items.push((&seen.name, Item { name: name.clone(), expr }));
    }
    match &options.opt_ilike {
        Some(like) => named_alike(items, &like.pattern),
        None => Ok(items.into_iter().map(|(_, item)| item).collect()),
    }
}

/// Returns the names that a wildcard leaves out in EXCLUDE.
fn names_excluded(options: &WildcardAdditionalOptions) -> &[ObjectName] {
    match &options.opt_exclude {
        None => &[],
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names,
    }
}

/// Returns the names that a wildcard leaves out, whatever relations have them.
fn excluded(options: &WildcardAdditionalOptions) -> Result<Vec<String>> {
    let alone = names_excluded(options).iter().filter(|name| name.0.len() == 1);
    let mut names = alone.map(|name| last_of(name).map_err(external)).collect::<Result<Vec<_>>>()?;
    if let Some(except) = &options.opt_except {
        names.extend(std::iter::once(&except.first_element).chain(&except.additional_elements).map(fold));
    }
    Ok(names)
}

/// Returns the columns that a wildcard leaves out by their relations' names, too.
fn excluded_of_relations(options: &WildcardAdditionalOptions, names: &Names<'_>) -> Result<Vec<Expr>> {
    let mut columns = Vec::new();
    for name in names_excluded(options).iter().filter(|name| name.0.len() > 1) {
        let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
        match names.scope.qualified(&parts)? {
            Some(named) if named.depth == 0 && named.parts == parts.len() => columns.push(named.seen.expr),
            _ => {
                let shown = last_of(name).map_err(external)?;
                let message = format!("no column {name}, which EXCLUDE leaves out");
                return Err(unknown("42703", message, &shown));
            }
        }
    }
    Ok(columns)
}

/// Returns the items of columns whose names match a pattern of ILIKE.
fn named_alike(items: Vec<(&String, Item)>, pattern: &str) -> Result<Vec<Item>> {
    let names = StringArray::from_iter_values(items.iter().map(|(name, _)| name));
    let is_alike = ilike(&names, &StringArray::new_scalar(pattern))
        .map_err(|error| external(Error::invalid_input(format!("* ILIKE '{pattern}': {error}"))))?;
    let all = items.into_iter().enumerate().filter(|(place, _)| is_alike.value(*place));
    Ok(all.map(|(_, (_, item))| item).collect())
}
