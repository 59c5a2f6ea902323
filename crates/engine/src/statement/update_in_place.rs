//! UPDATE of a table of the cluster whose rows stay where they are: only the new values travel, from the
//! nodes to the one that is asked and back. Each replica takes the others from the rows that it has.

use crate::session::{Outcome, Parameters};
use crate::statement::constraint::referring;
use crate::statement::target::{ChangedRows, Target};
use crate::statement::write::{Assigned, bytes_of, in_type_of, updated_values};
use crate::statement::writer::{Dml, Writer};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{concat, concat_batches, sort_to_indices, take_record_batch};
use arrow::error::ArrowError;
use datafusion::sql::sqlparser::ast::Update;
use hypostyle_catalog::scope::{Name, Scope};
use hypostyle_cluster::change::Values;
use hypostyle_error::from_datafusion;
use hypostyle_placement::partition::Partitioning;
use hypostyle_storage::{Budget, ConstraintRule, accept};
use hypostyle_types::{Error, Result};
use std::sync::atomic::Ordering;

/// The bytes of a row's place: as it has come, beside all others, and the number by which they are in order.
const PLACE_BYTES: u64 = 20;

impl Dml<'_> {
    /// Returns what SET gives the columns of each row, if nothing needs the others: no constraint, no column
    /// that is computed of them, no RETURNING, and the rows stay in their fragments. In a transaction, other
    /// statements may add rows.
    pub(super) fn assigned_in_place(&self, target: &Target, update: &Update) -> Result<Option<Assigned>> {
        let is_alone = target.is_of_cluster
            && !self.databases.is_in_transaction()
            && update.returning.is_none()
            && !self.sends_whole_rows.load(Ordering::Relaxed);
        if !is_alone {
            return Ok(None);
        }
        let assigned = Assigned::given(target, &update.assignments)?;
        let (columns, entry) = (assigned.columns(target), target.data.entry());
        let has_new = |rule: &ConstraintRule| match rule {
            ConstraintRule::Check { .. } => true,
            other => other.columns().iter().any(|column| columns.contains(column)),
        };
        let snapshot = self.databases.names().snapshot_of(&target.database)?;
        let is_referred = referring(snapshot.catalog(), target.id).any(|(_, constraint)| {
            matches!(&constraint.rule, ConstraintRule::ForeignKey { referred, .. }
                if referred.iter().any(|column| columns.contains(column)))
        });
        let needs_others = is_referred
            || entry.columns.iter().any(|column| column.generated.is_some())
            || entry.constraints.iter().any(|constraint| has_new(&constraint.rule));
        if needs_others || !keeps_fragments(self.databases.scope, target, &assigned) {
            return Ok(None);
        }
        self.writer.compiler.check_values(update.assignments.as_slice())?;
        Ok(Some(assigned))
    }

    /// Gives rows of a table of the cluster new values, where they are.
    pub(super) fn update_in_place(
        &self,
        target: &Target,
        assigned: &Assigned,
        update: &Update,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let query = updated_values(target, assigned, update, None)?;
        let memory = self.hold("new values of rows of other nodes", 0)?;
        let changed = self.writer.changed_rows_within(query, parameters, true, Some(&memory))?;
        let (count, places) = (changed.positions.len(), changed.positions.clone());
        // They are there twice while they are put in order, and so are their places.
        memory.take(changed.rows.iter().map(bytes_of).sum::<u64>() + count * PLACE_BYTES)?;
        let values = self.writer.values_by_place(target, assigned, &changed)?;
        drop(changed);
        self.databases.write(&target.database, |writer| {
            let table = self.writer.checks.cluster.cluster_table_of(writer, target.id);
            let table = table.ok_or_else(|| Error::internal("a table of the cluster that is none"))?;
            self.writer.checks.cluster.check_found(table)?;
            self.writer.checks.cluster.run.lock().cluster.delete(table, places);
            if let Some(values) = values {
                self.writer.checks.cluster.run.lock().cluster.values.insert(table, (values, memory));
            }
            Ok(())
        })?;
        Ok(Outcome::Done { rows_affected: Some(count) })
    }
}

impl Writer<'_> {
    /// Returns the new values of rows, as they are stored, in the order of their places; `None` if there are
    /// no rows.
    fn values_by_place(
        &self,
        target: &Target,
        assigned: &Assigned,
        changed: &ChangedRows,
    ) -> Result<Option<Values>> {
        let failed = |error: ArrowError| from_datafusion(error.into());
        let Some(first) = changed.rows.first() else { return Ok(None) };
        let places: Vec<&dyn Array> = changed.places.iter().map(|places| places as &dyn Array).collect();
        let order = sort_to_indices(&concat(&places).map_err(failed)?, None, None).map_err(failed)?;
        let rows = concat_batches(&first.schema(), &changed.rows).map_err(failed)?;
        let rows = take_record_batch(&rows, &order).map_err(failed)?;
        let (zone, mut columns, mut values) = (self.compiler.time_zone(), Vec::new(), Vec::new());
        for (column, place) in assigned.given_places() {
            let data = target.data.columns().get(column);
            let data = data.ok_or_else(|| Error::internal("a column that is updated is missing"))?;
            let array = in_type_of(target, data, rows.column(place), &zone)?;
            let stored: ArrayRef = accept(&array, data.entry(), &target.name, 0)?;
            columns.push(column);
            values.push((data.entry().name.clone(), stored, true));
        }
        let rows = RecordBatch::try_from_iter_with_nullable(values).map_err(failed)?;
        Ok((rows.num_rows() > 0).then(|| Values { columns, rows: vec![rows] }))
    }
}

/// Says whether rows with new values stay in their fragments.
fn keeps_fragments(scope: &Scope, target: &Target, assigned: &Assigned) -> bool {
    let name = Name::new(&target.database, &target.schema, &target.name);
    let Some((_, catalog, id)) = scope.cluster_table(&name) else { return false };
    match catalog.table(id).map(|table| &table.partitioning) {
        Some(Partitioning::Replicated) => true,
        Some(partitioning @ (Partitioning::Hash { .. } | Partitioning::Range { .. })) => {
            let is_of_key = |(column, _): (usize, usize)| {
                partitioning.columns().iter().any(|key| key.column.0 as usize == column)
            };
            !assigned.given_places().any(is_of_key)
        }
        Some(Partitioning::RoundRobin { .. }) | None => false,
    }
}
