//! Queries for columns of the rows of one stored table whose other columns are equal to parameters, as they
//! are or cast, such as `SELECT b FROM t WHERE a = ?`. A program that asks for rows by their keys asks for
//! nothing else, and binding and planning such a query takes several times as long as finding its rows.

use super::given_value::{GivenValue, parameter_of, value_alone};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectName, Query, SelectItem, Statement,
};
use hypostyle_catalog::pg_catalog::Origin;
use hypostyle_expr::cast::cast_scalar;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::plain::of_table;
use hypostyle_storage::{TableData, TableEntry};
use std::sync::Arc;

/// Such a query, and what its names meant.
#[derive(Debug)]
pub(crate) struct KeyedQuery {
    pub table: ObjectName,
    /// The definition of the table that the places are of.
    entry: Arc<TableEntry>,
    /// The places in the table of the columns that are read, in its order.
    pub places: Vec<usize>,
    /// Which of these each column of the result is.
    items: Vec<usize>,
    /// The places of columns, and what they are to be equal to.
    conditions: Vec<(usize, GivenValue)>,
    pub schema: SchemaRef,
    pub origins: Vec<Option<Origin>>,
}

/// What a query asks for, by its names.
pub(crate) struct Asked<'a> {
    pub table: &'a ObjectName,
    /// What columns are qualified with.
    called: &'a Ident,
    items: Vec<&'a Expr>,
    conditions: Vec<(&'a Expr, GivenValue)>,
}

/// Says whether a query is written as one for rows of a table by values of its columns.
pub(crate) fn is_keyed(query: &Query) -> bool {
    asked(query).is_some()
}

/// Returns what a statement asks for that is written as such a query.
pub(crate) fn asked_by_keys(statement: &Statement) -> Option<Asked<'_>> {
    match statement {
        Statement::Query(query) => asked(query),
        _ => None,
    }
}

fn asked(query: &Query) -> Option<Asked<'_>> {
    let parts = of_table(query)?;
    let called = parts.alias.or_else(|| parts.table.0.last()?.as_ident())?;
    let items = parts.items.iter().map(picked).collect::<Option<Vec<_>>>()?;
    let mut conditions = Vec::new();
    let mut rest = vec![parts.condition];
    while let Some(condition) = rest.pop() {
        match condition {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                rest.extend([right.as_ref(), left.as_ref()]);
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let (column, value) = if is_column(left) { (left, right) } else { (right, left) };
                conditions.push((column.as_ref(), parameter_of(value)?));
            }
            _ => return None,
        }
    }
    let mut columns = items.iter().copied().chain(conditions.iter().map(|(column, _)| *column));
    columns.all(is_column).then_some(Asked { table: parts.table, called, items, conditions })
}

/// Returns the expression that an item of a query is, whatever it is called.
fn picked(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) => true,
        Expr::CompoundIdentifier(parts) => parts.len() == 2,
        _ => false,
    }
}

/// Returns the place in a table of the column that an expression names.
fn place(table: &TableData, called: &Ident, column: &Expr) -> Option<usize> {
    let place_of = |name: &Ident| {
        let name = fold(name);
        table.columns().iter().position(|column| column.entry().name == name)
    };
    match column {
        Expr::Identifier(name) => place_of(name),
        // A column may have fields, too.
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [table, name] if fold(table) == fold(called) && place_of(table).is_none() => place_of(name),
            _ => None,
        },
        _ => None,
    }
}

impl KeyedQuery {
    /// Returns what is asked of a table, with a result of this schema, as such a query.
    pub fn new(
        asked: Asked<'_>,
        table: &TableData,
        schema: &SchemaRef,
        origins: &[Option<Origin>],
    ) -> Option<Self> {
        let place = |column: &Expr| place(table, asked.called, column);
        let wanted: Vec<usize> = asked.items.into_iter().map(place).collect::<Option<_>>()?;
        let mut places = wanted.clone();
        places.sort_unstable();
        places.dedup();
        let items = wanted.iter().map(|wanted| places.binary_search(wanted).ok());
        let conditions = asked.conditions.into_iter().map(|(column, value)| Some((place(column)?, value)));
        Some(Self {
            items: items.collect::<Option<_>>()?,
            conditions: conditions.collect::<Option<_>>()?,
            table: asked.table.clone(),
            entry: table.shared_entry().clone(),
            places,
            schema: schema.clone(),
            origins: origins.to_vec(),
        })
    }

