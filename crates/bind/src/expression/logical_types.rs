//! UUIDs and JSON are texts whose fields say what they are. DataFusion forgets it where a value is chosen
//! from others, aggregated, taken out of a list, a structure or a map, or put into one. It is said again
//! here, from the leaves of a plan up, wherever a field says less than is known: of expressions within
//! others by a function around them, and of what nodes give by a projection above them. So what a node
//! finds below it says all.

mod found;
mod rule;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Exists, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, ExprSchemable, Join, LogicalPlan, Projection, RecursiveQuery, Subquery,
    TableScan, TableScanBuilder, Union, Unnest,
};
use found::{Found, bare, stripped};
use hypostyle_expr::nested_type::has_structure;
use hypostyle_expr::typed::{TYPED, typed};
use hypostyle_expr::walk::schema_below;
use rule::{alike, given, is_by_type, is_open, own};
use std::any::Any;
use std::sync::Arc;

/// Returns a plan that says of what types UUIDs and JSON are.
///
/// # Errors
/// Those of DataFusion, for a plan that is none.
pub fn said_again(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(said_within(plan, &[])?.data)
}

/// The schemas of the queries around a subquery, from the outermost.
type Around<'a> = &'a [DFSchemaRef];

/// Returns an expression of a definition that says what it gives, and what is given within it.
///
/// # Errors
/// Those of DataFusion, for an expression that is none.
pub fn said_in_expression(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let schema = Arc::new(schema.clone());
    Ok(expr.transform_up(|expr| in_expression(expr, &schema, &[], true))?.data)
}

fn said_within(plan: LogicalPlan, around: Around<'_>) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    let down = |plan: LogicalPlan| {
        let recursion = match has_order(&plan) {
            true => TreeNodeRecursion::Jump,
            false => TreeNodeRecursion::Continue,
        };
        Ok(Transformed::new(plan, false, recursion))
    };
    plan.transform_down_up(down, |plan| {
        // What changed below changes the schemas above.
        let plan = if changed { plan.recompute_schema()? } else { plan };
        let said = said_by(plan, around)?;
        changed |= said.transformed;
        Ok(Transformed::new_transformed(said.data, changed))
    })
}

/// Says whether one of a node's inputs reads what another one gives.
fn has_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => is_lateral(&join.right),
        LogicalPlan::RecursiveQuery(_) => true,
        _ => false,
    }
}

/// Says again what one node and its expressions give.
fn said_by(plan: LogicalPlan, around: Around<'_>) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => in_union(union),
        LogicalPlan::RecursiveQuery(query) => in_recursion(query, around),
        LogicalPlan::Unnest(unnest) => {
            let found = (0..unnest.schema.fields().len()).map(|place| of_unnested(&unnest, place)).collect();
            said_above(LogicalPlan::Unnest(unnest), found, false)
        }
        LogicalPlan::TableScan(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(Distinct::All(_))
        | LogicalPlan::EmptyRelation(_) => Ok(Transformed::no(plan)),
        LogicalPlan::Join(join) if is_lateral(&join.right) => in_lateral(join, around),
        other => in_expressions(other, around)?.transform_data(outputs),
    }
}

/// Says again what a join gives whose right side reads the left one.
fn in_lateral(mut join: Join, around: Around<'_>) -> Result<Transformed<LogicalPlan>> {
    let left = said_within(Arc::unwrap_or_clone(join.left), around)?;
    let here = [around, &[left.data.schema().clone()]].concat();
    let right = said_within(Arc::unwrap_or_clone(join.right), &here)?;
    let changed = left.transformed || right.transformed;
    (join.left, join.right) = (Arc::new(left.data), Arc::new(right.data));
    let join = LogicalPlan::Join(join);
    let join = if changed { join.recompute_schema()? } else { join };
    let join = in_expressions(join, around)?;
    Ok(Transformed::new_transformed(join.data, join.transformed || changed))
}

