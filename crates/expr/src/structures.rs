//! Structures with other fields beside each other, in CASE, lists, comparisons, UNION and wherever
//! values get a common type. Their fields belong together by their names, and a structure has NULL
//! where it lacks a field that others have, as in DuckDB; those of ROW(…), which have no names, belong
//! together by their places. DataFusion pairs fields of other names by their places, too.

use crate::arithmetic::type_of;
use crate::common_type::{of_decimals, takes_one_type};
use crate::comparison::operands;
use crate::nested_type::has_structure;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Returns the common type of values of which the first are structures, or lists of them, and others
/// differ; `None` where it is not for us to say.
pub fn common(types: &[DataType]) -> Option<DataType> {
    let mut others = types.iter().filter(|of| !of.is_null());
    let first = others.next()?;
    if !has_structure(first) || others.clone().all(|of| of == first) {
        return None;
    }
    others.try_fold(first.clone(), |found, of| united(&found, of))
}

/// Returns the name that ROW(…) gives to its field at a place, as in PostgreSQL: f1, f2, ….
pub(crate) fn row_field(place: usize) -> String {
    format!("f{}", place + 1)
}

/// Says whether the fields of a structure have the names of their places, as those of ROW(…).
pub(crate) fn is_row(fields: &Fields) -> bool {
    fields.iter().enumerate().all(|(place, field)| *field.name() == row_field(place))
}

/// Returns for each field that is wanted the place of the one that it is made of, if there is one;
/// `None` where the structures have no field in common.
pub(crate) fn places(given: &Fields, wanted: &Fields) -> Option<Vec<Option<usize>>> {
    if is_row(given) || is_row(wanted) {
        return (given.len() == wanted.len()).then(|| (0..given.len()).map(Some).collect());
    }
    let partners = Partners::of(wanted, given);
    let places: Vec<_> = wanted.iter().map(|field| partners.place(field.name())).collect();
    places.iter().any(Option::is_some).then_some(places)
}

/// The places of the fields of a structure that those of another one belong to. There may be thousands.
struct Partners<'a> {
    by_name: HashMap<&'a str, usize>,
    /// The fields whose names the other structure does not have, by their names in small letters.
    in_small: HashMap<String, usize>,
}

impl<'a> Partners<'a> {
    /// Finds the partners that fields have among others.
    fn of(own: &Fields, others: &'a Fields) -> Self {
        let own: HashSet<&str> = own.iter().map(|field| field.name().as_str()).collect();
        let (mut by_name, mut in_small) = (HashMap::with_capacity(others.len()), HashMap::new());
        for (place, field) in others.iter().enumerate() {
            let name = field.name().as_str();
            by_name.entry(name).or_insert(place);
            if !own.contains(name) {
                in_small.entry(name.to_ascii_lowercase()).or_insert(place);
            }
        }
        Self { by_name, in_small }
    }

    /// Returns the place of the field that a field belongs to: that of its name, or else that which differs
    /// from it in capitals only.
    fn place(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).or_else(|| self.in_small.get(&name.to_ascii_lowercase())).copied()
    }
}

fn united(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, LargeList, List, Struct};
    match (one, other) {
        _ if one == other || other.is_null() => Some(one.clone()),
        _ if one.is_null() => Some(other.clone()),
        (Struct(one), Struct(other)) => Some(Struct(fields(one, other)?.into())),
        (FixedSizeList(one, size), FixedSizeList(other, length)) if size == length => {
            Some(FixedSizeList(joined(one, other)?, *size))
        }
        (LargeList(one), List(other) | LargeList(other) | FixedSizeList(other, _))
        | (List(one) | FixedSizeList(one, _), LargeList(other)) => Some(LargeList(joined(one, other)?)),
        (List(one) | FixedSizeList(one, _), List(other) | FixedSizeList(other, _)) => {
            Some(List(joined(one, other)?))
        }
        _ => of_decimals(&[one.clone(), other.clone()]).or_else(|| type_union_coercion(one, other)),
    }
}

