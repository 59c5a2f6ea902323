//! Estimates of how many rows parts of a plan give, from what is known of the tables.

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Join, JoinType, Like, LogicalPlan, Operator, TableScan,
};
use std::collections::HashMap;

/// What is known of a column of a table, all rows taken together.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnMeasure {
    /// How many values it has, if they were counted.
    pub distinct: Option<f64>,
    pub nulls: f64,
    /// The least and the greatest value, of numbers and points in time.
    pub range: Option<(f64, f64)>,
}

/// Functions that tell what is known of a table, by its scan; an extension of the session's
/// configuration.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    pub rows: fn(&TableScan) -> Option<u64>,
    pub column: fn(&TableScan, usize) -> Option<ColumnMeasure>,
}

/// Rows of what nothing is known of.
const ROWS_UNKNOWN: f64 = 1000.0;

/// Shares of rows that pass conditions of which nothing more is known.
const SHARE_COMPARED: f64 = 1.0 / 3.0;
const SHARE_EQUAL: f64 = 0.05;
const SHARE_LIKE: f64 = 0.1;
const SHARE_UNKNOWN: f64 = 0.25;

/// Returns how many rows a plan gives.
pub fn rows(plan: &LogicalPlan, measures: &Measures) -> f64 {
    let input = |plan: &LogicalPlan| rows(plan, measures);
    match plan {
        LogicalPlan::TableScan(scan) => {
            let all = (measures.rows)(scan).map_or(ROWS_UNKNOWN, |rows| rows as f64);
            scan.fetch.map_or(all, |fetch| all.min(fetch as f64))
        }
        LogicalPlan::Filter(filter) => {
            input(&filter.input) * share(&filter.predicate, &filter.input, measures)
        }
        LogicalPlan::Aggregate(aggregate) => groups(aggregate, measures),
        LogicalPlan::Limit(limit) => {
            let all = input(&limit.input);
            match limit.fetch.as_deref() {
                Some(Expr::Literal(value, _)) => number(value).map_or(all, |fetch| all.min(fetch)),
                _ => all,
            }
        }
        LogicalPlan::Join(join) => joined(join, measures),
        LogicalPlan::Union(union) => union.inputs.iter().map(|plan| input(plan)).sum(),
        LogicalPlan::EmptyRelation(empty) => f64::from(u8::from(empty.produce_one_row)),
        LogicalPlan::Values(values) => values.values.len() as f64,
        other => other.inputs().first().map_or(ROWS_UNKNOWN, |plan| input(plan)),
    }
}

/// The values of a column in all of its table, whatever conditions leave of the rows: the share of
/// pairs that are equal does not depend on these.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    pub count: f64,
    /// They were counted, and are not only known to be no more than the rows.
    pub is_counted: bool,
    /// The rows of the table.
    pub rows: f64,
}

impl Values {
    /// Returns by how many values the pairs of two columns are divided: those of the column that
    /// has more. Where one of them was not counted, the other one may be a key that it refers to.
    pub fn divide(&self, other: &Self) -> f64 {
        match (self.is_counted, other.is_counted) {
            (true, true) => self.count.max(other.count),
            (false, false) => self.rows.min(other.rows),
            (true, false) if self.is_key() => self.count,
            (false, true) if other.is_key() => other.count,
            _ => self.count.max(other.count),
        }
        .max(1.0)
    }

    fn is_key(&self) -> bool {
        self.count >= self.rows
    }

    /// Returns the values that an expression has among so many rows: fewer than rows, as a rule, or else
    /// nobody would group or join by it.
    fn computed(rows: f64) -> Self {
        let rows = rows.max(1.0);
        Self { count: rows.sqrt(), is_counted: true, rows }
    }
}

/// Returns the values of a column of a plan.
pub fn values(plan: &LogicalPlan, column: &Column, measures: &Measures) -> Values {
    let (scan, place) = match source(plan, column) {
        Some(Source::Column(scan, place)) => (scan, place),
        Some(Source::Computed) => return Values::computed(rows(plan, measures)),
        None => {
            let rows = rows(plan, measures).max(1.0);
            return Values { count: rows, is_counted: false, rows };
        }
    };
    let rows = (measures.rows)(scan).map_or(ROWS_UNKNOWN, |rows| rows as f64).max(1.0);
    let counted = (measures.column)(scan, place).and_then(|measure| measure.distinct);
    Values { count: counted.map_or(rows, |count| count.max(1.0)), is_counted: counted.is_some(), rows }
}

