//! Conditions of a query in PostgreSQL's SQL, where they provably mean the same there.
//!
//! A condition that is translated is left to the server alone. So a translation is exact: it is true,
//! false or unknown for the same values. What has none stays above the scan.
//!
//! Texts are compared by their bytes here. There, their collation says what is equal and less: equality
//! is that of bytes in a deterministic one, the order is in the collation "C".

use crate::column::{Columns, ForeignColumn, Form, digits};
use crate::literal::{literal, text_of, text_value};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, InList, Like};
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};

/// The longest condition that is sent, and the longest list in one.
const CONDITION_BYTES_MAX: usize = 64 << 10;
const VALUES_MAX: usize = 1_000;

const C_COLLATION: &str = "COLLATE pg_catalog.\"C\"";

/// Returns a filter in PostgreSQL's SQL; `None` if it might mean something else there.
pub fn condition(filter: &Expr, columns: &Columns) -> Option<String> {
    boolean(filter, columns).filter(|sql| sql.len() <= CONDITION_BYTES_MAX)
}

fn boolean(expression: &Expr, columns: &Columns) -> Option<String> {
    let tested = |inner: &Expr, test: &str| Some(format!("({}) {test}", boolean(inner, columns)?));
    match expression {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
            // One chain, however deep the tree is: the server's stack has an end.
            let parts = split_binary(expression, *op).into_iter();
            let parts = parts.map(|part| Some(format!("({})", boolean(part, columns)?)));
            Some(parts.collect::<Option<Vec<_>>>()?.join(&format!(" {op} ")))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (left.as_ref(), right.as_ref()) {
            (column, Expr::Literal(value, _)) => comparison(column, *op, value, columns),
            (Expr::Literal(value, _), column) => comparison(column, op.swap()?, value, columns),
            (one, other) => comparison_of_columns(one, *op, other, columns),
        },
        Expr::Not(inner) => Some(format!("NOT ({})", boolean(inner, columns)?)),
        Expr::IsTrue(inner) => tested(inner, "IS TRUE"),
        Expr::IsFalse(inner) => tested(inner, "IS FALSE"),
        Expr::IsUnknown(inner) => tested(inner, "IS UNKNOWN"),
        Expr::IsNotTrue(inner) => tested(inner, "IS NOT TRUE"),
        Expr::IsNotFalse(inner) => tested(inner, "IS NOT FALSE"),
        Expr::IsNotUnknown(inner) => tested(inner, "IS NOT UNKNOWN"),
        Expr::IsNull(inner) => null_test(inner, "IS NULL", columns),
        Expr::IsNotNull(inner) => null_test(inner, "IS NOT NULL", columns),
        Expr::Between(between) => range(between, columns),
        Expr::InList(list) => membership(list, columns),
        Expr::Like(like) => likeness(like, columns),
        Expr::Literal(value @ ScalarValue::Boolean(_), _) => literal(value, Form::Boolean),
        Expr::Column(_) => {
            let column = compared(expression, columns)?;
            (column.form == Form::Boolean).then(|| column.quoted())
        }
        _ => None,
    }
}

/// Returns the column that is compared, perhaps after a cast that keeps each value.
fn compared<'a>(expression: &Expr, columns: &'a Columns) -> Option<&'a ForeignColumn> {
    match expression {
        Expr::Column(column) => {
            let column = columns.named(&column.name)?;
            let is_text = matches!(column.form, Form::Text { .. } | Form::Enumeration);
            (columns.is_utf8 || !is_text).then_some(column)
        }
        Expr::Cast(Cast { expr, field }) => {
            let column = compared(expr, columns)?;
            let keeps = match column.form {
                Form::Text { .. } | Form::Enumeration | Form::Uuid => field.data_type().is_string(),
                Form::Integer => *field.data_type() == DataType::Int64,
                Form::Decimal { precision, scale } => {
                    digits(field.data_type()).is_some_and(|(most, kept)| {
                        let before = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
                        kept >= scale && before(most, kept) >= before(precision, scale)
                    })
                }
                _ => false,
            };
            keeps.then_some(column)
        }
        _ => None,
    }
}

