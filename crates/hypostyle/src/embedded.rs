//! Connections to a database in this process.

use crate::connection::{
    AppendOptions, CallAnswer, ColumnDescription, StatementDescription, TableDescription, TableKind,
};
use crate::{Database, Parameters, PollHook, Progress, QueryResult, TableResolver};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatchReader;
use hypostyle_client::Meter;
use hypostyle_engine::identifier::quoted;
use hypostyle_engine::postgres::{Settings, told_name};
use hypostyle_engine::{
    Described, Gives, Held, Identity, Meaning, Outcome, Poll, Session, SettingCheck, Transfer,
};
use hypostyle_sync::RwLock;
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::{Arc, Weak};

/// A session with a database in this process.
#[derive(Clone)]
pub(crate) struct Embedded {
    database: Database,
    session: Arc<RwLock<Option<Arc<Session>>>>,
    /// The session also after [`Self::close`], while a statement or a result of it is at work.
    at_work: Weak<Session>,
    meter: Arc<Meter>,
}

impl Embedded {
    pub(crate) fn new(database: Database, identity: Identity) -> Result<Self> {
        let session = Session::new(database.engine()?, identity)?;
        let at_work = Arc::downgrade(&session);
        let session = Arc::new(RwLock::new(Some(session)));
        let connection = Self { database, session, at_work, meter: Arc::default() };
        connection.set_poll(None);
        Ok(connection)
    }

    fn session(&self) -> Result<Arc<Session>> {
        self.database.engine()?;
        self.session
            .read()
            .clone()
            .ok_or_else(|| Error::new(ErrorKind::Closed, "the connection is closed; connect again"))
    }

    pub fn execute_with(&self, sql: &str, parameters: Parameters) -> Result<QueryResult> {
        let session = self.session()?;
        let running = self.meter.begin();
        let outcome = session.execute(sql, &parameters)?;
        QueryResult::embedded(session, outcome, running)
    }

    pub fn hold(&self, what: &str, bytes: u64) -> Result<Held> {
        self.session()?.hold(what, bytes)
    }

    pub fn check_interrupt(&self) -> Result<()> {
        self.session()?.check_interrupt()
    }

    pub fn go_on(&self) -> Result<()> {
        self.session()?.go_on()
    }

    pub fn table(&self, name: &str) -> Result<QueryResult> {
        let session = self.session()?;
        let running = self.meter.begin();
        let outcome = session.table(name)?;
        QueryResult::embedded(session, outcome, running)
    }

    pub fn tables(&self) -> Result<Vec<TableDescription>> {
        let session = self.session()?;
        let snapshot = session.snapshot()?.unpinned();
        let describe = |columns: &[hypostyle_storage::ColumnEntry]| {
            columns
                .iter()
                .map(|column| ColumnDescription {
                    name: column.name.clone(),
                    logical_type: column.logical_type.clone(),
                    nullable: column.nullable,
                })
                .collect()
        };
        let mut tables: Vec<TableDescription> = snapshot
            .tables()
            .filter(|table| table.entry().schema != hypostyle_cluster::node::SCHEMA)
            .map(|table| TableDescription {
                schema: table.entry().schema.clone(),
                name: table.entry().name.clone(),
                kind: TableKind::Table,
                row_count: Some(session.row_count(table)),
                columns: describe(&table.entry().columns),
            })
            .collect();
        for view in &snapshot.catalog().views {
            // A view over a dropped object is listed without columns; using it gives the reason.
            let outcome = session.table(&format!("{}.{}", quoted(&view.schema), quoted(&view.name)));
            let columns = outcome.and_then(|outcome| describe_outcome(&outcome)).unwrap_or_default();
            tables.push(TableDescription {
                schema: view.schema.clone(),
                name: view.name.clone(),
                kind: TableKind::View,
                row_count: None,
                columns,
            });
        }
        tables.sort_by(|one, other| (&one.schema, &one.name).cmp(&(&other.schema, &other.name)));
        Ok(tables)
    }

    pub fn append(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        options: AppendOptions,
    ) -> Result<u64> {
        let session = self.session()?;
        let running = self.meter.begin();
        let rows = session.append(table, data, options.create, options.by_name)?;
        running.end();
        Ok(rows)
    }

    pub fn check_append(&self, table: &str) -> Result<()> {
        self.session()?.check_append(table)
    }

