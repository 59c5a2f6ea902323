//! Keys of values that may be equal and not the same: intervals, which are equal by their lengths,
//! and lists and structures, in which NULLs are equal to each other, and greater than all values.
//! DataFusion's groups and joins compare the former by their parts, its joins find none of the
//! latter, and in its order their NULLs come first. JSON is text whose key says what it is.

use crate::comparison::operands;
use crate::impl_portable;
use crate::interval::{INTERVAL, is_interval, length_of, lengths};
use crate::json::is_json;
use crate::json::order::{gives_json, json_key, json_keys};
use crate::typed::typed;
use crate::walk::unaliased;
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, LargeBinaryArray, MapArray,
    OffsetSizeTrait, StructArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, sort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, InSubquery, ScalarFunction, Sort, WindowFunctionParams,
};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator,
    Projection, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility, Window,
    WindowFrameUnits, when,
};
use hypostyle_error::external;
use hypostyle_types::Error;
use std::sync::{Arc, LazyLock};

/// Says whether values are compared by something else than themselves, and by what.
pub fn key_of(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    if is_interval(expr, schema) {
        return Some(length_of(expr.clone()));
    }
    order_key(expr, schema)
}

/// Puts a key in the place of a list, a structure or JSON, and says whether it is one.
fn make_key(expr: &mut Expr, schema: &DFSchema) -> bool {
    let key = order_key(expr, schema);
    let is_made = key.is_some();
    if let Some(key) = key {
        *expr = key;
    }
    is_made
}

/// Returns the key that lists, structures and JSON are ordered by.
fn order_key(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let of = expr.get_type(schema).ok()?;
    match is_list_or_structure(&of) {
        true => Some(nested_key(expr.clone())),
        false => gives_json(expr, schema).then(|| json_key(expr.clone())),
    }
}

/// Whether values are ordered by keys that are made of them.
pub fn is_list_or_structure(of: &DataType) -> bool {
    matches!(
        of,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Struct(_)
    )
}

/// Returns the key of an interval and of JSON, and that of a list or a structure that may be equal to another
/// one and not the same. Those of other values are the values themselves, wherever these are only told apart.
pub fn key_of_equals(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let of = expr.get_type(schema).ok()?;
    let has_key = has_other_equals(&of) || gives_json(expr, schema);
    has_key.then(|| key_of(expr, schema)).flatten()
}

/// Returns the key of a map that has floating-point numbers or intervals within it.
fn key_of_map(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let is_one =
        matches!(expr.get_type(schema), Ok(DataType::Map(entries, _)) if has_equals(entries.data_type()));
    is_one.then(|| nested_key(expr.clone()))
}

/// Whether values of a type, but for numbers by themselves, may be equal and not the same: intervals, and
/// lists and structures that have such or floating-point numbers, with their two zeros, within them.
pub(crate) fn has_other_equals(of: &DataType) -> bool {
    (*of == INTERVAL || is_list_or_structure(of)) && has_equals(of)
}

/// The same, or floating-point numbers.
pub(crate) fn has_equals(of: &DataType) -> bool {
    match of {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            has_equals(element.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_equals(field.data_type())),
        other => *other == INTERVAL,
    }
}

/// Says whether a type is one of structures without fields, or has such within it.
fn has_no_fields(of: &DataType) -> bool {
    match of {
        DataType::Struct(fields) => {
            fields.is_empty() || fields.iter().any(|field| has_no_fields(field.data_type()))
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_no_fields(field.data_type()),
        _ => false,
    }
}

/// Whether two types are the same but for what may be NULL within them, which keys do not tell.
fn are_of_one_type(one: &DataType, other: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Struct};
    let alike = |one: &FieldRef, other: &FieldRef| are_of_one_type(one.data_type(), other.data_type());
    match (one, other) {
        (List(one), List(other)) | (LargeList(one), LargeList(other)) => alike(one, other),
        (FixedSizeList(one, size), FixedSizeList(other, other_size)) => {
            size == other_size && alike(one, other)
        }
        (Struct(one), Struct(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| one.name() == other.name() && alike(one, other))
        }
        _ => one == other,
    }
}

/// Returns the bytes by which values are ordered.
pub fn nested_key(expr: Expr) -> Expr {
    static KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(NestedKey::default())));
    Expr::ScalarFunction(ScalarFunction::new_udf(KEY.clone(), vec![expr]))
}

