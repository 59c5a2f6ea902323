//! SET, SHOW and PRAGMA: our own few settings, and DataFusion's many.

use crate::session::cluster::wait_for_cluster;
use crate::session::statement_cache::Remembered;
use crate::session::transaction::Explicit;
use crate::session::{
    AddedSetting, Engine, LOCK_TIMEOUT, Outcome, Parameters, Session, checked_threads, take_environment,
};
use crate::statement::dialect::parse;
use crate::statement::queries::Queries;
use crate::statement::refusal::missing;
use arrow::array::{ArrayRef, StringArray};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::execution::context::SessionState;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{ResetStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Set, ShowStatementFilter, ShowStatementFilterPosition, ShowStatementOptions,
    Statement, Value,
};
use hypostyle_catalog::pg_catalog::settings::Settings;
use hypostyle_catalog::scope::{Scope, TEMPORARY};
use hypostyle_cluster::node::SCHEMA as NODE_SCHEMA;
use hypostyle_cluster::stages::InStages;
use hypostyle_exec::position::Mode;
use hypostyle_expr::setting::{Choice, Setting};
use hypostyle_expr::time_zone::session_zone;
use hypostyle_foreign::ForeignConnections;
use hypostyle_plan::join_order::JoinOrder;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::statement::Pragma;
use hypostyle_storage::{QUIET, SCHEMA_MAIN, Synchronous};
use hypostyle_sync::{Mutex, RwLock};
use hypostyle_types::{Error, ErrorKind, Identity, Result, did_you_mean};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use uuid::Uuid;

/// The tables and views of a database, and those of the session behind them, whose names fit a pattern.
const TABLES: &str = "SELECT table_schema AS schema_name, table_name, table_type FROM \
    (SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables \
    UNION ALL SELECT current_database(), schemaname, matviewname, 'MATERIALIZED VIEW' \
    FROM pg_catalog.pg_matviews) AS relations \
    WHERE table_catalog IN ($1, $2) AND table_schema NOT IN ('information_schema', $3) AND table_name LIKE $4 \
    ORDER BY table_catalog = $2, 1, 2";

/// The pattern that each name fits.
const ALL_NAMES: &str = "%";

/// Whose a setting is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// It is the session's.
    Session,
    /// It is everybody's.
    Engine,
}

/// The engine's own settings.
const OWN: [(&str, Reach); 18] = [
    ("threads", Reach::Engine),
    ("memory_limit", Reach::Engine),
    ("query_memory_limit", Reach::Engine),
    ("temp_directory", Reach::Engine),
    ("temp_directory_limit", Reach::Engine),
    ("timezone", Reach::Session),
    ("batch_size", Reach::Session),
    ("synchronous", Reach::Engine),
    (AUTOMATIC_INDEXES, Reach::Engine),
    (AUTOMATIC_UPKEEP, Reach::Engine),
    (LOCK_TIMEOUT, Reach::Session),
    (Mode::NAME, Reach::Session),
    (JoinOrder::NAME, Reach::Session),
    (ForeignConnections::NAME, Reach::Session),
    (InStages::NAME, Reach::Session),
    (STATEMENT_ID, Reach::Session),
    (CLUSTER_EPOCH, Reach::Session),
    (SYNCED_REPLICAS, Reach::Session),
];

/// Says whether a setting is one of the engine's own, and not of the session of a protocol or of the planner.
pub fn is_own_setting(name: &str) -> bool {
    OWN.iter().any(|(own, _)| *own == name)
}

/// What identifies the next change of a table of the cluster, so that it can be sent again.
const STATEMENT_ID: &str = "statement_id";

/// The state of the cluster that this node reads. To set it is to wait for it.
const CLUSTER_EPOCH: &str = "cluster_epoch";

/// How many replicas of each fragment have to have what a statement changes.
const SYNCED_REPLICAS: &str = "synced_replicas";

/// Whether indexes are built that nobody has declared.
const AUTOMATIC_INDEXES: &str = "automatic_indexes";

/// Whether tables are brought back to their files when nobody writes to them.
const AUTOMATIC_UPKEEP: &str = "automatic_upkeep";

/// DataFusion's.
const BATCH_SIZE: &str = "8192";

