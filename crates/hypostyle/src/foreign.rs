//! Connections to PostgreSQL: they turn the calls of its client into the types of this crate.

use crate::connection::{AppendOptions, CallAnswer, StatementDescription, TableDescription};
use crate::placeholder::Scanned;
use crate::remote::{checked_rows, describe, described, row};
use crate::{Parameters, PollHook, Progress, QueryResult, TableResolver};
use arrow::array::RecordBatchReader;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use hypostyle_client::Transaction;
use hypostyle_engine::postgres::Settings;
use hypostyle_engine::{Meaning, Poll, SettingCheck};
use hypostyle_postgres::{Address, Options};
use hypostyle_types::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Postgres(hypostyle_postgres::Connection);

impl Postgres {
    pub fn open(address: &Address, program: Option<String>) -> Result<Self> {
        let mut options = Options::default();
        options.application_name = program.unwrap_or(options.application_name);
        hypostyle_postgres::Connection::connect(address, options).map(Self)
    }

    pub fn duplicate(&self) -> Result<Self> {
        self.0.duplicate().map(Self)
    }

    pub fn address(&self) -> &Address {
        self.0.address()
    }

    /// Runs statements. PostgreSQL has `$1` alone: `?` and `$name` become it where there are values
    /// for them.
    pub fn execute_with(&self, sql: &str, parameters: Parameters) -> Result<QueryResult> {
        let scanned = Scanned::of(sql);
        let names = scanned.names();
        let values: Vec<ScalarValue> = match parameters {
            Parameters::None => return QueryResult::postgres(self.0.execute(sql, None)?),
            Parameters::Positional(values) if values.len() == names.len() => values,
            Parameters::Positional(values) => {
                let (wanted, given) = (names.len(), values.len());
                let message = format!("the statement has {wanted} parameters, and {given} values are given");
                return Err(Error::invalid_input(message).with_sqlstate("07001"));
            }
            Parameters::Named(values) => in_order(&names, values)?,
        };
        QueryResult::postgres(self.0.execute(&numbered(&scanned, sql), Some(&row(&values)?))?)
    }

    pub fn table(&self, name: &str) -> Result<QueryResult> {
        QueryResult::postgres(self.0.table(name)?)
    }

    pub fn tables(&self) -> Result<Vec<TableDescription>> {
        self.0.tables()?.into_iter().map(describe).collect()
    }

    pub fn append(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        options: AppendOptions,
    ) -> Result<u64> {
        let AppendOptions { create, by_name } = options;
        self.0.append(table, checked_rows(data), hypostyle_client::AppendOptions { create, by_name })
    }

    pub fn call(&self, _: &[u8], _: Option<Box<dyn RecordBatchReader + Send>>) -> Result<CallAnswer> {
        Err(Error::unsupported("PostgreSQL is no node of a cluster of ours"))
    }

    pub fn is_in_transaction(&self) -> bool {
        self.0.transaction() != Transaction::None
    }

    pub fn is_transaction_failed(&self) -> bool {
        self.0.transaction() == Transaction::Failed
    }

    pub fn id(&self) -> u64 {
        u64::from(self.0.session())
    }

    pub fn is_killed(&self) -> bool {
        self.0.is_closed()
    }

    pub fn define_setting(&self, name: &'static str, _value: &str, _check: SettingCheck) -> Result<()> {
        Err(Error::unsupported(format!("the setting \"{name}\" cannot be added to a server's session")))
    }

    pub fn setting(&self, _name: &str) -> Option<String> {
        None
    }

    pub fn describe_with(&self, sql: &str, given: &[Option<DataType>]) -> Result<StatementDescription> {
        if given.iter().any(Option::is_some) {
            return Err(Error::unsupported("PostgreSQL tells the types of parameters, and is not told them"));
        }
        described(self.0.describe(&numbered(&Scanned::of(sql), sql))?)
    }

    pub fn meaning(&self) -> Result<Meaning> {
        Err(Error::unsupported("what names mean is known to the process that has the database"))
    }

    pub fn still_means(&self, _: &Meaning) -> Result<bool> {
        Ok(false)
    }

    pub fn postgres_settings(&self) -> Result<Arc<Settings>> {
        Err(Error::unsupported("settings are those of the server: use SHOW and SET"))
    }

    pub fn progress(&self) -> Option<Progress> {
        self.0.progress()
    }

    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    pub fn close(&self) -> Result<()> {
        self.0.close();
        Ok(())
    }

    pub fn set_poll(&self, poll: Option<PollHook>) {
        let hook = poll.map(|poll| -> hypostyle_postgres::Hook {
            Arc::new(move |progress| poll(progress) == Poll::Continue)
        });
        self.0.set_hook(hook);
    }

    /// PostgreSQL asks nobody for tables that it has not.
    pub fn set_table_resolver(&self, _: Option<TableResolver>) {}
}

/// Returns the text with `$1` and so on for the placeholders that PostgreSQL has not.
fn numbered<'a>(scanned: &Scanned, sql: &'a str) -> Cow<'a, str> {
    if scanned.has_numbers() { Cow::Borrowed(sql) } else { Cow::Owned(scanned.numbered(sql)) }
}

/// Returns values by their names' places in a statement.
fn in_order(names: &[String], values: Vec<(String, ScalarValue)>) -> Result<Vec<ScalarValue>> {
    if let Some((unknown, _)) = values.iter().find(|(name, _)| !names.contains(name)) {
        let message = format!("the statement has no parameter ${unknown}");
        return Err(Error::invalid_input(message).with_sqlstate("07001"));
    }
    let value = |name: &String| {
        let found = values.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        found.ok_or_else(|| {
            Error::invalid_input(format!("no value was given for ${name}")).with_sqlstate("07001")
        })
    };
    names.iter().map(value).collect()
}
