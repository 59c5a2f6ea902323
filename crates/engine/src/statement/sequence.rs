//! CREATE, ALTER and DROP SEQUENCE.

use crate::session::Outcome;
use crate::session::outcome::DONE;
use crate::statement::completion::visit;
use crate::statement::definer::{Ddl, Definer};
use crate::statement::names::Names;
use crate::statement::refusal::{missing, refuse_other_kind};
use datafusion::sql::sqlparser::ast::{DataType as SqlType, ObjectName, SequenceOptions};
use hypostyle_catalog::scope::Name;
use hypostyle_catalog::sequence::sequence_name;
use hypostyle_catalog::sequence_default::{named_sequence, next_value, within_database};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::statement::{SequenceClauses, SequenceDefinition};
use hypostyle_storage::{
    Catalog, ColumnEntry, NewColumn, SequenceEntry, SequenceOwner, SequenceState, TableEntry, Transaction,
    unknown_column, unknown_sequence, unknown_table,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, LogicalType, Result, TableId};

/// The clauses of a definition, and the type that they say.
#[derive(Clone, Debug, Default)]
pub(super) struct Clauses {
    written: SequenceClauses,
    logical_type: Option<LogicalType>,
}

impl Clauses {
    /// Reads the type of clauses.
    pub fn read(written: SequenceClauses) -> Result<Self> {
        let logical_type = written.data_type.as_ref().map(hypostyle_expr::types::logical_type);
        let logical_type = logical_type.transpose().map_err(|error| syntax(error.message()))?;
        Ok(Self { written, logical_type })
    }

    /// Returns the options of an identity column.
    pub fn of_identity(options: Option<&[SequenceOptions]>) -> Result<Self> {
        SequenceClauses::of_identity(options).and_then(Self::read)
    }

    /// Returns the clauses with the type of the sequence's column, if they name none.
    pub fn of_type(mut self, logical_type: &LogicalType) -> Self {
        self.logical_type.get_or_insert_with(|| logical_type.clone());
        self
    }

    /// Returns the clauses with a first value, if it is known.
    pub fn starting_at(mut self, start: Option<u64>) -> Self {
        self.written.start = start.and_then(|start| i64::try_from(start).ok());
        self
    }

    /// Returns the column that OWNED BY names, if it names one.
    pub fn owner(&self) -> Option<&ObjectName> {
        self.written.owner.as_ref().and_then(Option::as_ref)
    }

    /// Says whether there is OWNED BY, and nothing else.
    pub fn says_owner_alone(&self) -> bool {
        let owner = self.written.owner.clone();
        owner.is_some() && self.written == SequenceClauses { owner, ..SequenceClauses::default() }
    }

    /// Says whether there is RESTART without a value.
    pub fn restarts_at_start(&self) -> bool {
        self.written.restart == Some(None)
    }

    /// Returns a new sequence.
    pub fn define(&self, schema: &str, name: &str) -> Result<SequenceEntry> {
        let increment = self.written.increment.unwrap_or(1);
        let entry = SequenceEntry {
            schema: schema.into(),
            name: name.into(),
            increment,
            min: 0,
            max: 0,
            start: 0,
            cycle: false,
            owner: None,
            comment: None,
            state: SequenceState { last: 0, is_called: false },
        };
        let (min, max) = (Some(self.written.min.flatten()), Some(self.written.max.flatten()));
        let unbounded =
            Self { written: SequenceClauses { min, max, ..self.written.clone() }, ..self.clone() };
        let mut entry = unbounded.change(&entry)?;
        if self.written.start.is_none() {
            entry.start = if increment > 0 { entry.min } else { entry.max };
        }
        check(&entry, entry.start, "START")?;
        entry.state.last = entry.start;
        Ok(entry)
    }

    /// Returns the type of a sequence of the cluster, and its first value.
    ///
    /// # Errors
    /// `Unsupported` for what is not counted in ranges.
    pub fn of_cluster(&self, schema: &str, name: &str) -> Result<(&'static str, u64)> {
        let entry = self.define(schema, name)?;
        let (sql_type, max) = match &self.logical_type {
            Some(LogicalType::SmallInt) => ("SMALLINT", i64::from(i16::MAX)),
            Some(LogicalType::Integer) => ("INTEGER", i64::from(i32::MAX)),
            _ => ("BIGINT", i64::MAX),
        };
        let is_plain = (entry.increment, entry.min, entry.max, entry.cycle) == (1, 1, max, false);
        let start = u64::try_from(entry.start).ok().filter(|_| is_plain);
        match start.filter(|_| self.written.restart.is_none()) {
            Some(start) => Ok((sql_type, start)),
            None => Err(Error::unsupported(
                "a sequence of the cluster counts from START, which is 1 at least, by 1, to the end of its type: AS, \
                 START and OWNED BY are its clauses",
            )),
        }
    }

