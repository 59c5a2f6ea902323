//! DELETE, UPDATE and TRUNCATE. They are planned as queries for the positions and the new values of
//! rows, which are then applied. DataFusion's own hooks lose filters.

use crate::session::{Outcome, Parameters};
use crate::statement::completion::Completion;
use crate::statement::constraint::referring;
use crate::statement::definer::Ddl;
use crate::statement::materialized::refuse_materialized;
use crate::statement::names::Names;
use crate::statement::referential::Modification;
use crate::statement::refusal::{other_kind, refuse, refuse_output, wrong_kind};
use crate::statement::returning::Returning;
use crate::statement::target::{ChangedRows, Target, value_or_default};
use crate::statement::versions::{Did, with_versions};
use crate::statement::writer::{Dml, Writer};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, CascadeOption, Delete, Expr, FromTable, FunctionArg, FunctionArgExpr,
    FunctionArguments, Insert, ObjectName, Query, SelectItem, Statement, TableFactor, TableWithJoins,
    Truncate, TruncateIdentityOption, Update, UpdateTableFromKind,
};
use hypostyle_catalog::scope::Name;
use hypostyle_error::column_name::POSITION;
use hypostyle_error::from_datafusion;
use hypostyle_exec::memory::Held;
use hypostyle_exec::scan::{engine_array, engine_field};
use hypostyle_expr::time_zone::cast_within;
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_sql::plain::name_and_alias;
use hypostyle_sql::row_values::{columns_of, values_of};
use hypostyle_sql::{build, selected};
use hypostyle_storage::{Budget, ColumnData, ConstraintEntry, TableData, TableEntry, unknown_table};
use hypostyle_types::{ColumnId, Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns that SET gives values.
pub(super) struct Assigned {
    /// The values under the names of their columns.
    values: Vec<SelectItem>,
    /// The place of the value of each column of the table, if it has one.
    places: Vec<Option<usize>>,
}

impl Assigned {
    fn new(target: &Target, assignments: &[Assignment]) -> Result<Self> {
        let mut assigned = Self::given(target, assignments)?;
        if target.is_of_cluster {
            assigned.keep_others(target);
        }
        Ok(assigned)
    }

    /// Returns what SET gives columns, and no others.
    pub fn given(target: &Target, assignments: &[Assignment]) -> Result<Self> {
        let mut assigned = Self { values: Vec::new(), places: vec![None; target.columns().len()] };
        for assignment in assignments {
            for (name, value) in assigned_columns(assignment)? {
                let column = target.column(&name)?;
                if assigned.places[column].replace(assigned.values.len()).is_some() {
                    return Err(Error::new(
                        ErrorKind::Syntax,
                        format!("column \"{name}\" is assigned twice"),
                    )
                    .with_sqlstate("42601"));
                }
                let value = value_or_default(target, column, Some(&value))?;
                assigned.values.push(build::item_named(value, &name));
            }
        }
        Ok(assigned)
    }

    /// Has the query give all other columns, too, because they are on other nodes.
    fn keep_others(&mut self, target: &Target) {
        for (name, place) in target.names().zip(&mut self.places).filter(|(_, place)| place.is_none()) {
            *place = Some(self.values.len());
            self.values.push(build::item_named(target.column_of_row(name), name));
        }
    }

    /// Returns the position of a row and the values, as items of SELECT.
    pub fn items(&self, target: &Target) -> Vec<SelectItem> {
        let position = build::item_named(target.position(), POSITION);
        std::iter::once(position).chain(self.values.iter().cloned()).collect()
    }

    /// Returns the columns in which rows may get other values.
    pub fn columns(&self, target: &Target) -> BTreeSet<ColumnId> {
        let given = self.places.iter().enumerate().filter(|(_, place)| place.is_some());
        target.assigned_with_generated(given.map(|(column, _)| column))
    }

    /// Returns the places of the columns that have values, in their order, and those of the values.
    pub fn given_places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.places.iter().enumerate().filter_map(|(column, place)| Some((column, (*place)?)))
    }

    /// Returns what a query gave behind the values.
    fn others(&self, given: &RecordBatch) -> Result<RecordBatch> {
        let values = self.places.iter().flatten().count();
        let others: Vec<usize> = (values..given.num_columns()).collect();
        given.project(&others).map_err(|error| from_datafusion(error.into()))
    }

    /// Returns whole rows: the given values, and in the other columns those that are stored at the
    /// rows' positions.
    fn complete(
        &self,
        table: &TableData,
        positions: &UInt64Array,
        given: &RecordBatch,
        threads: usize,
    ) -> Result<RecordBatch> {
        let kept: Vec<usize> =
            (0..self.places.len()).filter(|column| self.places[*column].is_none()).collect();
        let stored = if kept.is_empty() { Vec::new() } else { table.rows_at(&kept, positions, threads)? };
        let mut stored = stored.into_iter();
        let mut columns = Vec::with_capacity(self.places.len());
        for (column, place) in table.columns().iter().zip(&self.places) {
            let field = engine_field(table, column);
            let values = match place {
                Some(place) => given.column(*place).clone(),
                None => {
                    let values = stored.next().ok_or_else(|| Error::internal("a column was not read"))?;
                    engine_array(&values, field.data_type()).map_err(from_datafusion)?
                }
            };
            columns.push((field.name().clone(), values, true));
        }
        RecordBatch::try_from_iter_with_nullable(columns)
            .map_err(|error| Error::internal(format!("cannot arrange the changed rows: {error}")))
    }
}

