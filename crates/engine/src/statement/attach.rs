//! ATTACH and DETACH, USE, and the database of a session's temporary tables.

use crate::session::outcome::DONE;
use crate::session::{Engine, Outcome, Session};
use crate::statement::names::Names;
use arrow::array::{ArrayRef, BooleanArray, StringArray};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{AttachDuckDBDatabaseOption, Ident, ObjectName, Use};
use hypostyle_catalog::scope::{Named, OWN_DATABASE, Scope, TEMPORARY};
use hypostyle_foreign::{Dialer, ForeignDatabase};
use hypostyle_sql::identifier::{fold, parts_of};
use hypostyle_storage::{Database, OpenMode, QUIET, SCHEMA_MAIN, StorageOptions};
use hypostyle_types::{Error, ErrorKind, Identity, Result};
use std::path::Path;
use std::sync::Arc;

/// The path of a new database in memory.
const IN_MEMORY: &str = ":memory:";

impl Session {
    /// Returns `ATTACH 'shop.hypo' AS shop (READ_ONLY)`: for all sessions of the engine. An address
    /// is of a database of another system.
    pub(super) fn attach(
        &self,
        path: &str,
        alias: Option<&Ident>,
        if_not_exists: bool,
        options: &[AttachDuckDBDatabaseOption],
    ) -> Result<Outcome> {
        self.identity.privileges.check_machine("attach databases")?;
        self.refuse_in_transaction("ATTACH")?;
        let dialer = self.engine.dialer(path);
        let stem = || Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        // An address may have a password.
        let shown = if dialer.is_some() { "…" } else { path };
        let name = match alias {
            Some(alias) => fold(alias),
            None => stem().filter(|_| path != IN_MEMORY && dialer.is_none()).ok_or_else(|| {
                Error::new(
                    ErrorKind::Syntax,
                    format!("ATTACH '{shown}' needs a name: ATTACH '{shown}' AS name"),
                )
            })?,
        };
        let taken = |name: &str| [OWN_DATABASE, TEMPORARY, hypostyle_catalog::scope::SEARCH].contains(&name);
        let mut attached = self.engine.attached.write();
        if taken(&name) || attached.has(&name) {
            if if_not_exists {
                return Ok(DONE);
            }
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "there is a database \"{name}\" already; attach with another name: ATTACH '{shown}' AS …"
                ),
            )
            .with_sqlstate("42P04"));
        }
        let mode = mode(options, dialer.is_some())?;
        match dialer {
            Some(dialer) => {
                // Other sessions go on while the server is connected to.
                drop(attached);
                self.attach_foreign(dialer, &name, path, mode)?;
            }
            None => {
                let database = match path {
                    IN_MEMORY => Database::in_memory()?,
                    path => open(&self.engine, path, mode, &attached.databases)?,
                };
                database.set_upkeep(database.path().map(|_| QUIET));
                attached.databases.push((name, database));
                attached.changes += 1;
                drop(attached);
            }
        }
        self.refresh()?;
        Ok(DONE)
    }

    /// Attaches a database of another system, which is connected to.
    fn attach_foreign(
        &self,
        dialer: Arc<dyn Dialer>,
        name: &str,
        address: &str,
        mode: OpenMode,
    ) -> Result<()> {
        let database = ForeignDatabase::open(dialer, name, address, mode == OpenMode::ReadOnly)?;
        let mut attached = self.engine.attached.write();
        if attached.has(name) {
            let message = format!("another session has attached a database \"{name}\" meanwhile");
            return Err(Error::new(ErrorKind::AlreadyExists, message).with_sqlstate("42P04"));
        }
        attached.foreign.push(database);
        attached.changes += 1;
        Ok(())
    }

    pub(super) fn detach(&self, name: &Ident, if_exists: bool) -> Result<Outcome> {
        self.identity.privileges.check_machine("detach databases")?;
        self.refuse_in_transaction("DETACH")?;
        let name = fold(name);
        if [OWN_DATABASE, TEMPORARY].contains(&name.as_str()) {
            return Err(Error::invalid_input(format!("the database \"{name}\" cannot be detached")));
        }
        if self.scope.current().0 == name {
            return Err(Error::invalid_input(format!(
                "the database \"{name}\" is the current one; USE another before it is detached"
            ))
            .with_sqlstate("55006"));
        }
        let mut attached = self.engine.attached.write();
        let has = attached.has(&name);
        attached.databases.retain(|(other, _)| *other != name);
        let mut foreign = attached.foreign.iter();
        if let Some(place) = foreign.position(|database| database.name() == name) {
            attached.foreign.remove(place).close();
        }
        if !has {
            drop(attached);
            return if if_exists { Ok(DONE) } else { self.scope.database(&name).map(|_| DONE) };
        }
        attached.changes += 1;
        drop(attached);
        self.refresh()?;
        Ok(DONE)
    }

    /// Gives the session its database of temporary tables, unless it has one.
    pub(super) fn make_temporary(&self) -> Result<()> {
        if self.scope.snapshot_of(TEMPORARY).is_some() {
            return Ok(());
        }
        let database = Database::in_memory_within(self.temporary_budget())?;
        let named = Named { name: TEMPORARY.into(), snapshot: database.snapshot()?, database };
        self.add_to_transaction(&named)?;
        self.scope.databases.write().push(named);
        Ok(())
    }

    /// Drops what is the session's alone: its temporary tables, and its macros.
    pub(super) fn discard_temporary(&self) -> Result<Outcome> {
        self.refuse_in_transaction("DISCARD TEMP")?;
        self.macros.lock().clear();
        self.scope.databases.write().retain(|named| named.name != TEMPORARY);
        if self.scope.current_database().is_err() {
            self.scope.set_current(OWN_DATABASE, SCHEMA_MAIN);
        }
        if let Some(memory) = self.temporary.get() {
            memory.settle(0);
        }
        Ok(DONE)
    }

    pub(super) fn refuse_in_transaction(&self, what: &str) -> Result<()> {
        if self.is_in_transaction() {
            let message = format!("{what} cannot run inside a transaction; end it first");
            return Err(Error::new(ErrorKind::TransactionState, message).with_sqlstate("25001"));
        }
        Ok(())
    }
}

