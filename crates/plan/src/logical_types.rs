//! UUIDs and JSON are texts whose fields say what they are. DataFusion forgets it where a value is
//! chosen from others: by CASE, `coalesce`, `min`, `lag` or a UNION with a NULL. It is said again here,
//! in each SELECT list.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Alias, Case, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, Union, Unnest};
use hypostyle_types::LogicalType;
use std::collections::HashMap;
use std::sync::Arc;

type Metadata = HashMap<String, String>;

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// It is NULL, whatever it would be.
    Null,
    /// The field's type says all.
    Plain,
    Said(Metadata),
    /// A list of such elements.
    Elements(Box<Found>),
    /// A structure of such values.
    Fields(Vec<Found>),
    /// A map to such values.
    Values(Box<Found>),
}

impl Found {
    fn of(field: &Field) -> Self {
        match field.data_type() {
            DataType::Null => Self::Null,
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
                Self::of(of).listed()
            }
            DataType::Struct(fields) => Self::of_fields(fields.iter().map(|field| Self::of(field)).collect()),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => Self::of(&pair[1]).mapped(),
                _ => Self::Plain,
            },
            of if may_be_said_of(of) => match LogicalType::from_arrow(field) {
                Ok(LogicalType::Uuid | LogicalType::Json) => Self::Said(field.metadata().clone()),
                _ => Self::Plain,
            },
            _ => Self::Plain,
        }
    }

    /// What a list of such elements is.
    fn listed(self) -> Self {
        match self {
            Self::Null | Self::Plain => self,
            said => Self::Elements(Box::new(said)),
        }
    }

    /// What a map to such values is.
    fn mapped(self) -> Self {
        match self {
            Self::Null | Self::Plain => Self::Plain,
            said => Self::Values(Box::new(said)),
        }
    }

    /// What a structure of such values is.
    fn of_fields(fields: Vec<Self>) -> Self {
        match fields.iter().all(|field| matches!(field, Self::Null | Self::Plain)) {
            true => Self::Plain,
            false => Self::Fields(fields),
        }
    }

    /// What an element of such a list is.
    fn element(self) -> Self {
        match self {
            Self::Elements(of) => *of,
            Self::Null => Self::Null,
            _ => Self::Plain,
        }
    }

    /// What a value of such a map is.
    fn value(self) -> Self {
        match self {
            Self::Values(of) => *of,
            _ => Self::Plain,
        }
    }

    /// What a value of such a structure is.
    fn field(self, place: usize) -> Self {
        match self {
            Self::Fields(mut fields) if place < fields.len() => fields.swap_remove(place),
            _ => Self::Plain,
        }
    }

    /// What is chosen from two values.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Null, one) | (one, Self::Null) => one,
            (Self::Elements(one), Self::Elements(other)) => one.or(*other).listed(),
            (Self::Values(one), Self::Values(other)) => one.or(*other).mapped(),
            (Self::Fields(one), Self::Fields(other)) if one.len() == other.len() => {
                Self::of_fields(one.into_iter().zip(other).map(|(one, other)| one.or(other)).collect())
            }
            (one, other) if one == other => one,
            _ => Self::Plain,
        }
    }

    /// What is chosen from several values.
    fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::Null, Self::or)
    }

    /// Returns a field that says so of its values, where it does not say anything else.
    fn said_of(&self, field: &Field) -> Field {
        let within = |field: &FieldRef, found: &Self| Arc::new(found.said_of(field));
        let data_type = match (self, field.data_type()) {
            (Self::Said(metadata), of) if may_be_said_of(of) && Self::of(field) == Self::Plain => {
                return field.clone().with_metadata(metadata.clone());
            }
            (Self::Elements(found), DataType::List(of)) => DataType::List(within(of, found)),
            (Self::Elements(found), DataType::LargeList(of)) => DataType::LargeList(within(of, found)),
            (Self::Elements(found), DataType::FixedSizeList(of, size)) => {
                DataType::FixedSizeList(within(of, found), *size)
            }
            (Self::Fields(found), DataType::Struct(fields)) if found.len() == fields.len() => {
                DataType::Struct(
                    fields.iter().zip(found).map(|(field, found)| within(field, found)).collect(),
                )
            }
            (Self::Values(found), DataType::Map(entries, is_sorted)) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    let pair = [pair[0].clone(), within(&pair[1], found)];
                    let pair =
                        entries.as_ref().clone().with_data_type(DataType::Struct(pair.into_iter().collect()));
                    DataType::Map(Arc::new(pair), *is_sorted)
                }
                _ => return field.clone(),
            },
            _ => return field.clone(),
        };
        field.clone().with_data_type(data_type)
    }
}

