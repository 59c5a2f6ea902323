//! CREATE and DROP of tables, views and schemas.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Parameters, Session};
use crate::statement::declared_constraint::Declared;
use crate::statement::definer::{Ddl, Definer};
use crate::statement::names::Names;
use crate::statement::refusal::{drop_nothing, missing, other_kind, refuse, wrong_kind};
use crate::statement::sequence::{Clauses, create_table_of, drop_sequence, release, serial_type};
use crate::statement::view_columns::with_written_columns;
use arrow::datatypes::DECIMAL128_MAX_PRECISION;
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableOptions, CreateView, Expr, GeneratedAs, Ident,
    ObjectName, ObjectType, OnCommit, Query, SchemaName, SqlOption,
};
use hypostyle_bind::select::declared::is_declared;
use hypostyle_catalog::pg_catalog::PG_CATALOG;
use hypostyle_catalog::pg_catalog::standard::INFORMATION_SCHEMA;
use hypostyle_catalog::scope::Name;
use hypostyle_expr::types::logical_type;
use hypostyle_sql::build;
use hypostyle_sql::collation::is_by_code_point;
use hypostyle_sql::identifier::{fold, last_of, parts_of};
use hypostyle_sql::names::{name_columns, names_given};
use hypostyle_storage::{
    Catalog, ConstraintEntry, ConstraintRule, Identity, NewColumn, SCHEMA_MAIN, Snapshot, TableEntry,
    Transaction, ViewEntry,
};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result, TableId};
use std::collections::HashSet;
use std::sync::Arc;

/// Returns the columns of a table that a query fills: those of the query, or those that are declared instead.
fn filled_columns(
    name: &str,
    of_query: Vec<NewColumn>,
    declared: Vec<NewColumn>,
    has_serials: bool,
) -> Result<Vec<NewColumn>> {
    if declared.is_empty() {
        refuse_twice(of_query.iter().map(|column| column.name.as_str()))?;
        return Ok(of_query);
    }
    if declared.len() != of_query.len() {
        return Err(Error::invalid_input(format!(
            "table \"{name}\" names {} columns, but the query has {}",
            declared.len(),
            of_query.len()
        )));
    }
    if has_serials || declared.iter().any(|column| column.generated.is_some()) {
        return Err(Error::unsupported(
            "CREATE TABLE … AS takes all values from its query; add generated columns with ALTER TABLE",
        ));
    }
    Ok(declared)
}

