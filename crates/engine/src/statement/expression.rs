//! The rules for expressions of a definition: defaults, generated columns and the conditions of
//! CHECK.

use crate::statement::completion::{Compiler, Inputs, mentions, visit};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ToDFSchema};
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, FunctionArguments, Ident, Value};
use hypostyle_bind::bind_expression;
use hypostyle_error::from_datafusion;
use hypostyle_exec::scan::engine_type;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_sql::printable;
use hypostyle_sql::walk::expressions_mut;
use hypostyle_storage::{NewColumn, TableEntry, convert};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

impl Compiler<'_> {
    /// Refuses columns whose defaults or expressions cannot give them values.
    pub(super) fn check_columns(&self, columns: &[NewColumn]) -> Result<()> {
        for column in columns {
            if let Some(sql) = &column.generated {
                self.check_generated(columns, column, sql)?;
            } else if let Some(default) = &column.default {
                self.check_default(&column.name, &column.logical_type, default)?;
            }
        }
        Ok(())
    }

    /// Refuses a default that a column could not take; one that is not constant may still fail when
    /// it is evaluated.
    pub(super) fn check_default(&self, column: &str, logical_type: &LogicalType, sql: &str) -> Result<()> {
        let what = format!("the default of column \"{column}\"");
        let expr =
            self.expression_of(&what, sql, &DFSchema::empty()).map_err(|error| match error.sqlstate() {
                "42703" => Error::unsupported(format!("{what} names a column ({sql}): write a value")),
                _ => error,
            })?;
        let check = || {
            let default = self.compile(sql, &Schema::empty(), &engine_type(logical_type))?;
            if impure_function(&expr).is_some() {
                return Ok(());
            }
            let one = RecordBatchOptions::new().with_row_count(Some(1));
            let values = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one)
                .map_err(Into::into)
                .and_then(|row| default.evaluate(&row)?.into_array(1))
                .map_err(from_datafusion)?;
            convert(&values, column, logical_type, 0).map(drop)
        };
        check().map_err(|error| error.context(&what))
    }

    /// Refuses the expression of a generated column that is not of its row alone, or not always the
    /// same.
    fn check_generated(&self, columns: &[NewColumn], column: &NewColumn, sql: &str) -> Result<()> {
        let what = format!("the expression of generated column \"{}\"", column.name);
        let refuse = |why: String| Err(Error::invalid_input(format!("{what} {why}")).with_sqlstate("42P17"));
        if column.default.is_some() || column.identity.is_some() {
            let why = format!("generated column \"{}\" has a default, too", column.name);
            return Err(Error::new(ErrorKind::Syntax, why));
        }
        let is_generated = |other: &&NewColumn| other.generated.is_some() && mentions(sql, &other.name);
        if let Some(other) = columns.iter().find(is_generated) {
            return refuse(format!("uses the generated column \"{}\"", other.name));
        }
        let described =
            columns.iter().map(|other| (other.name.as_str(), &other.logical_type, other.generated.is_some()));
        let inputs = Inputs::new(described, &[sql]);
        let schema = inputs.schema.as_ref().clone().to_dfschema().map_err(from_datafusion)?;
        if let Some(function) = impure_function(&self.expression_of(&what, sql, &schema)?) {
            return refuse(format!("calls {function}(), which does not always give the same"));
        }
        self.compile(sql, &inputs.schema, &engine_type(&column.logical_type)).map(drop)
    }

    /// Refuses the condition of a CHECK that is not of a row alone, or not BOOLEAN.
    pub(super) fn check_condition(&self, table: &TableEntry, constraint: &str, sql: &str) -> Result<()> {
        let what = format!("constraint \"{constraint}\" of table \"{}\"", table.name);
        let field = |name: &str, of: &LogicalType| of.arrow_field(name, true).with_data_type(engine_type(of));
        let fields: Vec<Field> =
            table.columns.iter().map(|column| field(&column.name, &column.logical_type)).collect();
        let schema = Schema::new(fields).to_dfschema().map_err(from_datafusion)?;
        let expr = self.expression_of(&what, sql, &schema)?;
        // An expression without a type fails when the rows are checked.
        match expr.to_field(&schema) {
            Ok((_, field)) if !matches!(field.data_type(), DataType::Boolean | DataType::Null) => {
                let found = LogicalType::from_arrow(&field)?;
                Err(Error::new(ErrorKind::Syntax, format!("{what} must be BOOLEAN, but ({sql}) is {found}"))
                    .with_sqlstate("42804"))
            }
            _ => Ok(()),
        }
    }

    /// Returns an expression of a definition over columns of one row.
    fn expression_of(&self, what: &str, sql: &str, schema: &DFSchema) -> Result<Expr> {
        let wrong = |kind, why: &str, sqlstate| {
            Err(Error::new(kind, format!("{what} has {why}")).with_sqlstate(sqlstate))
        };
        if visit(sql, is_parameter) {
            return wrong(ErrorKind::InvalidInput, "a parameter: write the value itself", "42P02");
        }
        if visit(sql, is_query) {
            return wrong(ErrorKind::Unsupported, "a subquery, but can read its own row only", "0A000");
        }
        let expr = bind_expression(&self.context.state(), sql, schema).map_err(from_datafusion)?;
        let found = |is: fn(&Expr) -> bool| expr.exists(|expr| Ok(is(expr))).unwrap_or_default();
        if found(|expr| matches!(expr, Expr::AggregateFunction(_) | Expr::GroupingSet(_))) {
            return wrong(ErrorKind::Syntax, "an aggregate, but can read its own row only", "42803");
        }
        if found(|expr| matches!(expr, Expr::WindowFunction(_))) {
            return wrong(ErrorKind::Syntax, "a window function, but can read its own row only", "42P20");
        }
        Ok(expr)
    }
}