/// Says whether values of a type may be UUIDs or JSON, which their field says then.
fn may_be_said_of(of: &DataType) -> bool {
    of.is_string() || *of == DataType::FixedSizeBinary(16)
}

/// Functions that give one of their arguments.
const CHOOSING: [&str; 5] = ["coalesce", "greatest", "ifnull", "least", "nvl"];

/// Aggregates and window functions that give a value of their first argument.
const OF_FIRST: [&str; 10] = [
    "any_value",
    "first_value",
    "last_value",
    "max",
    "min",
    "mode",
    "nth_value",
    "quantile_disc",
    "quantile_disc_desc",
    "random_value",
];

/// Functions that give an element of a list.
const OF_ELEMENT: [&str; 7] = [
    "array_any_value",
    "array_element",
    "array_max",
    "array_min",
    "list_any_value",
    "list_first",
    "list_last",
];

/// Functions that give a list of elements of their first argument, which is a list, too.
const OF_SAME_LIST: [&str; 18] = [
    "array_distinct",
    "array_except",
    "array_filter",
    "array_intersect",
    "array_pop_back",
    "array_pop_front",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_resize",
    "array_reverse",
    "array_slice",
    "array_sort",
    "list_select",
    "list_where",
];

/// Returns a plan whose SELECT lists say of what types UUIDs and JSON are.
///
/// # Errors
/// Those of DataFusion, for a plan that is none.
pub fn said_again(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|plan| {
        let plan = match plan {
            LogicalPlan::Projection(projection) => in_projection(projection)?,
            LogicalPlan::Union(union) => in_union(union)?,
            other @ (LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)) => {
                let input = other.inputs()[0].clone();
                let plan = other.map_expressions(|expr| {
                    arguments_again(expr, &input)?.transform_data(|expr| bare_lists(expr, &input))
                })?;
                if plan.transformed { plan.map_data(LogicalPlan::recompute_schema)? } else { plan }
            }
            other => Transformed::no(other),
        };
        Ok(plan)
    })?;
    match plan.transformed {
        true => recomputed(plan.data),
        false => Ok(plan.data),
    }
}

/// Computes the schemas of what is above anew.
fn recomputed(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes))?.data)
}

