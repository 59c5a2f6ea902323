//! SHOW PARTITIONS FOR, which says how the rows of a query are read in parts, and READ PARTITION, which
//! reads one (docs/sql.md, "Partitions of a query").

use crate::session::transaction::Explicit;
use crate::session::{Outcome, Parameters, Session, Waits};
use crate::statement::dialect::name_columns_for;
use crate::statement::planner::refuse_inner_writes;
use crate::statement::result::Purpose;
use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement;
use hypostyle_catalog::scope::Scope;
use hypostyle_cluster::codec;
use hypostyle_cluster::node::Node;
use hypostyle_cluster::partitions::{Partition, partitions, reads};
use hypostyle_error::from_datafusion;
use hypostyle_placement::catalog::Catalog;
use hypostyle_placement::ticket::{Place, Rows, Ticket};
use hypostyle_plan::join_order::in_order;
use hypostyle_plan::subquery_form::in_chosen_form;
use hypostyle_sql::Statement as SqlStatement;
use hypostyle_types::{Error, Result, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cluster's catalog in the place of the one that the statement reads, until it is dropped.
struct OtherState<'a> {
    session: &'a Session,
    before: Option<(Arc<Node>, Arc<Catalog>)>,
}

impl<'a> OtherState<'a> {
    fn new(session: &'a Session, node: Arc<Node>, catalog: Catalog) -> Self {
        let before = session.scope.replace_cluster(Some((node, Arc::new(catalog))));
        Self { session, before }
    }
}

impl Drop for OtherState<'_> {
    fn drop(&mut self) {
        let _other = self.session.scope.replace_cluster(self.before.take());
    }
}

impl Session {
    /// Runs `SHOW PARTITIONS FOR query`: a row for each part of the query's rows.
    pub(super) fn show_partitions(&self, query: &str, parameters: &Parameters) -> Result<Outcome> {
        if !parameters.is_empty() {
            return Err(Error::unsupported(
                "the query of SHOW PARTITIONS has no parameters: write their values in it",
            ));
        }
        check_unchanged(self.transaction.lock().as_ref())?;
        let plan = self.plan_of_query(query)?;
        let mut ticket = Ticket {
            sql: query.into(),
            meaning: meaning(&plan),
            settings: settings_of_rows(&self.scope, self.setter().own_setting("timezone")),
            place: Place::Database,
        };
        let Some((node, catalog)) = self.in_cluster().cluster().map(|(node, known)| {
            let pinned = self.scope.catalog_of_cluster();
            (node, pinned.unwrap_or(known))
        }) else {
            return shown(vec![(None, String::new(), ticket.encode()?)]);
        };
        let functions = codec::functions(&self.context.copied_config()).map_err(from_datafusion)?;
        let read = reads(&plan, &functions).map_err(from_datafusion)?;
        if read.others || read.tables.is_empty() {
            let address = node.address().to_string();
            ticket.place =
                Place::Node { cluster: catalog.cluster, node: node.id(), address: address.clone() };
            return shown(vec![(Some(node.name().to_string()), address, ticket.encode()?)]);
        }
        let (state, known) = (self.context.state(), catalog.clone());
        let found = self.wait_apart(async move {
            let form = in_chosen_form(&state, plan);
            let optimized = form.and_then(|form| in_order(state.optimize(&form)?, &state));
            let optimized = optimized.map_err(from_datafusion)?;
            partitions(&optimized, &read.tables, (&node, &known), &state).map_err(from_datafusion)
        })?;
        let row = |Partition { node, rows }: Partition| -> Result<_> {
            let address = rows.address.clone();
            let text = Ticket { place: Place::Cluster(rows), ..ticket.clone() }.encode()?;
            Ok((node.map(|id| catalog.node_name(id)), address, text))
        };
        shown(found.into_iter().map(row).collect::<Result<_>>()?)
    }

    /// Runs `READ PARTITION 'text'`.
    pub(super) fn read_partition(&self, text: &str) -> Result<Outcome> {
        let ticket = Ticket::decode(text)?;
        let own = settings_of_rows(&self.scope, self.setter().own_setting("timezone"));
        check_settings(&own, &ticket.settings)?;
        let read_now = || self.planner().start_query(self.plan_of_query(&ticket.sql)?, Purpose::Result);
        match &ticket.place {
            Place::Database if self.in_cluster().cluster().is_none() => read_now(),
            Place::Database => Err(elsewhere("a database that is no node of a cluster")),
            Place::Node { cluster, node, address } => match self.in_cluster().cluster() {
                Some((own, now)) => {
                    Rows::check_cluster(*cluster, &now)?;
                    match own.id() == *node {
                        true => read_now(),
                        false => {
                            Err(elsewhere(&format!("the node at {address}: it reads what is there only")))
                        }
                    }
                }
                None => Err(elsewhere(&format!("the node at {address}"))),
            },
            Place::Cluster(rows) => self.read_then(&ticket, rows),
        }
    }