/// Returns an expression's text with another name of a column.
///
/// # Errors
/// `Unsupported` when it has variables of its own, which may hide the column.
pub(super) fn rename_in(sql: &str, old: &str, new: &str) -> Result<String> {
    if !mentions(sql, old) {
        return Ok(sql.to_string());
    }
    if visit(sql, |expr| matches!(expr, SqlExpr::Lambda(_))) {
        return Err(Error::unsupported(format!(
            "column \"{old}\" cannot be renamed: ({sql}) uses it, which has variables; drop that first"
        )));
    }
    let mut expression = parse_as_written(sql)?;
    let _all = expressions_mut(&mut expression, &mut |expr| {
        let name = match expr {
            SqlExpr::Identifier(name) => Some(name),
            SqlExpr::CompoundIdentifier(parts) => parts.first_mut(),
            _ => None,
        };
        if let Some(name) = name.filter(|name| fold(name) == old) {
            *name = Ident::with_quote('"', new);
        }
        ControlFlow::<()>::Continue(())
    });
    printable::rewrite(&mut expression);
    Ok(expression.to_string())
}

/// Returns a function in an expression that does not always give the same.
fn impure_function(expr: &Expr) -> Option<String> {
    let mut name = None;
    let visited = expr.apply(|expr| match expr {
        Expr::ScalarFunction(function) if function.func.signature().volatility != Volatility::Immutable => {
            name = Some(function.func.name().to_string());
            Ok(TreeNodeRecursion::Stop)
        }
        _ => Ok(TreeNodeRecursion::Continue),
    });
    visited.ok().and(name)
}

fn is_parameter(expr: &SqlExpr) -> bool {
    matches!(expr, SqlExpr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

fn is_query(expr: &SqlExpr) -> bool {
    match expr {
        SqlExpr::Subquery(_) | SqlExpr::Exists { .. } | SqlExpr::InSubquery { .. } => true,
        SqlExpr::Function(function) => matches!(function.args, FunctionArguments::Subquery(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::test_queries::{Alone, table_of_numbers};
    use hypostyle_storage::NewColumn;
    use hypostyle_types::LogicalType;

    #[test]
    fn a_condition_is_of_one_row_and_boolean() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let id = table_of_numbers(&mut transaction, "t", &["a", "b"], |_| {});
        let table = transaction.catalog().table_by_id(id).unwrap();
        let check = |sql: &str| alone.compiler().check_condition(table, "c", sql);
        assert!(check("a > 0 AND a < b").is_ok());
        assert!(check("NULL").is_ok());
        for (sql, sqlstate, why) in [
            ("a + 1", "42804", "constraint \"c\" of table \"t\" must be BOOLEAN, but (a + 1) is BIGINT"),
            ("a > $1", "42P02", "constraint \"c\" of table \"t\" has a parameter: write the value itself"),
            (
                "a > (SELECT 1)",
                "0A000",
                "constraint \"c\" of table \"t\" has a subquery, but can read its own row only",
            ),
            (
                "sum(a) > 1",
                "42803",
                "constraint \"c\" of table \"t\" has an aggregate, but can read its own row only",
            ),
        ] {
            let error = check(sql).unwrap_err();
            assert_eq!((error.sqlstate(), error.message()), (sqlstate, why), "{sql}");
        }
    }

    #[test]
    fn a_generated_column_reads_no_other() {
        let alone = Alone::new();
        let column = |name: &str, sql: Option<&str>| NewColumn {
            generated: sql.map(String::from),
            ..NewColumn::new(name, LogicalType::Integer, true)
        };
        let check = |second: &str| {
            let columns = [column("a", None), column("b", Some("a + 1")), column("c", Some(second))];
            alone.compiler().check_columns(&columns)
        };
        assert!(check("a * 2").is_ok());
        for (sql, why) in [
            ("b * 2", "uses the generated column \"b\""),
            ("a * random()", "calls random(), which does not always give the same"),
        ] {
            let error = check(sql).unwrap_err();
            let what = format!("the expression of generated column \"c\" {why}");
            assert_eq!((error.sqlstate(), error.message()), ("42P17", what.as_str()), "{sql}");
        }
    }
}