/// Says whether a side of a join is a query that reads the other side.
fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(of) => is_lateral(&of.input),
        _ => false,
    }
}

/// Says again what the expressions of a node give, and those within them.
fn in_expressions(plan: LogicalPlan, around: Around<'_>) -> Result<Transformed<LogicalPlan>> {
    let schema = schema_below(&plan);
    let is_sure = matches!(
        plan.inputs().as_slice(),
        [] | [LogicalPlan::TableScan(_) | LogicalPlan::Projection(_) | LogicalPlan::EmptyRelation(_)]
    );
    let plan =
        plan.map_expressions(|expr| expr.transform_up(|expr| in_expression(expr, &schema, around, is_sure)))?;
    match plan.transformed {
        true => plan.map_data(LogicalPlan::recompute_schema),
        false => Ok(plan),
    }
}

/// Says again what one expression gives, within which all is said.
fn in_expression(
    mut expr: Expr,
    schema: &DFSchemaRef,
    around: Around<'_>,
    is_sure: bool,
) -> Result<Transformed<Expr>> {
    let mut changed = false;
    match &mut expr {
        Expr::OuterReferenceColumn(field, column) => {
            let known = around
                .iter()
                .rev()
                .find_map(|schema| schema.maybe_index_of_column(column).map(|place| schema.field(place)));
            if let Some(known) = known.filter(|known| Found::of_field(known) != Found::of_field(field)) {
                *field = Arc::new(Field::clone(known).with_nullable(field.is_nullable()));
                changed = true;
            }
            return Ok(Transformed::new_transformed(expr, changed));
        }
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => {
            changed = in_subquery(subquery, schema, around)?;
        }
        Expr::HigherOrderFunction(call) if call.args.iter().any(|arg| matches!(arg, Expr::Lambda(_))) => {
            let again = in_lambdas(expr, schema, around, is_sure)?;
            return again.transform_data(|expr| Ok(marked(expr, schema)));
        }
        Expr::ScalarFunction(call) if is_by_type(call) => changed = in_arguments(call, schema, is_sure),
        Expr::ScalarFunction(call) if call.func.name() == "array_repeat" => {
            return in_repeated(expr, schema);
        }
        Expr::ScalarFunction(call) if call.func.name() == TYPED => {
            // What says it already was said again within.
            if let [Expr::ScalarFunction(within)] = call.args.as_mut_slice()
                && within.func.name() == TYPED
            {
                call.args = std::mem::take(&mut within.args);
                return Ok(Transformed::yes(expr));
            }
        }
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::Alias(_) => {
            return Ok(Transformed::no(expr));
        }
        _ => {}
    }
    changed |= as_beside(alike(&mut expr), schema);
    let said = marked(expr, schema);
    Ok(Transformed::new_transformed(said.data, said.transformed || changed))
}

/// Returns an expression that says what it gives, if its own field says less.
fn marked(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Some(found) = given(&expr, schema).filter(|found| !found.is_plain()) else {
        return Transformed::no(expr);
    };
    let Ok((_, field)) = expr.to_field(schema) else { return Transformed::no(expr) };
    let said = found.said_of(&field);
    // What DataFusion computes says less than its field of what is within lists, structures and maps.
    match said != *field || field.data_type().is_nested() {
        true => Transformed::yes(typed(expr, said.with_name(""))),
        false => Transformed::no(expr),
    }
}

/// Casts texts as they are written, and parameters, to what stands beside them.
fn as_beside(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    if !exprs.iter().any(|expr| is_open(expr)) {
        return false;
    }
    let known = exprs.iter().filter(|expr| !is_open(expr)).map(|expr| own(expr, schema));
    let found @ Found::Said(_) = Found::of_all(known) else { return false };
    let of = Arc::new(found.said_of(&Field::new("", DataType::Utf8View, true)));
    for expr in exprs.into_iter().filter(|expr| is_open(expr)) {
        *expr = Expr::Cast(Cast::new_from_field(Box::new(std::mem::take(expr)), of.clone()));
    }
    true
}

