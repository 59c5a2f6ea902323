//! Statements about the cluster that a database is part of.

use crate::session::cluster::of_node;
use crate::session::outcome::DONE;
use crate::session::{Outcome, Parameters, Session};
use crate::statement::cluster_sequence::{check_sequences, make_counted, sequence_of};
use crate::statement::constraint::constrain;
use crate::statement::ddl::{DeclaredColumn, check_schema, new_column, refuse_table_options};
use crate::statement::declared_constraint::{Declared, DeclaredRule, check_keys};
use crate::statement::definer::{Ddl, Definer};
use crate::statement::dialect::{cast, parse};
use crate::statement::names::{Names, name_in_full};
use crate::statement::queries::Queries;
use crate::statement::refusal::refused_reference;
use crate::statement::sequence::{Clauses, create_table_of, serial_type};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, CreateTable, DataType as SqlType, Expr, GeneratedAs,
    ObjectName, ObjectNamePart, Query, Statement, TableConstraint,
};
use hypostyle_catalog::scope::{Name, Named, OWN_DATABASE};
use hypostyle_cluster::node::{Node, SCHEMA as NODE_SCHEMA};
use hypostyle_cluster::shown;
use hypostyle_error::column_name::POSITION;
use hypostyle_placement::catalog::{
    Additions, Catalog, Change, Column, Index, NewTable, NodeState, Referred, Table,
};
use hypostyle_placement::layout;
use hypostyle_placement::partition::{KeyColumn, Kind, Partitioning, Value, values_of};
use hypostyle_sql::build;
use hypostyle_sql::cluster::{AlterCluster, Bound, ClusterStatement, Distribution};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::type_tree::type_of;
use hypostyle_storage::{
    Catalog as Definitions, ConstraintRule, DeclaredIndex, Deferral, IndexEntry, NewColumn, SCHEMA_MAIN,
    TableEntry, Transaction,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, LogicalType, Result, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a table of the cluster that a node has made still lacks.
pub(crate) struct Incomplete {
    id: TableId,
    references: Vec<Declared>,
    additions: Additions,
}

/// The most bytes that the cluster's catalog says of one table.
const DEFINITION_MAX: usize = 256 * 1024;

impl Session {
    /// Runs a statement about the cluster that the database is part of.
    pub(super) fn execute_on_cluster(
        &self,
        statement: ClusterStatement,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let node = self.engine.node().cloned().ok_or_else(|| {
            Error::unsupported(
                "this database is not part of a cluster: start it with `hypostyle serve --cluster cluster.toml`",
            )
        })?;
        match statement {
            ClusterStatement::ShowCluster => shown::nodes(&node, &*node.known_catalog()?).map(Outcome::batch),
            ClusterStatement::ShowFragments { table } => self.names().show_fragments(&node, table.as_ref()),
            ClusterStatement::Alter(alter) => {
                self.identity.privileges.check_machine("ALTER CLUSTER")?;
                self.ddl().outside_transaction()?;
                alter_cluster(self.names(), self, &node, &alter).map(|()| DONE)
            }
            ClusterStatement::Backup { directory } => self.backup_cluster(&node, &directory),
            ClusterStatement::CreateTable { create, distribution } => {
                self.identity.privileges.check_write()?;
                self.ddl().outside_transaction()?;
                self.create_distributed(&node, *create, &distribution, parameters)
            }
        }
    }

    fn create_distributed(
        &self,
        node: &Arc<Node>,
        mut create: CreateTable,
        distribution: &Distribution,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let Name { database, schema, name } = self.names().resolve(&create.name)?;
        if create.temporary || database != OWN_DATABASE {
            return Err(Error::unsupported("a table of the cluster is in the node's own database, for all"));
        }
        if schema == NODE_SCHEMA {
            return Err(of_node());
        }
        let snapshot = self.scope.database(&database)?.snapshot;
        if snapshot.table(&schema, &name).is_some() || snapshot.catalog().view(&schema, &name).is_some() {
            if create.if_not_exists {
                return Ok(DONE);
            }
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("there is a table or view \"{name}\" already"),
            ));
        }
        let query = create.query.take();
        if let Some(query) = &query
            && create.columns.is_empty()
        {
            create.columns = self.definer().columns_of_query(query, parameters)?;
        }
        refuse_table_options(&create)?;
        create.columns.iter_mut().for_each(count_serial);
        self.names().name_referred(&database, &mut create)?;
        let catalog = node.catch_up()?;
        self.refresh()?;
        self.names().name_schemas_of_defaults(&database, &mut create);
        let (columns, declared) = columns_of_node(&create)?;
        let refers = self.definer().try_table((&database, &schema, &name), &columns, &declared, &catalog)?;
        let partitioning = self.definer().partitioning(distribution, &columns)?;
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        check_keys(&declared, &names, &partitioning)?;
        let replicas = match distribution {
            Distribution::Hash { replicas, .. }
            | Distribution::Range { replicas, .. }
            | Distribution::RoundRobin { replicas, .. } => *replicas,
            Distribution::Replicated => 1,
        };
        create.if_not_exists = false;
        create.name = name_in_full(&schema, &name);
        let definition = Statement::CreateTable(create).to_string();
        check_size(&name, &definition, &Additions::default(), &[])?;
        let table = NewTable::new(&schema, &name, partitioning, replicas).defined_by(definition);
        let table = table.referring_to(refers);
        node.define(layout::place_table(&catalog, table)?)?;
        self.refresh()?;
        let Some(query) = query else { return Ok(DONE) };
        let fill = Statement::Insert(build::insert(name_in_full(&schema, &name), *query));
        let filled = self.execute_parsed(DfStatement::Statement(Box::new(fill)), parameters);
        if filled.is_err()
            && let Some(table) = node.known_catalog()?.table_named(&schema, &name)
        {
            node.define(Change::DropTable(table.id))?;
        }
        filled
    }
}