impl Dml<'_> {
    /// Returns the query that a statement runs before it writes, and the table whose rows it finds.
    ///
    /// # Errors
    /// `Unsupported` for a statement that runs none, or several.
    pub(super) fn query_of(&self, statement: &Statement) -> Result<(Query, Option<Target>)> {
        match statement {
            Statement::Delete(delete) => {
                let target = self.databases.names().target_of_delete(delete)?.shown_only();
                let others = delete.using.as_deref().unwrap_or_default();
                let selection = self.writer.narrowed(&target, others, delete.selection.clone())?;
                let delete = Delete { selection, ..delete.clone() };
                Ok((deleted_rows(&target, &delete, None)?, Some(target)))
            }
            Statement::Update(update) => {
                let target = self.databases.names().only_target_of(&update.table)?.shown_only();
                let selection = self.writer.narrowed(&target, others_of(update), update.selection.clone())?;
                let update = Update { selection, ..update.clone() };
                let assigned = match self.assigned_in_place(&target, &update)? {
                    Some(assigned) => assigned,
                    None => self.writer.assigned(&target, &update.assignments)?,
                };
                Ok((updated_values(&target, &assigned, &update, None)?, Some(target)))
            }
            Statement::Insert(Insert { source: Some(source), .. }) => Ok((source.as_ref().clone(), None)),
            _ => Err(Error::unsupported(
                "EXPLAIN is of SELECT, INSERT with a query, UPDATE and DELETE; this statement runs no query, or several",
            )),
        }
    }

    pub(super) fn delete(&self, mut delete: Delete, parameters: &Parameters) -> Result<Outcome> {
        refuse(!delete.order_by.is_empty() || delete.limit.is_some(), "DELETE with ORDER BY or LIMIT")?;
        refuse(!delete.tables.is_empty(), "DELETE with tables before FROM")?;
        refuse_output(delete.output.as_ref())?;
        let target = self.databases.names().target_of_delete(&delete)?;
        let others = delete.using.as_deref().unwrap_or_default();
        delete.selection = self.writer.narrowed(&target, others, delete.selection.take())?;
        let returning = self.writer.returning(&target, others, delete.returning.take(), parameters)?;
        let query = deleted_rows(&target, &delete, returning.as_ref())?;
        let ChangedRows { positions, mut rows, .. } =
            self.writer.changed_rows(query, parameters, returning.is_some())?;
        if returning.as_ref().is_some_and(Returning::has_versions) {
            let each = rows.iter().map(|rows| with_versions(&target, rows, Did::Delete));
            rows = each.collect::<Result<_>>()?;
        }
        let count = positions.len();
        let modification = Modification { deleted: positions, ..Modification::default() };
        self.write_returning(&target, returning, parameters, |writer| {
            self.writer.modify(writer, target.id, &modification)?;
            Ok((rows, count))
        })
    }

    pub(super) fn update(&self, mut update: Update, parameters: &Parameters) -> Result<Outcome> {
        refuse(!update.order_by.is_empty() || update.limit.is_some(), "UPDATE with ORDER BY or LIMIT")?;
        refuse(update.or.is_some(), "UPDATE OR …")?;
        refuse_output(update.output.as_ref())?;
        let target = self.databases.names().only_target_of(&update.table)?;
        update.selection = self.writer.narrowed(&target, others_of(&update), update.selection.clone())?;
        if let Some(assigned) = self.assigned_in_place(&target, &update)? {
            return self.update_in_place(&target, &assigned, &update, parameters);
        }
        let assigned = self.writer.assigned(&target, &update.assignments)?;
        let returned = update.returning.take();
        let returning = self.writer.returning(&target, others_of(&update), returned, parameters)?;
        let query = updated_values(&target, &assigned, &update, returning.as_ref())?;
        // Whole rows of a table of the cluster come from its nodes, and are kept until they are written.
        let memory = target.is_of_cluster.then(|| self.hold("changed rows of other nodes", 0)).transpose()?;
        let changed = self.writer.changed_rows_within(query, parameters, true, memory.as_ref())?;
        let count = changed.positions.len();
        let others: Vec<RecordBatch> =
            changed.rows.iter().map(|rows| assigned.others(rows)).collect::<Result<_>>()?;
        let updated = self.writer.updated_rows(&target, &assigned, changed)?;
        let assigned = assigned.columns(&target);
        let modification = Modification { updated, assigned, ..Modification::default() };
        let has_versions = returning.as_ref().is_some_and(Returning::has_versions);
        self.write_returning(&target, returning, parameters, |writer| {
            self.writer.modify(writer, target.id, &modification)?;
            let rows = modification.updated.iter().zip(&others).map(|((positions, rows), others)| {
                let rows = joined(rows, others)?;
                match has_versions {
                    true => {
                        let old = self.writer.stored_rows(&target, positions)?;
                        with_versions(&target, &rows, Did::Update { old: &old })
                    }
                    false => Ok(rows),
                }
            });
            Ok((rows.collect::<Result<_>>()?, count))
        })
    }
}

