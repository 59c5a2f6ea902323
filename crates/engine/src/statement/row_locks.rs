//! FOR UPDATE and FOR SHARE. Transactions do not wait for each other. The rows that a query locks have to be
//! as they were when its transaction commits what it has changed.

use crate::session::{Parameters, Session, may_lock};
use crate::statement::names::Names;
use crate::statement::queries::Queries;
use crate::statement::target::Target;
use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, LimitClause, Query, SetExpr, TableFactor, TableWithJoins,
};
use hypostyle_catalog::scope::Name;
use hypostyle_cluster::change::fragments_of;
use hypostyle_sql::build;
use hypostyle_sql::call::call;
use hypostyle_sql::identifier::{fold, last_of, parts_of};
use hypostyle_sql::plain::{alias_of, name_and_alias, relations_in, relations_of};
use hypostyle_sql::qualifiers::take_schema_off;
use hypostyle_sql::samples::ROWS_WITH_TIES;
use hypostyle_types::{Error, ErrorKind, Result};
use roaring::RoaringTreemap;

/// The column with the positions of locked rows, which stands behind those of the query.
const LOCKED: &str = "locked row";

/// Parts of the names of functions that do something, or give something else, each time, besides those of
/// locks.
const EFFECTS: [&str; 6] = ["array_sample", "array_shuffle", "nextval", "random", "setval", "sleep"];

/// The place of a relation: that of the item of FROM, and within it 0 for the first, or that of a join.
type Place = (usize, usize);