/// Changes the nodes of the cluster, or where they have their rows.
fn alter_cluster(
    names: Names<'_>,
    queries: &dyn Queries,
    node: &Arc<Node>,
    alter: &AlterCluster,
) -> Result<()> {
    if matches!(alter, AlterCluster::AddNode { .. } | AlterCluster::Promote { .. }) {
        // Whoever is the first to be asked begins the cluster.
        node.found_cluster()?;
    }
    let catalog = node.known_catalog()?;
    match alter {
        AlterCluster::AddNode { name, address } => node.add_node(name, address).map(drop),
        AlterCluster::Promote { name } if name == node.name() => node.promote().map(drop),
        AlterCluster::Promote { name } => {
            let address = catalog.node_named(name)?.address.clone();
            Err(Error::invalid_input(format!(
                "a node makes itself the coordinator: connect to node \"{name}\" at {address}, and run it there"
            )))
        }
        AlterCluster::DrainNode { name } => {
            let id = catalog.node_named(name)?.id;
            let state = Change::SetNodeState { node: id, state: NodeState::Draining };
            let catalog = node.change(state)?;
            node.take_steps(layout::drain(&catalog, id)?)
        }
        AlterCluster::DrainClients { name } => {
            node.drain_clients(catalog.node_named(name)?.id, &|| queries.proceed())
        }
        AlterCluster::DropNode { name, force } => {
            let id = catalog.node_named(name)?.id;
            let (steps, change) = layout::drop_node(&catalog, id, *force)?;
            node.take_steps(steps)?;
            node.change(change).map(drop)
        }
        AlterCluster::Rebalance { table } => {
            // Also where nothing is to be moved.
            node.check_coordinates()?;
            let table = table.as_ref().map(|table| names.distributed(&catalog, table)).transpose()?;
            let table = table.map(|table| table.id);
            let bytes = node.bytes_of_replicas(&catalog, table)?;
            node.take_steps(layout::rebalance(&catalog, table, &bytes)?)
        }
    }
}