/// Returns how many values a column has among so many rows of a plan.
fn distinct(plan: &LogicalPlan, column: &Column, rows: f64, measures: &Measures) -> f64 {
    let Values { count, rows: all, .. } = values(plan, column, measures);
    if rows >= all {
        return count;
    }
    // So many of the values are among rows that are chosen without regard to them.
    (count * (1.0 - (-rows / count).exp())).min(rows).max(1.0)
}

/// What a plan's column is.
enum Source<'a> {
    /// A column of a table, by its place.
    Column(&'a TableScan, usize),
    /// What an expression gives for each row.
    Computed,
}

/// Finds the table and the place of a column that a plan passes on.
fn origin<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<(&'a TableScan, usize)> {
    match source(plan, column)? {
        Source::Column(scan, place) => Some((scan, place)),
        Source::Computed => None,
    }
}

fn source<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<Source<'a>> {
    let place = plan.schema().maybe_index_of_column(column)?;
    match plan {
        LogicalPlan::TableScan(scan) => Some(match &scan.projection {
            Some(projection) => Source::Column(scan, *projection.get(place)?),
            None => Source::Column(scan, place),
        }),
        LogicalPlan::Projection(projection) => of_expression(projection.expr.get(place)?, &projection.input),
        LogicalPlan::Aggregate(aggregate) => {
            of_expression(aggregate.group_expr.get(place)?, &aggregate.input)
        }
        LogicalPlan::SubqueryAlias(alias) => source(&alias.input, &column_at(&alias.input, place)),
        LogicalPlan::Join(join) => {
            let side = [&join.left, &join.right].into_iter().find(|side| side.schema().has_column(column))?;
            source(side, column)
        }
        LogicalPlan::Filter(filter) => source(&filter.input, column),
        LogicalPlan::Sort(sort) => source(&sort.input, column),
        LogicalPlan::Limit(limit) => source(&limit.input, column),
        LogicalPlan::Distinct(Distinct::All(input)) => source(input, column),
        _ => None,
    }
}

fn column_at(plan: &LogicalPlan, place: usize) -> Column {
    plan.schema().qualified_field(place).into()
}

fn of_expression<'a>(expr: &Expr, input: &'a LogicalPlan) -> Option<Source<'a>> {
    match expr {
        Expr::Column(column) => source(input, column),
        Expr::Alias(alias) => of_expression(&alias.expr, input),
        Expr::Cast(cast) => of_expression(&cast.expr, input),
        Expr::Literal(..) => None,
        _ => Some(Source::Computed),
    }
}

fn groups(aggregate: &Aggregate, measures: &Measures) -> f64 {
    let rows = rows(&aggregate.input, measures);
    let of_key = |key: &Expr| match key {
        Expr::Column(column) => distinct(&aggregate.input, column, rows, measures),
        _ => rows.sqrt(),
    };
    aggregate.group_expr.iter().map(of_key).product::<f64>().clamp(1.0, rows.max(1.0))
}

/// Returns how many groups an aggregate has at most; `None` where nobody has counted the values of a column
/// that it groups by.
pub fn groups_counted(aggregate: &Aggregate, measures: &Measures) -> Option<f64> {
    let rows = rows(&aggregate.input, measures).max(1.0);
    let of_key = |key: &Expr| match key {
        Expr::Column(column) => {
            let found = values(&aggregate.input, column, measures);
            found.is_counted.then_some(found.count)
        }
        _ => Some(rows.sqrt()),
    };
    let groups: Option<f64> = aggregate.group_expr.iter().map(of_key).product();
    groups.map(|groups| groups.clamp(1.0, rows))
}