impl Ddl<'_> {
    pub(super) fn truncate(&self, truncate: &Truncate) -> Result<Outcome> {
        refuse(truncate.partitions.is_some(), "TRUNCATE with PARTITION")?;
        refuse(truncate.on_cluster.is_some(), "TRUNCATE with ON CLUSTER")?;
        let named = truncate.table_names.iter().map(|table| self.databases.names().target(&table.name, None));
        let named = named.collect::<Result<Vec<_>>>()?;
        named.iter().try_for_each(|target| refuse_materialized(target.data.entry()))?;
        let Some(Target { database, .. }) = named.first() else {
            return Ok(Outcome::Done { rows_affected: Some(0) });
        };
        refuse(named.iter().any(|other| other.database != *database), "TRUNCATE in several databases")?;
        if named.iter().any(|target| target.is_of_cluster) {
            refuse(named.len() > 1, "TRUNCATE of a table of the cluster beside others")?;
            let restarts = truncate.identity == Some(TruncateIdentityOption::Restart);
            refuse(
                restarts && self.databases.is_in_transaction(),
                "TRUNCATE … RESTART IDENTITY of a table of the cluster between BEGIN and COMMIT",
            )?;
            let id = named[0].id;
            let snapshot = self.databases.names().snapshot_of(database)?;
            if let Some((other, constraint)) =
                referring(snapshot.catalog(), id).find(|(other, _)| other.id != id)
            {
                return Err(referred_to(constraint, other));
            }
            let count = self.databases.write(database, |writer| {
                self.definer.checks.cluster.truncate_in_cluster(writer, id, restarts)
            })?;
            return Ok(Outcome::Done { rows_affected: Some(count) });
        }
        let mut ids: Vec<TableId> = named.iter().map(|target| target.id).collect();
        let snapshot = self.databases.names().snapshot_of(database)?;
        let cascade = truncate.cascade == Some(CascadeOption::Cascade);
        let mut next = 0;
        while let Some(id) = ids.get(next).copied() {
            next += 1;
            for (other, constraint) in referring(snapshot.catalog(), id) {
                if ids.contains(&other.id) {
                    continue;
                }
                if !cascade {
                    return Err(referred_to(constraint, other));
                }
                ids.push(other.id);
            }
        }
        let count = self.databases.write(database, |writer| {
            let mut count = 0;
            for id in ids {
                if truncate.identity == Some(TruncateIdentityOption::Restart) {
                    let owned: Vec<_> = writer.catalog().owned_sequences(id).cloned().collect();
                    for sequence in owned {
                        let start = sequence.start;
                        writer.alter_sequence(sequence, Some(start))?;
                    }
                }
                let mut all = RoaringTreemap::new();
                all.insert_range(0..snapshot.table_by_id(id).map_or(0, |table| table.positions()));
                count += writer.delete(id, &all)?;
            }
            Ok(count)
        })?;
        Ok(Outcome::Done { rows_affected: Some(count) })
    }
}

