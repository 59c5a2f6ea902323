//! CREATE INDEX, CREATE ORDER INDEX, DROP INDEX and SHOW INDEXES. The definition of a table keeps
//! which indexes were asked for; what they find is in caches of the storage.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Parameters};
use crate::statement::definer::Ddl;
use crate::statement::names::Names;
use crate::statement::refusal::{refuse, refuse_other_kind};
use arrow::array::{ArrayRef, BooleanArray, StringArray, UInt64Array};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, CreateIndex, Expr, IndexColumn, KeyOrIndexDisplay, NullsDistinctOption,
    ObjectName, OrderByExpr, TableConstraint, UniqueConstraint,
};
use hypostyle_catalog::scope::{Name, Named, TEMPORARY};
use hypostyle_sql::build;
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_storage::{
    Catalog, DeclaredIndex, IndexEntry, IndexInfo, IndexKind, IndexSpec, Snapshot, TableEntry,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, NAME_BYTES_MAX, Result, TableId, did_you_mean};
use std::sync::Arc;

/// A line of SHOW INDEXES.
struct Shown {
    database: String,
    schema: String,
    table: String,
    kind: &'static str,
    columns: String,
    name: Option<String>,
    referenced: Option<String>,
    method: Option<&'static str>,
    rows: Option<u64>,
    bytes: u64,
    is_stored: bool,
    is_declared: bool,
    uses: u64,
}