/// Says again what array_repeat() gives, which is given lists that say nothing of their elements: it makes
/// lists of such lists itself.
fn in_repeated(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(found) = given(&expr, schema).filter(|found| !found.is_plain()) else {
        return Ok(Transformed::no(expr));
    };
    let said = found.said_of(&expr.to_field(schema)?.1).with_name("");
    if let Expr::ScalarFunction(call) = &mut expr {
        for arg in &mut call.args {
            let (_, field) = arg.to_field(schema)?;
            let of = bare(field.data_type(), false);
            if of != *field.data_type() {
                *arg = typed(std::mem::take(arg), field.as_ref().clone().with_name("").with_data_type(of));
            }
        }
    }
    Ok(Transformed::yes(typed(expr, said)))
}

fn in_subquery(subquery: &mut Subquery, schema: &DFSchemaRef, around: Around<'_>) -> Result<bool> {
    let around = [around, std::slice::from_ref(schema)].concat();
    let plan = said_within(subquery.subquery.as_ref().clone(), &around)?;
    if plan.transformed {
        subquery.subquery = Arc::new(plan.data);
        for column in &mut subquery.outer_ref_columns {
            *column = in_expression(std::mem::take(column), schema, &around, true)?.data;
        }
    }
    Ok(plan.transformed)
}

/// Finds the types of the parameters of functions of elements again, whose lists may say more now, and
/// what these functions give.
fn in_lambdas(
    expr: Expr,
    schema: &DFSchemaRef,
    around: Around<'_>,
    is_sure: bool,
) -> Result<Transformed<Expr>> {
    // A function within another one's has parameters that are not known here.
    let Ok(resolved) = expr.clone().resolve_lambda_variables(schema) else {
        return Ok(Transformed::no(expr));
    };
    if !resolved.transformed {
        return Ok(Transformed::no(expr));
    }
    let again = resolved.data.transform_up(|within| match within {
        call @ Expr::HigherOrderFunction(_) => Ok(marked(call, schema)),
        other => in_expression(other, schema, around, is_sure),
    })?;
    Ok(Transformed::yes(again.data))
}

/// Has arguments say what they are when they are computed, too: what DataFusion makes of a plan may have
/// columns that do not say it.
fn in_arguments(call: &mut ScalarFunction, schema: &DFSchema, is_sure: bool) -> bool {
    let mut changed = false;
    for arg in &mut call.args {
        let may_be_lost = match arg {
            Expr::Column(_) => !is_sure,
            Expr::ScalarSubquery(_) => true,
            _ => false,
        };
        if !may_be_lost {
            continue;
        }
        let Ok((_, field)) = arg.to_field(schema) else { continue };
        if !Found::of_field(&field).is_plain() {
            *arg = typed(std::mem::take(arg), field.as_ref().clone().with_name(""));
            changed = true;
        }
    }
    changed
}

