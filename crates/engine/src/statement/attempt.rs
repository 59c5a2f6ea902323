//! A function that tries to insert a row, and gives the row, or tells which key of another row it
//! violates: the session keeps it, until it is dropped or another one is made.

use crate::session::kept::Attempt;
use crate::session::{Outcome, Parameters, Session};
use crate::statement::dialect::{as_statement, extension, name_columns_for};
use crate::statement::given_rows::given_rows;
use arrow::array::{ArrayRef, StringArray, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    CreateFunction, DropFunction, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Query, SetExpr, Statement, TableFactor, TableObject,
};
use hypostyle_sql::build;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::insert_function::InsertFunction;
use hypostyle_sql::walk::expressions_mut;
use hypostyle_types::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The schema of functions that are the session's own.
const SCHEMA: &str = "pg_temp";

impl Attempt {
    /// What a CREATE FUNCTION makes, if it is such a function.
    pub(super) fn read(function: &CreateFunction) -> Option<Self> {
        let InsertFunction { insert, row, detail } = InsertFunction::read(function, extension(false))?;
        Some(Self { name: own_function(&function.name)?, insert, row, detail })
    }

    /// Returns the field of the row that an expression takes: `(function.row).field`, which the front
    /// door has made a call of.
    fn field_of_row(&self, expr: &Expr) -> Option<String> {
        let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
            return None;
        };
        if !matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == "get_field"))
        {
            return None;
        }
        let argument = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        };
        let [row, field] = list.args.as_slice() else { return None };
        let row = match argument(row)? {
            Expr::Nested(inner) => *inner,
            other => other,
        };
        let Expr::CompoundIdentifier(parts) = row else { return None };
        let is_row = matches!(parts.as_slice(), [function, row]
            if fold(function) == self.name && fold(row) == self.row);
        match argument(field)? {
            Expr::Value(value) if is_row => value.value.into_string(),
            _ => None,
        }
    }

    /// Writes what a query takes of the function as columns of a table.
    fn rewrite(&self, query: &mut Query) {
        let _all = expressions_mut(query, &mut |expr| {
            if let Some(field) = self.field_of_row(expr) {
                *expr = Expr::Identifier(Ident::with_quote('"', field));
                return ControlFlow::<()>::Continue(());
            }
            match expr {
                Expr::CompoundIdentifier(parts)
                    if matches!(parts.as_slice(), [function, detail]
                        if fold(function) == self.name && fold(detail) == self.detail) =>
                {
                    *expr = Expr::Identifier(Ident::with_quote('"', self.detail.as_str()));
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
    }
}

/// The name of a function that is the session's own.
fn own_function(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [schema, name] if fold(schema.as_ident()?) == SCHEMA => name.as_ident().map(fold),
        _ => None,
    }
}

/// The function of the session's own that a query reads, and nothing else.
fn called(query: &mut Query) -> Option<(String, &mut TableFactor)> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let [from] = select.from.as_mut_slice() else { return None };
    let name = match &from.relation {
        TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
            own_function(name)?
        }
        _ => return None,
    };
    from.joins.is_empty().then_some((name, &mut from.relation))
}

/// Drops the function; whether it is the one that there is.
pub(super) fn drop_attempt(kept: &mut Option<Attempt>, drop: &DropFunction) -> bool {
    let [function] = drop.func_desc.as_slice() else { return false };
    let is_it = own_function(&function.name)
        .is_some_and(|name| drop.if_exists || kept.as_ref().is_some_and(|attempt| attempt.name == name));
    if is_it {
        *kept = None;
    }
    is_it
}

impl Session {
    /// Runs a query that calls the function, if it does.
    pub(super) fn call_attempt(&self, query: &mut Query) -> Result<Option<Outcome>> {
        let Some((name, factor)) = called(query) else { return Ok(None) };
        let Some(attempt) = self.attempt.lock().clone().filter(|attempt| attempt.name == name) else {
            return Ok(None);
        };
        let row = self.attempted(&attempt)?;
        let attempted = given_rows(&self.scope, "attempted", vec![row])?;
        *factor = attempted.factor(Some(Ident::new("attempted")));
        attempt.rewrite(query);
        name_columns_for(query, self.settings.is_wire());
        self.planner().query_for_result(as_statement(query.clone()), &Parameters::None).map(Some)
    }

    /// The row that was inserted, and behind it the key that was violated; one of them is NULL.
    fn attempted(&self, attempt: &Attempt) -> Result<RecordBatch> {
        let insert = DfStatement::Statement(Box::new(Statement::Insert(attempt.insert.clone())));
        let (row, detail) = match self.insert(insert, &Parameters::None) {
            Ok(outcome) => {
                let (schema, batches) = self.collect_rows(outcome)?;
                (concat_batches(&schema, &batches).map_err(cannot_be_given)?, None)
            }
            Err(error) if error.sqlstate() == "23505" => {
                let TableObject::TableName(table) = &attempt.insert.table else { return Err(error) };
                let none = build::limited(build::all_rows(build::table(table.clone(), None)), 0);
                let (schema, _) =
                    self.collect_rows(self.planner().query(as_statement(none), &Parameters::None)?)?;
                let detail = error.detail().unwrap_or(error.message()).to_string();
                (RecordBatch::new_empty(schema), Some(detail))
            }
            Err(error) => return Err(error),
        };
        let nullable = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_nullable(true));
        let mut fields: Vec<_> = row.schema().fields().iter().map(nullable).collect();
        fields.push(Arc::new(Field::new(&attempt.detail, DataType::Utf8, true)));
        let mut columns: Vec<ArrayRef> = match row.num_rows() {
            0 => row.columns().iter().map(|column| new_null_array(column.data_type(), 1)).collect(),
            _ => row.columns().iter().map(|column| column.slice(0, 1)).collect(),
        };
        columns.push(Arc::new(StringArray::from(vec![detail])));
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(cannot_be_given)
    }
}

fn cannot_be_given(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("a row that was inserted cannot be given: {error}"))
}