/// Returns a column as the operand of an equality, or of an order.
fn operand(column: &ForeignColumn, is_order: bool) -> Option<String> {
    let name = column.operand();
    match column.form {
        Form::Text { is_deterministic } if is_order || !is_deterministic => {
            Some(format!("{name} {C_COLLATION}"))
        }
        // There it has the order of its declaration.
        Form::Enumeration if is_order => None,
        Form::Enumeration => Some(format!("{name}::pg_catalog.text")),
        Form::Boolean if is_order => None,
        Form::Other | Form::Structure => None,
        _ => Some(name),
    }
}

/// Returns a comparison's operator in SQL, and whether it asks for an order.
fn operator_sql(operator: Operator) -> Option<(&'static str, bool)> {
    match operator {
        Operator::Eq => Some(("=", false)),
        Operator::NotEq => Some(("<>", false)),
        Operator::IsDistinctFrom => Some(("IS DISTINCT FROM", false)),
        Operator::IsNotDistinctFrom => Some(("IS NOT DISTINCT FROM", false)),
        Operator::Lt => Some(("<", true)),
        Operator::LtEq => Some(("<=", true)),
        Operator::Gt => Some((">", true)),
        Operator::GtEq => Some((">=", true)),
        _ => None,
    }
}

fn comparison(column: &Expr, operator: Operator, value: &ScalarValue, columns: &Columns) -> Option<String> {
    let (sql, is_order) = operator_sql(operator)?;
    let column = compared(column, columns)?;
    Some(format!("{} {sql} {}", operand(column, is_order)?, literal(value, column.form)?))
}

fn comparison_of_columns(one: &Expr, operator: Operator, other: &Expr, columns: &Columns) -> Option<String> {
    let (sql, is_order) = operator_sql(operator)?;
    let (one, other) = (compared(one, columns)?, compared(other, columns)?);
    let (left, right) = match (one.form, other.form) {
        // Of two collations the server would have to choose one.
        (Form::Text { .. }, Form::Text { .. }) => {
            (format!("{} {C_COLLATION}", one.operand()), format!("{} {C_COLLATION}", other.operand()))
        }
        // There are two zeros, of which each side has its own rules.
        (Form::Float4 | Form::Float8, _) => return None,
        (Form::Decimal { .. }, Form::Decimal { .. }) => (one.operand(), other.operand()),
        (form, same) if form == same => (operand(one, is_order)?, operand(other, is_order)?),
        _ => return None,
    };
    Some(format!("{left} {sql} {right}"))
}

fn null_test(expression: &Expr, test: &str, columns: &Columns) -> Option<String> {
    let Expr::Column(column) = expression else { return None };
    let column = columns.named(&column.name)?;
    (column.form != Form::Structure).then(|| format!("{} {test}", column.quoted()))
}

fn range(Between { expr, negated, low, high }: &Between, columns: &Columns) -> Option<String> {
    let (Expr::Literal(low, _), Expr::Literal(high, _)) = (low.as_ref(), high.as_ref()) else { return None };
    let column = compared(expr, columns)?;
    let operand = operand(column, true)?;
    let (low, high) = (literal(low, column.form)?, literal(high, column.form)?);
    let not = if *negated { "NOT " } else { "" };
    Some(format!("{operand} {not}BETWEEN {low} AND {high}"))
}

fn membership(InList { expr, list, negated }: &InList, columns: &Columns) -> Option<String> {
    if list.is_empty() || list.len() > VALUES_MAX {
        return None;
    }
    let column = compared(expr, columns)?;
    let value = |value: &Expr| match value {
        Expr::Literal(value, _) => literal(value, column.form),
        _ => None,
    };
    let values = list.iter().map(value).collect::<Option<Vec<_>>>()?;
    let not = if *negated { "NOT " } else { "" };
    Some(format!("{} {not}IN ({})", operand(column, false)?, values.join(", ")))
}

