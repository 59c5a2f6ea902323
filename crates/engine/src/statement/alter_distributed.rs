//! What ALTER TABLE makes of a table of the cluster: from the table without rows as it was before and
//! after, to the change of the cluster's catalog.

use crate::session::Parameters;
use crate::statement::backup::create_table;
use crate::statement::cluster::{additions_of, check_size, constrained, referred};
use crate::statement::cluster_sequence::check_sequences;
use crate::statement::completion::mentions;
use crate::statement::constraint::referring;
use crate::statement::definer::Definer;
use crate::statement::dialect::cast;
use crate::statement::given_rows::published_rows;
use arrow::array::ArrayRef;
use hypostyle_cluster::fit::{converted_column, new_column};
use hypostyle_expr::time_zone::is_zoned;
use hypostyle_placement::catalog::{Additions, Altered, Catalog, Column, Fragment, Table};
use hypostyle_sql::build;
use hypostyle_sql::identifier::quoted;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_storage::{
    Catalog as Definitions, ColumnEntry, ConstraintEntry, ConstraintRule, TableEntry, Transaction,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, LogicalType, Result, TableId};
use std::collections::BTreeSet;

/// The rows that a default is computed for, to see whether it is the same in all.
const ROWS_COMPARED: u32 = 64;

impl Definer<'_> {
    /// Returns what a transaction has made of a table of the cluster, whose rows it has looked at or not.
    ///
    /// # Errors
    /// `Unsupported` for what would have to look at the rows and has not, or would change them; `Constraint`
    /// for a column of the partition key that is dropped. What is found in other tables is not in the result.
    pub(crate) fn altered(
        &self,
        transaction: &Transaction,
        catalog: &Catalog,
        id: TableId,
        are_looked_at: bool,
    ) -> Result<Altered> {
        let table = catalog.table(id).ok_or_else(|| Error::internal("an altered table that is gone"))?;
        let before = transaction.base().catalog().table(&table.schema, &table.name).cloned();
        let after = before.as_ref().and_then(|before| transaction.catalog().table_by_id(before.id)).cloned();
        let (before, after) =
            before.zip(after).ok_or_else(|| Error::internal("an altered table that is gone"))?;
        check_kinds(table, &before, &after, are_looked_at)?;
        let definition = create_table(&after, transaction.catalog());
        let additions = additions_of(&after);
        let defaults = after.columns.iter().map(|column| column.default.as_ref());
        check_sequences(transaction.catalog(), defaults)?;
        self.try_definition(transaction, (&before, &after), (&definition, &additions))?;
        let was = numbers(table, &before);
        let number = |column: &ColumnEntry| {
            let place = before.columns.iter().position(|old| old.id == column.id);
            place.and_then(|place| was.get(place)).copied()
        };
        check_referring(transaction.base().catalog(), &before, &after)?;
        let mut next = table.layout.next.max(was.iter().map(|number| number + 1).max().unwrap_or(0));
        let mut columns = Vec::new();
        for column in &after.columns {
            let old = before.columns.iter().find(|old| old.id == column.id);
            let is_converted = old.is_some_and(|old| old.logical_type != column.logical_type);
            columns.push(match number(column) {
                Some(number) if is_converted => {
                    next += 1;
                    converted_column(known(table, number), next - 1, &column.logical_type)?
                }
                // What is said of it stays: a node that was away may not have it yet.
                Some(number) => known(table, number),
                None => {
                    next += 1;
                    new_column(next - 1, &self.filling_of_distributed(&after, column)?)?
                }
            });
        }
        self.check_owned(transaction.catalog(), catalog, |owner| {
            owner.table == id && !columns.iter().any(|column| column.is(owner.column))
        })?;
        check_size(&after.name, &definition, &additions, &columns)?;
        Ok(Altered {
            table: id,
            since: table.layout.altered,
            name: after.name.clone(),
            definition,
            additions: Box::new(additions),
            partitioning: self.moved(table, &before, &after)?,
            columns,
            rows: are_looked_at.then(|| table.fragments.iter().map(Fragment::rows_ever).collect()),
            refers: referred(&after, transaction.catalog(), catalog)?,
            referring: catalog.referring(id).map(|other| other.id).collect(),
            found: Vec::new(),
        })
    }

    /// Makes the altered table by its definition where nobody sees it: a node that cannot make it would
    /// take no catalog over any more.
    ///
    /// # Errors
    /// Those of the definition; `Unsupported` if it makes another table.
    fn try_definition(
        &self,
        transaction: &Transaction,
        (before, after): (&TableEntry, &TableEntry),
        (definition, additions): (&str, &Additions),
    ) -> Result<()> {
        let (database, base) = (transaction.database(), transaction.base());
        let mut trial = database.begin_at(base.clone(), self.threads)?;
        trial.drop_table(before.id)?;
        let name = (after.schema.as_str(), after.name.as_str());
        let incomplete = self.make_distributed(&mut trial, name, definition, additions)?;
        self.complete_distributed(&mut trial, &incomplete)?;
        let made = trial.catalog().table(name.0, name.1);
        match made.is_some_and(|made| is_alike(made, after)) {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "this alteration of table \"{}\" of the cluster is not supported: CREATE TABLE does not tell what it makes",
                before.name
            ))),
        }
    }

    /// Checks that nodes can give a column of a table of the cluster another type, if it is one: each casts
    /// the values that it has, as soon as it learns of that. All that are published have to fit.
    ///
    /// # Errors
    /// `Unsupported` for what does not keep rows where they are, or what is known of them; those of the cast.
    pub(super) fn check_conversion(
        &self,
        writer: &Transaction,
        (table, old): (&TableEntry, &ColumnEntry),
        to: &LogicalType,
        has_using: bool,
    ) -> Result<()> {
        let Some(of_cluster) = self.checks.looks_at_rows(writer, table.id)? else { return Ok(()) };
        let catalog = self.scope.catalog_of_cluster();
        let own = catalog.as_ref().and_then(|catalog| catalog.table(of_cluster));
        let own = own.ok_or_else(|| Error::internal("an altered table that is gone"))?;
        // Equal numbers stay equal, and in their fragments.
        let keeps_values = is_integer(&old.logical_type) && is_integer(to);
        let is_of_key =
            own.partitioning.columns().iter().any(|key| {
                table.columns.get(key.column.0 as usize).is_some_and(|column| column.id == old.id)
            });
        let is_constrained = table.constraints.iter().any(|constraint| match &constraint.rule {
            ConstraintRule::Check { sql } => mentions(sql, &old.name),
            ConstraintRule::PrimaryKey { columns }
            | ConstraintRule::Unique { columns }
            | ConstraintRule::ForeignKey { columns, .. } => !keeps_values && columns.contains(&old.id),
        });
        let refers = |constraint: &ConstraintEntry| match &constraint.rule {
            ConstraintRule::ForeignKey { referred, .. } => !keeps_values && referred.contains(&old.id),
            _ => false,
        };
        let is_referred = referring(writer.catalog(), table.id).any(|(_, constraint)| refers(constraint));
        let why = match () {
            () if has_using => "with USING",
            () if old.identity.is_some() => "that is an identity",
            () if is_of_key && !keeps_values => "of the partition key",
            () if is_constrained || is_referred => "that a constraint depends on",
            () if is_zoned(old.logical_type.arrow_type(), &to.arrow_type(), &self.compiler.time_zone()) => {
                "that depends on the time zone"
            }
            () => "",
        };
        if !why.is_empty() {
            return Err(Error::unsupported(format!(
                "another type of a column {why} is not supported in a table of the cluster: add a column, and UPDATE it \
                 (column \"{}\" of table \"{}\")",
                old.name, table.name
            )));
        }
        let rows = published_rows(self.scope, writer, table, None)?;
        // A value is wanted of each row: nothing else has all of them cast.
        let value = cast(cast(build::column(&old.name), to)?, &LogicalType::Varchar)?;
        self.queries
            .first_row(build::select(vec![build::item(build::max(value))], vec![rows.factor(None)]))
            .map(drop)
            .map_err(|error| error.context(format!("column \"{}\" cannot become {to}", old.name)))
    }

    /// Returns how rows are distributed, with the places that the columns of the key have now.
    fn moved(
        &self,
        table: &Table,
        before: &TableEntry,
        after: &TableEntry,
    ) -> Result<hypostyle_placement::partition::Partitioning> {
        let place = |column: ColumnId| {
            let id = before.columns.get(column.0 as usize)?.id;
            let place = after.columns.iter().position(|column| column.id == id)?;
            u32::try_from(place).ok().map(ColumnId)
        };
        table.partitioning.moved(place).ok_or_else(|| {
            let message =
                format!("table \"{}\" is partitioned by a column that is to be dropped", table.name);
            Error::new(ErrorKind::Constraint, message).with_sqlstate("2BP01")
        })
    }

    /// Returns the value of a new column in the rows that are there, which is one for all.
    fn filling_of_distributed(&self, table: &TableEntry, column: &ColumnEntry) -> Result<ArrayRef> {
        let default = column.default.as_deref().map_or_else(|| Ok(build::null()), parse_as_written)?;
        let value = build::item(cast(default, &column.logical_type)?);
        let rows = (0..ROWS_COMPARED).map(|row| vec![build::number(row.into())]).collect();
        let rows = build::derived(build::values(rows), build::name("rows"));
        let query = build::select(vec![value], vec![rows]);
        let (_, batches) = self.queries.rows(query, &Parameters::None)?;
        let values: Vec<ArrayRef> = batches.iter().map(|batch| batch.column(0).clone()).collect();
        let values: Vec<&dyn arrow::array::Array> = values.iter().map(AsRef::as_ref).collect();
        let failed = |error| Error::internal(format!("the default of a new column: {error}"));
        let values = arrow::compute::concat(&values).map_err(failed)?;
        let first = values.slice(0, 1);
        if (1..values.len()).any(|row| values.slice(row, 1).as_ref() != first.as_ref()) {
            return Err(Error::unsupported(format!(
                "the default of the new column {} of table \"{}\" of the cluster is not the same for all rows: \
                 add the column without a default, UPDATE it, and SET DEFAULT",
                quoted(&column.name),
                table.name
            )));
        }
        if first.is_null(0) && !column.nullable {
            let message = format!(
                "column \"{}\" of table \"{}\" contains NULL values: it is NOT NULL, and has no default",
                column.name, table.name
            );
            return Err(Error::new(ErrorKind::Constraint, message).with_sqlstate("23502"));
        }
        Ok(first)
    }
}