impl Ddl<'_> {
    /// Returns the full name of what is to be made; the database of temporary tables is made for
    /// them.
    pub(super) fn resolve_new(&self, object: &ObjectName, temporary: bool) -> Result<Name> {
        if temporary {
            self.databases.transactions.make_temporary()?;
        }
        self.databases.scope.resolve_new(&parts_of(object)?, temporary)
    }

    pub(crate) fn create_table(&self, mut create: CreateTable, parameters: &Parameters) -> Result<Outcome> {
        if create.external {
            return Err(Error::unsupported("external tables are not supported; query the file by its name"));
        }
        if let Some(other) = create.on_commit.as_ref().filter(|on| !matches!(on, OnCommit::PreserveRows)) {
            return Err(Error::unsupported(format!(
                "ON COMMIT {other:?} is not supported: temporary tables keep their rows until the session ends"
            )));
        }
        refuse_table_options(&create)?;
        let Name { database, schema, name } = self.resolve_new(&create.name, create.temporary)?;
        if create.if_not_exists
            && self.databases.names().snapshot_of(&database)?.table(&schema, &name).is_some()
        {
            return Ok(DONE);
        }
        self.databases.names().name_schemas_of_defaults(&database, &mut create);
        let (mut declared, mut constraints, mut serials) = (Vec::new(), Vec::new(), Vec::new());
        for column in &create.columns {
            let DeclaredColumn { column, constraints: of_column, sequence } = new_column(column)?;
            serials.extend(sequence.map(|clauses| (column.name.clone(), clauses)));
            declared.push(column);
            constraints.extend(of_column);
        }
        self.definer.compiler.check_columns(&declared)?;
        for constraint in &create.constraints {
            constraints.push(Declared::of_table(constraint)?);
        }
        let Some(mut query) = create.query else {
            if declared.is_empty() {
                return Err(Error::new(
                    ErrorKind::Syntax,
                    format!("table \"{name}\" needs at least one column"),
                ));
            }
            return self.databases.write(&database, |writer| {
                self.definer.drop_existing(writer, create.or_replace, &schema, &name)?;
                let id = create_table_of(writer, &schema, &name, declared, &serials)?;
                self.definer.add_constraints(writer, id, &constraints)?;
                Ok(DONE)
            });
        };
        refuse_twice_named(&query)?;
        name_columns(&mut query);
        let outcome = self.queries.start(query.as_ref().clone(), parameters)?;
        let described = Session::describe(&outcome)?;
        let mut columns: Vec<NewColumn> = described
            .into_iter()
            .map(|(name, logical_type, _)| NewColumn::new(name, logical_type, true))
            .collect();
        refuse_hollow(&name, &columns)?;
        if declared.is_empty() {
            self.widen_computed(&mut columns, *query, parameters)?;
            refuse_twice(columns.iter().map(|column| column.name.as_str()))?;
        }
        let columns = filled_columns(&name, columns, declared, !serials.is_empty())?;
        self.databases.write(&database, |writer| {
            self.definer.drop_existing(writer, create.or_replace, &schema, &name)?;
            let id = writer.create_table(&schema, &name, columns)?;
            let mut rows = 0;
            self.queries.each_of(outcome, &mut |batch| {
                writer.append(id, &batch)?;
                rows += batch.num_rows() as u64;
                Ok(())
            })?;
            self.definer.add_constraints(writer, id, &constraints)?;
            Ok(Outcome::Done { rows_affected: Some(rows) })
        })
    }

    /// Makes room in DECIMAL columns that are computed, whose types nobody has declared: 0.1 is a
    /// DECIMAL(1,1), but its column takes other numbers as well.
    pub(super) fn widen_computed(
        &self,
        columns: &mut [NewColumn],
        query: Query,
        parameters: &Parameters,
    ) -> Result<()> {
        let wider: Vec<Option<LogicalType>> =
            columns.iter().map(|column| with_room(&column.logical_type)).collect();
        if wider.iter().all(Option::is_none) {
            return Ok(());
        }
        let plan = self.queries.plan(query, parameters)?;
        for (place, (column, wider)) in columns.iter_mut().zip(wider).enumerate() {
            if let Some(wider) = wider.filter(|_| !is_declared(&plan, place)) {
                column.logical_type = wider;
            }
        }
        Ok(())
    }

    pub(crate) fn create_view(&self, mut create: CreateView) -> Result<Outcome> {
        if create.materialized {
            return Err(Error::unsupported(
                "CREATE OR REPLACE of a materialized view is not supported; DROP MATERIALIZED VIEW before",
            ));
        }
        refuse_view_options(&create)?;
        let Name { database, schema, name } = self.resolve_new(&create.name, create.temporary)?;
        if create.if_not_exists
            && self.databases.names().snapshot_of(&database)?.catalog().view(&schema, &name).is_some()
        {
            return Ok(DONE);
        }
        if create.columns.is_empty() {
            refuse_twice_named(&create.query)?;
        }
        name_columns(&mut create.query);
        self.name_schemas(&database, &mut create.query);
        // The view is planned now, with the names that it will have, so that a view that cannot
        // work is refused now. It is planned as a subquery, because some queries run as soon as
        // they are planned.
        let plan = |query: Query| self.queries.columns_in(&database, build::rows_of(query));
        let described = plan(create.query.as_ref().clone())?;
        if let Some(written) = with_written_columns(self.queries, &database, &create.query) {
            *create.query = written;
        }
        let sql = if create.columns.is_empty() {
            refuse_twice(described.iter().map(|(name, ..)| name.as_str()))?;
            create.query.to_string()
        } else {
            let Some(others) = described.get(create.columns.len()..) else {
                return Err(Error::invalid_input(format!(
                    "view \"{name}\" names {} columns, but its query has {}",
                    create.columns.len(),
                    described.len()
                )));
            };
            // The others keep their names.
            let others = others.iter().map(|(name, ..)| build::name(name));
            let names = create.columns.iter().map(|column| column.name.clone()).chain(others);
            let named = build::derived_as(*create.query, Ident::new("source"), names.collect());
            let named = build::all_rows(named);
            let sql = named.to_string();
            plan(named)?;
            sql
        };
        self.databases.write(&database, |writer| {
            let mut comment = None;
            if create.or_replace
                && let Some(old) = writer.catalog().view(&schema, &name)
            {
                comment = old.comment.clone();
                writer.drop_view(&schema, &name)?;
            }
            writer.create_view(ViewEntry { schema, name, sql, comment })?;
            Ok(DONE)
        })
    }

    pub(crate) fn create_schema(&self, name: &SchemaName, if_not_exists: bool) -> Result<Outcome> {
        let SchemaName::Simple(name) = name else {
            return Err(Error::unsupported("CREATE SCHEMA … AUTHORIZATION is not supported"));
        };
        let Name { database, name, .. } = self.databases.names().scope_of_schema(&parts_of(name)?)?;
        if if_not_exists && self.databases.names().snapshot_of(&database)?.catalog().has_schema(&name) {
            return Ok(DONE);
        }
        self.databases.write(&database, |writer| {
            writer.create_schema(&name).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => error.with_sqlstate("42P06"),
                _ => error,
            })?;
            Ok(DONE)
        })
    }

    pub(crate) fn drop(
        &self,
        object_type: ObjectType,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<Outcome> {
        for name in names {
            match object_type {
                ObjectType::Type => drop_nothing("type", &last_of(name)?, if_exists, "42704")?,
                ObjectType::Database => {
                    self.databases.names().refuse_drop_database(&last_of(name)?, if_exists)?
                }
                ObjectType::Schema => {}
                _ if if_exists => {}
                _ => self.databases.names().check_schema_of(name)?,
            }
        }
        if matches!(object_type, ObjectType::Type | ObjectType::Database) {
            return Ok(DONE);
        }
        let resolved = names
            .iter()
            .map(|name| match object_type {
                ObjectType::Schema => self.databases.names().scope_of_schema(&parts_of(name)?),
                _ => self.databases.names().resolve(name),
            })
            .collect::<Result<Vec<_>>>()?;
        let Some(Name { database, .. }) = resolved.first() else { return Ok(DONE) };
        if resolved.iter().any(|other| other.database != *database) {
            return Err(Error::unsupported("one DROP drops what is in one database"));
        }
        if object_type == ObjectType::Sequence && self.drop_sequence_of_cluster(&resolved, cascade)? {
            return Ok(DONE);
        }
        self.databases
            .write(database, |writer| drop_objects(writer, object_type, if_exists, &resolved, cascade))
    }
}