fn joined(join: &Join, measures: &Measures) -> f64 {
    let (left, right) = (rows(&join.left, measures), rows(&join.right, measures));
    let of = |expr: &Expr, plan: &LogicalPlan, rows: f64| match expr {
        Expr::Column(column) => values(plan, column, measures),
        _ => Values::computed(rows),
    };
    let keys: Vec<(Values, Values)> = join
        .on
        .iter()
        .map(|(one, other)| (of(one, &join.left, left), of(other, &join.right, right)))
        .collect();
    let inner = left * right / divided(&keys);
    let found = |rows: f64, own: fn(&(Values, Values)) -> (f64, f64)| {
        keys.iter().map(own).fold(rows, |rows, (own, other)| rows * (other / own).min(1.0))
    };
    match join.join_type {
        JoinType::Inner => inner,
        JoinType::Left => inner.max(left),
        JoinType::Right => inner.max(right),
        JoinType::Full => inner.max(left).max(right),
        JoinType::LeftSemi => found(left, |(own, other)| (own.count, other.count)),
        JoinType::RightSemi => found(right, |(other, own)| (own.count, other.count)),
        JoinType::LeftAnti => left / 2.0,
        JoinType::RightAnti => right / 2.0,
        JoinType::LeftMark => left,
        JoinType::RightMark => right,
    }
}

/// Returns by how many values pairs of keys are divided. Several columns together do not have more
/// values than the smaller table has rows.
pub fn divided(keys: &[(Values, Values)]) -> f64 {
    let parts = || keys.iter().map(|(one, other)| one.divide(other));
    let all: f64 = parts().product();
    if keys.len() < 2 {
        return all;
    }
    let rows = keys.iter().map(|(one, other)| one.rows.min(other.rows)).fold(f64::INFINITY, f64::min);
    all.min(parts().fold(rows, f64::max))
}

/// Returns the share of a plan's rows that pass a condition.
pub fn share(condition: &Expr, plan: &LogicalPlan, measures: &Measures) -> f64 {
    let mut share = 1.0;
    let mut ranges: HashMap<&Column, (f64, f64)> = HashMap::new();
    for part in split_conjunction(condition) {
        match bound(part) {
            // Several bounds of a column are one range.
            Some((column, low, high))
                if measure(plan, column, measures).is_some_and(|found| found.range.is_some()) =>
            {
                let range = ranges.entry(column).or_insert((f64::NEG_INFINITY, f64::INFINITY));
                *range = (range.0.max(low), range.1.min(high));
            }
            _ => share *= share_of_part(part, plan, measures),
        }
    }
    let mut of_ranges: Vec<f64> = ranges
        .into_iter()
        .filter_map(|(column, (low, high))| {
            let (least, greatest) = measure(plan, column, measures)?.range?;
            let width = (greatest - least).max(f64::MIN_POSITIVE);
            Some(((high.min(greatest) - low.max(least)) / width).clamp(0.0, 1.0))
        })
        .collect();
    of_ranges.sort_by(f64::total_cmp);
    of_ranges.into_iter().fold(share, |share, range| share * range).clamp(1e-9, 1.0)
}

fn measure(plan: &LogicalPlan, column: &Column, measures: &Measures) -> Option<ColumnMeasure> {
    let (scan, place) = origin(plan, column)?;
    (measures.column)(scan, place)
}

/// Returns the range of a column that a comparison with a constant leaves.
fn bound(condition: &Expr) -> Option<(&Column, f64, f64)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let (column, op, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) => (column, *op, value),
        (Expr::Literal(value, _), Expr::Column(column)) => (column, op.swap()?, value),
        _ => return None,
    };
    let value = number(value)?;
    match op {
        Operator::Lt | Operator::LtEq => Some((column, f64::NEG_INFINITY, value)),
        Operator::Gt | Operator::GtEq => Some((column, value, f64::INFINITY)),
        _ => None,
    }
}