/// A pattern without escapes, which means the same in all collations that know LIKE.
fn likeness(like: &Like, columns: &Columns) -> Option<String> {
    let Like { negated, expr, pattern, escape_char: None | Some('\\'), case_insensitive: false } = like
    else {
        return None;
    };
    let Expr::Literal(pattern, _) = pattern.as_ref() else { return None };
    let pattern = text_of(pattern).filter(|pattern| !pattern.contains('\\'))?;
    let column = compared(expr, columns)?;
    if column.form != (Form::Text { is_deterministic: true }) {
        return None;
    }
    let not = if *negated { "NOT " } else { "" };
    Some(format!("{} {not}LIKE {}", column.operand(), text_value(pattern)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    fn columns() -> Columns {
        let text = |is_deterministic| Form::Text { is_deterministic };
        let all = [
            ("i", Form::Integer),
            ("t", text(true)),
            ("n", text(false)),
            ("b", Form::Boolean),
            ("e", Form::Enumeration),
            ("f", Form::Float8),
            ("d", Form::Decimal { precision: 9, scale: 2 }),
            ("w", Form::Decimal { precision: 12, scale: 4 }),
            ("o", Form::Other),
            ("s", Form::Structure),
            ("v", text(true)),
        ];
        let all = all.map(|(name, form)| ForeignColumn {
            name: name.into(),
            form,
            compared_as: (name == "v").then_some("text"),
        });
        Columns { all: all.to_vec(), is_utf8: true }
    }

    fn sql(filter: &Expr) -> Option<String> {
        condition(filter, &columns())
    }

    #[test]
    fn comparisons_keep_their_meaning() {
        for (filter, expected) in [
            (col("i").gt(lit(5_i32)), "\"i\" > '5'::pg_catalog.int8"),
            (lit(5_i64).lt(col("i")), "\"i\" > '5'::pg_catalog.int8"),
            (col("t").eq(lit("x")), "\"t\" = 'x'::pg_catalog.text"),
            (col("t").lt(lit("x")), "\"t\" COLLATE pg_catalog.\"C\" < 'x'::pg_catalog.text"),
            (col("n").eq(lit("x")), "\"n\" COLLATE pg_catalog.\"C\" = 'x'::pg_catalog.text"),
            (col("e").not_eq(lit("x")), "\"e\"::pg_catalog.text <> 'x'::pg_catalog.text"),
            (col("f").gt_eq(lit(1.5)), "\"f\" >= '1.5'::pg_catalog.float8"),
            (col("b"), "\"b\""),
            (!col("b"), "NOT (\"b\")"),
            (col("b").is_not_true(), "(\"b\") IS NOT TRUE"),
            (col("o").is_null(), "\"o\" IS NULL"),
            (col("i").is_not_null(), "\"i\" IS NOT NULL"),
            (
                col("i").between(lit(1_i64), lit(3_i64)),
                "\"i\" BETWEEN '1'::pg_catalog.int8 AND '3'::pg_catalog.int8",
            ),
            (
                col("i").in_list(vec![lit(1_i64), lit(2_i64)], true),
                "\"i\" NOT IN ('1'::pg_catalog.int8, '2'::pg_catalog.int8)",
            ),
            (col("t").like(lit("a_%")), "\"t\" LIKE 'a_%'::pg_catalog.text"),
            (col("v").eq(lit("x")), "\"v\"::pg_catalog.text = 'x'::pg_catalog.text"),
            (col("v").lt(lit("x")), "\"v\"::pg_catalog.text COLLATE pg_catalog.\"C\" < 'x'::pg_catalog.text"),
            (col("v").like(lit("a%")), "\"v\"::pg_catalog.text LIKE 'a%'::pg_catalog.text"),
            (col("v").in_list(vec![lit("x")], false), "\"v\"::pg_catalog.text IN ('x'::pg_catalog.text)"),
            (col("v").is_null(), "\"v\" IS NULL"),
            (col("i").lt_eq(col("i")), "\"i\" <= \"i\""),
            (col("d").not_eq(col("w")), "\"d\" <> \"w\""),
            (col("t").eq(col("n")), "\"t\" COLLATE pg_catalog.\"C\" = \"n\" COLLATE pg_catalog.\"C\""),
            (col("e").eq(col("e")), "\"e\"::pg_catalog.text = \"e\"::pg_catalog.text"),
            (
                col("b").and(col("i").eq(lit(1_i64))).and(col("o").is_null().or(col("b"))),
                "(\"b\") AND (\"i\" = '1'::pg_catalog.int8) AND ((\"o\" IS NULL) OR (\"b\"))",
            ),
        ] {
            assert_eq!(sql(&filter).as_deref(), Some(expected), "{filter}");
        }
    }

    #[test]
    fn casts_that_keep_each_value_change_nothing() {
        let cast = |name: &str, to: DataType| Expr::Cast(Cast::new(Box::new(col(name)), to));
        let number = lit(ScalarValue::Decimal128(Some(12_300), 12, 3));
        let found = sql(&cast("d", DataType::Decimal128(12, 3)).gt(number.clone()));
        assert_eq!(found.as_deref(), Some("\"d\" > '12.300'::pg_catalog.numeric"));
        assert!(sql(&cast("i", DataType::Int64).eq(lit(1_i64))).is_some());
        assert!(sql(&cast("t", DataType::Utf8View).eq(lit("a"))).is_some());
        for filter in [
            cast("d", DataType::Decimal128(12, 1)).gt(number.clone()),
            cast("d", DataType::Decimal128(9, 3)).gt(number),
            cast("i", DataType::Int16).eq(lit(1_i64)),
            cast("i", DataType::Utf8).eq(lit("1")),
        ] {
            assert_eq!(sql(&filter), None, "{filter}");
        }
    }

    #[test]
    fn what_might_mean_something_else_stays_here() {
        for filter in [
            col("i").gt(lit(1.5)),
            col("i").eq(lit(ScalarValue::Int64(None))),
            col("i").eq(col("d")),
            col("f").lt(col("f")),
            col("e").lt(col("e")),
            col("b").lt(col("b")),
            col("o").eq(col("o")),
            col("s").eq(col("s")),
            col("i").eq(col("nosuch")),
            (col("i") + lit(1_i64)).eq(lit(2_i64)),
            col("nosuch").eq(lit(1_i64)),
            col("e").lt(lit("x")),
            col("f").eq(lit(0.0)),
            col("o").eq(lit("x")),
            col("s").is_null(),
            col("n").like(lit("a%")),
            col("t").like(lit("a\\%")),
            col("t").ilike(lit("a%")),
            col("t"),
            col("b").or(col("o").eq(lit("x"))),
            col("i").in_list(vec![lit(1_i64), col("i")], false),
            col("i").in_list((0..=VALUES_MAX as i64).map(lit).collect(), false),
            col("t").eq(lit("x".repeat(CONDITION_BYTES_MAX))),
        ] {
            assert_eq!(sql(&filter), None, "{filter}");
        }
        let elsewhere = Columns { is_utf8: false, ..columns() };
        assert_eq!(condition(&col("t").eq(lit("é")), &elsewhere), None);
        assert!(condition(&col("i").eq(lit(1_i64)), &elsewhere).is_some());
    }

    #[test]
    fn hostile_texts_and_names_stay_what_they_are() {
        let hostile = "'; DROP TABLE t; --\\";
        let filter = col("t").in_list(vec![lit(hostile)], false);
        let expected = "\"t\" IN (E'''; DROP TABLE t; --\\\\'::pg_catalog.text)";
        assert_eq!(sql(&filter).as_deref(), Some(expected));
        assert_eq!(sql(&col("t").eq(lit("a\0b"))), None);
        let name = "x\" OR TRUE; --";
        let named = ForeignColumn { name: name.into(), form: Form::Boolean, compared_as: None };
        let columns = Columns { all: vec![named], is_utf8: true };
        let column = Expr::Column(datafusion::common::Column::from_name(name));
        assert_eq!(condition(&column, &columns).as_deref(), Some("\"x\"\" OR TRUE; --\""));
    }

    #[test]
    fn a_long_chain_is_no_deep_one() {
        let one = |number: i64| col("i").eq(lit(number));
        let chain = (1..500).fold(one(0), |chain, number| chain.or(one(number)));
        let sql = sql(&chain).unwrap();
        assert_eq!(sql.matches(" OR ").count(), 499);
        assert!(!sql.contains("(("));
    }
}