impl Ddl<'_> {
    pub(super) fn outside_transaction(&self) -> Result<()> {
        match self.databases.is_in_transaction() {
            true => Err(Error::unsupported(
                "tables of the cluster cannot be changed between BEGIN and COMMIT: each statement commits by itself",
            )),
            false => Ok(()),
        }
    }
}

impl Definer<'_> {
    /// Makes a table that nobody sees, so that each node can make it. Returns the tables that it refers to.
    fn try_table(
        &self,
        (database, schema, name): (&str, &str, &str),
        columns: &[NewColumn],
        declared: &[Declared],
        catalog: &Catalog,
    ) -> Result<Vec<Referred>> {
        if columns.is_empty() {
            return Err(Error::new(ErrorKind::Syntax, format!("table \"{name}\" needs at least one column")));
        }
        self.compiler.check_columns(columns)?;
        let Named { database, snapshot, .. } = self.scope.database(database)?;
        check_sequences(snapshot.catalog(), columns.iter().map(|column| column.default.as_ref()))?;
        let mut trial = database.begin_at(snapshot, self.threads)?;
        check_schema(trial.catalog(), schema)?;
        let id = create_table_of(&mut trial, schema, name, columns.to_vec(), &counted(columns))?;
        self.declare(&mut trial, id, declared)?;
        let made = trial.catalog().table_by_id(id);
        let made = made.ok_or_else(|| Error::internal("a table that was made is missing"))?;
        referred(made, trial.catalog(), catalog)
    }

    /// Makes a table of the cluster in the node's own database, by a statement that was tried, but for its
    /// foreign keys, whose tables may be made after it, and its additions. These are returned.
    pub(crate) fn make_distributed(
        &self,
        transaction: &mut Transaction,
        (schema, name): (&str, &str),
        definition: &str,
        additions: &Additions,
    ) -> Result<Incomplete> {
        let (columns, declared) = defined_by(definition)?;
        if let Some((of_sequence, sequence)) = sequence_of(schema, name) {
            let of_sequence = (of_sequence.as_str(), sequence.as_str(), additions.start);
            let id = make_counted(transaction, (schema, name), columns, of_sequence)?;
            return Ok(Incomplete { id, references: Vec::new(), additions: Additions::default() });
        }
        let counted = counted(&columns);
        let id = create_table_of(transaction, schema, name, columns, &counted)?;
        let (references, others): (Vec<_>, Vec<_>) = declared.into_iter().partition(is_reference);
        self.resolve_declared(transaction, id, &others)?;
        Ok(Incomplete { id, references, additions: additions.clone() })
    }

    /// Gives a table that [`Self::make_distributed`] has made its foreign keys, indexes and comments.
    pub(crate) fn complete_distributed(
        &self,
        transaction: &mut Transaction,
        Incomplete { id, references, additions }: &Incomplete,
    ) -> Result<()> {
        self.resolve_declared(transaction, *id, references)?;
        match additions.is_empty() {
            true => Ok(()),
            false => transaction.alter_table(*id, |table| add_to(table, additions)),
        }
    }

    fn resolve_declared(
        &self,
        transaction: &mut Transaction,
        id: TableId,
        declared: &[Declared],
    ) -> Result<()> {
        for constraint in declared {
            let made = transaction.catalog().table_by_id(id).cloned().ok_or_else(not_a_definition)?;
            let entry = constraint.resolve(self.names(), &made, transaction)?;
            transaction.alter_table(id, |table| {
                constrain(table, entry);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Returns the columns that a table has which is made of a query.
    fn columns_of_query(&self, query: &Query, parameters: &Parameters) -> Result<Vec<ColumnDef>> {
        let columns = self.queries.columns(query.clone(), parameters)?.into_iter();
        let column = |(name, of_type, _): (String, LogicalType, bool)| ColumnDef {
            name: build::name(&name),
            data_type: type_of(&of_type),
            options: Vec::new(),
        };
        Ok(columns.map(column).collect())
    }

    /// Returns how a table with these columns is partitioned.
    fn partitioning(&self, distribution: &Distribution, columns: &[NewColumn]) -> Result<Partitioning> {
        let key = |name: &String| key_column(columns, name);
        Ok(match distribution {
            Distribution::Hash { columns, fragments, .. } => Partitioning::Hash {
                columns: columns.iter().map(key).collect::<Result<_>>()?,
                fragments: *fragments,
            },
            Distribution::RoundRobin { fragments, .. } => Partitioning::RoundRobin { fragments: *fragments },
            Distribution::Replicated => Partitioning::Replicated,
            Distribution::Range { column, bounds, .. } => {
                let key = key(column)?;
                let (mut kept, mut max_value) = (Vec::new(), false);
                for bound in bounds {
                    match bound {
                        Bound::MaxValue => max_value = true,
                        Bound::Value(literal) => kept.push(self.bound(literal, columns, key)?),
                    }
                }
                Partitioning::Range { column: key, bounds: kept, max_value }
            }
        })
    }

    /// Returns a bound as a value of its column.
    fn bound(&self, literal: &Expr, columns: &[NewColumn], key: KeyColumn) -> Result<Value> {
        let column = columns.get(key.column.0 as usize);
        let column = column.ok_or_else(|| Error::internal("a partition key without a column"))?;
        let value = build::item(cast(literal.clone(), &column.logical_type)?);
        let query = build::select(vec![value], Vec::new());
        let (_, batches) = self.queries.rows(query, &Parameters::None)?;
        let array = batches.first().map(|batch| batch.column(0).clone());
        let array = array.ok_or_else(|| Error::internal("a bound without a value"))?;
        let value = values_of(&array, key.kind)?.into_iter().next().flatten();
        value.ok_or_else(|| Error::invalid_input("the bound of a range is not NULL").with_sqlstate("22004"))
    }
}

impl Names<'_> {
    /// Returns a table of the cluster by its name.
    fn distributed<'a>(&self, catalog: &'a Catalog, name: &ObjectName) -> Result<&'a Table> {
        let full = self.resolve(name)?;
        let found = (full.database == OWN_DATABASE).then(|| catalog.table_named(&full.schema, &full.name));
        found.flatten().ok_or_else(|| {
            Error::new(ErrorKind::UnknownName, format!("the cluster has no table \"{}\"", full.name))
        })
    }

    /// Names the tables that foreign keys refer to with their schemas: nodes know no search path.
    fn name_referred(&self, database: &str, create: &mut CreateTable) -> Result<()> {
        let of_columns = create.columns.iter_mut().flat_map(|column| &mut column.options);
        let of_columns = of_columns.filter_map(|option| match &mut option.option {
            ColumnOption::ForeignKey(key) => Some(key),
            _ => None,
        });
        let of_table = create.constraints.iter_mut().filter_map(|constraint| match constraint {
            TableConstraint::ForeignKey(key) => Some(key),
            _ => None,
        });
        for key in of_columns.chain(of_table) {
            let (schema, name) = self.resolve_within(database, &key.foreign_table)?;
            key.foreign_table = name_in_full(&schema, &name);
        }
        Ok(())
    }

    fn show_fragments(&self, node: &Arc<Node>, table: Option<&ObjectName>) -> Result<Outcome> {
        let catalog = node.known_catalog()?;
        let only = table.map(|table| self.distributed(&catalog, table)).transpose()?.map(|table| table.id);
        let bytes = node.bytes_of_replicas(&catalog, only)?;
        shown::weighed_replicas(&catalog, only, &bytes).map(Outcome::batch)
    }
}