fn in_projection(projection: Projection) -> Result<Transformed<LogicalPlan>> {
    let schema = projection.input.schema();
    let mut expressions = Vec::with_capacity(projection.expr.len());
    let mut changed = false;
    for expr in &projection.expr {
        let found = match is_plain(expr, &projection.input) {
            true => Found::Plain,
            false => of_expr(expr, &projection.input),
        };
        let within = arguments_again(expr.clone(), &projection.input)?;
        let again = again(&within.data, &found, schema)?;
        changed |= within.transformed || again.is_some();
        expressions.push(again.unwrap_or(within.data));
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let projection = Projection::try_new(expressions, projection.input)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Functions that take values of type JSON as what they are, or tell their types.
const OF_VALUES: [&str; 14] = [
    "json_build_array",
    "json_build_object",
    "json_object",
    "json_of_list",
    "json_of_pairs",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_object",
    "jsonb_of_list",
    "jsonb_of_pairs",
    "pg_typeof",
    "to_json",
    "to_jsonb",
    "typeof",
];

/// Casts arguments of these functions that are JSON, or have it within, and may not say so any more when
/// they are computed.
fn arguments_again(expr: Expr, input: &LogicalPlan) -> Result<Transformed<Expr>> {
    let takes_values =
        |expr: &Expr| Ok(matches!(expr, Expr::ScalarFunction(call) if OF_VALUES.contains(&call.func.name())));
    if !expr.exists(takes_values)? {
        return Ok(Transformed::no(expr));
    }
    let name = expr.qualified_name();
    let cast = expr.transform_up(|mut expr| {
        let mut changed = false;
        if let Expr::ScalarFunction(ScalarFunction { func, args }) = &mut expr
            && OF_VALUES.contains(&func.name())
        {
            for arg in args.iter_mut().filter(|arg| !is_plain(arg, input)) {
                let found = of_expr(arg, input);
                let (_, field) = arg.to_field(input.schema())?;
                // Its name and its own metadata would be taken for those of a cast to another type.
                let bare = Field::new("", field.data_type().clone(), true);
                let said = found.said_of(&bare);
                let is_nested = field.data_type().is_nested();
                if said != bare || (found != Found::Plain && is_nested) {
                    let mut value = std::mem::take(arg);
                    if is_nested && matches!(value, Expr::ScalarSubquery(_)) {
                        // Its value says less than its field.
                        let of = with_bare_lists(field.data_type(), false);
                        let bare = Arc::new(Field::new(BARE, of, true));
                        value = Expr::Cast(Cast::new_from_field(Box::new(value), bare));
                    }
                    *arg = Expr::Cast(Cast::new_from_field(Box::new(value), Arc::new(said)));
                    changed = true;
                }
            }
        }
        Ok(Transformed::new_transformed(expr, changed))
    })?;
    if !cast.transformed || matches!(cast.data, Expr::Alias(_)) {
        return Ok(cast);
    }
    let (relation, name) = name;
    Ok(Transformed::yes(Expr::Alias(Alias::new(cast.data, relation, name))))
}

/// The name of a cast to a type that does not say what is within lists.
const BARE: &str = "bare lists";

/// Takes what is said of their elements off the lists that aggregates and window functions are given: the
/// single values that DataFusion keeps of them do not say it, and would not fit the others. It is said again
/// of the results.
fn bare_lists(expr: Expr, input: &LogicalPlan) -> Result<Transformed<Expr>> {
    let bare = |arg: &mut Expr| {
        let Ok((_, field)) = arg.to_field(input.schema()) else { return false };
        let of = with_bare_lists(field.data_type(), false);
        if of == *field.data_type() {
            return false;
        }
        let field = Arc::new(Field::new(BARE, of, true));
        *arg = Expr::Cast(Cast::new_from_field(Box::new(std::mem::take(arg)), field));
        true
    };
    let is_call = |expr: &Expr| Ok(matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_)));
    if !expr.exists(is_call)? {
        return Ok(Transformed::no(expr));
    }
    let name = expr.qualified_name();
    let cast = expr.transform_up(|mut expr| {
        let args = match &mut expr {
            Expr::AggregateFunction(call) => &mut call.params.args,
            Expr::WindowFunction(call) => &mut call.params.args,
            _ => return Ok(Transformed::no(expr)),
        };
        let changed = args.iter_mut().fold(false, |changed, arg| bare(arg) | changed);
        Ok(Transformed::new_transformed(expr, changed))
    })?;
    if !cast.transformed || matches!(cast.data, Expr::Alias(_)) {
        return Ok(cast);
    }
    let (relation, name) = name;
    Ok(Transformed::yes(Expr::Alias(Alias::new(cast.data, relation, name))))
}

/// Returns a type that says nothing of what is within its lists, or of itself if it is `within` one.
fn with_bare_lists(of: &DataType, within: bool) -> DataType {
    let bare = |field: &FieldRef, within: bool| {
        let of = with_bare_lists(field.data_type(), within);
        let field = field.as_ref().clone().with_data_type(of);
        Arc::new(if within { field.with_metadata(Metadata::new()) } else { field })
    };
    match of {
        DataType::List(field) => DataType::List(bare(field, true)),
        DataType::LargeList(field) => DataType::LargeList(bare(field, true)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(bare(field, true), *size),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| bare(field, within)).collect())
        }
        other => other.clone(),
    }
}

/// Says whether an expression's own field says all.
fn is_plain(expr: &Expr, input: &LogicalPlan) -> bool {
    matches!(expr, Expr::Column(_) | Expr::Literal(..) | Expr::Cast(_) | Expr::TryCast(_))
        && !is_lost(expr, input)
}

/// Says whether a column's field may say less than is known of its values.
fn is_lost(expr: &Expr, input: &LogicalPlan) -> bool {
    matches!(expr, Expr::Column(_))
        && !matches!(input, LogicalPlan::TableScan(_) | LogicalPlan::Projection(_))
}