/// Equalities of lists and structures of two tables, which may become keys of a join, of those beside
/// constants that may be equal to what is not the same, and those of IN with a subquery.
pub fn equal_by_keys(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    use Operator::{Eq, IsDistinctFrom, IsNotDistinctFrom, NotEq};
    match &mut expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom, right }) => {
            let types = (left.get_type(schema), right.get_type(schema));
            let are_of_rows = !left.column_refs().is_empty() && !right.column_refs().is_empty();
            let are_alike = matches!(&types, (Ok(one), Ok(other)) if one == other
                || (!are_of_rows && are_of_one_type(one, other)));
            if !are_alike {
                return Ok(Transformed::no(expression));
            }
            let key = |expr: &Expr, schema: &DFSchema| {
                let key = if are_of_rows { key_of(expr, schema) } else { key_of_equals(expr, schema) };
                key.or_else(|| key_of_map(expr, schema))
            };
            let (Some(one), Some(other)) = (key(left, schema), key(right, schema)) else {
                return Ok(Transformed::no(expression));
            };
            (**left, **right) = (one, other);
            Ok(Transformed::yes(expression))
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
            let plan = subquery.subquery.clone();
            let [column]: [Column; 1] =
                plan.schema().columns().try_into().unwrap_or_else(|_| [Column::from_name("")]);
            let column = Expr::Column(column);
            let (Some(sought), Some(found)) = (key_of(expr, schema), key_of(&column, plan.schema())) else {
                return Ok(Transformed::no(expression));
            };
            let found = Projection::try_new(vec![found], plan)?;
            **expr = sought;
            *subquery = Subquery { subquery: Arc::new(LogicalPlan::Projection(found)), ..subquery.clone() };
            Ok(Transformed::yes(expression))
        }
        _ => Ok(Transformed::no(expression)),
    }
}

/// Lists and structures that are compared by their order, sought in a list or compared by CASE, by their
/// keys; and aggregates that are ordered by them.
pub fn in_order(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    if let Expr::AggregateFunction(call) = &mut expression {
        let AggregateFunctionParams { args, distinct, order_by, .. } = &mut call.params;
        let mut changed = false;
        for key in order_by {
            // DataFusion orders values that it takes once by themselves alone: JSON by its text.
            let is_own = *distinct && args.contains(&key.expr) && gives_json(&key.expr, schema);
            changed |= !is_own && make_key(&mut key.expr, schema);
        }
        return Ok(Transformed::new_transformed(expression, changed));
    }
    if !matches!(
        &expression,
        Expr::BinaryExpr(BinaryExpr { op: Lt | LtEq | Gt | GtEq, .. })
            | Expr::Between(_)
            | Expr::Case(_)
            | Expr::InList(_)
    ) {
        return Ok(Transformed::no(expression));
    }
    let Some(compared) = operands(&mut expression) else { return Ok(Transformed::no(expression)) };
    let mut types = compared.iter().map(|expr| expr.get_type(schema));
    let is_nested = matches!(types.next(), Some(Ok(of)) if is_list_or_structure(&of)
        && types.all(|other| other.is_ok_and(|other| other == of)));
    if is_nested {
        compared.into_iter().for_each(|expr| *expr = nested_key(std::mem::take(expr)));
    }
    Ok(Transformed::new_transformed(expression, is_nested))
}

/// Windows that are ordered by lists, structures, maps and JSON go by their keys, before the types of their
/// frames are looked at, and so do those that are divided by what may be equal and not the same. Frames
/// of such an order have no distances: those of values are those of groups of equal ones.
pub fn windows_in_order(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(call) = &mut expression else { return Ok(Transformed::no(expression)) };
    let WindowFunctionParams { partition_by, order_by, window_frame, .. } = &mut call.params;
    let divided = partition_by.iter_mut().fold(false, |changed, expr| match key_of_equals(expr, schema) {
        Some(key) => {
            *expr = key;
            true
        }
        None => changed,
    });
    let changed = order_by.iter_mut().fold(false, |changed, key| {
        let is_map = matches!(key.expr.get_type(schema), Ok(DataType::Map(..)));
        if is_map {
            key.expr = nested_key(std::mem::take(&mut key.expr));
        }
        is_map | make_key(&mut key.expr, schema) | changed
    });
    if changed && window_frame.units == WindowFrameUnits::Range {
        window_frame.units = WindowFrameUnits::Groups;
    }
    Ok(Transformed::new_transformed(expression, changed | divided))
}

/// Sorts lists, structures and JSON by their keys.
pub fn sorted(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(mut sort) = plan else { return Ok(Transformed::no(plan)) };
    let schema = sort.input.schema().clone();
    let keys = sort.expr.iter_mut();
    let changed = keys.fold(false, |changed, key| make_key(&mut key.expr, &schema) | changed);
    Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
}