impl Session {
    /// Has the open transaction look at the rows that a query locks, when it commits. A table of another
    /// system is left out, and so are views.
    ///
    /// # Errors
    /// `UnknownName` (42P01) for a name behind OF that no relation of FROM has; those of finding the rows.
    pub(super) fn keep_locked_rows(&self, query: &Query, parameters: &Parameters) -> Result<()> {
        let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
        if query.locks.is_empty() {
            return Ok(());
        }
        let named = locked_names(query, &select.from)?;
        if !self.is_in_transaction() {
            return Ok(());
        }
        for (tables, item) in select.from.iter().enumerate() {
            let joined = item.joins.iter().map(|join| &join.relation);
            for (place, outer) in std::iter::once(&item.relation).chain(joined).enumerate() {
                for relation in relations_in(outer) {
                    let is_locked = match (&named, called(relation)) {
                        (Some(names), Some(name)) => names.contains(&name),
                        (Some(_), None) => false,
                        (None, _) => true,
                    };
                    if is_locked && let Some(target) = self.names().locked_table(query, relation)? {
                        let place = std::ptr::eq(outer, relation).then_some((tables, place));
                        self.keep_rows_of(&target, query, place, parameters)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps the rows that a query takes of a table, or the table as a whole where these are not known: it
    /// has no place within a join in parentheses. Of a table of the cluster, their fragments are kept.
    fn keep_rows_of(
        &self,
        target: &Target,
        query: &Query,
        place: Option<Place>,
        parameters: &Parameters,
    ) -> Result<()> {
        let rows = match place.and_then(|place| rows_taken(query, place, target)) {
            Some(query) if !has_effects(&query) => positions_of(self, query, parameters)?,
            _ => None,
        };
        if target.is_of_cluster {
            let named = Name::new(&target.database, &target.schema, &target.name);
            let of_cluster = self.scope.cluster_table(&named);
            if let Some((explicit, (_, _, id))) = self.transaction.lock().as_mut().zip(of_cluster) {
                explicit.cluster.note_locked(id, rows.map(fragments_of));
            }
            return Ok(());
        }
        let mut transaction = self.transaction.lock();
        let of_database = transaction.as_mut().and_then(|explicit| explicit.part(&target.database));
        match (of_database, rows) {
            (Some(transaction), Some(rows)) => transaction.keep_rows(target.id, &rows),
            (Some(transaction), None) => transaction.guard(target.id),
            (None, _) => {}
        }
        Ok(())
    }
}

/// Returns the positions in the last column of a query; `None` where it has no rows of one table each, as
/// one with aggregates, so that it cannot be planned.
fn positions_of(
    queries: &dyn Queries,
    query: Query,
    parameters: &Parameters,
) -> Result<Option<RoaringTreemap>> {
    let Ok(outcome) = queries.start(query, parameters) else { return Ok(None) };
    let mut positions = RoaringTreemap::new();
    queries.each_of(outcome, &mut |batch| {
        let last = batch.num_columns().saturating_sub(1);
        // An outer join adds rows that have none.
        positions.extend(batch.column(last).as_primitive::<UInt64Type>().iter().flatten());
        Ok(())
    })?;
    Ok(Some(positions))
}

impl Names<'_> {
    /// Returns the table that a relation is: one of this database, or of the cluster.
    fn locked_table(&self, query: &Query, relation: &TableFactor) -> Result<Option<Target>> {
        let Some((name, alias)) = name_and_alias(relation) else { return Ok(None) };
        let last = last_of(name)?;
        let mut with = query.with.iter().flat_map(|with| &with.cte_tables);
        if name.0.len() == 1 && with.any(|table| fold(&table.alias.name) == last) {
            return Ok(None);
        }
        let Ok(found) = self.resolve(name) else { return Ok(None) };
        if self.table_data(&found).is_none() {
            return Ok(None);
        }
        self.target(name, alias.map(fold)).map(Some)
    }
}

/// Says whether a query does something each time that it runs.
fn has_effects(query: &Query) -> bool {
    let text = query.to_string().to_ascii_lowercase();
    may_lock(&text) || EFFECTS.iter().any(|name| text.contains(name))
}

/// Returns the query with the positions of one of its tables behind its columns, or in the place of these if
/// the table is one of the cluster. It takes all rows that the query may give: LIMIT without ORDER BY gives
/// others each time, and among rows of equal keys with it, too. In a cluster, LIMIT does not count.
fn rows_taken(query: &Query, (tables, place): Place, target: &Target) -> Option<Query> {
    let mut taken = query.clone();
    taken.locks.clear();
    let has_order = query.order_by.is_some() && !target.is_of_cluster;
    match first_rows(query).filter(|_| has_order) {
        Some(limit) => taken.limit_clause = Some(limit),
        None => (taken.order_by, taken.limit_clause, taken.fetch) = (None, None, None),
    }
    let SetExpr::Select(select) = taken.body.as_mut() else { return None };
    let item = select.from.get_mut(tables)?;
    let relation = match place.checked_sub(1) {
        None => &mut item.relation,
        Some(join) => &mut item.joins.get_mut(join)?.relation,
    };
    let written = match &*relation {
        TableFactor::Table { name, alias: None, .. } => parts_of(name).ok(),
        _ => None,
    };
    *relation = target.source();
    if target.is_of_cluster {
        // Nodes send what is asked for.
        select.projection.clear();
    }
    select.projection.push(build::item_named(target.position(), LOCKED));
    if let Some(written) = written.filter(|written| written.len() > 1) {
        take_schema_off(&mut taken, &written);
    }
    Some(taken)
}

/// Returns the limit of the first rows that a query in an order gives or skips, with those that are equal to
/// the last one; `None` where it has none, or one that is not known before the query runs.
fn first_rows(query: &Query) -> Option<LimitClause> {
    let LimitClause::LimitOffset { limit: Some(limit), offset, .. } = query.limit_clause.as_ref()? else {
        return None;
    };
    let is_call = |rows: &Expr| matches!(rows, Expr::Function(_));
    let rows = match offset {
        _ if is_call(limit) => return None,
        Some(offset) if is_call(&offset.value) => return None,
        Some(offset) => build::binary(offset.value.clone(), BinaryOperator::Plus, limit.clone()),
        None => limit.clone(),
    };
    let limit = call(ROWS_WITH_TIES, vec![build::cast(rows, DataType::BigInt(None))]);
    Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by: Vec::new() })
}

/// Returns the name of a relation in its query.
pub(super) fn called(relation: &TableFactor) -> Option<String> {
    match (alias_of(relation), relation) {
        (Some(alias), _) => Some(fold(&alias.name)),
        (None, TableFactor::Table { name, .. }) => last_of(name).ok(),
        (None, _) => None,
    }
}

/// Returns the relations whose rows a query locks, by their names; `None` for all of them.
fn locked_names(query: &Query, from: &[TableWithJoins]) -> Result<Option<Vec<String>>> {
    let relations: Vec<String> = relations_of(from).into_iter().filter_map(called).collect();
    let mut names = Vec::new();
    for lock in &query.locks {
        let Some(of) = &lock.of else { return Ok(None) };
        let name = last_of(of)?;
        if !relations.contains(&name) {
            let message = format!("relation \"{name}\" behind FOR {} OF is not in FROM", lock.lock_type);
            return Err(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42P01"));
        }
        names.push(name);
    }
    Ok(Some(names))
}