/// Refuses what would change rows, or what rows would have to be looked at for and were not.
fn check_kinds(table: &Table, before: &TableEntry, after: &TableEntry, are_looked_at: bool) -> Result<()> {
    let refused = |what: &str| {
        let message = format!("{what} of table \"{}\" of the cluster is not supported", table.name);
        Err(Error::unsupported(message))
    };
    if before.schema != after.schema {
        return refused("another schema");
    }
    if !are_looked_at && after.constraints.iter().any(|constraint| !was_there(before, after, constraint)) {
        return Err(constrained());
    }
    for column in &after.columns {
        let Some(old) = before.columns.iter().find(|old| old.id == column.id) else {
            if column.generated.is_some() {
                return refused("a new column that is computed of others");
            }
            if column.identity.is_some() {
                return refused("a new identity column (make a new table with it, and INSERT the rows)");
            }
            continue;
        };
        // ALWAYS or BY DEFAULT is for those who give values. Who counts already goes on where it is.
        if column.identity.is_some() && old.identity.is_none() {
            return refused(
                "another way to give a column its values (make a new table, and INSERT the rows)",
            );
        }
        if !are_looked_at && old.logical_type != column.logical_type {
            return refused("another type of a column beside other changes");
        }
        if !are_looked_at && old.nullable && !column.nullable {
            return refused("SET NOT NULL beside other changes");
        }
    }
    Ok(())
}

