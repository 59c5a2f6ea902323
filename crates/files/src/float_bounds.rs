//! Row groups of Parquet files without a row that a filter of floating-point numbers lets through.
//!
//! Writers leave NaN out of the bounds of such columns, and NaN is greater than all numbers. So a
//! row group is skipped by its bounds only where a condition refuses NaN: `<`, `<=`, `=`, IN and
//! BETWEEN with numbers do, and then other conditions of the same column count, too.

use crate::parquet_footer::Footer;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::parquet::file::statistics::Statistics;
use std::collections::HashMap;

/// The numbers that conditions let through, and whether they may let NaN through.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// The least and the greatest number, and whether it is itself refused.
    low: (f64, bool),
    high: (f64, bool),
    with_nan: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { low: (f64::NEG_INFINITY, false), high: (f64::INFINITY, false), with_nan: true }
    }
}

impl Wanted {
    /// Takes what a comparison with a constant refuses away.
    fn compare(&mut self, operator: Operator, constant: f64) {
        match operator {
            // All numbers are less than NaN.
            Operator::Lt if constant.is_nan() => self.with_nan = false,
            _ if constant.is_nan() => {}
            Operator::Lt | Operator::LtEq => self.at_most(constant, operator == Operator::Lt),
            Operator::Gt | Operator::GtEq => self.at_least(constant, operator == Operator::Gt),
            Operator::Eq => {
                self.at_most(constant, false);
                self.at_least(constant, false);
            }
            _ => {}
        }
    }

    fn at_most(&mut self, constant: f64, is_refused: bool) {
        self.with_nan = false;
        if constant < self.high.0 || constant == self.high.0 && is_refused {
            self.high = (constant, is_refused);
        }
    }

    fn at_least(&mut self, constant: f64, is_refused: bool) {
        if constant > self.low.0 || constant == self.low.0 && is_refused {
            self.low = (constant, is_refused);
        }
    }

    /// Says whether no value passes, of some that are NaN or within bounds. The zeros are equal. A
    /// bound that is NaN says nothing.
    fn refuses(&self, least: f64, greatest: f64) -> bool {
        let ((low, without_low), (high, without_high)) = (self.low, self.high);
        let is_above = least > high || least == high && without_high;
        let is_below = greatest < low || greatest == low && without_low;
        !self.with_nan && !least.is_nan() && !greatest.is_nan() && (is_above || is_below)
    }
}

/// What filters want of columns of floating-point numbers, by their names.
#[derive(Debug, Default)]
pub struct FloatFilters(HashMap<String, Wanted>);

impl FloatFilters {
    /// Returns what filters say that rows must all pass.
    pub fn of(filters: &[Expr], schema: &Schema) -> Self {
        let mut found = Self::default();
        for condition in filters.iter().flat_map(split_conjunction) {
            found.add(condition, schema);
        }
        found.0.retain(|_, wanted| !wanted.with_nan);
        found
    }

    fn add(&mut self, condition: &Expr, schema: &Schema) {
        let mut compare = |of: &Expr, operator, constant: Option<f64>| {
            if let (Some(name), Some(constant)) = (float_column(of, schema), constant) {
                self.0.entry(name.to_string()).or_default().compare(operator, constant);
            }
        };
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                compare(left, *op, number(right));
                if let Some(swapped) = op.swap() {
                    compare(right, swapped, number(left));
                }
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                compare(expr, Operator::GtEq, number(low));
                compare(expr, Operator::LtEq, number(high));
            }
            Expr::InList(InList { expr, list, negated: false }) => {
                let all: Option<Vec<f64>> = list.iter().map(number).collect();
                let all = all.filter(|all| !all.iter().any(|number| number.is_nan())).unwrap_or_default();
                if let Some(least) = all.iter().copied().reduce(f64::min) {
                    compare(expr, Operator::GtEq, Some(least));
                    compare(expr, Operator::LtEq, all.iter().copied().reduce(f64::max));
                }
            }
            _ => {}
        }
    }

    /// Returns which row groups of a file are read; `None` for all.
    pub fn access(&self, footer: &Footer) -> Option<ParquetAccessPlan> {
        let leaves = footer.metadata.file_metadata().schema_descr().columns().iter().enumerate();
        let wanted = leaves.filter_map(|(leaf, column)| match column.path().parts() {
            [name] => Some((leaf, self.0.get(name)?)),
            _ => None,
        });
        let wanted: Vec<(usize, &Wanted)> = wanted.collect();
        if wanted.is_empty() {
            return None;
        }
        let is_skipped = |group: &RowGroupMetaData| {
            wanted.iter().any(|(leaf, wanted)| {
                let bounds = group.columns().get(*leaf).and_then(|column| bounds(column.statistics()?));
                bounds.is_some_and(|(least, greatest)| wanted.refuses(least, greatest))
            })
        };
        let groups = footer.metadata.row_groups().iter();
        let groups: Vec<bool> = groups.map(is_skipped).collect();
        let access = |is_skipped| if is_skipped { RowGroupAccess::Skip } else { RowGroupAccess::Scan };
        let is_any_skipped = groups.contains(&true);
        is_any_skipped.then(|| ParquetAccessPlan::new(groups.into_iter().map(access).collect()))
    }
}