    /// Returns the next value of a sequence that the cluster counts, if RESTART says one.
    ///
    /// # Errors
    /// `Unsupported` for other clauses; `InvalidInput` for a value that the sequence does not have.
    pub fn of_restart(&self, sequence: &SequenceEntry) -> Result<u64> {
        let restart = self.written.restart;
        let only = SequenceClauses { restart, ..SequenceClauses::default() };
        let next = restart.filter(|_| self.written == only).ok_or_else(|| {
            Error::unsupported(format!(
                "sequence \"{}\" counts for the cluster, from its start, by 1: of ALTER SEQUENCE, there is RESTART, and \
                 OWNED BY unless it is that of an identity column",
                sequence.name
            ))
        })?;
        let next = next.unwrap_or(sequence.start);
        check(sequence, next, "RESTART")?;
        u64::try_from(next).map_err(|_| invalid(format!("the cluster does not count to {next}")))
    }

    /// Returns a sequence with these clauses in the place of its own.
    fn change(&self, old: &SequenceEntry) -> Result<SequenceEntry> {
        let (least, greatest) = match &self.logical_type {
            Some(LogicalType::SmallInt) => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Some(LogicalType::Integer) => (i64::from(i32::MIN), i64::from(i32::MAX)),
            None | Some(LogicalType::BigInt) => (i64::MIN, i64::MAX),
            Some(other) => {
                return Err(invalid(format!("a sequence is SMALLINT, INTEGER or BIGINT, not {other}")));
            }
        };
        if let Some(cache) = self.written.cache.filter(|cache| *cache < 1) {
            return Err(invalid(format!("CACHE must be greater than zero, not {cache}")));
        }
        let increment = self.written.increment.unwrap_or(old.increment);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero".into()));
        }
        let up = increment > 0;
        let min = self.written.min.map_or(old.min, |min| min.unwrap_or(if up { 1 } else { least }));
        let max = self.written.max.map_or(old.max, |max| max.unwrap_or(if up { greatest } else { -1 }));
        if min >= max {
            return Err(invalid(format!("MINVALUE {min} must be less than MAXVALUE {max}")));
        }
        if min < least || max > greatest {
            return Err(invalid(format!("the bounds {min} and {max} do not fit the type")));
        }
        let start = self.written.start.unwrap_or(old.start);
        let cycle = self.written.cycle.unwrap_or(old.cycle);
        Ok(SequenceEntry { increment, min, max, start, cycle, ..old.clone() })
    }
}

fn syntax(message: &str) -> Error {
    Error::new(ErrorKind::Syntax, message)
}

fn invalid(message: String) -> Error {
    Error::invalid_input(message).with_sqlstate("22023")
}

fn check(sequence: &SequenceEntry, value: i64, what: &str) -> Result<()> {
    if !(sequence.min..=sequence.max).contains(&value) {
        return Err(invalid(format!(
            "{what} {value} is not between MINVALUE {} and MAXVALUE {}",
            sequence.min, sequence.max
        )));
    }
    Ok(())
}

impl Ddl<'_> {
    pub(super) fn create_sequence(&self, definition: SequenceDefinition) -> Result<Outcome> {
        if definition.replicated {
            return self.create_sequence_of_cluster(definition);
        }
        let SequenceDefinition { if_exists, temporary, name, clauses, .. } = definition;
        let clauses = Clauses::read(clauses)?;
        let Name { database, schema, name } = self.resolve_new(&name, temporary)?;
        if clauses.written.restart.is_some() {
            return Err(syntax("RESTART is for ALTER SEQUENCE; write START"));
        }
        if if_exists
            && self.databases.names().snapshot_of(&database)?.catalog().sequence(&schema, &name).is_some()
        {
            return Ok(DONE);
        }
        let mut sequence = clauses.define(&schema, &name)?;
        self.databases.write(&database, |writer| {
            if let Some(Some(owner)) = &clauses.written.owner {
                sequence.owner = Some(self.definer.owner_in_database(&database, writer, owner)?);
            }
            writer.create_sequence(sequence)?;
            Ok(DONE)
        })
    }

    pub(super) fn alter_sequence(&self, definition: SequenceDefinition) -> Result<Outcome> {
        let SequenceDefinition { if_exists, name, clauses, .. } = definition;
        let clauses = Clauses::read(clauses)?;
        if !if_exists {
            self.databases.names().check_schema_of(&name)?;
        }
        let name = self.databases.names().resolve(&name)?;
        if self.alter_in_cluster(&name, &clauses)? {
            return Ok(DONE);
        }
        let Name { database, schema, name } = name;
        self.databases.write(&database, |writer| {
            refuse_other_kind(writer.catalog(), &schema, &name, "a sequence")?;
            let Some(old) = writer.catalog().sequence(&schema, &name).cloned() else {
                return if if_exists { Ok(DONE) } else { Err(unknown_sequence(writer.catalog(), &name)) };
            };
            self.definer.change_sequence(&database, writer, &old, &clauses)?;
            Ok(DONE)
        })
    }
}