pub(super) fn show_databases(scope: &Scope, identity: &Identity) -> Result<Outcome> {
    let (databases, foreign) = (scope.databases.read(), scope.foreign_databases.read());
    let foreign = || foreign.iter().map(|attached| attached.database());
    // Where they are tells only those something who may name files.
    let is_shown = identity.privileges.machine;
    let path =
        |named: &Named| named.database.path().filter(|_| is_shown).map(|path| path.display().to_string());
    let current = scope.current().0;
    let names = databases.iter().map(|named| named.name.as_str());
    let paths = databases.iter().map(path);
    let read_only = databases.iter().map(|named| named.database.is_read_only());
    let is_current = databases.iter().map(|named| named.name == current);
    let names = names.chain(foreign().map(|database| database.name()));
    let paths = paths.chain(foreign().map(|database| is_shown.then(|| database.shown().to_string())));
    let read_only = read_only.chain(foreign().map(|database| database.is_read_only()));
    let is_current = is_current.chain(foreign().map(|_| false));
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("database_name", Arc::new(StringArray::from_iter_values(names)), false),
        ("path", Arc::new(paths.collect::<StringArray>()), true),
        ("is_read_only", Arc::new(read_only.map(Some).collect::<BooleanArray>()), false),
        ("is_current", Arc::new(is_current.map(Some).collect::<BooleanArray>()), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns)
        .map(Outcome::batch)
        .map_err(|error| Error::internal(format!("cannot list databases: {error}")))
}

/// Opens a database that is not open already.
fn open(
    engine: &Engine,
    path: &str,
    mode: OpenMode,
    attached: &[(String, Arc<Database>)],
) -> Result<Arc<Database>> {
    let full = std::path::absolute(path)
        .map_err(|error| Error::from_io(&error, format_args!("cannot attach \"{path}\"")))?;
    let others = attached.iter().map(|(name, database)| (name.as_str(), database));
    let mut all = std::iter::once((OWN_DATABASE, engine.database())).chain(others);
    let same = |database: &Arc<Database>| {
        let place = |path: &Path| path.canonicalize().ok();
        place(&full).is_some_and(|here| database.path().and_then(place) == Some(here))
    };
    if let Some((other, _)) = all.find(|(_, database)| same(database)) {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("\"{path}\" is attached already, as \"{other}\""),
        )
        .with_sqlstate("42P04"));
    }
    let options = engine.options();
    let (allow_network_filesystem, verify) = (options.allow_network_filesystem, options.verify);
    Database::open(&full, StorageOptions { allow_network_filesystem, verify, ..mode.into() })
}

impl Names<'_> {
    /// Returns `USE database`, `USE schema`, `USE database.schema`.
    pub(super) fn use_names(&self, names: &Use) -> Result<Outcome> {
        let (Use::Object(name) | Use::Database(name) | Use::Schema(name) | Use::Catalog(name)) = names else {
            return Err(Error::unsupported(format!("{names} is not supported; write USE database.schema")));
        };
        self.use_name(name)
    }

    fn use_name(&self, name: &ObjectName) -> Result<Outcome> {
        let parts = parts_of(name)?;
        let current = self.scope.current_database()?;
        let (database, schema) = match parts.as_slice() {
            [schema] if current.snapshot.catalog().has_schema(schema) => (current, schema.as_str()),
            [database] => (self.scope.database(database)?, SCHEMA_MAIN),
            [database, schema] => (self.scope.database(database)?, schema.as_str()),
            _ => return Err(Error::new(ErrorKind::Syntax, "write it as USE database.schema")),
        };
        if !database.snapshot.catalog().has_schema(schema) {
            return Err(Error::new(
                ErrorKind::UnknownName,
                format!("the database \"{}\" has no schema \"{schema}\"", database.name),
            )
            .with_sqlstate("3F000"));
        }
        self.scope.set_current(&database.name, schema);
        Ok(DONE)
    }
}

/// Returns how a database is to be opened.
///
/// # Errors
/// `Unsupported` for a TYPE that it is not of.
fn mode(options: &[AttachDuckDBDatabaseOption], is_foreign: bool) -> Result<OpenMode> {
    let mut mode = OpenMode::ReadWrite;
    for option in options {
        match option {
            AttachDuckDBDatabaseOption::ReadOnly(Some(false)) => {}
            AttachDuckDBDatabaseOption::ReadOnly(_) => mode = OpenMode::ReadOnly,
            AttachDuckDBDatabaseOption::Type(kind) if is_type(kind, is_foreign) => {}
            AttachDuckDBDatabaseOption::Type(kind) => {
                return Err(Error::unsupported(format!("no databases of type {kind} can be attached")));
            }
        }
    }
    Ok(mode)
}

/// Says whether TYPE names what a path or an address is of.
fn is_type(kind: &Ident, is_foreign: bool) -> bool {
    let names: &[&str] = if is_foreign { &["postgres", "postgresql"] } else { &["hypostyle"] };
    names.iter().any(|name| kind.value.eq_ignore_ascii_case(name))
}