/// Operators take memory for so many rows at once.
const BATCH_SIZE_MAX: usize = 1 << 20;

/// DataFusion's names of what is bounded here, whichever way it is set.
const DATAFUSION_BATCH_SIZE: &str = "datafusion.execution.batch_size";
const DATAFUSION_THREADS: &str = "datafusion.execution.target_partitions";

/// The levels of durability of a commit (docs/transactions.md).
const SYNCHRONOUS: [(&str, Synchronous); 3] =
    [("full", Synchronous::Full), ("normal", Synchronous::Normal), ("off", Synchronous::Off)];

/// Bytes of RAM when the system does not tell.
const MEMORY_UNKNOWN: u64 = 4 << 30;

fn check_rows(rows: usize) -> Result<()> {
    match rows <= BATCH_SIZE_MAX {
        true => Ok(()),
        false => Err(Error::invalid_input(format!("batch_size is at most {BATCH_SIZE_MAX} rows"))),
    }
}

/// Checks a value of a setting of DataFusion's that plans and buffers become as large as. What is no number
/// is told by DataFusion.
fn check_bounds(name: &str, value: &str) -> Result<()> {
    let Ok(number) = value.trim().parse::<usize>() else { return Ok(()) };
    match name.replace('"', "").as_str() {
        DATAFUSION_BATCH_SIZE => check_rows(number),
        DATAFUSION_THREADS => checked_threads(number).map(drop),
        _ => Ok(()),
    }
}

/// Returns the call in `PRAGMA table_info('t')`, which is also a function in FROM.
fn table_of_info(name: &str) -> Option<&str> {
    let (called, arguments) = name.split_once('(')?;
    let text = arguments.strip_suffix(')')?.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let is_one_text = !text.replace("''", "").contains('\'');
    (called.trim().eq_ignore_ascii_case("table_info") && is_one_text).then_some(name)
}

/// Reads a setting that is on or off.
fn is_on(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(Error::invalid_input(format!("{name} is on or off, not '{value}'"))),
    }
}

/// Says of an input that is wrong, and no more, that it is the value of a parameter.
fn wrong_value(error: Error) -> Error {
    match error.sqlstate() == ErrorKind::InvalidInput.sqlstate() {
        true => error.with_sqlstate("22023"),
        false => error,
    }
}

/// Returns the RAM of this machine in bytes, or what the process may take of it.
pub fn system_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let all = kibibytes.map_or(MEMORY_UNKNOWN, |kibibytes| kibibytes * 1024);
    hypostyle_storage::memory_of_groups().map_or(all, |limit| limit.min(all))
}

/// Returns a number of bytes: `4GB`, `512MiB`, `80%` of RAM, `1000000`.
///
/// # Errors
/// `InvalidInput` when it is not one.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let wrong = || Error::invalid_input(format!("'{text}' is not a size; write 4GB, 512MiB, 80% or bytes"));
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let number: f64 = trimmed[..digits].parse().map_err(|_| wrong())?;
    let factor = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "%" if number <= 100.0 => system_memory() as f64 / 100.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    Ok((number * factor) as u64)
}

/// What SET, RESET, SHOW and PRAGMA may touch.
pub(crate) struct Setter<'a> {
    pub(super) queries: &'a dyn Queries,
    pub(super) engine: &'a Arc<Engine>,
    /// Has the planner's settings.
    pub(super) context: &'a SessionContext,
    pub(super) scope: &'a Arc<Scope>,
    /// Those that clients of PostgreSQL know.
    pub(super) settings: &'a Settings,
    pub(super) identity: &'a Identity,
    /// Those of the program around the engine.
    pub(super) added: &'a RwLock<BTreeMap<&'static str, AddedSetting>>,
    /// Made with the settings of before.
    pub(super) spare: &'a Mutex<Option<SessionState>>,
    pub(super) remembered: &'a Mutex<Remembered>,
    /// Keeps what SET LOCAL has set.
    pub(super) transaction: &'a Mutex<Option<Explicit>>,
    pub(super) next_name: &'a Mutex<Option<Uuid>>,
    pub(super) synced_replicas: &'a AtomicU32,
}