/// Refuses another name of a table that others refer to, or of a column of theirs: by these they are defined.
fn check_referring(definitions: &Definitions, before: &TableEntry, after: &TableEntry) -> Result<()> {
    let name = |table: &TableEntry, id| table.column_by_id(id).map(|column| column.name.clone());
    for (other, constraint) in referring(definitions, before.id).filter(|(other, _)| other.id != before.id) {
        let ConstraintRule::ForeignKey { referred, .. } = &constraint.rule else { continue };
        if before.name != after.name || referred.iter().any(|id| name(before, *id) != name(after, *id)) {
            return Err(Error::unsupported(format!(
                "another name of table \"{}\" of the cluster, or of its key, is not supported while constraint \"{}\" of \
                 table \"{}\" refers to it: drop that first",
                before.name, constraint.name, other.name
            )));
        }
    }
    Ok(())
}

/// Says whether a constraint is one of those before: with another name, or with another name of a column.
fn was_there(before: &TableEntry, after: &TableEntry, constraint: &ConstraintEntry) -> bool {
    let is_renamed = after.columns.iter().any(|column| {
        let old = before.columns.iter().find(|old| old.id == column.id);
        old.is_some_and(|old| old.name != column.name)
    });
    before
        .constraints
        .iter()
        .any(|old| old.rule == constraint.rule || (is_renamed && old.name == constraint.name))
}

/// Says whether two tables have the same columns, constraints, indexes and comments, but for the words that
/// say what they compute.
fn is_alike(one: &TableEntry, other: &TableEntry) -> bool {
    let columns_are = one.columns.len() == other.columns.len()
        && one.columns.iter().zip(&other.columns).all(|(one, other)| {
            let told = |column: &ColumnEntry| (column.default.is_some(), column.generated.is_some());
            (&one.name, &one.logical_type, one.nullable, told(one), one.identity)
                == (&other.name, &other.logical_type, other.nullable, told(other), other.identity)
        });
    // Foreign keys may have been declared before others, and are behind them.
    let constraints = |table: &TableEntry| -> BTreeSet<String> {
        table.constraints.iter().map(|constraint| constraint.name.clone()).collect()
    };
    columns_are && constraints(one) == constraints(other) && additions_of(one) == additions_of(other)
}

fn is_integer(of: &LogicalType) -> bool {
    use LogicalType::{BigInt, Integer, SmallInt, TinyInt, UBigInt, UInteger, USmallInt, UTinyInt};
    matches!(of, TinyInt | SmallInt | Integer | BigInt | UTinyInt | USmallInt | UInteger | UBigInt)
}

/// Returns the numbers of a table's columns, in their order.
fn numbers(table: &Table, before: &TableEntry) -> Vec<u32> {
    match table.layout.columns.is_empty() {
        true => (0..).take(before.columns.len()).collect(),
        false => table.layout.columns.iter().map(|column| column.number).collect(),
    }
}

fn known(table: &Table, number: u32) -> Column {
    let found = table.layout.columns.iter().find(|column| column.number == number);
    found.cloned().unwrap_or_else(|| Column::new(number))
}