/// Returns the error for constraints that are added to a table.
pub(super) fn constrained() -> Error {
    Error::unsupported(
        "a constraint is added to a table of the cluster by a statement of its own, which looks at all rows",
    )
}

/// Returns the other tables of the cluster that the foreign keys of a table of it refer to.
///
/// # Errors
/// `Unsupported` for a foreign key to another table, or one that does what a cluster does not.
pub(super) fn referred(
    table: &TableEntry,
    definitions: &Definitions,
    catalog: &Catalog,
) -> Result<Vec<Referred>> {
    let mut found = BTreeSet::new();
    for constraint in &table.constraints {
        let ConstraintRule::ForeignKey { table: other, .. } = &constraint.rule else { continue };
        if constraint.deferral != Deferral::Never {
            return Err(Error::unsupported(
                "a foreign key of a table of the cluster is not DEFERRABLE: it is checked after each statement",
            ));
        }
        if *other == table.id {
            continue;
        }
        let other = definitions.table_by_id(*other);
        let other = other.and_then(|other| catalog.table_named(&other.schema, &other.name));
        let other = other.ok_or_else(refused_reference)?;
        found.insert(Referred { table: other.id, altered: other.layout.altered });
    }
    Ok(found.into_iter().collect())
}

/// Returns what CREATE TABLE does not say of a table of the cluster.
pub(super) fn additions_of(table: &TableEntry) -> Additions {
    let name = |id: &ColumnId| table.column_by_id(*id).map(|column| column.name.clone());
    let indexes = table.indexes.iter().map(|index| Index {
        name: index.name.clone(),
        columns: index.columns.iter().filter_map(name).collect(),
        ordered: index.kind == DeclaredIndex::Order,
    });
    let columns = table.columns.iter();
    let columns = columns.filter_map(|column| Some((column.name.clone(), column.comment.clone()?)));
    let constraints = table.constraints.iter();
    let constraints =
        constraints.filter_map(|constraint| Some((constraint.name.clone(), constraint.comment.clone()?)));
    Additions {
        indexes: indexes.collect(),
        comment: table.comment.clone(),
        columns: columns.collect(),
        constraints: constraints.collect(),
        ..Additions::default()
    }
}