/// Compares what DISTINCT ON is of by its keys.
pub fn distinct_on(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Distinct(Distinct::On(mut on)) = plan else { return Ok(Transformed::no(plan)) };
    let schema = on.input.schema().clone();
    let order = on.sort_expr.iter_mut().flatten().map(|key| &mut key.expr);
    let mut changed = false;
    for expr in on.on_expr.iter_mut().chain(order) {
        if let Some(key) = key_of(expr, &schema) {
            *expr = key;
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed))
}

/// Makes of `min` and `max` of lists, structures and JSON the first one by key, and counts lists and
/// structures, and JSON, of other keys.
pub fn first_by_key(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(call) = &mut expression else { return Ok(Transformed::no(expression)) };
    if let ("count", true, [of]) = (call.func.name(), call.params.distinct, call.params.args.as_mut_slice())
        && let Some(key) = key_of_equals(of, schema)
    {
        *of = key;
        return Ok(Transformed::yes(expression));
    }
    let asc = match call.func.name() {
        name @ ("min" | "max") => name == "min",
        _ => return Ok(Transformed::no(expression)),
    };
    let [of] = call.params.args.as_slice() else { return Ok(Transformed::no(expression)) };
    let Some(key) = order_key(of, schema) else { return Ok(Transformed::no(expression)) };
    call.params.order_by = vec![Sort { expr: key, asc, nulls_first: false }];
    call.params.distinct = false;
    call.func = first_value_udaf();
    Ok(Transformed::yes(expression))
}

/// Makes of `min` and `max` of lists, structures and JSON over windows those of such values beside their
/// keys, which decide. `made` of them have been given names in the plan.
pub fn extremes_of_windows(plan: LogicalPlan, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = plan else { return Ok(Transformed::no(plan)) };
    let of = window.input.schema().clone();
    if !window.window_expr.iter().any(|expr| is_nested_extreme(unaliased(expr), &of)) {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let mut shown: Vec<Expr> = of.columns().into_iter().map(Expr::Column).collect();
    let columns = window.schema.columns().split_off(shown.len());
    let mut exprs = Vec::with_capacity(columns.len());
    for (expr, column) in window.window_expr.into_iter().zip(columns) {
        match unaliased(&expr).clone() {
            Expr::WindowFunction(mut call) if is_nested_extreme(unaliased(&expr), &of) => {
                for arg in &mut call.params.args {
                    if let Some(key) = order_key(arg, &of) {
                        *arg = beside_key(key, std::mem::take(arg));
                    }
                }
                *made += 1;
                let name = format!("__extreme_{made}");
                let Column { relation, name: own, .. } = column;
                let value = get_field(Expr::Column(Column::new_unqualified(&name)), VALUE);
                shown.push(value.alias_qualified(relation, own));
                exprs.push(Expr::WindowFunction(call).alias(name));
            }
            _ => {
                shown.push(Expr::Column(column));
                exprs.push(expr);
            }
        }
    }
    let window = LogicalPlan::Window(Window::try_new(exprs, window.input)?);
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(window))?)))
}

fn is_nested_extreme(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::WindowFunction(call) = expr else { return false };
    matches!(call.fun.name(), "min" | "max")
        && call.params.args.iter().all(|of| order_key(of, schema).is_some())
}

/// Returns the keys of joins, and the groups of values that may be equal and not the same, of which `made`
/// have been given names in the plan.
pub fn by_keys(plan: LogicalPlan, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) => Ok(joined(join)),
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate, made),
        LogicalPlan::Distinct(Distinct::All(input))
            if input.schema().fields().iter().any(|field| {
                has_other_equals(field.data_type()) || is_json(field) || has_no_fields(field.data_type())
            }) =>
        {
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            grouped(Aggregate::try_new(input, columns, Vec::new())?, made)
        }
        other => Ok(Transformed::no(other)),
    }
}

fn joined(mut join: Join) -> Transformed<LogicalPlan> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        // Lists of two types become lists of one before they have keys.
        if let (Ok(one), Ok(other)) = &types
            && !matches!(one, DataType::Struct(_))
            && !DFSchema::datatype_is_logically_equal(one, other)
        {
            continue;
        }
        let keys = (key_of(left, join.left.schema()), key_of(right, join.right.schema()));
        if let (Some(one), Some(other)) = keys {
            (*left, *right) = (one, other);
            changed = true;
        }
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}