/// Returns a field of the common type of two. What both say of their values it says, too.
fn joined(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    let of = united(one.data_type(), other.data_type())?;
    let metadata = match (one.data_type().is_null(), other.data_type().is_null()) {
        (true, _) => other.metadata().clone(),
        (_, true) => one.metadata().clone(),
        _ if one.metadata() == other.metadata() => one.metadata().clone(),
        _ => HashMap::new(),
    };
    Some(Arc::new(Field::new(one.name(), of, true).with_metadata(metadata)))
}

fn fields(one: &Fields, other: &Fields) -> Option<Vec<FieldRef>> {
    if is_row(one) || is_row(other) {
        if one.len() != other.len() {
            return None;
        }
        let named = if is_row(one) { other } else { one };
        let pairs = one.iter().zip(other).zip(named);
        let named = |((one, other), named): ((&FieldRef, &FieldRef), &FieldRef)| {
            Some(Arc::new(joined(one, other)?.as_ref().clone().with_name(named.name())))
        };
        return pairs.map(named).collect();
    }
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let mut found = Vec::with_capacity(one.len());
    let partners = Partners::of(one, other);
    for field in one {
        found.push(match partners.place(field.name()) {
            Some(place) => joined(field, &other[place])?,
            None => nullable(field),
        });
    }
    let partners = Partners::of(other, one);
    let more = other.iter().filter(|field| partners.place(field.name()).is_none());
    found.extend(more.map(nullable));
    Some(found)
}

/// Gives structures that are compared, or chosen from, their common type.
pub fn alike(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let compared = operands(&mut expression).is_some_and(|of| cast_alike(of, schema));
    let chosen = chosen(&mut expression).is_some_and(|of| cast_alike(of, schema));
    Ok(Transformed::new_transformed(expression, compared || chosen))
}

/// Returns what CASE or a function chooses from, or makes a list of.
fn chosen(expression: &mut Expr) -> Option<Vec<&mut Expr>> {
    Some(match expression {
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter_mut().map(|(_, result)| result);
            results.chain(else_expr).map(|result| result.as_mut()).collect()
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if takes_one_type(func.name()) => {
            args.iter_mut().collect()
        }
        _ => return None,
    })
}

/// Casts expressions to their common type; whether they had others.
pub(crate) fn cast_alike(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let mut types = Vec::with_capacity(exprs.len());
    for expr in &exprs {
        let of = type_of(expr, schema).unwrap_or(DataType::Null);
        // Most are no structures.
        if !of.is_null() && !has_structure(&of) && types.iter().all(DataType::is_null) {
            return false;
        }
        types.push(of);
    }
    let Some(wanted) = common(&types) else { return false };
    for (expr, of) in exprs.into_iter().zip(types) {
        if of != wanted {
            *expr = Expr::Cast(Cast::new(Box::new(std::mem::take(expr)), wanted.clone()));
        }
    }
    true
}