impl Names<'_> {
    /// Returns the table or view that a name stands for, whether there is one or not.
    pub(super) fn resolve(&self, object: &ObjectName) -> Result<Name> {
        self.scope.resolve(&parts_of(object)?, None)
    }

    /// Refuses the name of what is dropped or altered if it has a schema that there is not.
    pub(super) fn check_schema_of(&self, object: &ObjectName) -> Result<()> {
        let Name { database, schema, .. } = self.resolve(object)?;
        let is_given = object.0.len() > 1 && ![PG_CATALOG, INFORMATION_SCHEMA].contains(&schema.as_str());
        if is_given { check_schema(self.snapshot_of(&database)?.catalog(), &schema) } else { Ok(()) }
    }

    /// Returns schema and name of a table that a definition of a database refers to.
    ///
    /// # Errors
    /// `Unsupported` for one of another database.
    pub(super) fn resolve_within(&self, database: &str, object: &ObjectName) -> Result<(String, String)> {
        let parts = parts_of(object)?;
        // A name without a schema is resolved like other names of the statement.
        if let [name] = parts.as_slice()
            && self.scope.current().0 == database
        {
            return Ok((self.scope.schema_of(name), name.clone()));
        }
        let found = self.scope.resolve(&parts, Some(database))?;
        if found.database != database {
            return Err(Error::unsupported(format!(
                "{object} is in the database \"{}\": a definition refers to tables of its own, \"{database}\"",
                found.database
            )));
        }
        Ok((found.schema, found.name))
    }

    pub(super) fn snapshot_of(&self, database: &str) -> Result<Arc<Snapshot>> {
        Ok(self.scope.database(database)?.snapshot)
    }

    /// Refuses to drop a database, with IF EXISTS only one that there is.
    fn refuse_drop_database(&self, name: &str, if_exists: bool) -> Result<()> {
        match self.scope.database(name) {
            Ok(_) => Err(Error::unsupported(
                "DROP DATABASE is not supported; a database is a directory: DETACH it, and remove that",
            )),
            Err(error) if if_exists && error.sqlstate() == "3D000" => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the database of a schema that is called by its name, or by its database's and its
    /// own.
    pub(super) fn scope_of_schema(&self, parts: &[String]) -> Result<Name> {
        let (database, name) = match parts {
            [name] => (self.scope.current().0, name),
            [database, name] => (self.scope.database(database)?.name, name),
            _ => return Err(Error::new(ErrorKind::Syntax, "a schema is called database.schema")),
        };
        Ok(Name { database, schema: name.clone(), name: name.clone() })
    }
}

/// Returns a DECIMAL with room for other numbers of its scale; `None` where there is enough.
fn with_room(of: &LogicalType) -> Option<LogicalType> {
    const DIGITS: u8 = 18;
    const BEFORE_POINT: u8 = 9;
    let LogicalType::Decimal { precision, scale } = *of else { return None };
    let wanted = scale.unsigned_abs().saturating_add(BEFORE_POINT).clamp(DIGITS, DECIMAL128_MAX_PRECISION);
    (wanted > precision).then_some(LogicalType::Decimal { precision: wanted, scale })
}

/// Refuses all but columns, constraints, a query, and how full PostgreSQL (its pgbench, too) would
/// make pages.
pub(super) fn refuse_table_options(create: &CreateTable) -> Result<()> {
    let mut given = CreateTable { columns: vec![], constraints: vec![], query: None, ..create.clone() };
    if let CreateTableOptions::With(options) = &mut given.table_options {
        let of_pages = |option: &SqlOption| matches!(option, SqlOption::KeyValue { key, .. } if fold(key) == "fillfactor");
        options.retain(|option| !of_pages(option));
        if options.is_empty() {
            given.table_options = CreateTableOptions::None;
        }
    }
    let plain = CreateTableBuilder::new(create.name.clone())
        .or_replace(create.or_replace)
        .if_not_exists(create.if_not_exists)
        .temporary(create.temporary)
        .global(create.global)
        .on_commit(create.on_commit)
        .build();
    let (given, plain) = (given.to_string(), plain.to_string());
    let what = match given.strip_prefix(&plain) {
        Some(options) => format!("CREATE TABLE …{options}"),
        None => given.clone(),
    };
    refuse(given != plain, &what)
}

/// Refuses all but names of columns and a query.
pub(super) fn refuse_view_options(create: &CreateView) -> Result<()> {
    let of_column =
        create.columns.iter().any(|column| column.data_type.is_some() || column.options.is_some());
    let CreateView { or_alter, secure, with_no_schema_binding, copy_grants, .. } = create;
    let other = *or_alter || *secure || *with_no_schema_binding || *copy_grants;
    let clause = create.options != CreateTableOptions::None
        || !create.cluster_by.is_empty()
        || create.comment.is_some()
        || create.to.is_some()
        || create.params.is_some();
    refuse(of_column || other || clause, "CREATE VIEW with more than names of columns and a query")
}

pub(super) fn check_schema(catalog: &Catalog, name: &str) -> Result<()> {
    if catalog.has_schema(name) {
        return Ok(());
    }
    let known = catalog.schemas.iter().map(|schema| schema.name.as_str());
    Err(missing("schema", name, known).with_sqlstate("3F000"))
}

fn drop_objects(
    writer: &mut Transaction,
    object_type: ObjectType,
    if_exists: bool,
    names: &[Name],
    cascade: bool,
) -> Result<Outcome> {
    // Keys between tables that are dropped together do not keep them.
    let going = |writer: &Transaction| -> Vec<TableId> {
        let table = |name: &Name| Some(writer.catalog().table(&name.schema, &name.name)?.id);
        names.iter().filter_map(table).collect()
    };
    for Name { schema, name, .. } in names {
        let catalog = writer.catalog().clone();
        let wanted = match object_type {
            ObjectType::Table => "a table",
            ObjectType::View => "a view",
            ObjectType::MaterializedView => "a materialized view",
            ObjectType::Sequence => "a sequence",
            ObjectType::Schema if if_exists && !catalog.has_schema(name) => continue,
            ObjectType::Schema => {
                drop_schema(writer, &catalog, name, cascade)?;
                continue;
            }
            other => return Err(Error::unsupported(format!("DROP {other} is not supported"))),
        };
        if let Some(kind) = other_kind(&catalog, schema, name, wanted) {
            let kinds = kind.trim_start_matches("a ").to_uppercase();
            return Err(wrong_kind(format!("\"{name}\" is {kind}; use DROP {kinds}")));
        }
        match (object_type, catalog.table(schema, name)) {
            (ObjectType::Sequence, _) => drop_sequence(writer, schema, name, if_exists, cascade)?,
            (ObjectType::View, _) if catalog.view(schema, name).is_some() => {
                writer.drop_view(schema, name)?;
            }
            (ObjectType::View, _) | (_, None) if if_exists => {}
            (ObjectType::View, _) => {
                let known = catalog.views.iter().filter(|view| view.schema == *schema);
                return Err(missing("view", name, known.map(|view| view.name.as_str())));
            }
            (_, Some(table)) => drop_table(writer, table, &going(writer), cascade)?,
            (_, None) => {
                let is_view = object_type == ObjectType::MaterializedView;
                let known = catalog.tables.iter();
                let known = known.filter(|table| table.schema == *schema && table.query.is_some() == is_view);
                let what = wanted.trim_start_matches("a ");
                return Err(missing(what, name, known.map(|table| table.name.as_str())));
            }
        }
    }
    Ok(DONE)
}

/// Drops a schema, and with CASCADE what is in it.
fn drop_schema(writer: &mut Transaction, catalog: &Catalog, name: &str, cascade: bool) -> Result<()> {
    check_schema(catalog, name)?;
    if name == SCHEMA_MAIN {
        return Err(Error::invalid_input("the schema \"main\" cannot be dropped"));
    }
    if cascade {
        for table in catalog.tables.iter().filter(|table| table.schema == *name) {
            drop_table(writer, table, &[], true)?;
        }
        for view in catalog.views.iter().filter(|view| view.schema == *name) {
            writer.drop_view(name, &view.name)?;
        }
        let sequences = writer.catalog().sequences.clone();
        for sequence in sequences.iter().filter(|sequence| sequence.schema == *name) {
            drop_sequence(writer, name, &sequence.name, false, true)?;
        }
    }
    writer.drop_schema(name)
}

/// Drops a table, and with CASCADE the foreign keys that refer to it, or those of tables that go,
/// too.
fn drop_table(writer: &mut Transaction, table: &TableEntry, going: &[TableId], cascade: bool) -> Result<()> {
    let refers = |constraint: &ConstraintEntry| matches!(constraint.rule, ConstraintRule::ForeignKey { table: other, .. } if other == table.id);
    for other in writer.catalog().tables.clone() {
        let Some(constraint) = other.constraints.iter().find(|constraint| refers(constraint)) else {
            continue;
        };
        if other.id == table.id {
            continue;
        }
        if !cascade && !going.contains(&other.id) {
            return Err(Error::new(
                ErrorKind::Constraint,
                format!(
                    "table \"{}\" is referred to by constraint \"{}\" of table \"{}\"; drop that first, or use CASCADE",
                    table.name, constraint.name, other.name
                ),
            )
            .with_sqlstate("2BP01"));
        }
        writer.alter_table(other.id, |other| {
            other.constraints.retain(|constraint| !refers(constraint));
            Ok(())
        })?;
    }
    let owned: Vec<_> = writer.catalog().owned_sequences(table.id).cloned().collect();
    for sequence in &owned {
        release(writer, sequence, cascade, |user, _| user == table.id)?;
    }
    writer.drop_table(table.id)
}

impl Definer<'_> {
    /// Drops a table that another one is to replace.
    ///
    /// # Errors
    /// `Unsupported` for a table of the cluster, which all nodes drop when the statement is published.
    pub(super) fn drop_existing(
        &self,
        writer: &mut Transaction,
        or_replace: bool,
        schema: &str,
        name: &str,
    ) -> Result<()> {
        match writer.catalog().table(schema, name).cloned() {
            Some(table) if or_replace && self.checks.cluster.cluster_table_of(writer, table.id).is_some() => {
                Err(Error::unsupported(format!(
                    "CREATE OR REPLACE of table \"{name}\" of the cluster is not supported: DROP TABLE before"
                )))
            }
            Some(table) if or_replace => drop_table(writer, &table, &[], false),
            _ => Ok(()),
        }
    }
}

