//! Queries for rows that break a constraint, and for what tells whether some do.
//!
//! They are trees over relations that the engine gives them, so that names of columns may be any text.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, SelectItem, TableFactor};
use hypostyle_catalog::given::Given;
use hypostyle_error::column_name::POSITION;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_sql::{build, chains};
use hypostyle_types::Result;

/// Names of the rows that are checked, and of those that they are compared with: no column is
/// called so.
pub(super) const NEW: &str = "__new";
pub(super) const OLD: &str = "__old";

/// Name of the rows that are deleted of those.
pub(super) const GONE: &str = "__gone";

/// Name of the keys that rows refer to.
pub(super) const KEY: &str = "__key";

/// Returns rows by one of these names.
pub(super) fn called(rows: &Given, name: &str) -> TableFactor {
    rows.factor(Some(build::name(name)))
}

/// Returns the condition that the condition of a CHECK is false.
///
/// # Errors
/// Those of the parser, which has read it before.
pub(super) fn is_false(sql: &str) -> Result<Expr> {
    let mut condition = parse_as_written(sql)?;
    chains::balance(&mut condition);
    Ok(build::not(condition))
}

/// Returns the condition that rows have the same key; each says its columns.
pub(super) fn has_same_key(one: &str, ours: &[String], other: &str, theirs: &[String]) -> Expr {
    let pairs = ours.iter().zip(theirs);
    let pairs =
        pairs.map(|(our, their)| build::equal(build::column_of(one, our), build::column_of(other, their)));
    build::all_of(pairs).unwrap_or_else(|| build::truth(true))
}

/// Returns the conditions that columns are not NULL.
fn are_known(rows: &str, columns: &[String]) -> impl Iterator<Item = Expr> {
    columns.iter().map(move |column| build::is_known(build::column_of(rows, column)))
}

/// Returns the condition that old rows are before the new ones.
pub(super) fn is_earlier() -> Expr {
    build::binary(build::column_of(OLD, POSITION), BinaryOperator::Lt, build::column_of(NEW, POSITION))
}

/// Returns the condition that old rows of a table of the cluster are not among those that are gone.
pub(super) fn is_not_gone(gone: TableFactor) -> Expr {
    let same = build::equal(build::column_of(GONE, POSITION), build::column_of(OLD, POSITION));
    is_missing(gone, same)
}

/// Returns the condition that a relation has no row that meets a condition.
fn is_missing(rows: TableFactor, condition: Expr) -> Expr {
    let one = vec![build::item(build::number(1))];
    build::not_exists(build::select_where(one, vec![build::alone(rows)], Some(condition)))
}

/// Returns a query for the first row that meets a condition.
pub(super) fn first_that(rows: TableFactor, condition: Expr) -> Query {
    let query = build::select_where(vec![build::every_column()], vec![build::alone(rows)], Some(condition));
    build::limited(query, 1)
}

/// Returns a query for the first new row that refers to a key which is not there.
pub(super) fn first_without_key(
    new: TableFactor,
    ours: &[String],
    keys: TableFactor,
    theirs: &[String],
) -> Query {
    let missing = is_missing(keys, has_same_key(KEY, theirs, NEW, ours));
    let condition = build::all_of(are_known(NEW, ours).chain([missing]));
    let query = build::select_where(vec![build::every_column_of(NEW)], vec![build::alone(new)], condition);
    build::limited(query, 1)
}

/// Returns a query for the first new row that has a partner among other rows, where both meet some
/// conditions.
pub(super) fn first_with_partner(
    new: TableFactor,
    others: TableFactor,
    is_partner: Expr,
    conditions: Vec<Expr>,
) -> Query {
    let from = vec![build::joined(new, others, is_partner)];
    let query = build::select_where(vec![build::every_column_of(NEW)], from, build::all_of(conditions));
    build::limited(query, 1)
}

/// Returns a query for columns of old rows that meet some conditions, with their places behind.
pub(super) fn columns_and_places(old: TableFactor, columns: &[String], conditions: Vec<Expr>) -> Query {
    let columns = columns.iter().map(String::as_str).chain([POSITION]);
    let items = columns.map(|column| build::item(build::column_of(OLD, column))).collect();
    build::select_where(items, vec![build::alone(old)], build::all_of(conditions))
}

/// Returns a query for the keys of old rows that no row has now.
pub(super) fn lost_keys(old: TableFactor, now: TableFactor, key: &[String]) -> Query {
    let missing = is_missing(now, has_same_key(KEY, key, OLD, key));
    let condition = build::all_of(are_known(OLD, key).chain([missing]));
    let items = key.iter().map(|column| build::item(build::column_of(OLD, column))).collect();
    build::select_where(items, vec![build::alone(old)], condition)
}

/// Returns a query for the least and the greatest value of a column.
pub(super) fn ends(rows: TableFactor, column: &str) -> Query {
    let items: Vec<SelectItem> =
        [build::min, build::max].map(|end| build::item(end(build::column(column)))).into();
    build::select(items, vec![rows])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::dialect::parse_query;

    fn rows(name: &str, called: &str) -> TableFactor {
        build::table(build::name(name), Some(build::name(called)))
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn what_is_built_is_what_would_be_read() {
        let (a, ab, xy) = (names(&["a"]), names(&["a\"b", "select"]), names(&["x.y", "it's"]));
        let conditions = || vec![is_not_gone(rows("g", GONE)), build::truth(true)];
        for (built, sql) in [
            (
                first_that(rows("n", NEW), is_false("a = 1 OR b IS NULL").unwrap()),
                r#"SELECT * FROM "n" AS "__new" WHERE NOT (a = 1 OR b IS NULL) LIMIT 1"#,
            ),
            (
                first_that(rows("n", NEW), is_false("a + - -1 > 2").unwrap()),
                r#"SELECT * FROM "n" AS "__new" WHERE NOT a + -(-1) > 2 LIMIT 1"#,
            ),
            (
                first_without_key(rows("n", NEW), &ab, rows("k", KEY), &xy),
                r#"SELECT "__new".* FROM "n" AS "__new" WHERE "__new"."a""b" IS NOT NULL AND "__new"."select" IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "k" AS "__key" WHERE "__key"."x.y" = "__new"."a""b" AND "__key"."it's" = "__new"."select") LIMIT 1"#,
            ),
            (
                first_with_partner(
                    rows("n", NEW),
                    rows("o", OLD),
                    has_same_key(NEW, &a, OLD, &a),
                    vec![is_earlier()],
                ),
                r#"SELECT "__new".* FROM "n" AS "__new" JOIN "o" AS "__old" ON "__new"."a" = "__old"."a" WHERE "__old"."__position" < "__new"."__position" LIMIT 1"#,
            ),
            (
                columns_and_places(rows("o", OLD), &xy, conditions()),
                r#"SELECT "__old"."x.y", "__old"."it's", "__old"."__position" FROM "o" AS "__old" WHERE NOT EXISTS (SELECT 1 FROM "g" AS "__gone" WHERE "__gone"."__position" = "__old"."__position") AND true"#,
            ),
            (
                lost_keys(rows("o", OLD), rows("k", KEY), &a),
                r#"SELECT "__old"."a" FROM "o" AS "__old" WHERE "__old"."a" IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "k" AS "__key" WHERE "__key"."a" = "__old"."a")"#,
            ),
            (ends(rows("k", KEY), "a\"b"), r#"SELECT min("a""b"), max("a""b") FROM "k" AS "__key""#),
        ] {
            assert_eq!(built.to_string(), sql);
            assert_eq!(built, parse_query(sql).unwrap(), "{sql}");
        }
    }
}