impl Definer<'_> {
    /// Gives a sequence what the clauses say.
    pub(super) fn change_sequence(
        &self,
        database: &str,
        writer: &mut Transaction,
        old: &SequenceEntry,
        clauses: &Clauses,
    ) -> Result<()> {
        if self.cluster_counts(writer, old) {
            return Err(Error::unsupported(format!(
                "sequence \"{}\" counts for a table of the cluster: ALTER SEQUENCE … RESTART says where it goes on",
                old.name
            )));
        }
        let mut new = clauses.change(old)?;
        check(&new, new.start, "START")?;
        let restart = clauses.written.restart.map(|restart| restart.unwrap_or(new.start));
        if let Some(last) = restart {
            check(&new, last, "RESTART")?;
        }
        match &clauses.written.owner {
            None => {}
            Some(None) => new.owner = None,
            Some(Some(owner)) => new.owner = Some(self.owner_in_database(database, writer, owner)?),
        }
        writer.alter_sequence(new, restart)
    }

    /// Says whether a sequence is that of an identity column of a table of the cluster.
    fn cluster_counts(&self, writer: &Transaction, sequence: &SequenceEntry) -> bool {
        let Some(owner) = sequence.owner else { return false };
        let column = writer.catalog().table_by_id(owner.table).and_then(|of| of.column_by_id(owner.column));
        column.is_some_and(|column| column.identity.is_some())
            && self.checks.cluster.cluster_table_of(writer, owner.table).is_some()
    }

    /// Returns the column that OWNED BY names, for a sequence of one database alone.
    ///
    /// # Errors
    /// `Unsupported` for a column of a table of the cluster: other nodes alter, truncate and drop it, and do
    /// not know the sequence.
    fn owner_in_database(
        &self,
        database: &str,
        writer: &Transaction,
        name: &ObjectName,
    ) -> Result<SequenceOwner> {
        let owner = self.names().owner_of(database, writer.catalog(), name)?;
        match self.checks.cluster.cluster_table_of(writer, owner.table) {
            None => Ok(owner),
            Some(_) => Err(Error::unsupported(
                "a sequence of this node alone does not go with a column of a table of the cluster, which other nodes \
                 alter and drop: make it by CREATE SEQUENCE … REPLICATED",
            )),
        }
    }
}

impl Names<'_> {
    /// Returns the column that OWNED BY names.
    pub(super) fn owner_of(
        &self,
        database: &str,
        catalog: &Catalog,
        name: &ObjectName,
    ) -> Result<SequenceOwner> {
        let mut table = name.clone();
        let column = table.0.pop().and_then(|part| part.as_ident().map(fold));
        let Some(column) = column.filter(|_| !table.0.is_empty()) else {
            return Err(syntax("OWNED BY needs table.column or NONE"));
        };
        let (schema, name) = self.resolve_within(database, &table)?;
        let table = catalog.table(&schema, &name).ok_or_else(|| unknown_table(catalog, &name))?;
        let id = table.column(&column).ok_or_else(|| unknown_column(table, &column))?.id;
        Ok(SequenceOwner { table: table.id, column: id })
    }
}

/// Returns a column that takes values from a sequence of its own: an identity column, or one of a
/// SERIAL type.
pub(super) fn serial_type(sql: &SqlType) -> Option<LogicalType> {
    let SqlType::Custom(name, arguments) = sql else { return None };
    match name.to_string().to_ascii_uppercase().as_str() {
        _ if !arguments.is_empty() => None,
        "SMALLSERIAL" | "SERIAL2" => Some(LogicalType::SmallInt),
        "SERIAL" | "SERIAL4" => Some(LogicalType::Integer),
        "BIGSERIAL" | "SERIAL8" => Some(LogicalType::BigInt),
        _ => None,
    }
}