    /// Returns what columns of the table are equal to, with these parameters; `None` if the table is another
    /// one, or a value is not one of its column's type.
    pub fn conditions(
        &self,
        table: &TableData,
        columns: &Schema,
        parameters: &[ScalarValue],
    ) -> Option<Vec<(usize, ScalarValue)>> {
        let conditions = self.conditions.iter().map(|(place, given)| {
            let value = value_alone(given, parameters)?;
            Some((*place, value_of_column(&value, columns.field(*place))?))
        });
        Arc::ptr_eq(table.shared_entry(), &self.entry).then(|| conditions.collect()).flatten()
    }

    /// Returns the rows of the result from those that were read of these columns; `None` if they are of other
    /// types, be there no rows: a column of codes has larger ones while rows are in the log.
    pub fn rows(&self, columns: &Schema, read: &[RecordBatch]) -> Option<Vec<RecordBatch>> {
        let mut types = self.items.iter().zip(self.schema.fields());
        if !types.all(|(item, field)| columns.field(*item).data_type() == field.data_type()) {
            return None;
        }
        let rows = read.iter().map(|batch| {
            let columns = self.items.iter().map(|item| batch.column(*item).clone()).collect();
            RecordBatch::try_new(self.schema.clone(), columns).ok()
        });
        rows.collect()
    }
}

/// Returns a value as one of a column in plans; `None` where equal values are not all that is equal, or the
/// value is not of the column's kind.
fn value_of_column(value: &ScalarValue, column: &Field) -> Option<ScalarValue> {
    let (from, to) = (value.data_type(), column.data_type());
    let is_plain = match to {
        DataType::Interval(_) => false,
        to => !to.is_floating() && !to.is_nested() && column.metadata().is_empty(),
    };
    let fits = from == *to || from.is_integer() && to.is_integer() || from.is_string() && to.is_string();
    (is_plain && fits && !value.is_null()).then(|| cast_scalar(value, column).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_sql::parse::{Extension, parse};

    #[test]
    fn other_queries_are_none_by_keys() {
        for (sql, is_one) in [
            ("SELECT b FROM t WHERE a = $1", true),
            ("SELECT x.b, c AS d FROM s.t AS x WHERE a = $2::BIGINT AND ($1) = x.c", true),
            ("SELECT b FROM t WHERE a = $1 OR c = $2", false),
            ("SELECT b FROM t WHERE a > $1", false),
            ("SELECT b FROM t WHERE a = 1", false),
            ("SELECT b FROM t WHERE a = c", false),
            ("SELECT b + 1 FROM t WHERE a = $1", false),
            ("SELECT * FROM t WHERE a = $1", false),
            ("SELECT DISTINCT b FROM t WHERE a = $1", false),
            ("SELECT b FROM t WHERE a = $1 ORDER BY b", false),
            ("SELECT b FROM t WHERE a = $1 LIMIT 1", false),
            ("SELECT b FROM t WHERE a = $1 FOR UPDATE", false),
            ("SELECT b FROM t, u WHERE a = $1", false),
            ("SELECT b FROM t TABLESAMPLE BERNOULLI (10) WHERE a = $1", false),
            ("SELECT b FROM f(1) WHERE a = $1", false),
            ("SELECT b FROM t WHERE a = $1 UNION ALL SELECT 1", false),
            ("WITH t AS (SELECT 1 AS a) SELECT a FROM t WHERE a = $1", false),
            ("SELECT count(*) FROM t WHERE a = $1", false),
            ("SELECT b FROM t", false),
        ] {
            let parsed = parse(sql, &Extension::NONE).unwrap();
            let datafusion::sql::parser::Statement::Statement(statement) = parsed else { unreachable!() };
            let Statement::Query(query) = *statement else { unreachable!() };
            assert_eq!(is_keyed(&query), is_one, "{sql}");
        }
    }
}