/// Groups of values that may be equal and not the same by their keys; each shows its first value.
fn grouped(aggregate: Aggregate, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let schema = aggregate.input.schema().clone();
    let keys: Vec<Expr> =
        grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().map(unaliased).cloned().collect();
    let is_hollow = |key: &Expr| key.get_type(&schema).is_ok_and(|of| has_no_fields(&of));
    let is_distinct_of_hollow = |expr: &Expr| matches!(unaliased(expr), Expr::AggregateFunction(call) if call.params.distinct && call.params.args.iter().any(is_hollow));
    if keys.iter().any(is_hollow) || aggregate.aggr_expr.iter().any(is_distinct_of_hollow) {
        // DataFusion's groups make no columns of them.
        let message = "structures without fields are not told apart by GROUP BY, DISTINCT and UNION";
        return Err(external(Error::unsupported(message)));
    }
    let is_keyed = |key: &Expr| key_of_equals(key, &schema).is_some();
    if !keys.iter().any(is_keyed) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    *made += 1;
    let by_key = |expr: Expr| match key_of_equals(unaliased(&expr), &schema) {
        Some(key) => {
            let name = format!("__key_{made}_{}", expr.schema_name());
            Ok(Transformed::yes(key.alias(name)))
        }
        None => Ok(Transformed::no(expr)),
    };
    let groups = aggregate.group_expr.into_iter().map(|expr| match expr {
        Expr::GroupingSet(set) => Expr::GroupingSet(set).map_children(by_key).map(|expr| expr.data),
        other => by_key(other).map(|expr| expr.data),
    });
    let groups: Vec<Expr> = groups.collect::<Result<_>>()?;
    let mut aggregates = aggregate.aggr_expr;
    let before = aggregate.schema.fields().len();
    let mut firsts = Vec::new();
    for (place, key) in keys.iter().enumerate().filter(|(_, key)| is_keyed(key)) {
        let first =
            AggregateFunction::new_udf(first_value_udaf(), vec![key.clone()], false, None, Vec::new(), None);
        aggregates.push(Expr::AggregateFunction(first).alias(format!("__first_{made}_{place}")));
        firsts.push(place);
    }
    let groups = Aggregate::try_new(aggregate.input, groups, aggregates)?;
    let made = groups.schema.columns();
    let items = aggregate.schema.columns().into_iter().enumerate().map(|(place, column)| {
        let Column { relation, name, .. } = column;
        let own = made[place].clone();
        let is_same = own.relation == relation && own.name == name;
        let value = match firsts.iter().position(|first| *first == place) {
            // A group of other keys, of a grouping set, has none.
            Some(first) => {
                let first = Expr::Column(made[before + first].clone());
                let first = when(Expr::Column(own).is_not_null(), first).end()?;
                let said = aggregate.schema.field(place);
                match is_json(said) {
                    true => typed(first, said.as_ref().clone().with_name("")),
                    false => first,
                }
            }
            None if is_same => return Ok(Expr::Column(own)),
            None => Expr::Column(own),
        };
        Ok(value.alias_qualified(relation, name))
    });
    let items = items.collect::<Result<Vec<_>>>()?;
    let plan = Projection::try_new(items, Arc::new(LogicalPlan::Aggregate(groups)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

/// Bytes that are the same for equal lists and structures, and in their order.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NestedKey {
    signature: Signature,
}

impl Default for NestedKey {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl_portable!(NestedKey, "nested_key");

impl ScalarUDFImpl for NestedKey {
    fn name(&self) -> &str {
        "nested_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeBinary)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let values = arrays.first().ok_or_else(|| internal_datafusion_err!("a key is of one value"))?;
        Ok(ColumnarValue::Array(Arc::new(nested_keys(values)?)))
    }
}

/// Returns the bytes by which lists, structures and maps are ordered.
pub(crate) fn nested_keys(values: &ArrayRef) -> Result<LargeBinaryArray> {
    value_bytes(&comparable(values)?)
}

/// Returns bytes that are the same for the same values, whatever their fields are called and in whichever
/// zone they are shown. Values that are only equal, as `-0.0` and `0.0` are, have others.
pub(crate) fn value_bytes(values: &ArrayRef) -> Result<LargeBinaryArray> {
    let nulls_last = SortOptions { descending: false, nulls_first: false };
    let field = SortField::new_with_options(values.data_type().clone(), nulls_last);
    let converter = RowConverter::new(vec![field])?;
    let rows = converter.convert_columns(std::slice::from_ref(values))?;
    Ok(rows.iter().enumerate().map(|(row, key)| values.is_valid(row).then(|| key.data())).collect())
}

fn beside_key(key: Expr, expr: Expr) -> Expr {
    static BESIDE: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(BesideKey::default())));
    Expr::ScalarFunction(ScalarFunction::new_udf(BESIDE.clone(), vec![key, expr]))
}

/// The field of [`BesideKey`] that has the value.
const VALUE: &str = "value";

/// A structure of a key and its value, which is NULL where the value is: the first field decides
/// which of several is the least.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct BesideKey {
    signature: Signature,
}