/// Returns the sequence that a new column will own; the default of one that is no identity takes
/// its values.
pub(super) fn sequence_of_column(
    catalog: &Catalog,
    (schema, table): (&str, &str),
    column: &mut NewColumn,
    clauses: &Clauses,
) -> Result<SequenceEntry> {
    let first = format!("{table}_{}_seq", column.name);
    let taken = |name: &String| {
        catalog.table(schema, name).is_some()
            || catalog.view(schema, name).is_some()
            || catalog.sequence(schema, name).is_some()
    };
    let others = (1..).map(|number| format!("{first}{number}"));
    let name = std::iter::once(first.clone()).chain(others).find(|name| !taken(name)).unwrap_or_default();
    let sequence = clauses.clone().of_type(&column.logical_type).define(schema, &name)?;
    if column.identity.is_none() {
        column.default = Some(next_value(&sequence));
    }
    Ok(sequence)
}

/// Creates a table with the sequences that its columns own.
pub(super) fn create_table_of(
    writer: &mut Transaction,
    schema: &str,
    name: &str,
    mut columns: Vec<NewColumn>,
    serials: &[(String, Clauses)],
) -> Result<TableId> {
    let mut sequences = Vec::new();
    for (column, clauses) in serials {
        let found = columns.iter_mut().find(|found| found.name == *column);
        if let Some(found) = found {
            let sequence = sequence_of_column(writer.catalog(), (schema, name), found, clauses)?;
            sequences.push((column, sequence));
        }
    }
    let id = writer.create_table(schema, name, columns)?;
    for (column, mut sequence) in sequences {
        let table = writer.catalog().table_by_id(id);
        let column = table.and_then(|table| table.column(column)).map(|column| column.id);
        sequence.owner = column.map(|column| SequenceOwner { table: id, column });
        writer.create_sequence(sequence)?;
    }
    Ok(id)
}

/// Says whether an expression has a call of nextval, currval or setval for a sequence.
fn uses(sql: &str, schema: &str, name: &str) -> bool {
    visit(sql, |expr| {
        named_sequence(&mut expr.clone())
            .is_some_and(|text| within_database(&sequence_name(text)) == (schema.into(), name.into()))
    })
}

/// Says whether an expression has a call of nextval, currval or setval for any sequence.
pub(super) fn uses_some(sql: &str) -> bool {
    visit(sql, |expr| named_sequence(&mut expr.clone()).is_some())
}

/// Returns the columns that take values of a sequence: by their defaults, or as its identity.
pub(super) fn users(catalog: &Catalog, sequence: &SequenceEntry) -> Vec<(TableId, ColumnId)> {
    let uses = |table: &TableEntry, column: &ColumnEntry| {
        let own = || catalog.sequence_of(table.id, column.id);
        column.identity.is_some() && own().is_some_and(|own| own == sequence)
            || column.default.as_ref().is_some_and(|default| uses(default, &sequence.schema, &sequence.name))
    };
    let columns =
        catalog.tables.iter().flat_map(|table| table.columns.iter().map(move |column| (table, column)));
    columns
        .filter(|(table, column)| uses(table, column))
        .map(|(table, column)| (table.id, column.id))
        .collect()
}

/// Returns the error for a sequence that a column takes values of.
pub(super) fn used(catalog: &Catalog, sequence: &SequenceEntry, table: TableId, column: ColumnId) -> Error {
    let entry = catalog.table_by_id(table);
    let name = entry.and_then(|entry| Some((entry, entry.column_by_id(column)?)));
    let (table, column) = name.map_or(("?", "?"), |(table, column)| (&table.name, &column.name));
    let message = format!(
        "sequence \"{}\" is used by column \"{column}\" of table \"{table}\"; drop that first, or use CASCADE",
        sequence.name
    );
    Error::new(ErrorKind::Constraint, message).with_sqlstate("2BP01")
}

/// Ends the use of a sequence by columns, but for those of a column, or a table, that goes with it.
///
/// # Errors
/// `Constraint` when there are such, without CASCADE.
pub(super) fn release(
    writer: &mut Transaction,
    sequence: &SequenceEntry,
    cascade: bool,
    going: impl Fn(TableId, ColumnId) -> bool,
) -> Result<()> {
    for (table, column) in users(writer.catalog(), sequence) {
        if going(table, column) {
            continue;
        }
        if !cascade {
            return Err(used(writer.catalog(), sequence, table, column));
        }
        writer.alter_table(table, |table| {
            for user in table.columns.iter_mut().filter(|user| user.id == column) {
                (user.default, user.identity) = (None, None);
            }
            Ok(())
        })?;
    }
    Ok(())
}

pub(super) fn drop_sequence(
    writer: &mut Transaction,
    schema: &str,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let Some(sequence) = writer.catalog().sequence(schema, name).cloned() else {
        if if_exists {
            return Ok(());
        }
        let known = writer.catalog().sequences.iter().map(|sequence| sequence.name.as_str());
        return Err(missing("sequence", name, known));
    };
    release(writer, &sequence, cascade, |_, _| false)?;
    writer.drop_sequence(schema, name)
}