fn bounds(statistics: &Statistics) -> Option<(f64, f64)> {
    match statistics {
        Statistics::Float(found) => Some((f64::from(*found.min_opt()?), f64::from(*found.max_opt()?))),
        Statistics::Double(found) => Some((*found.min_opt()?, *found.max_opt()?)),
        _ => None,
    }
}

/// Returns the name of a column of floating-point numbers, which may be widened to DOUBLE.
fn float_column<'a>(of: &'a Expr, schema: &Schema) -> Option<&'a str> {
    match of {
        Expr::Column(column) => {
            let field = schema.field_with_name(&column.name).ok()?;
            matches!(field.data_type(), DataType::Float32 | DataType::Float64).then_some(&column.name)
        }
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 => float_column(&cast.expr, schema),
        _ => None,
    }
}

fn number(constant: &Expr) -> Option<f64> {
    match constant {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => Some(*value),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => Some(f64::from(*value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    const OPERATORS: [Operator; 6] =
        [Operator::Lt, Operator::LtEq, Operator::Eq, Operator::GtEq, Operator::Gt, Operator::NotEq];

    /// Compares as SQL does: NaN is equal to itself and above all numbers, and the zeros are equal.
    fn passes(value: f64, operator: Operator, constant: f64) -> bool {
        let order = match (value.is_nan(), constant.is_nan()) {
            (false, false) => value.partial_cmp(&constant).unwrap(),
            (of, with) => of.cmp(&with),
        };
        match operator {
            Operator::Lt => order.is_lt(),
            Operator::LtEq => order.is_le(),
            Operator::Eq => order.is_eq(),
            Operator::GtEq => order.is_ge(),
            Operator::Gt => order.is_gt(),
            _ => order.is_ne(),
        }
    }

    fn compared(operator: Operator, constant: f64) -> Expr {
        datafusion::logical_expr::binary_expr(col("x"), operator, lit(constant))
    }

    #[test]
    fn no_group_is_refused_that_has_a_row_that_passes() {
        let schema = Schema::new(vec![arrow::datatypes::Field::new("x", DataType::Float64, true)]);
        let values = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, 2.0, f64::INFINITY, f64::NAN];
        let numbers = &values[..7];
        let mut refused = 0;
        for (first, second) in OPERATORS.iter().flat_map(|one| OPERATORS.iter().map(move |two| (*one, *two)))
        {
            for (one, two) in values.iter().flat_map(|one| values.iter().map(move |two| (*one, *two))) {
                let filters = [compared(first, one).and(compared(second, two))];
                let filters = FloatFilters::of(&filters, &schema);
                let Some(wanted) = filters.0.get("x") else { continue };
                for least in 0..numbers.len() {
                    for greatest in least..numbers.len() {
                        let mut rows = numbers[least..=greatest].iter().chain([&f64::NAN]);
                        let is_refused = wanted.refuses(numbers[least], numbers[greatest]);
                        refused += u32::from(is_refused);
                        let passing =
                            rows.find(|row| passes(**row, first, one) && passes(**row, second, two));
                        assert!(
                            !(is_refused && passing.is_some()),
                            "{passing:?} {first} {one} and {second} {two} in {least}..={greatest}"
                        );
                    }
                }
            }
        }
        assert!(refused > 1_000, "{refused}");
    }

    #[test]
    fn bounds_that_are_no_numbers_say_nothing() {
        let mut wanted = Wanted::default();
        wanted.compare(Operator::Eq, 5.0);
        assert!(wanted.refuses(6.0, 7.0) && wanted.refuses(1.0, 4.0));
        for (least, greatest) in [(f64::NAN, 1.0), (6.0, f64::NAN), (f64::NAN, f64::NAN), (5.0, 5.0)] {
            assert!(!wanted.refuses(least, greatest), "{least} {greatest}");
        }
    }
}