impl Writer<'_> {
    /// Returns what SET gives the columns of each row.
    ///
    /// # Errors
    /// `Syntax` for a value that is not of each row, and for a column that has two.
    pub(super) fn assigned(&self, target: &Target, assignments: &[Assignment]) -> Result<Assigned> {
        let assigned = Assigned::new(target, assignments)?;
        self.compiler.check_values(assignments)?;
        Ok(assigned)
    }

    /// Returns the positions in the first column of a query, and, if wanted, the other columns,
    /// each position once.
    pub(super) fn changed_rows(
        &self,
        query: Query,
        parameters: &Parameters,
        rows_wanted: bool,
    ) -> Result<ChangedRows> {
        self.changed_rows_within(query, parameters, rows_wanted, None)
    }

    /// Returns what [`Self::changed_rows`] does, in memory that is taken for the rows.
    ///
    /// # Errors
    /// `OutOfMemory` if there is no room for them.
    pub(super) fn changed_rows_within(
        &self,
        query: Query,
        parameters: &Parameters,
        rows_wanted: bool,
        memory: Option<&Held>,
    ) -> Result<ChangedRows> {
        let mut changed = ChangedRows::default();
        self.queries.each(query, parameters, &mut |batch| {
            let found = batch.column(0).as_primitive::<UInt64Type>().values();
            changed.found += found.len() as u64;
            // A row that several rows of other tables match is changed once.
            let first: BooleanArray =
                found.iter().map(|position| Some(changed.positions.insert(*position))).collect();
            if rows_wanted {
                let others: Vec<usize> = (1..batch.num_columns()).collect();
                let mut batch = batch;
                if first.false_count() > 0 {
                    batch =
                        filter_record_batch(&batch, &first).map_err(|error| from_datafusion(error.into()))?;
                }
                changed.places.push(batch.column(0).as_primitive::<UInt64Type>().clone());
                let rows = batch.project(&others).map_err(|error| from_datafusion(error.into()))?;
                memory.map_or(Ok(()), |memory| memory.take(bytes_of(&rows)))?;
                changed.rows.push(rows);
            }
            Ok(())
        })?;
        Ok(changed)
    }

    /// Returns the positions of changed rows, and what they become: what a query gave, and for all
    /// other columns what is stored, which is read only now, at those positions.
    pub(super) fn updated_rows(
        &self,
        target: &Target,
        assigned: &Assigned,
        changed: ChangedRows,
    ) -> Result<Vec<(UInt64Array, RecordBatch)>> {
        let threads = self.threads;
        let whole = |(positions, given): (&UInt64Array, &RecordBatch)| {
            assigned.complete(&target.data, positions, given, threads)
        };
        let rows = changed.places.iter().zip(&changed.rows).map(whole).collect::<Result<Vec<_>>>()?;
        Ok(changed.places.into_iter().zip(self.as_rows_of(target, rows)?).collect())
    }

    /// Returns `Compiler::completion` of rows that have all columns, of which the generated ones have
    /// no meaning; `None` when there are none.
    pub(super) fn generation(&self, target: &Target) -> Result<Option<Completion>> {
        let table = target.data.entry();
        if table.columns.iter().all(|column| column.generated.is_none()) {
            return Ok(None);
        }
        let all: Vec<Option<usize>> = (0..table.columns.len()).map(Some).collect();
        let snapshot = self.names().snapshot_of(&target.database)?;
        self.compiler.completion(&target.database, snapshot.catalog(), table, &all).map(Some)
    }

    /// Returns values as a table's rows, in the engine's types, with the generated columns
    /// computed.
    pub(super) fn as_rows_of(&self, target: &Target, values: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
        let mut generation = self.generation(target)?;
        let whole = |values: &RecordBatch| {
            let rows = self.in_types_of(target, values)?;
            match &mut generation {
                Some(generation) => self.in_types_of(target, &generation.complete(&rows)?),
                None => Ok(rows),
            }
        };
        values.iter().map(whole).collect()
    }

    /// Returns values in the engine's types of a table's columns.
    pub(super) fn in_types_of(&self, target: &Target, values: &RecordBatch) -> Result<RecordBatch> {
        let zone = self.compiler.time_zone();
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (column, array) in target.data.columns().iter().zip(values.columns()) {
            let field = engine_field(&target.data, column);
            let array = in_type_of(target, column, array, &zone)?;
            fields.push(Field::new(field.name(), array.data_type().clone(), true));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|error| Error::internal(format!("cannot arrange the new rows: {error}")))
    }
}