/// Returns an expression that says what its values are, if it does not yet.
fn again(expr: &Expr, found: &Found, schema: &DFSchema) -> Result<Option<Expr>> {
    if matches!(found, Found::Null | Found::Plain) {
        return Ok(None);
    }
    let (_, field) = expr.to_field(schema)?;
    let said = found.said_of(&field);
    if said == *field {
        return Ok(None);
    }
    let (relation, name) = match expr {
        Expr::Alias(alias) => (alias.relation.clone(), alias.name.clone()),
        other => other.qualified_name(),
    };
    let own = match expr {
        Expr::Alias(alias) => alias.expr.as_ref().clone(),
        other => other.clone(),
    };
    Ok(Some(Expr::Alias(match found {
        Found::Said(metadata) => {
            Alias::new(own, relation, name).with_metadata(Some(FieldMetadata::from(metadata.clone())))
        }
        _ => {
            let said = Field::new("", said.data_type().clone(), true);
            Alias::new(Expr::Cast(Cast::new_from_field(Box::new(own), Arc::new(said))), relation, name)
        }
    })))
}

/// Casts the columns of a union's branches that are NULL, or that do not say what the others say.
fn in_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    if union.inputs.iter().any(|input| input.schema().fields().len() != columns) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut changed = false;
    let mut inputs = union.inputs.clone();
    for place in 0..columns {
        let all: Vec<Found> = inputs.iter().map(|input| of_column(input, place)).collect();
        let Found::Said(metadata) = Found::of_all(all.iter().cloned()) else { continue };
        for (input, found) in inputs.iter_mut().zip(all) {
            if found == Found::Null {
                *input = Arc::new(with_cast(input, place, &metadata)?);
                changed = true;
            }
        }
    }
    match changed {
        false => Ok(Transformed::no(LogicalPlan::Union(union))),
        true => Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))),
    }
}

/// Casts a column of a plan to a text of which metadata says what it is.
fn with_cast(input: &Arc<LogicalPlan>, place: usize, metadata: &Metadata) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().enumerate().map(|(own, column)| match own == place {
        false => Expr::Column(column),
        true => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            let field = Field::new("", DataType::Utf8View, true).with_metadata(metadata.clone());
            let cast = Cast::new_from_field(Box::new(Expr::Column(column)), Arc::new(field));
            Expr::Alias(Alias::new(Expr::Cast(cast), relation, name))
        }
    });
    Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), input.clone())?))
}

/// What a column of a plan is.
fn of_column(plan: &LogicalPlan, place: usize) -> Found {
    let Some(field) = plan.schema().fields().get(place) else { return Found::Plain };
    let found = Found::of(field);
    if found != Found::Plain {
        return found;
    }
    match plan {
        LogicalPlan::SubqueryAlias(of) => of_column(&of.input, place),
        LogicalPlan::Filter(of) => of_column(&of.input, place),
        LogicalPlan::Sort(of) => of_column(&of.input, place),
        LogicalPlan::Limit(of) => of_column(&of.input, place),
        LogicalPlan::Aggregate(of) => {
            let expr = match place.checked_sub(of.schema.fields().len() - of.aggr_expr.len()) {
                Some(place) => of.aggr_expr.get(place),
                None => of
                    .group_expr
                    .get(place)
                    .filter(|_| !of.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)))),
            };
            expr.map_or(Found::Plain, |expr| of_expr(expr, &of.input))
        }
        LogicalPlan::Window(of) => match place.checked_sub(of.input.schema().fields().len()) {
            None => of_column(&of.input, place),
            Some(place) => of.window_expr.get(place).map_or(Found::Plain, |expr| of_expr(expr, &of.input)),
        },
        LogicalPlan::Unnest(of) => of_unnested(of, place),
        _ => Found::Plain,
    }
}

/// What a column is that comes of a list or a structure.
fn of_unnested(of: &Unnest, place: usize) -> Found {
    let Some(&from) = of.dependency_indices.get(place) else { return Found::Plain };
    let found = of_column(&of.input, from);
    if of.struct_type_columns.contains(&from) {
        let before = of.dependency_indices[..place].iter().filter(|other| **other == from).count();
        return found.field(before);
    }
    let column = of.schema.columns().into_iter().nth(place);
    let list = of.list_type_columns.iter().find(|(list, unnested)| {
        *list == from && column.as_ref().is_some_and(|column| column.name == unnested.output_column.name)
    });
    (0..list.map_or(0, |(_, list)| list.depth)).fold(found, |found, _| found.element())
}