/// Takes what is said of their elements off the lists that aggregates and window functions are given: the
/// single values that DataFusion keeps of them do not say it, and would not fit the others. It is said
/// again of the results.
fn with_bare_lists(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (args, order_by) = match &mut expr {
        Expr::AggregateFunction(call) => (&mut call.params.args, &mut call.params.order_by),
        Expr::WindowFunction(call) => {
            let params = &mut call.params;
            (&mut params.args, &mut params.order_by)
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let mut changed = false;
    for arg in args {
        let Ok((_, field)) = arg.to_field(schema) else { continue };
        let of = bare(field.data_type(), false);
        if of == *field.data_type() {
            continue;
        }
        let bare = field.as_ref().clone().with_name("").with_data_type(of);
        let own = std::mem::take(arg);
        for key in order_by.iter_mut().filter(|key| key.expr == own) {
            key.expr = typed(own.clone(), bare.clone());
        }
        *arg = typed(own, bare);
        changed = true;
    }
    Ok(Transformed::new_transformed(expr, changed))
}

/// Takes what is said of their elements off the lists that DISTINCT ON gives, which are chosen by an
/// aggregate.
fn with_bare_items(of: DistinctOn) -> Result<DistinctOn> {
    let items = of.select_expr.into_iter().zip(of.schema.iter()).map(|(item, (relation, field))| {
        let bare = bare(field.data_type(), false);
        if bare == *field.data_type() {
            return item;
        }
        let of = field.as_ref().clone().with_name("").with_data_type(bare);
        typed(item.unalias(), of).alias_qualified(relation.cloned(), field.name())
    });
    DistinctOn::try_new(of.on_expr, items.collect(), of.sort_expr, of.input)
}

/// Says again what a node gives that is not said by its schema.
fn outputs(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let [input] = plan.inputs()[..] else { return of_values(plan) };
    let schema = input.schema().clone();
    let of_rows = |plan: LogicalPlan, before: usize, calls: Vec<Found>| {
        let mut found = vec![Found::Plain; before];
        found.extend(calls);
        let bare = plan.map_expressions(|expr| expr.transform_up(|expr| with_bare_lists(expr, &schema)))?;
        let bare = if bare.transformed { bare.map_data(LogicalPlan::recompute_schema)? } else { bare };
        bare.transform_data(|plan| said_above(plan, found, false))
    };
    let given = |expr: &Expr| given(expr, &schema).unwrap_or(Found::Plain);
    match plan {
        LogicalPlan::Aggregate(of) => {
            let before = of.schema.fields().len() - of.aggr_expr.len();
            let calls = of.aggr_expr.iter().map(given).collect();
            of_rows(LogicalPlan::Aggregate(of), before, calls)
        }
        LogicalPlan::Window(of) => {
            let before = of.schema.fields().len() - of.window_expr.len();
            let calls = of.window_expr.iter().map(given).collect();
            of_rows(LogicalPlan::Window(of), before, calls)
        }
        LogicalPlan::Distinct(Distinct::On(of)) => {
            let found = of.schema.fields().iter().map(|field| Found::of_field(field)).collect();
            said_above(LogicalPlan::Distinct(Distinct::On(with_bare_items(of)?)), found, true)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Says again what VALUES give. All rows say the same of what is within lists, structures and maps: each is
/// computed by itself.
fn of_values(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Values(mut of) = plan else { return Ok(Transformed::no(plan)) };
    let none = DFSchema::empty();
    let mut columns: Vec<(Option<TableReference>, FieldRef)> = Vec::new();
    let (mut all_found, mut changed) = (Vec::new(), false);
    for (place, (relation, field)) in of.schema.iter().enumerate() {
        let own_values = of.values.iter().filter_map(|row| row.get(place));
        let found = Found::of_all(own_values.map(|expr| own(expr, &none)));
        let wanted = found.said_of(&stripped(field));
        for value in of.values.iter_mut().filter_map(|row| row.get_mut(place)) {
            if value.get_type(&none)? != *wanted.data_type() {
                *value = typed(std::mem::take(value), wanted.clone().with_name(""));
                changed = true;
            }
        }
        changed |= field.data_type() != wanted.data_type();
        let field = field.as_ref().clone().with_data_type(wanted.data_type().clone());
        columns.push((relation.cloned(), Arc::new(field)));
        all_found.push(found);
    }
    if changed {
        let schema = DFSchema::new_with_metadata(columns, of.schema.metadata().clone())?;
        of.schema = Arc::new(schema);
    }
    let said = said_above(LogicalPlan::Values(of), all_found, false)?;
    Ok(Transformed::new_transformed(said.data, said.transformed || changed))
}

/// Puts a projection above a node that says what the node's schema does not say, or what it will not say
/// any more when the node `is_lost`.
fn said_above(plan: LogicalPlan, found: Vec<Found>, is_lost: bool) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    let items = plan.schema().iter().zip(found).map(|((relation, field), found)| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        let said = found.said_of(field);
        if found.is_plain() || (said == **field && !is_lost) {
            return column;
        }
        changed = true;
        typed(column, said.with_name("")).alias_qualified(relation.cloned(), field.name())
    });
    let items: Vec<Expr> = items.collect();
    match changed {
        false => Ok(Transformed::no(plan)),
        true => Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(items, Arc::new(plan))?))),
    }
}