/// Adds to a table what CREATE TABLE does not say of it.
fn add_to(table: &mut TableEntry, additions: &Additions) -> Result<()> {
    for Index { name, columns, ordered } in &additions.indexes {
        let id = |name: &String| table.column(name).map(|column| column.id).ok_or_else(not_a_definition);
        let columns = columns.iter().map(id).collect::<Result<_>>()?;
        let kind = if *ordered { DeclaredIndex::Order } else { DeclaredIndex::Key };
        table.indexes.push(IndexEntry { name: name.clone(), kind, columns });
    }
    table.comment.clone_from(&additions.comment);
    for column in &mut table.columns {
        column.comment = additions.columns.get(&column.name).cloned();
    }
    for constraint in &mut table.constraints {
        constraint.comment = additions.constraints.get(&constraint.name).cloned();
    }
    Ok(())
}

fn is_reference(declared: &Declared) -> bool {
    matches!(declared.rule, DeclaredRule::ForeignKey { .. })
}

fn not_a_definition() -> Error {
    Error::corrupt("a table of the cluster is not defined by CREATE TABLE")
}

/// Returns the columns of a table of the cluster that a statement defines, and its constraints.
fn defined_by(definition: &str) -> Result<(Vec<NewColumn>, Vec<Declared>)> {
    let DfStatement::Statement(statement) = parse(definition)? else { return Err(not_a_definition()) };
    let Statement::CreateTable(create) = *statement else { return Err(not_a_definition()) };
    let (columns, mut declared) = columns_of_node(&create)?;
    for declared in &mut declared {
        let DeclaredRule::ForeignKey { table, .. } = &mut declared.rule else { continue };
        // No search path says what a definition means.
        let full = match table.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => Some(name_in_full(SCHEMA_MAIN, &fold(name))),
            _ => None,
        };
        if let Some(full) = full {
            *table = full;
        }
    }
    Ok((columns, declared))
}