/// The definition of a column.
pub(super) struct DeclaredColumn {
    pub column: NewColumn,
    pub constraints: Vec<Declared>,
    /// The options of the sequence that the column owns.
    pub sequence: Option<Clauses>,
}

pub(super) fn new_column(definition: &ColumnDef) -> Result<DeclaredColumn> {
    let name = fold(&definition.name);
    let serial = serial_type(&definition.data_type);
    let mut sequence = serial.is_some().then(Clauses::default);
    let logical_type = serial.map_or_else(|| logical_type(&definition.data_type), Ok)?;
    let mut column = NewColumn::new(name, logical_type, sequence.is_none());
    let mut constraints = Vec::new();
    let mut null = None;
    for option in &definition.options {
        match &option.option {
            ColumnOption::Null | ColumnOption::NotNull => {
                let nullable = option.option == ColumnOption::Null;
                if null.replace(nullable).is_some_and(|before| before != nullable) {
                    return Err(twice(&column, "NULL and NOT NULL"));
                }
                column.nullable = nullable;
            }
            ColumnOption::Collation(collation) if is_by_code_point(collation)? => {}
            ColumnOption::Collation(_) => {
                return Err(Error::unsupported(format!(
                    "column \"{}\" cannot be compared without case; write COLLATE NOCASE in the comparison",
                    column.name
                )));
            }
            ColumnOption::Default(_) if column.default.is_some() => {
                return Err(twice(&column, "two defaults"));
            }
            ColumnOption::Default(Expr::Tuple(_)) => {
                let why = format!("the default of column \"{}\" is a list and not one value", column.name);
                return Err(Error::new(ErrorKind::Syntax, why));
            }
            ColumnOption::Generated { .. } if column.generated.is_some() || column.identity.is_some() => {
                return Err(twice(&column, "two ways to generate its values"));
            }
            ColumnOption::Default(value) => column.default = Some(value.to_string()),
            ColumnOption::Generated { generation_expr: Some(expression), .. } => {
                column.generated = Some(expression.to_string());
            }
            ColumnOption::Generated { generated_as, sequence_options, .. } => {
                column.identity = Some(identity(generated_as));
                column.nullable = false;
                sequence = Some(Clauses::of_identity(sequence_options.as_deref())?);
            }
            other => match Declared::of_column(&column.name, option)? {
                Some(constraint) => constraints.push(constraint),
                None => return Err(unsupported_option(other)),
            },
        }
    }
    if sequence.is_some() && column.default.is_some() {
        let why = format!("column \"{}\" has a default and a sequence of its own", column.name);
        return Err(Error::new(ErrorKind::Syntax, why));
    }
    Ok(DeclaredColumn { column, constraints, sequence })
}

