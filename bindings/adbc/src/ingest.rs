//! Bulk ingestion: the bound rows become rows of a table, all of them or none.

use crate::cancel::Mark;
use crate::error::{Result, from_database, invalid_argument, not_implemented, with_sqlstate};
use crate::option;
use crate::postgres;
use crate::query::{MAIN, current, first_schema, quoted, texts};
use crate::session::Session;
use adbc_core::constants as adbc;
use adbc_core::error::Status;
use adbc_core::options::{IngestMode, OptionStatement, OptionValue};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use hypostyle::{AppendOptions, LogicalType, Parameters, ScalarValue};

/// The catalog of temporary tables.
const TEMPORARY: &str = "temp";

/// The table that takes the rows, and the way in which it takes them.
#[derive(Clone, Debug)]
pub struct Ingest {
    pub table: Option<String>,
    catalog: Option<String>,
    schema: Option<String>,
    mode: IngestMode,
    temporary: bool,
}

impl Default for Ingest {
    fn default() -> Self {
        Self { table: None, catalog: None, schema: None, mode: IngestMode::Create, temporary: false }
    }
}

/// The full name of the table.
struct Target {
    catalog: String,
    schema: String,
    table: String,
}

impl Target {
    fn sql(&self) -> String {
        [&self.catalog, &self.schema, &self.table].map(|part| quoted(part)).join(".")
    }

    /// Returns the name as the program has written it.
    fn shown(&self) -> String {
        format!("\"{}\" of {}.{}", self.table, self.catalog, self.schema)
    }

    fn exists(&self, session: &Session) -> Result<bool> {
        if session.connection().is_postgres() {
            return postgres::exists(session, &self.sql());
        }
        let sql = "SELECT table_type FROM information_schema.tables \
                   WHERE table_catalog = $1 AND table_schema = $2 AND table_name = $3";
        let names = [&self.catalog, &self.schema, &self.table];
        let names = names.map(|name| ScalarValue::Utf8(Some(name.clone())));
        Ok(!texts(session, sql, Parameters::Positional(names.into()))?.is_empty())
    }
}

impl Ingest {
    /// Sets one of its options. Returns `None` for other options.
    pub fn set(&mut self, key: &OptionStatement, value: &OptionValue) -> Option<Result<()>> {
        let name = key.as_ref();
        let text = || option::text(name, value.clone());
        // An empty name is no name, so that a program can unset an option.
        let optional = || text().map(|text| Some(text).filter(|text| !text.is_empty()));
        let set = match key {
            OptionStatement::TargetTable => text().map(|table| self.table = Some(table)),
            OptionStatement::TargetCatalog => optional().map(|catalog| self.catalog = catalog),
            OptionStatement::TargetDbSchema => optional().map(|schema| self.schema = schema),
            OptionStatement::IngestMode => text()
                .and_then(|mode| mode.parse().map_err(|_| unknown_mode(&mode)))
                .map(|mode| self.mode = mode),
            OptionStatement::Temporary => {
                option::boolean(name, value.clone()).map(|temporary| self.temporary = temporary)
            }
            _ => return None,
        };
        Some(set)
    }

    pub fn get(&self, key: &OptionStatement) -> Option<String> {
        match key {
            OptionStatement::TargetTable => self.table.clone(),
            OptionStatement::TargetCatalog => self.catalog.clone(),
            OptionStatement::TargetDbSchema => self.schema.clone(),
            OptionStatement::IngestMode => Some(self.mode.into()),
            OptionStatement::Temporary => Some(option::flag(self.temporary)),
            _ => None,
        }
    }

    fn target(&self, table: &str, session: &Session) -> Result<Target> {
        let table = table.to_string();
        let names = [Some(&table), self.catalog.as_ref(), self.schema.as_ref()];
        if let Some(name) = names.into_iter().flatten().find(|name| name.contains('"')) {
            // An append would take the name without the quote for it, which may be another table's.
            return Err(not_implemented(format!(
                "rows cannot be ingested into {name:?}: a name with a quote in it"
            )));
        }
        if self.temporary {
            if self.catalog.is_some() || self.schema.is_some() {
                return Err(invalid_argument(format!(
                    "a temporary table is in {TEMPORARY}.{MAIN}; leave {} and {} out",
                    adbc::ADBC_INGEST_OPTION_TARGET_CATALOG,
                    adbc::ADBC_INGEST_OPTION_TARGET_DB_SCHEMA
                )));
            }
            return Ok(match session.connection().is_postgres() {
                true => Target { catalog: current(session)?.0, schema: postgres::TEMPORARY.into(), table },
                false => Target { catalog: TEMPORARY.into(), schema: MAIN.into(), table },
            });
        }
        let (catalog, schema) = match (&self.catalog, &self.schema) {
            (Some(catalog), Some(schema)) => (catalog.clone(), schema.clone()),
            (Some(catalog), None) => (catalog.clone(), first_schema(session)?),
            (None, schema) => {
                let (catalog, current) = current(session)?;
                (catalog, schema.clone().unwrap_or(current))
            }
        };
        Ok(Target { catalog, schema, table })
    }