fn share_of_part(condition: &Expr, plan: &LogicalPlan, measures: &Measures) -> f64 {
    let of = |expr: &Expr| share(expr, plan, measures);
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Or => 1.0 - (1.0 - of(left)) * (1.0 - of(right)),
            Operator::Eq | Operator::IsNotDistinctFrom => equal(left, right, plan, measures),
            Operator::NotEq | Operator::IsDistinctFrom => 1.0 - equal(left, right, plan, measures),
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => SHARE_COMPARED,
            _ => SHARE_UNKNOWN,
        },
        Expr::Not(inner) => 1.0 - of(inner),
        Expr::InList(list) => {
            let values = list.list.iter().map(|value| equal(&list.expr, value, plan, measures));
            let share = values.sum::<f64>().min(1.0);
            if list.negated { 1.0 - share } else { share }
        }
        Expr::Between(_) => SHARE_COMPARED * SHARE_COMPARED,
        Expr::Like(Like { negated, .. }) => {
            if *negated {
                1.0 - SHARE_LIKE
            } else {
                SHARE_LIKE
            }
        }
        Expr::IsNull(inner) => nulls(inner, plan, measures),
        Expr::IsNotNull(inner) => 1.0 - nulls(inner, plan, measures),
        Expr::Literal(ScalarValue::Boolean(Some(true)), _) => 1.0,
        Expr::Literal(..) => 0.0,
        Expr::Column(_) => 0.5,
        _ => SHARE_UNKNOWN,
    }
}

fn nulls(expr: &Expr, plan: &LogicalPlan, measures: &Measures) -> f64 {
    let Expr::Column(column) = expr else { return SHARE_EQUAL };
    let Some((scan, place)) = origin(plan, column) else { return SHARE_EQUAL };
    let rows = (measures.rows)(scan).unwrap_or(0).max(1) as f64;
    (measures.column)(scan, place).map_or(SHARE_EQUAL, |measure| (measure.nulls / rows).min(1.0))
}

fn equal(left: &Expr, right: &Expr, plan: &LogicalPlan, measures: &Measures) -> f64 {
    let of = |expr: &Expr| match expr {
        Expr::Column(column) => Some(1.0 / values(plan, column, measures).count),
        _ => None,
    };
    let shares = [of(left), of(right)].into_iter().flatten();
    shares.reduce(f64::min).unwrap_or(SHARE_EQUAL)
}

/// Returns a constant as a number, in the unit that the ranges of columns of its type have.
fn number(value: &ScalarValue) -> Option<f64> {
    use ScalarValue::*;
    Some(match value {
        Int8(value) => f64::from((*value)?),
        Int16(value) => f64::from((*value)?),
        Int32(value) | Date32(value) => f64::from((*value)?),
        Int64(value)
        | Time64Microsecond(value)
        | TimestampSecond(value, _)
        | TimestampMillisecond(value, _)
        | TimestampMicrosecond(value, _)
        | TimestampNanosecond(value, _) => (*value)? as f64,
        UInt8(value) => f64::from((*value)?),
        UInt16(value) => f64::from((*value)?),
        UInt32(value) => f64::from((*value)?),
        UInt64(value) => (*value)? as f64,
        Float32(value) => f64::from((*value)?),
        Float64(value) => (*value)?,
        Decimal128(value, _, scale) => (*value)? as f64 / 10f64.powi(i32::from(*scale)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{col, lit, table_scan};

    /// A table of a thousand rows, of whose columns the first one is counted.
    const MEASURES: Measures = Measures {
        rows: |_| Some(1000),
        column: |_, place| {
            Some(ColumnMeasure { distinct: (place == 0).then_some(10.0), ..ColumnMeasure::default() })
        },
    };

    #[test]
    fn groups_are_counted_where_all_of_their_columns_are() {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
        let scan = table_scan(Some("t"), &Schema::new(fields.to_vec()), None).unwrap();
        let groups = |keys: Vec<Expr>| {
            let plan = scan.clone().aggregate(keys, Vec::<Expr>::new()).unwrap().build().unwrap();
            let LogicalPlan::Aggregate(aggregate) = &plan else { panic!("no aggregate") };
            groups_counted(aggregate, &MEASURES)
        };
        assert_eq!(groups(vec![col("a")]), Some(10.0));
        assert_eq!(groups(vec![col("a"), col("b")]), None);
        assert_eq!(groups(vec![col("b")]), None);
        // There are fewer values of an expression than rows, and no more groups than these.
        assert_eq!(groups(vec![col("a") + lit(1_i64)]), Some(1000_f64.sqrt()));
        assert_eq!(groups(vec![col("a"), col("a") + lit(1_i64), col("a") + lit(2_i64)]), Some(1000.0));
    }
}