/// The parts of a UNION, and the keys of a join, that are such structures.
pub fn of_relations(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => in_union(union),
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                let types = (type_of(left, join.left.schema()), type_of(right, join.right.schema()));
                let (Ok(one), Ok(other)) = types else { continue };
                let Some(wanted) = common(&[one, other]) else { continue };
                for key in [left, right] {
                    *key = Expr::Cast(Cast::new(Box::new(std::mem::take(key)), wanted.clone()));
                }
                changed = true;
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn in_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.schema.fields().len();
    let is_nested = |place: usize| {
        let mut types = union.inputs.iter().map(|input| input.schema().field(place).data_type());
        types.any(has_structure)
    };
    let are_wide = union.inputs.iter().all(|input| input.schema().fields().len() == width);
    if !are_wide || !(0..width).any(is_nested) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    // BY NAME says of all inputs that they have the types of the first one.
    let own = |input: &Arc<LogicalPlan>| match input.as_ref() {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            Projection::try_new(expr.clone(), input.clone()).map(LogicalPlan::Projection).map(Arc::new)
        }
        _ => Ok(input.clone()),
    };
    let inputs = union.inputs.iter().map(own).collect::<Result<Vec<_>>>()?;
    let wanted = |place: usize| {
        let types = inputs.iter().map(|input| input.schema().field(place).data_type().clone());
        common(&types.collect::<Vec<_>>())
    };
    let wanted: Vec<Option<DataType>> = (0..width).map(wanted).collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let cast = |input: Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
        let items = input.schema().iter().zip(&wanted).map(|((relation, field), wanted)| {
            let item = Expr::Column(Column::new(relation.cloned(), field.name()));
            match wanted.as_ref().filter(|wanted| *wanted != field.data_type()) {
                Some(wanted) => Expr::Cast(Cast::new(Box::new(item), wanted.clone()))
                    .alias_qualified(relation.cloned(), field.name()),
                None => item,
            }
        });
        let items = items.collect();
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(items, input)?)))
    };
    let inputs = inputs.into_iter().map(cast).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(fields: &[(&str, DataType)]) -> DataType {
        let field = |(name, of): &(&str, DataType)| Field::new(*name, of.clone(), true);
        DataType::Struct(fields.iter().map(field).collect::<Vec<_>>().into())
    }

    #[test]
    fn fields_belong_together_by_their_names() {
        use DataType::{Boolean, Int32, Int64, Null, Utf8};
        for (one, other, found) in [
            (vec![("a", Int32)], vec![("b", Utf8)], Some(vec![("a", Int32), ("b", Utf8)])),
            (vec![("a", Int32), ("b", Utf8)], vec![("b", Utf8), ("a", Int64)], {
                Some(vec![("a", Int64), ("b", Utf8)])
            }),
            (vec![("a", Null)], vec![("a", Int32)], Some(vec![("a", Int32)])),
            (vec![("A", Int32)], vec![("a", Int32)], Some(vec![("A", Int32)])),
            (vec![("A", Int32), ("a", Utf8)], vec![("a", Utf8)], Some(vec![("A", Int32), ("a", Utf8)])),
            (vec![("f1", Int32)], vec![("x", Int64)], Some(vec![("x", Int64)])),
            (vec![("x", Int64)], vec![("f1", Int32)], Some(vec![("x", Int64)])),
            (vec![("f1", Int32)], vec![("f1", Int32), ("f2", Int32)], None),
            (vec![("c0", Int32)], vec![("x", Int32)], Some(vec![("c0", Int32), ("x", Int32)])),
            (vec![("a", structure(&[("x", Int32)]))], vec![("a", Boolean)], None),
        ] {
            let found = found.map(|fields| structure(&fields));
            assert_eq!(common(&[structure(&one), structure(&other)]), found, "{one:?} {other:?}");
        }
        let nested = |name| structure(&[("s", structure(&[(name, Int32)]))]);
        let both = structure(&[("s", structure(&[("x", Int32), ("y", Int32)]))]);
        assert_eq!(common(&[nested("x"), Null, nested("y")]), Some(both));
        assert_eq!(common(&[nested("x"), nested("x")]), None);
    }

    #[test]
    fn structures_of_very_many_fields_find_their_partners() {
        let fields = |names: &dyn Fn(usize) -> String| -> Fields {
            (0..50_000).map(|place| Field::new(names(place), DataType::Int32, true)).collect()
        };
        let given = fields(&|place| format!("k{place}"));
        let backwards = fields(&|place| format!("K{}", 49_999 - place));
        let found = places(&given, &backwards).unwrap();
        assert!(found.iter().enumerate().all(|(place, found)| *found == Some(49_999 - place)));
        let others = fields(&|place| format!("k{}", place + 25_000));
        assert_eq!(super::fields(&given, &others).unwrap().len(), 75_000);
    }
}