    pub fn call(
        &self,
        request: &[u8],
        rows: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<CallAnswer> {
        let session = self.session()?;
        let running = self.meter.begin();
        match session.answer_call(request, rows)? {
            hypostyle_engine::CallAnswer::Reply(reply) => {
                running.end();
                Ok(CallAnswer::Reply(reply))
            }
            hypostyle_engine::CallAnswer::Rows(outcome) => {
                QueryResult::embedded(session, outcome, running).map(CallAnswer::Rows)
            }
        }
    }

    pub fn is_in_transaction(&self) -> bool {
        self.session.read().as_ref().is_some_and(|session| session.is_in_transaction())
    }

    pub fn is_transaction_failed(&self) -> bool {
        self.session.read().as_ref().is_some_and(|session| session.is_transaction_failed())
    }

    pub fn id(&self) -> u64 {
        self.session.read().as_ref().map_or(0, |session| session.id())
    }

    pub fn is_killed(&self) -> bool {
        self.session.read().as_ref().is_none_or(|session| session.is_killed())
    }

    pub fn is_interrupted(&self) -> bool {
        self.session.read().as_ref().is_some_and(|session| session.is_interrupted())
    }

    pub fn define_setting(&self, name: &'static str, value: &str, check: SettingCheck) -> Result<()> {
        self.session()?.define_setting(name, value, check);
        Ok(())
    }

    pub fn change_setting(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
        self.session()?.change_setting(name, value, is_local)
    }

    pub fn setting(&self, name: &str) -> Option<String> {
        self.session.read().as_ref().and_then(|session| session.setting(name))
    }

    pub fn abort_transaction(&self, why: &str) {
        if let Some(session) = self.session.read().as_ref() {
            session.abort_transaction(why);
        }
    }

    pub fn describe_with(&self, sql: &str, given: &[Option<DataType>]) -> Result<StatementDescription> {
        let Described { parameters, gives, origins, follows_definitions } =
            self.session()?.describe_statement(sql, given)?;
        let column = |(name, logical_type, nullable): (String, _, _)| {
            let name = told_name(&name).to_string();
            ColumnDescription { name, logical_type, nullable }
        };
        let (columns, runs_to_tell) = match gives {
            Gives::Rows(columns) => (Some(columns.into_iter().map(column).collect()), false),
            Gives::Nothing => (None, false),
            Gives::Unknown => (None, true),
        };
        Ok(StatementDescription { parameters, columns, runs_to_tell, origins, follows_definitions })
    }

    pub fn check_syntax(&self, sql: &str) -> Result<()> {
        self.session()?.check_syntax(sql)
    }

    pub fn meaning(&self) -> Result<Meaning> {
        self.session()?.meaning()
    }

    pub fn still_means(&self, meaning: &Meaning) -> Result<bool> {
        self.session()?.still_means(meaning)
    }

    pub fn postgres_settings(&self) -> Result<Arc<Settings>> {
        Ok(self.session()?.settings().clone())
    }

    pub fn progress(&self) -> Option<Progress> {
        self.meter.progress()
    }

    pub fn interrupt(&self) {
        if let Some(session) = self.at_work.upgrade() {
            session.interrupt();
        }
    }

    pub fn close(&self) -> Result<()> {
        if let Some(session) = self.session.write().take() {
            session.end();
        }
        Ok(())
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    pub fn set_poll(&self, poll: Option<PollHook>) {
        if let Some(session) = self.session.read().as_ref() {
            let meter = self.meter.clone();
            session.set_poll(Some(Arc::new(move |told| {
                meter.computed(told.rows_done, told.rows_total);
                // The time is that of the engine, which begins anew when an open result is
                // continued.
                let progress = Progress::computing(told.rows_done, told.rows_total, told.elapsed);
                poll.as_ref().map_or(Poll::Continue, |poll| poll(&progress))
            })));
        }
    }

    pub fn set_transfer(&self, transfer: Arc<dyn Transfer>) {
        if let Some(session) = self.session.read().as_ref() {
            session.set_transfer(transfer);
        }
    }

    pub fn set_table_resolver(&self, resolver: Option<TableResolver>) {
        if let Some(session) = self.session.read().as_ref() {
            session.set_table_resolver(resolver);
        }
    }
}

pub(crate) fn describe_outcome(outcome: &Outcome) -> Result<Vec<ColumnDescription>> {
    let columns = Session::describe(outcome)?;
    let describe = |(name, logical_type, nullable)| ColumnDescription { name, logical_type, nullable };
    Ok(columns.into_iter().map(describe).collect())
}

#[cfg(test)]
mod tests {
    use crate::{Database, OpenOptions};

    #[test]
    fn a_view_has_columns_whatever_its_name_is() {
        let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        connection.execute("CREATE VIEW \"a\"\"b.c\" AS SELECT 1 AS d").unwrap();
        let tables = connection.tables().unwrap();
        let names = tables[0].columns.iter().map(|column| column.name.as_str());
        assert_eq!((tables[0].name.as_str(), names.collect::<Vec<_>>()), ("a\"b.c", vec!["d"]));
    }
}