/// What an expression over the columns of a plan gives.
fn of_expr(expr: &Expr, input: &LogicalPlan) -> Found {
    let first = |args: &[Expr]| args.first().map_or(Found::Plain, |expr| of_expr(expr, input));
    let by_name = |name: &str, args: &[Expr]| match name {
        "array_agg" => first(args).listed(),
        "lag" | "lead" => first(args).or(args.get(2).map_or(Found::Null, |expr| of_expr(expr, input))),
        name if OF_FIRST.contains(&name) => first(args),
        _ => Found::Plain,
    };
    match expr {
        Expr::Column(column) => place_of(column, input).map_or(Found::Plain, |place| of_column(input, place)),
        Expr::OuterReferenceColumn(field, _) => Found::of(field),
        Expr::Literal(value, _) if value.is_null() => Found::Null,
        Expr::Literal(_, None) => Found::Plain,
        Expr::Literal(value, Some(metadata)) => {
            Found::of(&Field::new("", value.data_type(), true).with_metadata(metadata.to_hashmap()))
        }
        Expr::Alias(alias) => of_expr(&alias.expr, input),
        Expr::Cast(Cast { expr, field }) if field.name() == BARE => of_expr(expr, input),
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => match Found::of(field) {
            Found::Plain if of_expr(expr, input) == Found::Null => Found::Null,
            found => found,
        },
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter().map(|(_, result)| result).chain(else_expr);
            Found::of_all(results.map(|result| of_expr(result, input)))
        }
        Expr::ScalarFunction(call) => of_function(expr, call, input),
        Expr::AggregateFunction(call) => by_name(call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => by_name(call.fun.name(), &call.params.args),
        Expr::ScalarSubquery(subquery) => of_column(&subquery.subquery, 0),
        _ => Found::Plain,
    }
}

/// What a function gives: what its own field says, or what is known of its arguments.
fn of_function(expr: &Expr, call: &ScalarFunction, input: &LogicalPlan) -> Found {
    let name = call.func.name();
    let field = match expr.to_field(input.schema()) {
        Ok((_, field)) => field,
        Err(_) => return Found::Plain,
    };
    let own = Found::of(&field);
    let is_open = field.data_type().is_string() || field.data_type().is_nested() || CHOOSING.contains(&name);
    if own != Found::Plain || !is_open {
        return own;
    }
    let mut args = call.args.iter().map(|arg| of_expr(arg, input));
    let mut next = || args.next().unwrap_or(Found::Plain);
    match name {
        name if CHOOSING.contains(&name) => Found::of_all(args),
        name if OF_SAME_LIST.contains(&name) => next(),
        name if OF_ELEMENT.contains(&name) => next().element(),
        "array_append" => next().or(next().listed()),
        "array_prepend" => next().listed().or(next()),
        "array_concat" | "array_union" => Found::of_all(args),
        "array_repeat" => next().listed(),
        "arrays_zip" => Found::of_fields(args.map(Found::element).collect()).listed(),
        "flatten" => next().element(),
        "get_field" => match call.args.as_slice() {
            [of, key] => of_field(next(), of, key, input),
            _ => Found::Plain,
        },
        "make_array" => Found::of_all(args).listed(),
        "map" => args.nth(1).unwrap_or(Found::Plain).element().mapped(),
        "map_entries" => Found::of_fields(vec![Found::Plain, next().value()]).listed(),
        "map_extract" | "map_values" => next().value().listed(),
        "map_from_entries" => next().element().field(1).mapped(),
        "nullif" => next(),
        "named_struct" => Found::of_fields(args.skip(1).step_by(2).collect()),
        "row" | "struct" => Found::of_fields(args.collect()),
        _ => Found::Plain,
    }
}

/// What a value of a map or of a structure is.
fn of_field(found: Found, of: &Expr, key: &Expr, input: &LogicalPlan) -> Found {
    match (of.get_type(input.schema()), key) {
        (Ok(DataType::Struct(fields)), Expr::Literal(key, _)) => {
            let name = key.try_as_str().flatten();
            let place = name.and_then(|name| fields.iter().position(|field| field.name() == name));
            place.map_or(Found::Plain, |place| found.field(place))
        }
        (Ok(DataType::Map(..)), _) => found.value(),
        _ => Found::Plain,
    }
}

fn place_of(column: &Column, input: &LogicalPlan) -> Option<usize> {
    input.schema().maybe_index_of_column(column)
}