impl BesideKey {
    fn fields(types: &[DataType]) -> Fields {
        ["key", VALUE].into_iter().zip(types).map(|(name, of)| Field::new(name, of.clone(), true)).collect()
    }
}

impl Default for BesideKey {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl_portable!(BesideKey, "beside_key");

impl ScalarUDFImpl for BesideKey {
    fn name(&self) -> &str {
        "beside_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(Self::fields(types)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let types: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let nulls = arrays.last().and_then(|values| values.logical_nulls());
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(Self::fields(&types), arrays, nulls)?)))
    }
}

/// Returns lists whose elements, lists and structures, or JSON, are in their order.
///
/// # Errors
/// Those of Arrow's kernels.
pub fn lists_in_order<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    is_json: bool,
    options: SortOptions,
) -> Result<ArrayRef> {
    let (DataType::List(field) | DataType::LargeList(field)) = lists.data_type() else {
        return Err(internal_datafusion_err!("a list was expected"));
    };
    let keys: ArrayRef = match is_json {
        true => json_keys(lists.values())?,
        false => Arc::new(nested_keys(lists.values())?),
    };
    let mut places: Vec<u64> = Vec::with_capacity(keys.len());
    let mut lengths = Vec::with_capacity(lists.len());
    for (row, bounds) in lists.offsets().windows(2).enumerate() {
        let (start, end) = (bounds[0].as_usize(), bounds[1].as_usize());
        let length = if lists.is_valid(row) { end - start } else { 0 };
        let sorted = sort_to_indices(&keys.slice(start, length), Some(options), None)?;
        places.extend(sorted.values().iter().map(|place| start as u64 + u64::from(*place)));
        lengths.push(length);
    }
    let elements = take(lists.values(), &UInt64Array::from(places), None)?;
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    Ok(Arc::new(GenericListArray::try_new(field.clone(), offsets, elements, lists.nulls().cloned())?))
}

/// Returns values of which those that are equal are the same: with one zero and one NaN of
/// floating-point numbers, and the lengths of intervals, also within lists and structures.
///
/// # Errors
/// Those of Arrow's kernels.
pub fn comparable(values: &ArrayRef) -> Result<ArrayRef> {
    let of = |field: &FieldRef, values: &ArrayRef| {
        Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
    };
    Ok(match values.data_type() {
        DataType::Float64 => {
            let equal = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(equal))
        }
        DataType::Float32 => {
            let equal = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(equal))
        }
        data_type if *data_type == INTERVAL => Arc::new(lengths(values.as_primitive())?),
        DataType::List(_) => listed(values.as_list::<i32>())?,
        DataType::LargeList(_) => listed(values.as_list::<i64>())?,
        DataType::FixedSizeList(field, size) => {
            let list = values.as_fixed_size_list();
            let elements = comparable(list.values())?;
            let field = of(field, &elements);
            Arc::new(FixedSizeListArray::try_new(field, *size, elements, list.nulls().cloned())?)
        }
        DataType::Struct(fields) => {
            let own = values.as_struct();
            let columns = own.columns().iter().map(comparable).collect::<Result<Vec<_>>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, column)| of(field, column)).collect();
            Arc::new(StructArray::try_new_with_length(fields, columns, own.nulls().cloned(), own.len())?)
        }
        DataType::Map(field, is_sorted) => {
            let own = values.as_map();
            let entries: ArrayRef = Arc::new(own.entries().clone());
            let entries = comparable(&entries)?;
            let (field, offsets, nulls) = (of(field, &entries), own.offsets().clone(), own.nulls().cloned());
            Arc::new(MapArray::try_new(field, offsets, entries.as_struct().clone(), nulls, *is_sorted)?)
        }
        _ => values.clone(),
    })
}

fn listed<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<ArrayRef> {
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Err(internal_datafusion_err!("a list was expected"));
    };
    let elements = comparable(list.values())?;
    let field = Arc::new(field.as_ref().clone().with_data_type(elements.data_type().clone()));
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(field, offsets, elements, nulls)?))
}
