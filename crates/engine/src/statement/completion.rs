//! Completes the rows of a table whose values a statement gives in part: defaults and identities,
//! row by row, and the columns that are generated from the others.

use crate::session::Session;
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ToDFSchema;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{EmptyRelation, ExprSchemable, LogicalPlan, Projection};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use hypostyle_bind::bind_expression;
use hypostyle_catalog::scope::Name;
use hypostyle_catalog::sequence::Sequences;
use hypostyle_catalog::sequence_default::default_of;
use hypostyle_catalog::sequence_default::{next_value, sequence_of_default};
use hypostyle_error::from_datafusion;
use hypostyle_exec::scan::{engine_array, engine_type};
use hypostyle_expr::function::Clock;
use hypostyle_expr::list_sets;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_sql::walk::expressions;
use hypostyle_storage::{Catalog, ColumnEntry, NewColumn, TableEntry, convert};
use hypostyle_types::{Error, LogicalType, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The values of a column that a statement does not give.
struct Filling {
    /// The place, for errors.
    place: String,
    how: How,
}

enum How {
    Null,
    Next(Name, Arc<dyn Numbers>),
    Expression(Arc<dyn PhysicalExpr>),
}

/// What gives out the numbers of sequences: those of a session, or what stands for them in tests.
pub(super) trait Numbers: Send + Sync {
    /// Takes so many numbers of a sequence.
    fn take(&self, sequence: &Name, count: u64) -> Result<Vec<i64>>;
}

impl Numbers for Sequences {
    fn take(&self, sequence: &Name, count: u64) -> Result<Vec<i64>> {
        self.next(sequence, count)
    }
}

/// What the expressions of definitions need that become values: functions and settings, the time of the
/// statement, and sequences. It knows no tables.
pub(super) struct Compiler<'a> {
    pub context: &'a SessionContext,
    pub clock: &'a Clock,
    pub numbers: Arc<dyn Numbers>,
}

impl Filling {
    /// Returns as many values as `inputs` has rows.
    fn values(&self, inputs: &RecordBatch) -> Result<ArrayRef> {
        let rows = inputs.num_rows();
        match &self.how {
            How::Null => Ok(new_null_array(&DataType::Null, rows)),
            How::Next(name, numbers) => Ok(Arc::new(Int64Array::from(numbers.take(name, rows as u64)?))),
            How::Expression(expression) => {
                let values = expression.evaluate(inputs).and_then(|values| values.into_array(rows));
                values.map_err(|error| from_datafusion(error).context(&self.place))
            }
        }
    }
}

/// The columns that expressions of a table read.
pub(super) struct Inputs {
    /// Their places in the table.
    places: Vec<usize>,
    types: Vec<LogicalType>,
    pub schema: SchemaRef,
}

impl Inputs {
    /// Returns those that are not generated, as far as one of the expressions names them.
    pub fn new<'a>(
        columns: impl Iterator<Item = (&'a str, &'a LogicalType, bool)>,
        expressions: &[&str],
    ) -> Self {
        let read = |name: &str| expressions.iter().any(|sql| mentions(sql, name));
        let read: Vec<_> =
            (0..).zip(columns).filter(|(_, (name, _, generated))| !generated && read(name)).collect();
        let field = |name: &str, logical_type: &LogicalType| {
            logical_type.arrow_field(name, true).with_data_type(engine_type(logical_type))
        };
        let fields: Vec<Field> = read.iter().map(|(_, (name, of, _))| field(name, of)).collect();
        Self {
            places: read.iter().map(|(place, _)| *place).collect(),
            types: read.iter().map(|(_, (_, logical_type, _))| (*logical_type).clone()).collect(),
            schema: Arc::new(Schema::new(fields)),
        }
    }

    fn of_table(table: &TableEntry, expressions: &[&str]) -> Self {
        let columns = table.columns.iter();
        Self::new(
            columns.map(|column| (column.name.as_str(), &column.logical_type, column.generated.is_some())),
            expressions,
        )
    }

    /// Returns the inputs' values of rows that have a table's columns, in any type that they may
    /// come in.
    fn batch(&self, columns: &[ArrayRef], rows: usize, first_row: u64) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.places.len());
        for ((place, logical_type), field) in self.places.iter().zip(&self.types).zip(self.schema.fields()) {
            let values = convert(&columns[*place], field.name(), logical_type, first_row)?;
            let plain =
                cast(&values, &logical_type.arrow_type()).map_err(|error| from_datafusion(error.into()))?;
            arrays.push(engine_array(&plain, field.data_type()).map_err(from_datafusion)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|error| Error::internal(format!("cannot arrange the columns of an expression: {error}")))
    }
}