/// # Errors
/// `Syntax` (42701) for a query that names two of its columns alike.
pub(super) fn refuse_twice_named(query: &Query) -> Result<()> {
    let names = names_given(query);
    refuse_twice(names.iter().map(String::as_str))
}

/// # Errors
/// `Unsupported` for columns of nothing but structures without fields, whose rows have no bytes.
fn refuse_hollow(table: &str, columns: &[NewColumn]) -> Result<()> {
    fn is_hollow(of: &LogicalType) -> bool {
        match of {
            LogicalType::Struct { fields } => fields.iter().all(|field| is_hollow(&field.logical_type)),
            _ => false,
        }
    }
    let all_are = columns.iter().all(|column| is_hollow(&column.logical_type));
    let message = || format!("table \"{table}\" would have nothing but structures without fields");
    if all_are && !columns.is_empty() { Err(Error::unsupported(message())) } else { Ok(()) }
}

/// # Errors
/// `Syntax` (42701) for a name that is there twice.
pub(super) fn refuse_twice<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    match names.find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("two columns have the name \"{name}\"; give them aliases that differ");
            Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42701").about(name))
        }
    }
}

/// Returns the error of an option of a column that there is not, with what is written for numbers that MySQL,
/// SQLite and SQL Server give.
fn unsupported_option(option: &ColumnOption) -> Error {
    let option = option.to_string();
    let gives_numbers = ["AUTO_INCREMENT", "AUTOINCREMENT", "IDENTITY"]
        .iter()
        .any(|word| option.get(..word.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(word)));
    let instead = if gives_numbers { "; write GENERATED BY DEFAULT AS IDENTITY" } else { "" };
    Error::unsupported(format!("{option} is not supported{instead}"))
}