impl Ddl<'_> {
    /// Declares an index and builds it. A unique one becomes a UNIQUE constraint.
    pub(super) fn create_index(&self, index: &CreateIndex, kind: DeclaredIndex) -> Result<Outcome> {
        let items = index.columns.iter().map(|key| build::item(key.column.expr.clone())).collect();
        let table = build::alone(build::table(index.table_name.clone(), None));
        let query = build::select_where(items, vec![table], index.predicate.clone());
        self.queries.plan(query, &Parameters::None)?;
        if index.unique {
            refuse(kind == DeclaredIndex::Order, "CREATE UNIQUE ORDER INDEX")?;
            return self.create_unique_index(index);
        }
        refuse(index.predicate.is_some(), "CREATE INDEX with WHERE")?;
        let column = |key: &IndexColumn| match &key.column.expr {
            Expr::Identifier(column) => Some(fold(column)),
            _ => None,
        };
        let columns: Option<Vec<String>> = index.columns.iter().map(column).collect();
        let columns =
            columns.ok_or_else(|| Error::unsupported("CREATE INDEX of expressions is not supported"))?;
        refuse(kind == DeclaredIndex::Order && columns.len() > 1, "CREATE ORDER INDEX of several columns")?;
        let target = self.databases.names().target(&index.table_name, None)?;
        let places = columns.iter().map(|name| target.column(name)).collect::<Result<Vec<_>>>()?;
        let mut ids: Vec<ColumnId> = Vec::new();
        for place in places {
            let id = target.data.entry().columns[place].id;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let named = index.name.as_ref().map(last_of).transpose()?;
        let declared = self.databases.write(&target.database, |writer| {
            let is_taken = |name: &str| is_taken(writer.catalog(), &target.schema, name);
            let name = match named {
                Some(name) if is_taken(&name) && index.if_not_exists => return Ok(None),
                Some(name) if is_taken(&name) => return Err(already_exists(&name)),
                Some(name) => name,
                None => free_name(&target.name, &columns, is_taken),
            };
            let entry = IndexEntry { name, kind, columns: ids.clone() };
            let declared = entry.clone();
            writer.alter_table(target.id, |table| {
                table.indexes.push(declared);
                Ok(())
            })?;
            Ok(Some(entry))
        })?;
        // Nodes build the indexes of their fragments themselves.
        let builds = !self.databases.is_in_transaction() && !target.is_of_cluster;
        let Some(entry) = declared.filter(|_| builds) else { return Ok(DONE) };
        self.databases.refresh()?;
        let spec = IndexSpec::declared(target.id, &entry);
        let built = self
            .databases
            .names()
            .snapshot_of(&target.database)?
            .build_index(&spec, || self.queries.proceed());
        if let Err(error) = built {
            // An index that was not built was not created.
            self.databases.write(&target.database, |writer| {
                writer.alter_table(target.id, |table| {
                    table.indexes.retain(|kept| kept.name != entry.name);
                    Ok(())
                })
            })?;
            return Err(error);
        }
        Ok(DONE)
    }

    /// Builds those declared indexes of tables that do not cover their rows: compaction gives rows
    /// other positions.
    pub(super) fn rebuild_declared(&self, snapshot: &Snapshot, tables: &[TableId]) -> Result<()> {
        for table in snapshot.tables().filter(|table| tables.contains(&table.entry().id)) {
            let entry = table.entry();
            for index in &entry.indexes {
                let spec = IndexSpec::declared(entry.id, index);
                snapshot.build_index(&spec, || self.queries.proceed())?;
            }
        }
        Ok(())
    }

    fn create_unique_index(&self, index: &CreateIndex) -> Result<Outcome> {
        refuse(index.predicate.is_some(), "CREATE UNIQUE INDEX with WHERE")?;
        refuse(index.nulls_distinct == Some(false), "CREATE UNIQUE INDEX with NULLS NOT DISTINCT")?;
        let are_columns = index.columns.iter().all(|key| matches!(key.column.expr, Expr::Identifier(_)));
        refuse(!are_columns, "CREATE UNIQUE INDEX of expressions")?;
        let name = match &index.name {
            Some(name) if index.if_not_exists && self.databases.names().constraint_table(name)?.is_some() => {
                return Ok(DONE);
            }
            Some(name) => Some(build::name(&last_of(name)?)),
            None => None,
        };
        // The order of its keys says nothing about what is unique.
        let key = |key: &IndexColumn| IndexColumn {
            column: OrderByExpr {
                expr: key.column.expr.clone(),
                options: Default::default(),
                with_fill: None,
            },
            operator_class: None,
        };
        let constraint = TableConstraint::Unique(UniqueConstraint {
            name,
            index_name: None,
            index_type_display: KeyOrIndexDisplay::None,
            index_type: None,
            columns: index.columns.iter().map(key).collect(),
            index_options: Vec::new(),
            characteristics: None,
            nulls_distinct: NullsDistinctOption::None,
        });
        let operation = AlterTableOperation::AddConstraint { constraint, not_valid: false };
        self.alter_table(altering(index.table_name.clone(), operation))
    }

    /// Drops declared indexes, and the UNIQUE constraints of these names.
    pub(super) fn drop_indexes(&self, names: &[ObjectName], if_exists: bool) -> Result<Outcome> {
        for name in names {
            if let Some(table) = self.databases.names().constraint_table(name)? {
                let name = build::name(&last_of(name)?);
                let operation =
                    AlterTableOperation::DropConstraint { if_exists: false, name, drop_behavior: None };
                self.alter_table(altering(table, operation))?;
            } else if !self.drop_declared(name)? {
                let unknown = self.databases.names().unknown_index(name)?;
                if !if_exists {
                    self.databases.names().check_schema_of(name)?;
                    return Err(unknown);
                }
            }
        }
        Ok(DONE)
    }

    /// Drops a declared index; false when there is none of the name.
    fn drop_declared(&self, name: &ObjectName) -> Result<bool> {
        let Name { database, schema, name: index } = self.databases.names().resolve(name)?;
        let temporary = self.databases.scope.snapshot_of(TEMPORARY).is_some().then(|| TEMPORARY.to_string());
        let databases = [Some(database), temporary.filter(|_| name.0.len() == 1)];
        for database in databases.into_iter().flatten() {
            let snapshot = self.databases.names().snapshot_of(&database)?;
            let has_it = |table: &&Arc<TableEntry>| {
                (table.schema == schema || database == TEMPORARY)
                    && table.indexes.iter().any(|found| found.name == index)
            };
            let Some(table) = snapshot.catalog().tables.iter().find(has_it) else { continue };
            self.databases.write(&database, |writer| {
                writer.alter_table(table.id, |table| {
                    table.indexes.retain(|kept| kept.name != index);
                    Ok(())
                })
            })?;
            let dropped = table.indexes.iter().find(|found| found.name == index);
            let dropped = dropped.map(|index| IndexSpec::declared(table.id, index));
            if let Some(spec) = dropped.filter(|_| !self.databases.is_in_transaction()) {
                self.databases.refresh()?;
                let snapshot = self.databases.names().snapshot_of(&database)?;
                let is_wanted =
                    snapshot.table_by_id(spec.table).is_none_or(|table| spec.is_declared_by(table.entry()));
                if !is_wanted {
                    snapshot.drop_index(&spec)?;
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Builds the indexes that the definitions of a snapshot ask for and that are not there.
    pub(super) fn build_declared(&self, snapshot: &Snapshot) -> Result<()> {
        for table in snapshot.tables().map(|table| table.entry()) {
            for index in &table.indexes {
                let spec = IndexSpec::declared(table.id, index);
                if snapshot.wish_index(&spec) {
                    snapshot.build_index(&spec, || self.queries.proceed())?;
                }
            }
        }
        Ok(())
    }
}

impl Names<'_> {
    fn unknown_index(&self, name: &ObjectName) -> Result<Error> {
        let found = self.resolve(name)?;
        let snapshot = self.snapshot_of(&found.database)?;
        refuse_other_kind(snapshot.catalog(), &found.schema, &found.name, "an index")?;
        let tables = snapshot.catalog().tables.iter();
        let known = tables.flat_map(|table| table.indexes.iter().map(|index| index.name.as_str()));
        let message = format!("no index \"{}\"{}", found.name, did_you_mean(&found.name, known));
        Ok(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42704"))
    }

    /// Returns a line for each index of the session's databases, those among them that are declared
    /// but not built.
    pub(super) fn show_indexes(&self) -> Result<Outcome> {
        let databases = self.scope.databases.read().clone();
        let mut lines = Vec::new();
        for Named { name, snapshot, .. } in &databases {
            lines.extend(shown(name, snapshot)?);
        }
        let text = |value: fn(&Shown) -> Option<&str>| -> ArrayRef {
            Arc::new(lines.iter().map(value).collect::<StringArray>())
        };
        let number = |value: fn(&Shown) -> Option<u64>| -> ArrayRef {
            Arc::new(lines.iter().map(value).collect::<UInt64Array>())
        };
        let flag = |value: fn(&Shown) -> bool| -> ArrayRef {
            Arc::new(lines.iter().map(|line| Some(value(line))).collect::<BooleanArray>())
        };
        let columns = [
            ("database_name", text(|line| Some(&line.database)), false),
            ("schema_name", text(|line| Some(&line.schema)), false),
            ("table_name", text(|line| Some(&line.table)), false),
            ("kind", text(|line| Some(line.kind)), false),
            ("columns", text(|line| Some(&line.columns)), false),
            ("index_name", text(|line| line.name.as_deref()), true),
            ("referenced", text(|line| line.referenced.as_deref()), true),
            ("method", text(|line| line.method), true),
            ("rows", number(|line| line.rows), true),
            ("bytes", number(|line| Some(line.bytes)), false),
            ("is_stored", flag(|line| line.is_stored), false),
            ("is_declared", flag(|line| line.is_declared), false),
            ("uses", number(|line| Some(line.uses)), false),
        ];
        RecordBatch::try_from_iter_with_nullable(columns)
            .map(Outcome::batch)
            .map_err(|error| Error::internal(format!("cannot list indexes: {error}")))
    }

    /// Returns the full name of the table that has a UNIQUE constraint of a name.
    fn constraint_table(&self, name: &ObjectName) -> Result<Option<ObjectName>> {
        let found = self.resolve(name)?;
        let snapshot = self.snapshot_of(&found.database)?;
        let tables = snapshot.catalog().tables.iter().filter(|table| table.schema == found.schema);
        let mut having = tables.filter(|table| {
            table.constraints.iter().any(|constraint| {
                constraint.name == found.name
                    && matches!(constraint.rule, hypostyle_storage::ConstraintRule::Unique { .. })
            })
        });
        let table = having.next();
        if having.next().is_some() {
            let why = format!(
                "several tables have a constraint \"{}\"; use ALTER TABLE … DROP CONSTRAINT",
                found.name
            );
            return Err(Error::new(ErrorKind::InvalidInput, why).with_sqlstate("42725"));
        }
        Ok(table.map(|table| {
            let parts = [&found.database, &found.schema, &table.name];
            ObjectName::from(Vec::from(parts.map(|part| build::name(part))))
        }))
    }
}

/// Returns an ALTER TABLE that does one thing.
fn altering(name: ObjectName, operation: AlterTableOperation) -> AlterTable {
    AlterTable {
        name,
        if_exists: false,
        only: false,
        operations: vec![operation],
        location: None,
        on_cluster: None,
        table_type: None,
        end_token: AttachedToken::empty(),
    }
}

/// Returns the lines of a database.
fn shown(database: &str, snapshot: &Snapshot) -> Result<Vec<Shown>> {
    let catalog = snapshot.catalog();
    let mut found = snapshot.indexes()?;
    for table in &catalog.tables {
        for index in &table.indexes {
            let spec = IndexSpec::declared(table.id, index);
            if !found.iter().any(|info| info.spec == spec) {
                let is_declared = true;
                let (method, rows, bytes, is_stored, uses) = ("", None, 0, false, 0);
                found.push(IndexInfo { spec, method, rows, bytes, is_stored, is_declared, uses });
            }
        }
    }
    let line = |info: IndexInfo| {
        let IndexInfo { spec, method, rows, bytes, is_stored, is_declared, uses } = info;
        let table = catalog.table_by_id(spec.table)?;
        let mut names =
            table.indexes.iter().filter(|index| IndexSpec::declared(table.id, index) == spec).peekable();
        let referenced = match &spec.kind {
            IndexKind::Join(key) | IndexKind::Reverse(key) => {
                let other = catalog.table_by_id(key.table)?;
                Some(format!("{}.{} ({})", other.schema, other.name, names_of(other, &key.columns)))
            }
            IndexKind::Key | IndexKind::Imprint | IndexKind::Order => None,
        };
        Some(Shown {
            database: database.into(),
            schema: table.schema.clone(),
            table: table.name.clone(),
            kind: spec.kind.name(),
            columns: names_of(table, &spec.columns),
            name: names
                .peek()
                .is_some()
                .then(|| names.map(|index| index.name.as_str()).collect::<Vec<_>>().join(", ")),
            referenced,
            method: Some(method).filter(|method| !method.is_empty()),
            rows: rows.map(u64::from),
            bytes,
            is_stored,
            is_declared,
            uses,
        })
    };
    let mut lines: Vec<Shown> = found.into_iter().filter_map(line).collect();
    lines.sort_by(|one, other| {
        let key = |line: &Shown| {
            (line.schema.clone(), line.table.clone(), line.kind, line.columns.clone(), line.name.clone())
        };
        key(one).cmp(&key(other))
    });
    Ok(lines)
}

fn names_of(table: &TableEntry, columns: &[ColumnId]) -> String {
    let names = columns.iter().filter_map(|id| table.column_by_id(*id)).map(|column| column.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Says whether an index, a key or a relation of a schema has a name.
fn is_taken(catalog: &Catalog, schema: &str, name: &str) -> bool {
    let of_table = |table: &Arc<TableEntry>| {
        let mut keys = table.constraints.iter().filter(|constraint| constraint.rule.key().is_some());
        table.name == name
            || table.indexes.iter().any(|index| index.name == name)
            || keys.any(|constraint| constraint.name == name)
    };
    catalog.tables.iter().filter(|table| table.schema == schema).any(of_table)
        || catalog.view(schema, name).is_some()
        || catalog.sequence(schema, name).is_some()
}

fn already_exists(name: &str) -> Error {
    let message = format!("index \"{name}\" already exists");
    Error::new(ErrorKind::AlreadyExists, message).with_sqlstate("42P07")
}

/// Returns the name that PostgreSQL gives an index without one.
fn free_name(table: &str, columns: &[String], is_taken: impl Fn(&str) -> bool) -> String {
    let mut stem = format!("{table}_{}", columns.join("_"));
    // Behind it there is room for a number.
    stem.truncate(stem.floor_char_boundary(NAME_BYTES_MAX - 16));
    let names =
        std::iter::once(format!("{stem}_idx")).chain((1..).map(|number| format!("{stem}_idx{number}")));
    let mut free = names.filter(|name| !is_taken(name));
    free.next().unwrap_or(stem)
}