/// What a column is that comes of a list or a structure.
fn of_unnested(of: &Unnest, place: usize) -> Found {
    let Some(&from) = of.dependency_indices.get(place) else { return Found::Plain };
    let found = Found::of_field(of.input.schema().field(from));
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

/// Has all parts of a union say the same of a column: what all of them say.
fn in_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    let says = |input: &Arc<LogicalPlan>| {
        input.schema().fields().iter().any(|field| !Found::of_field(field).is_plain())
    };
    let is_even = union.inputs.iter().all(|input| input.schema().fields().len() == columns);
    if !is_even || !union.inputs.iter().any(says) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    // BY NAME says of all inputs that they have the types of the first one.
    let own = |input: Arc<LogicalPlan>| match input.as_ref() {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            Projection::try_new(expr.clone(), input.clone()).map(LogicalPlan::Projection).map(Arc::new)
        }
        _ => Ok(input),
    };
    let inputs = union.inputs.into_iter().map(own).collect::<Result<Vec<_>>>()?;
    let wanted = (0..columns).map(|place| {
        let known = inputs.iter().filter(|input| !is_open_column(input, place));
        let fields: Vec<&Field> = known.map(|input| input.schema().fields()[place].as_ref()).collect();
        if are_of_other_structures(&fields) { None } else { common(&fields) }
    });
    let wanted: Vec<Option<(Found, Field)>> = wanted.collect();
    let inputs = inputs.into_iter().map(|input| as_wanted(input, &wanted)).collect::<Result<Vec<_>>>()?;
    let again = Union::try_new_with_loose_types(inputs)?;
    Ok(Transformed::yes(LogicalPlan::Union(again)))
}

/// Says whether a column of a part of a union is a text as it is written.
fn is_open_column(input: &LogicalPlan, place: usize) -> bool {
    matches!(input, LogicalPlan::Projection(of) if of.expr.get(place).is_some_and(is_open))
}

/// Returns what columns of one place say together, and the first of them that is not only NULL; `None`
/// where none of them says anything.
fn common(fields: &[&Field]) -> Option<(Found, Field)> {
    let (mut all, mut first, mut says) = (Found::Null, None, false);
    for field in fields {
        let found = Found::of_field(field);
        says |= !found.is_plain();
        if found != Found::Null {
            first.get_or_insert(*field);
        }
        all = all.or(found);
    }
    says.then_some((all, first?.clone()))
}

/// Says whether columns are of structures with different fields, which get a type of all of them later.
fn are_of_other_structures(fields: &[&Field]) -> bool {
    let known = fields.iter().filter(|field| !field.data_type().is_null());
    let mut types = known.map(|field| stripped(field).data_type().clone());
    let Some(first) = types.next().filter(has_structure) else { return false };
    types.any(|of| of != first)
}

/// Says whether a column is of lists in another layout than those of another one: DataFusion's common type
/// of the two would say nothing of the elements.
fn is_list_beside(field: &Field, other: &Field) -> bool {
    let is_list = |of: &DataType| matches!(of, DataType::List(_) | DataType::LargeList(_));
    let are_lists = is_list(field.data_type()) && is_list(other.data_type());
    are_lists
        && !has_structure(field.data_type())
        && stripped(field).data_type() != stripped(other).data_type()
}

