//! Conditions of plans as conditions of kernels.

use super::evaluate::{Columns, Evaluator};
use super::flow::Expression;
use super::stop::Stopped;
use super::table::{TableColumn, value_type};
use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, filter};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use hypostyle_position::condition::{Comparison, Condition, Pattern};

/// The columns that a condition is about, by their places in it.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub numbers: Vec<usize>,
}

impl Places {
    fn place(&mut self, number: usize) -> usize {
        match self.numbers.iter().position(|known| *known == number) {
            Some(place) => place,
            None => {
                self.numbers.push(number);
                self.numbers.len() - 1
            }
        }
    }
}

/// Returns the condition of kernels that holds where an expression over columns of one table is
/// true; `None` where there is none.
pub(super) fn of_expression(
    expression: &Expression,
    columns: &Columns,
    places: &mut Places,
) -> Stopped<Option<Condition>> {
    find(expression, columns, places, false)
}

/// Finds the condition of an expression. One that is to be inverted must tell false from NULL, which
/// one that was decided by value does not.
fn find(
    expression: &Expression,
    columns: &Columns,
    places: &mut Places,
    inverted: bool,
) -> Stopped<Option<Condition>> {
    match plain(expression, columns, places, inverted)? {
        None if !inverted => of_dictionary(expression, columns, places),
        found => Ok(found),
    }
}

fn plain(
    expression: &Expression,
    columns: &Columns,
    places: &mut Places,
    inverted: bool,
) -> Stopped<Option<Condition>> {
    if let Some(not) = expression.downcast_ref::<NotExpr>() {
        return Ok(find(not.arg(), columns, places, true)?.map(Condition::inverse));
    }
    if let Some(null) = expression.downcast_ref::<IsNullExpr>() {
        return Ok(null_test(null.arg(), false, places));
    }
    if let Some(null) = expression.downcast_ref::<IsNotNullExpr>() {
        return Ok(null_test(null.arg(), true, places));
    }
    if let Some(list) = expression.downcast_ref::<InListExpr>() {
        return in_list(list, columns, places);
    }
    if let Some(like) = expression.downcast_ref::<LikeExpr>() {
        return self::like(like, columns, places);
    }
    let Some(binary) = expression.downcast_ref::<BinaryExpr>() else { return Ok(None) };
    let both = |places: &mut Places| -> Stopped<Option<Vec<Condition>>> {
        let left = find(binary.left(), columns, places, inverted)?;
        let right = find(binary.right(), columns, places, inverted)?;
        Ok(left.zip(right).map(|(left, right)| vec![left, right]))
    };
    match binary.op() {
        Operator::And => return Ok(both(places)?.map(Condition::All)),
        Operator::Or => return Ok(both(places)?.map(Condition::Any)),
        _ => {}
    }
    let Some(comparison) = comparison(*binary.op()) else { return Ok(None) };
    let column = |side: &Expression| side.downcast_ref::<Column>().map(Column::index);
    let literal = |side: &Expression| side.downcast_ref::<Literal>().map(|literal| literal.value().clone());
    Ok(match (column(binary.left()), column(binary.right())) {
        (Some(left), Some(right)) => {
            let (one, other) = (columns.get(left)?, columns.get(right)?);
            let comparable = one.stored.data_type() == other.stored.data_type()
                && is_kernel_type(one.stored.data_type())
                && !matches!(one.stored.data_type(), DataType::Dictionary(..));
            comparable.then(|| Condition::CompareColumns {
                left: places.place(left),
                comparison,
                right: places.place(right),
            })
        }
        (Some(number), None) => literal(binary.right())
            .and_then(|value| constant(columns.get(number).ok()?, &[value]))
            .map(|constant| Condition::Compare { column: places.place(number), comparison, constant }),
        (None, Some(number)) => literal(binary.left())
            .and_then(|value| constant(columns.get(number).ok()?, &[value]))
            .map(|constant| Condition::Compare {
                column: places.place(number),
                comparison: swapped(comparison),
                constant,
            }),
        (None, None) => None,
    })
}