/// Checks how much the cluster's catalog is to say of a table: all of it is sent with each publication.
///
/// # Errors
/// `InvalidInput` (54000) if it is too much.
pub(super) fn check_size(
    name: &str,
    definition: &str,
    additions: &Additions,
    columns: &[Column],
) -> Result<()> {
    let fillings = columns.iter().filter_map(|column| column.filling.as_deref());
    let bytes = definition.len() + additions.bytes() + fillings.map(str::len).sum::<usize>();
    if bytes <= DEFINITION_MAX {
        return Ok(());
    }
    let message = format!(
        "the definition of table \"{name}\" of the cluster would take {bytes} bytes, but at most {DEFINITION_MAX} \
         are sent with each change: give large values by INSERT or UPDATE"
    );
    Err(Error::new(ErrorKind::InvalidInput, message).with_sqlstate("54000"))
}

/// Returns the columns of a table of the cluster, and its constraints.
///
/// # Errors
/// `Unsupported` for what no node can check or count alone.
fn columns_of_node(create: &CreateTable) -> Result<(Vec<NewColumn>, Vec<Declared>)> {
    let (mut columns, mut declared) = (Vec::new(), Vec::new());
    for column in &create.columns {
        let has_options = |option: &ColumnOptionDef| match &option.option {
            ColumnOption::Generated { sequence_options, .. } => {
                sequence_options.as_ref().is_some_and(|options| !options.is_empty())
            }
            _ => false,
        };
        if column.options.iter().any(has_options) {
            return Err(Error::unsupported(
                "an identity column of a table of the cluster counts from 1, by 1: leave its options out, and say by \
                 setval() where it goes on",
            ));
        }
        let DeclaredColumn { column, constraints, .. } = new_column(column)?;
        declared.extend(constraints);
        // Rows have their places under this name.
        if column.name == POSITION {
            let message = format!("a column of a table of the cluster is not called \"{POSITION}\"");
            return Err(Error::new(ErrorKind::InvalidInput, message).with_sqlstate("42939"));
        }
        columns.push(column);
    }
    for constraint in &create.constraints {
        declared.push(Declared::of_table(constraint)?);
    }
    Ok((columns, declared))
}

/// Makes a column of a SERIAL type an identity column: no node has a sequence for all.
fn count_serial(column: &mut ColumnDef) {
    column.data_type = match serial_type(&column.data_type) {
        Some(LogicalType::SmallInt) => SqlType::SmallInt(None),
        Some(LogicalType::Integer) => SqlType::Integer(None),
        Some(_) => SqlType::BigInt(None),
        None => return,
    };
    let option = ColumnOption::Generated {
        generated_as: GeneratedAs::ByDefault,
        sequence_options: None,
        generation_expr: None,
        generation_expr_mode: None,
        generated_keyword: true,
    };
    column.options.push(ColumnOptionDef { name: None, option });
}

/// Returns the columns that count, each with how its values are bounded.
fn counted(columns: &[NewColumn]) -> Vec<(String, Clauses)> {
    let counted = columns.iter().filter(|column| column.identity.is_some());
    counted.map(|column| (column.name.clone(), Clauses::default())).collect()
}

fn key_column(columns: &[NewColumn], name: &String) -> Result<KeyColumn> {
    let place = columns.iter().position(|column| column.name == *name);
    let unknown = || {
        let names = columns.iter().map(|column| column.name.as_str());
        let suggestion = hypostyle_types::did_you_mean(name, names);
        Error::new(ErrorKind::UnknownName, format!("the table has no column \"{name}\"{suggestion}"))
            .with_sqlstate("42703")
    };
    let place = place.ok_or_else(unknown)?;
    let of_type = columns.get(place).map(|column| &column.logical_type).ok_or_else(unknown)?;
    let kind = Kind::of(of_type).ok_or_else(|| {
        Error::unsupported(format!("column \"{name}\" of type {of_type} cannot be in a partition key"))
    })?;
    let number = u32::try_from(place).map_err(|_| Error::internal("too many columns"))?;
    Ok(KeyColumn { column: ColumnId(number), kind })
}