/// Returns a plan whose columns say what is wanted of them. One that is only NULL gets a type.
fn as_wanted(input: Arc<LogicalPlan>, wanted: &[Option<(Found, Field)>]) -> Result<Arc<LogicalPlan>> {
    let mut changed = false;
    let items = input.schema().iter().zip(wanted).enumerate().map(|(place, ((relation, field), wanted))| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        let Some((found, like)) = wanted else { return column };
        let own = Found::of_field(field);
        let is_untyped = own == Found::Null || is_open_column(&input, place);
        if is_untyped && found.is_plain() {
            return column;
        }
        let item = if is_untyped || is_list_beside(field, like) {
            let of = found.said_of(&stripped(like)).with_name("").with_nullable(true);
            Expr::Cast(Cast::new_from_field(Box::new(column), Arc::new(of)))
        } else {
            let said = match own == *found {
                true => found.said_of(field),
                false => found.said_of(&stripped(field)),
            };
            if said == **field {
                return column;
            }
            typed(column, said.with_name(""))
        };
        changed = true;
        item.alias_qualified(relation.cloned(), field.name())
    });
    let items: Vec<Expr> = items.collect();
    match changed {
        false => Ok(input),
        true => Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(items, input)?))),
    }
}

/// Says again what the parts of a recursive query give: its step reads what its first part says.
fn in_recursion(query: RecursiveQuery, around: Around<'_>) -> Result<Transformed<LogicalPlan>> {
    let first = said_within(Arc::unwrap_or_clone(query.static_term), around)?;
    let wanted = first.data.schema().fields().iter().map(|field| {
        let found = Found::of_field(field);
        (!found.is_plain()).then(|| (found, field.as_ref().clone()))
    });
    let wanted: Vec<Option<(Found, Field)>> = wanted.collect();
    let mut changed = false;
    let step = Arc::unwrap_or_clone(query.recursive_term).transform_up(|plan| match plan {
        LogicalPlan::TableScan(scan) => match read_again(&scan, &query.name, &wanted)? {
            Some(again) => {
                changed = true;
                Ok(Transformed::yes(LogicalPlan::TableScan(again)))
            }
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        },
        other if changed => other.recompute_schema().map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    let step = said_within(step.data, around)?;
    let changed = changed || first.transformed || step.transformed || wanted.iter().any(Option::is_some);
    let step = as_wanted(Arc::new(step.data), &wanted)?;
    let first = Arc::new(first.data);
    let query = match changed {
        true => RecursiveQuery::try_new(query.name, first, step, query.is_distinct)?,
        false => RecursiveQuery { static_term: first, recursive_term: step, ..query },
    };
    Ok(Transformed::new_transformed(LogicalPlan::RecursiveQuery(query), changed))
}

/// Returns the scan of a recursive query's own rows whose columns say what is wanted of them, if it is
/// one that says less.
fn read_again(scan: &TableScan, name: &str, wanted: &[Option<(Found, Field)>]) -> Result<Option<TableScan>> {
    let Ok(table) = source_as_provider(&scan.source) else { return Ok(None) };
    let Some(table) = (table.as_ref() as &dyn Any).downcast_ref::<CteWorkTable>() else { return Ok(None) };
    if table.name() != name {
        return Ok(None);
    }
    let own = table.schema();
    let fields = own.fields().iter().zip(wanted).map(|(field, wanted)| match wanted {
        Some((found, _)) => Arc::new(found.said_of(field)),
        None => field.clone(),
    });
    let fields: Fields = fields.collect();
    if fields == *own.fields() {
        return Ok(None);
    }
    let said = Arc::new(Schema::new_with_metadata(fields, own.metadata().clone()));
    let source = provider_as_source(Arc::new(CteWorkTable::new(name, said)));
    let again = TableScanBuilder::new(scan.table_name.clone(), source)
        .with_projection(scan.projection.clone())
        .with_filters(scan.filters.clone())
        .with_fetch(scan.fetch)
        .build()?;
    Ok(Some(again))
}