impl Session {
    pub(crate) fn setter(&self) -> Setter<'_> {
        Setter {
            queries: self,
            engine: &self.engine,
            context: &self.context,
            scope: &self.scope,
            settings: &self.settings,
            identity: &self.identity,
            added: &self.added_settings,
            spare: &self.spare_state,
            remembered: &self.remembered,
            transaction: &self.transaction,
            next_name: &self.next_name,
            synced_replicas: &self.synced_replicas,
        }
    }
}

impl Setter<'_> {
    /// Returns the value of a setting of the program around the engine.
    pub(super) fn added(&self, name: &str) -> Option<String> {
        self.added.read().get(name).map(|setting| setting.value.clone())
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.transaction.lock().is_some()
    }

    /// Runs SET for all statements that follow.
    pub(super) fn set_for_session(&self, set: Set) -> Result<Outcome> {
        self.assign(set).map_err(wrong_value)
    }

    fn assign(&self, set: Set) -> Result<Outcome> {
        if let Set::SingleAssignment { variable, values, .. } = &set {
            let name = variable.to_string().to_ascii_lowercase();
            if let Some(setting) = self.added.write().get_mut(name.as_str()) {
                let [value] = values.as_slice() else { return Err(unknown(&name)) };
                setting.value = (setting.check)(&text_of(value))?;
                return Ok(Outcome::Done { rows_affected: None });
            }
            if matches!(name.as_str(), "search_path" | "schema") {
                let schema = |value: &Expr| match value {
                    Expr::Identifier(name) => fold(name),
                    other => text_of(other),
                };
                return set_search_path(
                    self.scope,
                    self.settings,
                    &values.iter().map(schema).collect::<Vec<_>>().join(", "),
                );
            }
            if is_own_setting(&name) && values.len() == 1 {
                return self.set_own(&name, &text_of(&values[0]));
            }
            check_engine_setting(self.identity, &name)?;
            values.iter().try_for_each(|value| check_bounds(&name, &text_of(value)))?;
        }
        if let Set::SetTimeZone { value, .. } = &set {
            return self.set_own("timezone", &text_of(value));
        }
        self.queries.start_statement(DfStatement::Statement(Box::new(Statement::Set(set))), &Parameters::None)
    }

    pub(super) fn reset(&self, reset: ResetStatement) -> Result<Outcome> {
        let ResetStatement::Variable(name) = &reset;
        let name = name.to_string().to_ascii_lowercase();
        let done = self.reset_named(&name, reset)?;
        self.keep(&name)?;
        Ok(done)
    }

    fn reset_named(&self, name: &str, reset: ResetStatement) -> Result<Outcome> {
        match name {
            "timezone" => return self.set_own(name, "UTC"),
            "batch_size" => return self.set_own(name, BATCH_SIZE),
            LOCK_TIMEOUT => return self.set_own(name, "0"),
            Mode::NAME => return self.set_own(name, "on"),
            JoinOrder::NAME => return self.set_own(name, "estimated"),
            InStages::NAME => return self.set_own(name, "auto"),
            STATEMENT_ID => return self.set_own(name, ""),
            SYNCED_REPLICAS => return self.set_own(name, "1"),
            "search_path" | "schema" => return set_search_path(self.scope, self.settings, SCHEMA_MAIN),
            own if is_own_setting(own) || self.added(own).is_some() => {
                return Err(Error::unsupported(format!("{own} cannot be reset; set it to a value")));
            }
            _ => check_engine_setting(self.identity, name)?,
        }
        self.queries.start_statement(DfStatement::Reset(reset), &Parameters::None)
    }

    /// Runs `PRAGMA name` and `PRAGMA name = value`.
    pub(super) fn pragma(&self, Pragma { name, value }: Pragma) -> Result<Outcome> {
        match value {
            Some(value) => self.set_own(&name.to_ascii_lowercase(), &value).map_err(wrong_value),
            None => match table_of_info(&name) {
                Some(call) => self
                    .queries
                    .start_statement(parse(&format!("SELECT * FROM pragma_{call}"))?, &Parameters::None),
                None => self.show(name),
            },
        }
    }

    pub(super) fn set_own(&self, name: &str, value: &str) -> Result<Outcome> {
        let number = || -> Result<usize> {
            value.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
                Error::invalid_input(format!("{name} must be a positive number, not '{value}'"))
            })
        };
        let mut options = self.engine.options();
        if !is_of_session(name) {
            self.identity.privileges.check_machine(&format!("set {name}, which is everybody's"))?;
        }
        match name {
            "threads" => options.threads = number().and_then(checked_threads)?,
            "memory_limit" => options.memory_limit = parse_bytes(value)?,
            "query_memory_limit" => options.query_memory_limit = unless_none(value)?,
            "temp_directory_limit" => options.temp_directory_limit = unless_none(value)?,
            "temp_directory" => options.temp_directory = Some(PathBuf::from(value)),
            "synchronous" => {
                let synchronous = SYNCHRONOUS.iter().find(|(name, _)| value.eq_ignore_ascii_case(name));
                let (_, synchronous) = synchronous.ok_or_else(|| {
                    Error::invalid_input(format!("synchronous is full, normal or off, not '{value}'"))
                })?;
                self.scope.current_database()?.database.set_synchronous(*synchronous);
                return Ok(Outcome::Done { rows_affected: None });
            }
            AUTOMATIC_INDEXES => {
                let automatic = is_on(name, value)?;
                self.scope.current_database()?.database.set_automatic_indexes(automatic);
                return Ok(Outcome::Done { rows_affected: None });
            }
            AUTOMATIC_UPKEEP => {
                let after = is_on(name, value)?.then_some(QUIET);
                self.scope.current_database()?.database.set_upkeep(after);
                return Ok(Outcome::Done { rows_affected: None });
            }
            "timezone" => {
                let zone = session_zone(value)?;
                let done = set_datafusion(self.queries, "datafusion.execution.time_zone", &zone)?;
                self.settings.force(name, &zone);
                return Ok(done);
            }
            LOCK_TIMEOUT => {
                self.settings.set(name, value)?;
                return Ok(Outcome::Done { rows_affected: None });
            }
            STATEMENT_ID => return identify_statement(self.next_name, value),
            CLUSTER_EPOCH => return wait_for_cluster(self.engine.node(), self.is_in_transaction(), value),
            SYNCED_REPLICAS => return set_synced_replicas(self.synced_replicas, value),
            Mode::NAME => return self.choose::<Mode>(value),
            JoinOrder::NAME => return self.choose::<JoinOrder>(value),
            ForeignConnections::NAME => return self.choose_connections(value),
            InStages::NAME => return self.choose::<InStages>(value),
            "batch_size" => {
                let rows = number()?;
                check_rows(rows)?;
                return set_datafusion(self.queries, DATAFUSION_BATCH_SIZE, &rows.to_string());
            }
            _ => return Err(unknown(name)),
        }
        self.engine.set_options(options)?;
        take_environment(self.engine, self.context, self.spare);
        Ok(Outcome::Done { rows_affected: None })
    }

    /// Says how many connections read an attached database at a time.
    fn choose_connections(&self, value: &str) -> Result<Outcome> {
        if value.parse::<ForeignConnections>()? > ForeignConnections::default() {
            let what = format!("open more than {} connections", ForeignConnections::default());
            self.identity.privileges.check_machine(&what)?;
        }
        self.choose::<ForeignConnections>(value)
    }

    /// Makes a choice of ours for the statements to come.
    fn choose<C: Choice>(&self, value: &str) -> Result<Outcome> {
        let setting: Setting<C> = Setting(value.parse()?);
        let state = self.context.state_ref();
        state.write().config_mut().options_mut().extensions.insert(setting);
        *self.spare.lock() = None;
        Ok(Outcome::Done { rows_affected: None })
    }

    /// Returns the value of a setting of ours, as text.
    pub(crate) fn own_setting(&self, name: &str) -> Option<String> {
        let options = self.engine.options();
        let config = self.context.copied_config();
        match name {
            "threads" => Some(options.threads.to_string()),
            "memory_limit" => Some(shown_bytes(options.memory_limit)),
            "query_memory_limit" => Some(or_none(options.query_memory_limit)),
            "temp_directory_limit" => Some(or_none(options.temp_directory_limit)),
            "temp_directory" => Some(options.temp_directory.as_ref().map_or_else(
                || std::env::temp_dir().display().to_string(),
                |directory| directory.display().to_string(),
            )),
            "timezone" => Some(config.options().execution.time_zone.clone().unwrap_or_else(|| "UTC".into())),
            "batch_size" => Some(config.batch_size().to_string()),
            Mode::NAME => Some(Setting::<Mode>::of(config.options())?.to_string()),
            JoinOrder::NAME => Some(Setting::<JoinOrder>::of(config.options())?.to_string()),
            ForeignConnections::NAME => {
                Some(Setting::<ForeignConnections>::of(config.options())?.to_string())
            }
            InStages::NAME => Some(Setting::<InStages>::of(config.options())?.to_string()),
            LOCK_TIMEOUT => self.settings.get(name),
            CLUSTER_EPOCH => Some(self.engine.node().map_or(0, |node| node.epoch().0).to_string()),
            SYNCED_REPLICAS => Some(self.synced_replicas.load(Ordering::Relaxed).to_string()),
            STATEMENT_ID => Some(self.next_name.lock().map_or_else(String::new, |id| id.to_string())),
            AUTOMATIC_INDEXES => {
                let automatic = self.scope.current_database().ok()?.database.has_automatic_indexes();
                Some(if automatic { "on" } else { "off" }.into())
            }
            AUTOMATIC_UPKEEP => {
                let automatic = self.scope.current_database().ok()?.database.has_upkeep();
                Some(if automatic { "on" } else { "off" }.into())
            }
            "synchronous" => {
                let synchronous = self.scope.current_database().ok()?.database.synchronous();
                SYNCHRONOUS.iter().find(|(_, found)| *found == synchronous).map(|(name, _)| name.to_string())
            }
            _ => None,
        }
    }

    pub(super) fn show(&self, name: String) -> Result<Outcome> {
        let name = name.to_ascii_lowercase();
        let value = |name: &str| self.own_setting(name);
        match name.as_str() {
            "tables" => list_tables(self.queries, self.scope, ALL_NAMES),
            "settings" => {
                let own = OWN.iter().filter_map(|(name, _)| Some((name.to_string(), value(name)?)));
                let added = self.added.read();
                let added = added.iter().map(|(name, setting)| (name.to_string(), setting.value.clone()));
                name_value(own.chain(added).collect())
            }
            name if self.added(name).is_some() => {
                name_value(vec![(name.to_string(), self.added(name).unwrap_or_default())])
            }
            "search_path" | "schema" => {
                let (_, schemas) = self.scope.search();
                name_value(vec![(name.clone(), schemas.join(", "))])
            }
            name if is_own_setting(name) => {
                name_value(vec![(name.to_string(), value(name).unwrap_or_default())])
            }
            other if other == "all" || other.contains('.') => self.show_datafusion(other),
            other => Err(unknown(other)),
        }
    }

    /// Shows a setting of DataFusion's, or all of them.
    fn show_datafusion(&self, name: &str) -> Result<Outcome> {
        if self.settings.is_wire() {
            let settings = self.context.copied_config().options().entries();
            // PostgreSQL's clients take one column, as of its own settings.
            if let Some(setting) = settings.into_iter().find(|setting| setting.key == name) {
                let value: ArrayRef = Arc::new(StringArray::from_iter([setting.value]));
                return RecordBatch::try_from_iter([(name, value)])
                    .map(Outcome::batch)
                    .map_err(|error| Error::internal(format!("cannot show a setting: {error}")));
            }
        }
        let show = Statement::ShowVariable { variable: parts_of_setting(name) };
        self.queries.start_statement(DfStatement::Statement(Box::new(show)), &Parameters::None)
    }
}