impl Names<'_> {
    pub(super) fn target(&self, name: &ObjectName, alias: Option<String>) -> Result<Target> {
        let Name { database, schema, name } = self.resolve(name)?;
        let snapshot = self.scope.database(&database)?.snapshot;
        let Some(data) = snapshot.table(&schema, &name) else {
            let catalog = snapshot.catalog();
            return Err(match other_kind(catalog, &schema, &name, "a table") {
                Some(kind) => wrong_kind(format!("\"{name}\" is {kind}; only tables can be written to")),
                None => unknown_table(catalog, &name),
            });
        };
        let alias = alias.unwrap_or_else(|| name.clone());
        Ok(Target::new(self.scope, &database, &snapshot, data, &alias))
    }

    /// Returns the table of a name, as the statement sees it.
    pub(super) fn table_data(&self, name: &Name) -> Option<Arc<TableData>> {
        self.scope.snapshot_of(&name.database)?.table(&name.schema, &name.name).cloned()
    }

    /// Returns the table that a statement writes to, as it names it.
    pub(super) fn target_of(&self, table: &TableFactor) -> Result<Target> {
        if !matches!(table, TableFactor::Table { .. }) {
            return Err(Error::new(ErrorKind::Syntax, "only a table can be written to"));
        }
        let Some((name, alias)) = name_and_alias(table) else {
            let what = format!("writing to {table}: more than a name and an alias is not supported");
            return Err(Error::unsupported(what));
        };
        let target = self.target(name, alias.map(fold))?;
        refuse_materialized(target.data.entry())?;
        Ok(target)
    }

    fn only_target_of(&self, table: &TableWithJoins) -> Result<Target> {
        if !table.joins.is_empty() {
            return Err(Error::new(
                ErrorKind::Syntax,
                "one table can be written to; join others with FROM or USING",
            ));
        }
        self.target_of(&table.relation)
    }

    fn target_of_delete(&self, delete: &Delete) -> Result<Target> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [table] = from.as_slice() else {
            return Err(Error::new(
                ErrorKind::Syntax,
                "DELETE removes rows of one table; name others after USING",
            ));
        };
        self.only_target_of(table)
    }
}

/// Returns the error for a table that is to be truncated, and to which another one refers.
fn referred_to(constraint: &ConstraintEntry, other: &TableEntry) -> Error {
    Error::new(
        ErrorKind::Constraint,
        format!(
            "a table that constraint \"{}\" of table \"{}\" refers to cannot be truncated alone; truncate both, or \
             use CASCADE",
            constraint.name, other.name
        ),
    )
    .with_sqlstate("0A000")
}