/// The values of a new column.
pub(super) struct FillingOfNew {
    filling: Filling,
    inputs: Option<Inputs>,
}

impl FillingOfNew {
    /// Says whether they depend on the other columns.
    pub fn reads_rows(&self) -> bool {
        self.inputs.is_some()
    }

    /// Returns those in some rows of the table.
    pub fn values(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        match &self.inputs {
            Some(inputs) => self.filling.values(&inputs.batch(rows.columns(), rows.num_rows(), 0)?),
            None => self.filling.values(rows),
        }
    }

    /// Returns those that are made of the values of one column.
    pub fn values_from(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let rows = RecordBatch::try_from_iter_with_nullable([("", column.clone(), true)]);
        self.values(&rows.map_err(|error| from_datafusion(error.into()))?)
    }
}

enum Place {
    Given(usize),
    Filled(Filling),
    /// The value is computed from the other columns.
    Generated(Filling),
}

/// The steps that turn a statement's values into rows of a table.
pub(super) struct Completion {
    names: Vec<String>,
    places: Vec<Place>,
    inputs: Option<Inputs>,
    /// Rows that are complete, for errors.
    rows: u64,
}

impl Completion {
    /// Returns whole rows, in the table's order.
    pub fn complete(&mut self, given: &RecordBatch) -> Result<RecordBatch> {
        let rows = given.num_rows();
        let null = || new_null_array(&DataType::Null, rows);
        let values = |place: &Place| match place {
            Place::Given(column) => Ok(given.column(*column).clone()),
            Place::Filled(filling) => filling.values(given),
            Place::Generated(_) => Ok(null()),
        };
        let mut arrays: Vec<ArrayRef> = self.places.iter().map(values).collect::<Result<_>>()?;
        if let Some(inputs) = &self.inputs {
            let inputs = inputs.batch(&arrays, rows, self.rows)?;
            for (array, place) in arrays.iter_mut().zip(&self.places) {
                if let Place::Generated(filling) = place {
                    *array = filling.values(&inputs)?;
                }
            }
        }
        self.rows += rows as u64;
        let field = |(name, array): (&String, &ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let fields: Vec<Field> = self.names.iter().zip(&arrays).map(field).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|error| Error::internal(format!("cannot arrange the columns: {error}")))
    }
}

impl Session {
    pub(super) fn compiler(&self) -> Compiler<'_> {
        Compiler { context: &self.context, clock: &self.clock, numbers: self.sequences.clone() }
    }
}