/// Returns the settings of a session, one or all.
fn name_value(rows: Vec<(String, String)>) -> Result<Outcome> {
    let (names, values): (Vec<String>, Vec<String>) = rows.into_iter().unzip();
    let columns: [(&str, ArrayRef); 2] =
        [("name", Arc::new(StringArray::from(names))), ("value", Arc::new(StringArray::from(values)))];
    RecordBatch::try_from_iter(columns)
        .map(Outcome::batch)
        .map_err(|error| Error::internal(format!("cannot list settings: {error}")))
}

/// Says how many replicas of each fragment have to have what a statement changes.
fn set_synced_replicas(replicas: &AtomicU32, value: &str) -> Result<Outcome> {
    let least = value.parse::<u32>().ok().filter(|least| *least > 0).ok_or_else(|| {
        Error::invalid_input(format!("{SYNCED_REPLICAS} is a number of replicas from 1 on, not '{value}'"))
    })?;
    replicas.store(least, Ordering::Relaxed);
    Ok(Outcome::Done { rows_affected: None })
}

/// Names the next change of a table of the cluster.
fn identify_statement(next: &Mutex<Option<Uuid>>, value: &str) -> Result<Outcome> {
    let id = match value {
        "" => None,
        text => Some(Uuid::parse_str(text).map_err(|_| {
            Error::invalid_input(format!("{STATEMENT_ID} is a UUID, or empty, not '{value}'"))
        })?),
    };
    *next.lock() = id;
    Ok(Outcome::Done { rows_affected: None })
}