    /// Appends all rows, and returns their number.
    pub fn run(
        &self,
        table: &str,
        session: &Session,
        mark: &Mark,
        data: Box<dyn RecordBatchReader + Send>,
    ) -> Result<u64> {
        // This is checked before anything is sent. A server's connection would wait for an answer
        // to rows that could not be sent.
        for field in data.schema().fields() {
            LogicalType::from_arrow(field).map_err(from_database)?;
        }
        session.atomically(|| {
            let target = self.target(table, session)?;
            let mut exists = target.exists(session)?;
            match self.mode {
                IngestMode::Create if exists => return Err(exists_already(&target)),
                IngestMode::Append if !exists => return Err(missing(&target)),
                IngestMode::Replace if exists => {
                    let drop = format!("DROP TABLE {}", target.sql());
                    session.execute(mark, &drop, Parameters::None)?;
                    exists = false;
                }
                _ => {}
            }
            if !exists && self.temporary && !session.connection().is_postgres() {
                // An append creates tables only in existing databases, and that of temporary tables
                // comes with the first one.
                session.execute(mark, &create_temporary(&target, &data.schema())?, Parameters::None)?;
            }
            let options = AppendOptions { create: !exists, by_name: true };
            let data = Box::new(Cancellable { data, mark: mark.clone() });
            session.call(mark, |connection| connection.append(&target.sql(), data, options)).map_err(
                |mut error| {
                    if let Err(cancelled) = mark.check() {
                        return from_database(cancelled);
                    }
                    if exists && error.status == Status::NotFound {
                        // This is ADBC's status for columns that the table does not have.
                        error.status = Status::AlreadyExists;
                    }
                    error
                },
            )
        })
    }
}

/// Rows that end when the statement is cancelled; the code that waits for them does not check.
struct Cancellable {
    data: Box<dyn RecordBatchReader + Send>,
    mark: Mark,
}

impl Iterator for Cancellable {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.mark.check() {
            Ok(()) => self.data.next(),
            Err(error) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
        }
    }
}

impl RecordBatchReader for Cancellable {
    fn schema(&self) -> SchemaRef {
        self.data.schema()
    }
}

fn create_temporary(target: &Target, schema: &Schema) -> Result<String> {
    let column = |field: &arrow_schema::FieldRef| {
        let logical_type = LogicalType::from_arrow(field).map_err(from_database)?;
        let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
        Ok(format!("{} {logical_type}{not_null}", quoted(field.name())))
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    Ok(format!("CREATE TEMPORARY TABLE {} ({})", quoted(&target.table), columns.join(", ")))
}

fn unknown_mode(mode: &str) -> adbc_core::error::Error {
    let modes = [
        adbc::ADBC_INGEST_OPTION_MODE_CREATE,
        adbc::ADBC_INGEST_OPTION_MODE_APPEND,
        adbc::ADBC_INGEST_OPTION_MODE_REPLACE,
        adbc::ADBC_INGEST_OPTION_MODE_CREATE_APPEND,
    ];
    invalid_argument(format!(
        "\"{}\" is one of {}, not \"{mode}\"",
        adbc::ADBC_INGEST_OPTION_MODE,
        modes.join(", ")
    ))
}

fn exists_already(target: &Target) -> adbc_core::error::Error {
    let message = format!("there is a table {} already; append to it, or replace it", target.shown());
    with_sqlstate(message, Status::AlreadyExists, "42P07")
}

fn missing(target: &Target) -> adbc_core::error::Error {
    let message = format!(
        "there is no table {}; {} makes it",
        target.shown(),
        adbc::ADBC_INGEST_OPTION_MODE_CREATE_APPEND
    );
    with_sqlstate(message, Status::NotFound, "42P01")
}