impl Compiler<'_> {
    /// Returns the time zone of times that are written without one.
    pub fn time_zone(&self) -> Arc<str> {
        let state = self.context.state_ref();
        let state = state.read();
        state.config_options().execution.time_zone.as_deref().unwrap_or("UTC").into()
    }

    /// Returns how rows become whole whose values are, for each column of the table, at some place,
    /// or not there.
    pub(super) fn completion(
        &self,
        database: &str,
        catalog: &Catalog,
        table: &TableEntry,
        given: &[Option<usize>],
    ) -> Result<Completion> {
        let generated: Vec<&str> =
            table.columns.iter().filter_map(|column| column.generated.as_deref()).collect();
        let inputs = (!generated.is_empty()).then(|| Inputs::of_table(table, &generated));
        let place = |(column, given): (&ColumnEntry, &Option<usize>)| {
            let place = || format!("column \"{}\" of table \"{}\"", column.name, table.name);
            let generated = column.generated.as_deref().zip(inputs.as_ref());
            match (generated, given) {
                (Some(_), _) => self
                    .filling(database, place(), &column.logical_type, generated, None)
                    .map(Place::Generated),
                (None, Some(given)) => Ok(Place::Given(*given)),
                (None, None) => {
                    let default = default_of(database, catalog, table, column);
                    self.filling(database, place(), &column.logical_type, None, default).map(Place::Filled)
                }
            }
        };
        let places = table.columns.iter().zip(given).map(place).collect::<Result<_>>()?;
        let names = table.columns.iter().map(|column| column.name.clone()).collect();
        Ok(Completion { names, places, inputs, rows: 0 })
    }

    /// Returns the values of a column that is generated from inputs, or has a default.
    fn filling(
        &self,
        database: &str,
        place: String,
        logical_type: &LogicalType,
        generated: Option<(&str, &Inputs)>,
        default: Option<String>,
    ) -> Result<Filling> {
        let expression = |sql: &str, schema: &Schema| {
            let compiled = self.compile(sql, schema, &engine_type(logical_type));
            compiled.map(How::Expression).map_err(|error| error.context(&place))
        };
        let how = match (generated, default) {
            (Some((sql, inputs)), _) => expression(sql, &inputs.schema)?,
            (None, None) => How::Null,
            (None, Some(sql)) => match sequence_of_default(&sql) {
                Some((schema, name)) => {
                    let name = Name { database: database.into(), schema, name };
                    How::Next(name, self.numbers.clone())
                }
                None => expression(&sql, &Schema::empty())?,
            },
        };
        Ok(Filling { place, how })
    }

    /// Returns the values of a new column in the rows that a table has.
    pub(super) fn filling_of_new(
        &self,
        database: &str,
        catalog: &Catalog,
        table: &TableEntry,
        column: &NewColumn,
    ) -> Result<FillingOfNew> {
        let place = format!("column \"{}\" of table \"{}\"", column.name, table.name);
        let inputs = column.generated.as_deref().map(|sql| Inputs::of_table(table, &[sql]));
        let default = match column.identity {
            None => column.default.clone(),
            // The sequence exists before the column.
            Some(_) => catalog.sequence_of(table.id, table.next_column_id).map(next_value),
        };
        let (expression, logical_type) = (column.generated.as_deref(), &column.logical_type);
        let filling =
            self.filling(database, place, logical_type, expression.zip(inputs.as_ref()), default)?;
        Ok(FillingOfNew { filling, inputs })
    }

    /// Returns the values of a column that gets another type, from those that it has.
    ///
    /// # Errors
    /// `Unsupported` for an expression of other columns; those of the expression.
    pub(super) fn filling_from(
        &self,
        table: &TableEntry,
        column: &ColumnEntry,
        logical_type: &LogicalType,
        sql: &str,
    ) -> Result<FillingOfNew> {
        let is_read = |other: &&ColumnEntry| other.id != column.id && mentions(sql, &other.name);
        if let Some(other) = table.columns.iter().find(is_read) {
            return Err(Error::unsupported(format!(
                "USING computes the values of \"{}\" from itself, not from \"{}\": add a column, and UPDATE it",
                column.name, other.name
            )));
        }
        let place = format!("column \"{}\" of table \"{}\"", column.name, table.name);
        let inputs = Inputs::new([(column.name.as_str(), &column.logical_type, false)].into_iter(), &[sql]);
        let compiled = self.compile_in(&self.time_zone(), sql, &inputs.schema, &engine_type(logical_type));
        let how = How::Expression(compiled.map_err(|error| error.context(&place))?);
        Ok(FillingOfNew { filling: Filling { place, how }, inputs: Some(inputs) })
    }

    /// Returns an expression over columns of a schema, ready to be evaluated; analysed as in a
    /// query. What is computed from columns is always the same, whatever the session's time zone.
    pub(super) fn compile(
        &self,
        sql: &str,
        schema: &Schema,
        data_type: &DataType,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let zone = if schema.fields().is_empty() { self.time_zone() } else { "UTC".into() };
        self.compile_in(&zone, sql, schema, data_type)
    }

    fn compile_in(
        &self,
        time_zone: &str,
        sql: &str,
        schema: &Schema,
        data_type: &DataType,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let mut state = self.context.state();
        state.config_mut().options_mut().execution.time_zone = Some(time_zone.into());
        let compile = || {
            let schema = Arc::new(schema.clone().to_dfschema()?);
            let expr = bind_expression(&state, sql, &schema)?.cast_to(data_type, &schema)?;
            let input = EmptyRelation { produce_one_row: false, schema: schema.clone() };
            let plan = Projection::try_new(vec![expr], Arc::new(LogicalPlan::EmptyRelation(input)))?;
            let options = state.config_options();
            let plan =
                state.analyzer().execute_and_check(LogicalPlan::Projection(plan), options, |_, _| {})?;
            let context = SimplifyContext::builder()
                .with_schema(schema.clone())
                .with_config_options(options.clone())
                .with_query_execution_start_time(self.clock.statement())
                .build();
            // now() is a constant of the statement.
            let simplifier = ExprSimplifier::new(context);
            let mut exprs = plan.expressions().into_iter();
            let expr = exprs.next().ok_or_else(|| {
                datafusion::error::DataFusionError::Internal("a projection without its expression".into())
            })?;
            state.create_physical_expr(list_sets::simplified(&simplifier, expr.unalias())?, &schema)
        };
        compile().map_err(from_datafusion)
    }
}