fn list_tables(queries: &dyn Queries, scope: &Scope, pattern: &str) -> Result<Outcome> {
    let (database, _) = scope.current();
    let values = [database.as_str(), TEMPORARY, NODE_SCHEMA, pattern].map(ScalarValue::from);
    queries.start_statement(parse(TABLES)?, &Parameters::Positional(values.into()))
}

/// Runs SHOW TABLES, with or without LIKE 'pattern'.
pub(super) fn show_tables(
    queries: &dyn Queries,
    scope: &Scope,
    options: ShowStatementOptions,
) -> Result<Outcome> {
    let ShowStatementOptions { show_in, starts_with, limit, limit_from, filter_position } = options;
    let pattern = match &filter_position {
        None => ALL_NAMES,
        Some(
            ShowStatementFilterPosition::Infix(ShowStatementFilter::Like(pattern))
            | ShowStatementFilterPosition::Suffix(ShowStatementFilter::Like(pattern)),
        ) => pattern.as_str(),
        Some(_) => {
            return Err(Error::unsupported("SHOW TABLES takes LIKE 'pattern' and no other filter"));
        }
    };
    if show_in.is_some() || starts_with.is_some() || limit.is_some() || limit_from.is_some() {
        return Err(Error::unsupported(
            "SHOW TABLES takes LIKE 'pattern'; for more, query information_schema.tables",
        ));
    }
    list_tables(queries, scope, pattern)
}