/// Returns the bytes of a batch's rows, without those of long texts in views.
pub(super) fn bytes_of(rows: &RecordBatch) -> u64 {
    let columns = rows.columns().iter();
    columns.map(|column| column.to_data().get_slice_memory_size().map_or(0, |bytes| bytes as u64)).sum()
}

/// Returns the tables of FROM.
fn others_of(update: &Update) -> &[TableWithJoins] {
    match &update.from {
        None => &[],
        Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from,
    }
}

/// Returns a query for the positions of the rows that DELETE removes, with their values where it
/// returns them.
fn deleted_rows(target: &Target, delete: &Delete, returning: Option<&Returning>) -> Result<Query> {
    let mut items = vec![build::item(target.position())];
    if let Some(returning) = returning {
        items.extend(target.own_columns());
        items.extend(returning.others());
    }
    let others = delete.using.as_deref().unwrap_or_default();
    found_rows(target, items, others, delete.selection.as_ref())
}

/// Returns a query for the positions of the rows that UPDATE changes, with their new values.
pub(super) fn updated_values(
    target: &Target,
    assigned: &Assigned,
    update: &Update,
    returning: Option<&Returning>,
) -> Result<Query> {
    let mut items = assigned.items(target);
    items.extend(returning.into_iter().flat_map(Returning::others));
    found_rows(target, items, others_of(update), update.selection.as_ref())
}

/// Returns a query over the rows of a target, and of other tables, that meet a condition.
fn found_rows(
    target: &Target,
    items: Vec<SelectItem>,
    others: &[TableWithJoins],
    condition: Option<&Expr>,
) -> Result<Query> {
    let from = std::iter::once(build::alone(target.source())).chain(others.iter().cloned());
    selected::query(items, from.collect(), condition.cloned())
}

/// Returns values in the engine's type of a column of a table.
pub(super) fn in_type_of(
    target: &Target,
    column: &ColumnData,
    values: &ArrayRef,
    zone: &Arc<str>,
) -> Result<ArrayRef> {
    cast_within(values, &engine_field(&target.data, column), zone).map_err(|error| {
        let error = from_datafusion(error.into());
        let (name, logical_type) = (&column.entry().name, &column.entry().logical_type);
        error.context(format!("column \"{name}\" of table \"{}\" is {logical_type}", target.name))
    })
}

/// Returns rows with the columns of others behind their own.
fn joined(rows: &RecordBatch, others: &RecordBatch) -> Result<RecordBatch> {
    let (schema, more) = (rows.schema(), others.schema());
    let fields: Vec<_> = schema.fields().iter().chain(more.fields()).cloned().collect();
    let columns = rows.columns().iter().chain(others.columns()).cloned().collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| Error::internal(format!("cannot arrange the changed rows: {error}")))
}

/// Returns the arguments of a call, if it has no others than values.
fn arguments_of(arguments: &FunctionArguments) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = arguments else { return None };
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    list.args.iter().map(value).collect()
}

/// Returns the values of a row, or of a subquery, of so many columns.
fn row_values(value: &Expr, columns: usize) -> Result<Option<Vec<Expr>>> {
    match value {
        Expr::Subquery(subquery) => columns_of(subquery, columns).map(Some),
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") => {
            Ok(arguments_of(&call.args).filter(|values| values.len() == columns))
        }
        value => Ok(values_of(value).filter(|values| values.len() == columns).map(<[Expr]>::to_vec)),
    }
}

/// Returns names and values of one item of SET.
pub(super) fn assigned_columns(assignment: &Assignment) -> Result<Vec<(String, Expr)>> {
    match (&assignment.target, &assignment.value) {
        (AssignmentTarget::ColumnName(column), value) => Ok(vec![(last_of(column)?, value.clone())]),
        (AssignmentTarget::Tuple(columns), value) if let Some(values) = row_values(value, columns.len())? => {
            columns.iter().zip(values).map(|(column, value)| Ok((last_of(column)?, value))).collect()
        }
        (AssignmentTarget::Tuple(_), value) => Err(Error::new(
            ErrorKind::Syntax,
            format!("SET (…) = {value}: a list of as many values as columns was expected"),
        )),
    }
}