/// Says whether one of the expressions in an expression's text is what is looked for.
pub(super) fn visit(sql: &str, found: impl Fn(&SqlExpr) -> bool) -> bool {
    let Ok(expression) = parse_as_written(sql) else { return false };
    expressions(&expression, &mut |expr| match found(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Says whether an expression's text names a column.
pub(super) fn mentions(sql: &str, column: &str) -> bool {
    visit(sql, |expr| match expr {
        SqlExpr::Identifier(name) => hypostyle_sql::identifier::fold(name) == column,
        SqlExpr::CompoundIdentifier(parts) => {
            parts.iter().any(|part| hypostyle_sql::identifier::fold(part) == column)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::test_queries::{Alone, numbers};
    use arrow::array::AsArray;
    use arrow::datatypes::{Int32Type, Int64Type};
    use hypostyle_catalog::scope::OWN_DATABASE;
    use hypostyle_storage::{SCHEMA_MAIN, Transaction};

    /// Returns a transaction that has made a table "t".
    fn with_table(alone: &Alone, columns: Vec<NewColumn>) -> Transaction {
        let mut transaction = alone.database.begin(1).unwrap();
        transaction.create_table(SCHEMA_MAIN, "t", columns).unwrap();
        transaction
    }

    fn with_default(name: &str, logical_type: LogicalType, sql: &str) -> NewColumn {
        NewColumn { default: Some(sql.into()), ..NewColumn::new(name, logical_type, true) }
    }

    fn generated(name: &str, sql: &str) -> NewColumn {
        NewColumn { generated: Some(sql.into()), ..NewColumn::new(name, LogicalType::Integer, true) }
    }

    #[test]
    fn what_is_not_given_is_made() {
        let alone = Alone::new();
        let transaction = with_table(
            &alone,
            vec![
                with_default("a", LogicalType::Integer, "40 + 2"),
                with_default("id", LogicalType::BigInt, "nextval('s')"),
                NewColumn::new("b", LogicalType::Integer, true),
                NewColumn::new("c", LogicalType::Integer, true),
            ],
        );
        let catalog = transaction.catalog();
        let table = catalog.table(SCHEMA_MAIN, "t").unwrap();
        let places = [None, None, Some(0), None];
        let completion = alone.compiler().completion(OWN_DATABASE, catalog, table, &places);
        let rows = completion.unwrap().complete(&numbers(&[("b", &[7, 8])], &[])).unwrap();
        assert_eq!(
            rows.schema().fields().iter().map(|field| field.name()).collect::<Vec<_>>(),
            ["a", "id", "b", "c"]
        );
        assert_eq!(rows.column(0).as_primitive::<Int32Type>().values().to_vec(), [42, 42]);
        assert_eq!(rows.column(1).as_primitive::<Int64Type>().values().to_vec(), [1, 2]);
        assert_eq!(rows.column(2).as_primitive::<Int32Type>().values().to_vec(), [7, 8]);
        assert_eq!((rows.column(3).len(), rows.column(3).data_type()), (2, &DataType::Null));
    }

    #[test]
    fn generated_columns_read_their_row() {
        let alone = Alone::new();
        let columns = vec![generated("twice", "b * 2"), NewColumn::new("b", LogicalType::Integer, true)];
        let transaction = with_table(&alone, columns);
        let catalog = transaction.catalog();
        let table = catalog.table(SCHEMA_MAIN, "t").unwrap();
        let completion = alone.compiler().completion(OWN_DATABASE, catalog, table, &[None, Some(0)]);
        let mut completion = completion.unwrap();
        for (given, made) in [([7, 8], [14, 16]), ([-1, 0], [-2, 0])] {
            let rows = completion.complete(&numbers(&[("b", &given)], &[])).unwrap();
            assert_eq!(rows.column(0).as_primitive::<Int32Type>().values().to_vec(), made);
            assert_eq!(rows.column(1).as_primitive::<Int32Type>().values().to_vec(), given);
        }
    }

    #[test]
    fn another_type_is_made_of_the_column_alone() {
        let alone = Alone::new();
        let columns = ["a", "b"].map(|name| NewColumn::new(name, LogicalType::Integer, true));
        let transaction = with_table(&alone, columns.into());
        let table = transaction.catalog().table(SCHEMA_MAIN, "t").unwrap();
        let a = table.column("a").unwrap();
        let compiler = alone.compiler();
        let filling = compiler.filling_from(table, a, &LogicalType::BigInt, "a + 1").unwrap();
        let values: ArrayRef = numbers(&[("a", &[1, 2])], &[]).column(0).clone();
        let made = filling.values_from(&values).unwrap();
        assert_eq!(made.as_primitive::<Int64Type>().values().to_vec(), [2, 3]);
        let error = compiler.filling_from(table, a, &LogicalType::BigInt, "b + 1").err().unwrap();
        assert_eq!(
            error.message(),
            "USING computes the values of \"a\" from itself, not from \"b\": add a column, and UPDATE it"
        );
    }
}