pub(super) fn reset_datafusion(queries: &dyn Queries, name: &str) -> Result<Outcome> {
    let variable = ResetStatement::Variable(ObjectName::from(parts_of_setting(name)));
    queries.start_statement(DfStatement::Reset(variable), &Parameters::None)
}

pub(super) fn set_datafusion(queries: &dyn Queries, name: &str, value: &str) -> Result<Outcome> {
    let value = Expr::value(Value::SingleQuotedString(value.to_string()));
    let variable = ObjectName::from(parts_of_setting(name));
    let set = Set::SingleAssignment { scope: None, hivevar: false, variable, values: vec![value] };
    queries.start_statement(DfStatement::Statement(Box::new(Statement::Set(set))), &Parameters::None)
}

/// Runs `SET search_path`: names without a schema are looked up in these, one after the other.
/// As in PostgreSQL, schemas that there are not are passed over until they are made, unless there is none
/// at all.
pub(super) fn set_search_path(scope: &Scope, settings: &Settings, path: &str) -> Result<Outcome> {
    let current = scope.current_database()?;
    let path = if path.trim().is_empty() || path.trim().eq_ignore_ascii_case("default") {
        SCHEMA_MAIN
    } else {
        path.trim()
    };
    let named = path.split(',').map(|schema| schema.trim().trim_matches('"').to_string());
    let named: Vec<String> = named.collect();
    if scope.schemas_among(&current.name, &named).is_empty() && !settings.is_wire() {
        let known = current.snapshot.catalog().schemas.iter().map(|schema| schema.name.as_str());
        return Err(missing("schema", path, known).with_sqlstate("3F000"));
    }
    scope.set_search(&current.name, named);
    settings.set("search_path", path)?;
    Ok(Outcome::Done { rows_affected: None })
}