fn twice(column: &NewColumn, what: &str) -> Error {
    Error::new(ErrorKind::Syntax, format!("column \"{}\" is declared with {what}", column.name))
}

pub(super) fn identity(generated_as: &GeneratedAs) -> Identity {
    match generated_as {
        GeneratedAs::ByDefault => Identity::ByDefault,
        GeneratedAs::Always | GeneratedAs::ExpStored => Identity::Always,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::new_columns;
    use crate::statement::test_queries::Alone;
    use arrow::datatypes::{DataType, Field, Schema};
    use hypostyle_catalog::scope::OWN_DATABASE;
    use hypostyle_sql::identifier::split_name;

    #[test]
    fn a_schema_is_made_once() {
        let alone = Alone::new();
        let has_schema = || {
            let snapshot = alone.scope.database(OWN_DATABASE).unwrap().snapshot;
            snapshot.catalog().has_schema("s")
        };
        let name = ObjectName::from(vec![Ident::new("s")]);
        let create = |if_not_exists| {
            alone.ddl().create_schema(&SchemaName::Simple(name.clone()), if_not_exists).map(drop)
        };
        create(false).unwrap();
        assert!(has_schema());
        assert_eq!(create(false).unwrap_err().sqlstate(), "42P06");
        create(true).unwrap();
        let dropped = alone.ddl().drop(ObjectType::Schema, false, std::slice::from_ref(&name), false);
        dropped.unwrap();
        assert!(!has_schema());
    }

    #[test]
    fn columns_of_data_keep_their_nullability() {
        let schema =
            Schema::new(vec![Field::new("a", DataType::Int32, false), Field::new("b", DataType::Utf8, true)]);
        let columns = new_columns(&schema).unwrap();
        assert_eq!(columns.iter().map(|column| column.nullable).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_quoted_dot_does_not_split_a_name() {
        assert_eq!(split_name("a.b"), ["a", "b"]);
        assert_eq!(split_name("\"a.b\".c"), ["a.b", "c"]);
        assert_eq!(split_name("\"a\"\"b\".\"\"\"\""), ["a\"b", "\""]);
    }
}