    /// Reads the rows of a ticket in the state that it is of.
    fn read_then(&self, ticket: &Ticket, rows: &Rows) -> Result<Outcome> {
        let (node, now) = self
            .in_cluster()
            .cluster()
            .ok_or_else(|| elsewhere(&format!("a node of its cluster, at {}", rows.address)))?;
        Rows::check_cluster(rows.cluster, &now)?;
        node.wait_for(rows.epoch)?;
        if !self.is_in_transaction() {
            // Its tables may be newer than the snapshots that the statement began with.
            self.refresh()?;
        }
        let now = node.known_catalog()?;
        let catalog = rows.catalog(&now)?;
        let known: BTreeSet<TableId> = rows.tables.iter().map(|rows| rows.table).collect();
        let _then = OtherState::new(self, node, catalog);
        let plan = self.plan_of_query(&ticket.sql)?;
        let functions = codec::functions(&self.context.copied_config()).map_err(from_datafusion)?;
        let read = reads(&plan, &functions).map_err(from_datafusion)?;
        if read.others || read.tables != known {
            return Err(Error::invalid_input(
                "the query of the partition reads other tables than when it was made, or tables that the open \
                 transaction has changed",
            )
            .with_sqlstate("55000"));
        }
        check_meaning(ticket, &plan)?;
        self.planner().start_query(plan, Purpose::Result)
    }

    /// Plans a query of the caller's, for its rows.
    fn plan_of_query(&self, sql: &str) -> Result<LogicalPlan> {
        let others =
            || Error::unsupported("only a query has partitions: SELECT, VALUES or TABLE, also behind WITH");
        let (SqlStatement::Tree(tree), _) = self.read(sql, None)? else { return Err(others()) };
        let DfStatement::Statement(inner) = *tree else { return Err(others()) };
        let Statement::Query(mut query) = *inner else { return Err(others()) };
        name_columns_for(&mut query, self.settings.is_wire());
        let statement = DfStatement::Statement(Box::new(Statement::Query(query)));
        let plan = self.planner().plan(statement, &Parameters::None)?;
        refuse_inner_writes(&plan)?;
        Ok(plan)
    }
}

/// Refuses partitions of rows that only the open transaction sees.
fn check_unchanged(transaction: Option<&Explicit>) -> Result<()> {
    let changes = transaction.is_some_and(|explicit| {
        !explicit.cluster.deleted.is_empty()
            || explicit.transactions.iter().any(|(_, transaction)| !transaction.is_empty())
    });
    match changes {
        true => Err(Error::unsupported(
            "partitions are read by other sessions, which do not see what this transaction has changed: COMMIT \
             before",
        )),
        false => Ok(()),
    }
}

/// Returns what decides about the rows of a query, or what its names mean: the time zone, and where names are
/// looked up.
fn settings_of_rows(scope: &Scope, zone: Option<String>) -> Vec<(String, String)> {
    let (database, schemas) = scope.search();
    vec![
        ("timezone".into(), zone.unwrap_or_default()),
        ("current database".into(), database),
        ("search_path".into(), schemas.join(", ")),
    ]
}

/// Checks that the session that reads a partition has the settings of the one that made it.
fn check_settings(own: &[(String, String)], made: &[(String, String)]) -> Result<()> {
    for (name, value) in made {
        let here = own.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        if here != Some(value) {
            let here = here.unwrap_or("nothing");
            return Err(Error::invalid_input(format!(
                "the partition was made with {name} '{value}', and this session has '{here}': set it before"
            ))
            .with_sqlstate("22023"));
        }
    }
    Ok(())
}

/// Returns a hash of what a query means: of its plan, which has the definitions of views in it and the
/// values of what is computed as it is planned, and no numbers of rows.
fn meaning(plan: &LogicalPlan) -> u64 {
    Ticket::meaning_of(&plan.display_indent().to_string())
}

fn check_meaning(ticket: &Ticket, plan: &LogicalPlan) -> Result<()> {
    match meaning(plan) == ticket.meaning {
        true => Ok(()),
        false => Err(Error::invalid_input(
            "the query of the partition means something else here: a table, a view or a function is another one",
        )
        .with_sqlstate("55000")),
    }
}

fn elsewhere(place: &str) -> Error {
    Error::invalid_input(format!("the partition is read on {place}")).with_sqlstate("22023")
}

/// Returns the rows of SHOW PARTITIONS: the name of a node, its address, and the text of a ticket.
fn shown(rows: Vec<(Option<String>, String, String)>) -> Result<Outcome> {
    let numbers: Int64Array = (0_i64..).take(rows.len()).map(Some).collect();
    let nodes: StringArray = rows.iter().map(|(node, ..)| node.as_deref()).collect();
    let addresses = rows.iter().map(|(_, address, _)| Some(address.as_str()).filter(|text| !text.is_empty()));
    let addresses: StringArray = addresses.collect();
    let texts: StringArray = rows.iter().map(|(.., text)| Some(text.as_str())).collect();
    let columns = [
        ("partition", Arc::new(numbers) as ArrayRef),
        ("node", Arc::new(nodes) as ArrayRef),
        ("address", Arc::new(addresses) as ArrayRef),
        ("text", Arc::new(texts) as ArrayRef),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, values)| (name, values, true)),
    );
    let batch = batch.map_err(|error| Error::internal(format!("cannot list partitions: {error}")))?;
    Ok(Outcome::batch(batch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::test_queries::Alone;

    #[test]
    fn a_partition_is_read_with_the_settings_that_it_was_made_with() {
        let alone = Alone::new();
        let of_zone = |zone: &str| settings_of_rows(&alone.scope, Some(zone.to_string()));
        assert!(check_settings(&of_zone("UTC"), &of_zone("UTC")).is_ok());
        let refused = check_settings(&of_zone("UTC"), &of_zone("Asia/Tokyo")).unwrap_err();
        assert_eq!(refused.sqlstate(), "22023");
        assert!(refused.message().contains("timezone 'Asia/Tokyo'"));
        // Another release may know more of them.
        let more = [("other".to_string(), "on".to_string())];
        assert!(check_settings(&of_zone("UTC"), &more).unwrap_err().message().contains("'nothing'"));
    }
}