/// Checks that a setting of DataFusion may be set, because some can take all memory of the
/// machine.
///
/// # Errors
/// `UnknownName` for other settings; `Denied` without the right to change settings of
/// everybody.
fn check_engine_setting(identity: &Identity, name: &str) -> Result<()> {
    let name = name.replace('"', "");
    if !name.contains('.') {
        return Err(unknown(&name));
    }
    if name.starts_with("datafusion.runtime.") {
        return Err(Error::unsupported(format!(
            "{name} cannot be set; set memory_limit, query_memory_limit, temp_directory or temp_directory_limit"
        )));
    }
    identity.privileges.check_machine(&format!("set {name}"))
}

/// Says whether a setting of ours is the session's, and not everybody's.
pub(super) fn is_of_session(name: &str) -> bool {
    OWN.contains(&(name, Reach::Session))
}

/// Returns a number of bytes that need not be bounded.
fn unless_none(value: &str) -> Result<Option<u64>> {
    match value.eq_ignore_ascii_case("none") {
        true => Ok(None),
        false => parse_bytes(value).map(Some),
    }
}

fn or_none(limit: Option<u64>) -> String {
    limit.map_or_else(|| "none".into(), shown_bytes)
}

/// Returns a number of bytes in the largest unit that it is a whole number of, or nearly.
fn shown_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1_000, "KB"),
    ];
    let whole = UNITS.iter().find(|(size, _)| bytes > 0 && bytes.is_multiple_of(*size));
    match whole {
        Some((size, unit)) if bytes / size < 10_000 => format!("{}{unit}", bytes / size),
        _ if bytes >= 1 << 30 => format!("{:.1}GiB", bytes as f64 / f64::from(1 << 30)),
        _ if bytes >= 1 << 20 => format!("{:.1}MiB", bytes as f64 / f64::from(1 << 20)),
        _ => bytes.to_string(),
    }
}

/// Returns the parts of a setting's name, which stand between dots.
pub(super) fn parts_of_setting(name: &str) -> Vec<Ident> {
    name.split('.').map(Ident::new).collect()
}

pub(super) fn unknown(name: &str) -> Error {
    Error::new(
        ErrorKind::UnknownName,
        format!(
            "no setting \"{name}\"{}; SHOW settings lists them",
            did_you_mean(name, OWN.map(|(own, _)| own))
        ),
    )
    .with_sqlstate("42704")
}

/// Returns the text of a literal, or of a bare word.
pub(super) fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string().trim_matches(['\'', '"']).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_bounded() {
        assert_eq!(checked_threads(4096).unwrap(), 4096);
        assert!(checked_threads(4097).is_err());
    }

    #[test]
    fn settings_that_plans_become_as_large_as_are_bounded() {
        for (name, most) in [(DATAFUSION_BATCH_SIZE, 1_usize << 20), (DATAFUSION_THREADS, 4096)] {
            assert!(check_bounds(name, &most.to_string()).is_ok(), "{name}");
            for wrong in [most + 1, 1 << 63] {
                assert!(check_bounds(name, &wrong.to_string()).is_err(), "{name}");
            }
            assert!(check_bounds(name, "many").is_ok(), "{name}");
        }
        assert!(check_bounds("\"datafusion\".execution.\"batch_size\"", "9000000").is_err());
        assert!(check_bounds("datafusion.optimizer.max_passes", "9000000").is_ok());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("4GB").unwrap(), 4_000_000_000);
        assert_eq!(parse_bytes(" 1.5 KiB ").unwrap(), 1536);
        assert_eq!(parse_bytes("7").unwrap(), 7);
        assert_eq!(parse_bytes("50%").unwrap(), (system_memory() as f64 / 2.0) as u64);
        for shown in ["4GB", "2GiB", "512MiB", "100MB", "7"] {
            assert_eq!(shown_bytes(parse_bytes(shown).unwrap()), shown);
        }
        assert_eq!(shown_bytes((3 << 30) + 1), "3.0GiB");
        for wrong in ["", "GB", "4 parsecs", "-1", "120%"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
