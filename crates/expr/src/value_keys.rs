//! Keys of values that may be equal but not identical: intervals, which are equal by their lengths,
//! and lists and structures, in which NULLs are equal to each other. DataFusion's groups and joins
//! compare intervals by their parts, and its joins find no equal lists and structures with NULLs.

use crate::interval::{is_interval, length_of};
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, LargeBinaryArray, OffsetSizeTrait,
    StructArray,
};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, InSubquery, ScalarFunction, Sort};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator,
    Projection, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility, when,
};
use std::sync::{Arc, LazyLock};

/// Says whether values are compared by something else than themselves, and by what.
fn key_of(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    if is_interval(expr, schema) {
        return Some(length_of(expr.clone()));
    }
    let of = expr.get_type(schema).ok()?;
    let is_list_or_structure = matches!(
        of,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Struct(_)
    );
    is_list_or_structure.then(|| nested_key(expr.clone()))
}

fn nested_key(expr: Expr) -> Expr {
    static KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::from(NestedKey { signature: Signature::any(1, Volatility::Immutable) }))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(KEY.clone(), vec![expr]))
}

/// Equalities of lists and structures of two tables, which may become keys of a join, and those of
/// IN with a subquery.
pub fn equal_by_keys(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    use Operator::{Eq, IsDistinctFrom, IsNotDistinctFrom, NotEq};
    match &mut expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom, right }) => {
            let types = (left.get_type(schema), right.get_type(schema));
            let are_alike = matches!(&types, (Ok(one), Ok(other)) if one == other);
            if !are_alike || left.column_refs().is_empty() || right.column_refs().is_empty() {
                return Ok(Transformed::no(expression));
            }
            let (Some(one), Some(other)) = (key_of(left, schema), key_of(right, schema)) else {
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

/// Makes of `min` and `max` of lists of structures, which DataFusion cannot compare, the first one
/// by key.
pub fn first_by_key(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(call) = &mut expression else { return Ok(Transformed::no(expression)) };
    let asc = match call.func.name() {
        name @ ("min" | "max") => name == "min",
        _ => return Ok(Transformed::no(expression)),
    };
    let Some(of) =
        call.params.args.first().filter(|of| of.get_type(schema).is_ok_and(|of| is_of_structures(&of)))
    else {
        return Ok(Transformed::no(expression));
    };
    call.params.order_by = vec![Sort { expr: nested_key(of.clone()), asc, nulls_first: false }];
    call.params.distinct = false;
    call.func = first_value_udaf();
    Ok(Transformed::yes(expression))
}

/// Says whether a list has structures in it.
fn is_of_structures(of: &DataType) -> bool {
    match of {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            matches!(field.data_type(), DataType::Struct(_)) || is_of_structures(field.data_type())
        }
        _ => false,
    }
}

/// Returns the keys of joins, and the groups of intervals, of which `made` have been given names in
/// the plan.
pub fn by_keys(plan: LogicalPlan, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) => Ok(joined(join)),
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate, made),
        LogicalPlan::Distinct(Distinct::All(input))
            if input
                .schema()
                .fields()
                .iter()
                .any(|field| *field.data_type() == crate::interval::INTERVAL) =>
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
        let keys = (key_of(left, join.left.schema()), key_of(right, join.right.schema()));
        if let (Some(one), Some(other)) = keys {
            (*left, *right) = (one, other);
            changed = true;
        }
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}

/// Groups of intervals by their lengths; each shows its first interval.
fn grouped(aggregate: Aggregate, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let schema = aggregate.input.schema().clone();
    let keys: Vec<Expr> =
        grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().map(unaliased).cloned().collect();
    if !keys.iter().any(|key| is_interval(key, &schema)) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    *made += 1;
    let by_length = |expr: Expr| match is_interval(&expr, &schema) {
        true => {
            let name = format!("__length_{made}_{}", expr.schema_name());
            Ok(Transformed::yes(length_of(unaliased(&expr).clone()).alias(name)))
        }
        false => Ok(Transformed::no(expr)),
    };
    let groups = aggregate.group_expr.into_iter().map(|expr| match expr {
        Expr::GroupingSet(set) => Expr::GroupingSet(set).map_children(by_length).map(|expr| expr.data),
        other => by_length(other).map(|expr| expr.data),
    });
    let groups: Vec<Expr> = groups.collect::<Result<_>>()?;
    let mut aggregates = aggregate.aggr_expr;
    let before = aggregate.schema.fields().len();
    let mut firsts = Vec::new();
    for (place, key) in keys.iter().enumerate().filter(|(_, key)| is_interval(key, &schema)) {
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
                when(Expr::Column(own).is_not_null(), first).end()?
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

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// Bytes that are the same for equal lists and structures.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedKey {
    signature: Signature,
}

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
        let values = with_equal_floats(values)?;
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let rows = converter.convert_columns(std::slice::from_ref(&values))?;
        let keys: LargeBinaryArray =
            rows.iter().enumerate().map(|(row, key)| values.is_valid(row).then(|| key.data())).collect();
        Ok(ColumnarValue::Array(Arc::new(keys)))
    }
}

/// Returns floating-point numbers within lists and structures with one zero and one NaN.
fn with_equal_floats(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => {
            let equal = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(equal))
        }
        DataType::Float32 => {
            let equal = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(equal))
        }
        DataType::List(_) => listed(values.as_list::<i32>())?,
        DataType::LargeList(_) => listed(values.as_list::<i64>())?,
        DataType::FixedSizeList(field, size) => {
            let list = values.as_fixed_size_list();
            let elements = with_equal_floats(list.values())?;
            Arc::new(FixedSizeListArray::try_new(field.clone(), *size, elements, list.nulls().cloned())?)
        }
        DataType::Struct(fields) => {
            let own = values.as_struct();
            let columns = own.columns().iter().map(with_equal_floats).collect::<Result<Vec<_>>>()?;
            let nulls = own.nulls().cloned();
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, own.len())?)
        }
        _ => values.clone(),
    })
}

fn listed<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<ArrayRef> {
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Err(internal_datafusion_err!("a list was expected"));
    };
    let elements = with_equal_floats(list.values())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(field.clone(), offsets, elements, nulls)?))
}