fn comparison(operator: Operator) -> Option<Comparison> {
    Some(match operator {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// Returns the comparison of the same values in the other order.
fn swapped(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        other => other,
    }
}

fn null_test(of: &Expression, negated: bool, places: &mut Places) -> Option<Condition> {
    let column = of.downcast_ref::<Column>()?;
    Some(Condition::Null { column: places.place(column.index()), negated })
}

fn like(like: &LikeExpr, columns: &Columns, places: &mut Places) -> Stopped<Option<Condition>> {
    let (Some(column), Some(pattern)) =
        (like.expr().downcast_ref::<Column>(), like.pattern().downcast_ref::<Literal>())
    else {
        return Ok(None);
    };
    let stored = columns.get(column.index())?.stored.data_type();
    let pattern = pattern.value().try_as_str().flatten().and_then(Pattern::new);
    let is_text = matches!(value_type(stored), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    Ok(pattern.filter(|_| is_text && !like.case_insensitive()).map(|pattern| Condition::Like {
        column: places.place(column.index()),
        pattern,
        negated: like.negated(),
    }))
}

fn in_list(list: &InListExpr, columns: &Columns, places: &mut Places) -> Stopped<Option<Condition>> {
    let Some(column) = list.expr().downcast_ref::<Column>() else { return Ok(None) };
    let values: Option<Vec<ScalarValue>> = list
        .list()
        .iter()
        .map(|item| item.downcast_ref::<Literal>().map(|literal| literal.value().clone()))
        .collect();
    let of = columns.get(column.index())?;
    Ok(values.filter(|values| !values.is_empty()).and_then(|values| constant(of, &values)).map(|constants| {
        Condition::In { column: places.place(column.index()), constants, negated: list.negated() }
    }))
}

/// Returns constants in the stored type of a column; `None` where they would become others.
fn constant(column: &TableColumn, values: &[ScalarValue]) -> Option<ArrayRef> {
    let stored = value_type(column.stored.data_type());
    if !is_kernel_type(stored) {
        return None;
    }
    let constants = ScalarValue::iter_to_array(values.iter().cloned()).ok()?;
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let cast = cast_with_options(&constants, stored, &exact).ok()?;
    let back = cast_with_options(&cast, constants.data_type(), &exact).ok()?;
    (back.as_ref() == constants.as_ref()).then_some(cast)
}

/// Tells whether kernels compare values of a type.
pub(super) fn is_kernel_type(data_type: &DataType) -> bool {
    match value_type(data_type) {
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Date32
        | DataType::Timestamp(..)
        | DataType::Time64(_) => true,
        DataType::Decimal256(..) | DataType::Float16 => false,
        other => other.is_numeric(),
    }
}

/// Decides a condition on one dictionary column for each of its values.
fn of_dictionary(
    expression: &Expression,
    columns: &Columns,
    places: &mut Places,
) -> Stopped<Option<Condition>> {
    let numbers: Vec<usize> = collect_columns(expression).iter().map(Column::index).collect();
    let [number] = numbers[..] else { return Ok(None) };
    let column = columns.get(number)?;
    let Some(dictionary) = column.stored.as_any_dictionary_opt() else { return Ok(None) };
    let values = dictionary.values();
    if values.is_empty() || values.len() > column.stored.len() {
        return Ok(None);
    }
    let evaluator = match Evaluator::seen(expression, &columns.universe)? {
        evaluator @ Evaluator::Expression { .. } => evaluator,
        _ => return Ok(None),
    };
    let verdicts = |values: &ArrayRef| {
        let seen = column.as_seen(values).ok()?;
        // An error may be about a value that no row has.
        let verdicts = evaluator.over(vec![seen], values.len()).ok()?;
        verdicts.as_boolean_opt().cloned()
    };
    let null = new_null_array(values.data_type(), 1);
    let (Some(of_values), Some(of_null)) = (verdicts(values), verdicts(&null)) else { return Ok(None) };
    let Ok(constants) = filter(values, &of_values) else { return Ok(None) };
    let place = places.place(number);
    let passes = Condition::In { column: place, constants, negated: false };
    Ok(Some(match of_null.is_valid(0) && of_null.value(0) {
        true => Condition::Any(vec![passes, Condition::Null { column: place, negated: false }]),
        false => passes,
    }))
}
