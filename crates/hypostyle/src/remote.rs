//! Connections to a server: they turn the client's calls into the types of this crate.

use crate::connection::{
    AppendOptions, CallAnswer, ColumnDescription, StatementDescription, TableDescription, TableKind,
};
use crate::{Parameters, PollHook, Progress, QueryResult, TableResolver};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use hypostyle_client::{Address, Description, Gives, Options, Transaction};
use hypostyle_engine::postgres::Settings;
use hypostyle_engine::{ExternalTable, Meaning, Poll, SettingCheck};
use hypostyle_storage::check_text;
use hypostyle_types::{Error, LogicalType, Result};
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Remote(hypostyle_client::Connection);

impl Remote {
    pub fn open(address: &Address, options: Options) -> Result<Self> {
        hypostyle_client::Connection::open(address, options).map(Self)
    }

    pub fn duplicate(&self) -> Result<Self> {
        self.0.duplicate().map(Self)
    }

    pub fn address(&self) -> &Address {
        self.0.address()
    }

    pub fn execute_with(&self, sql: &str, parameters: Parameters) -> Result<QueryResult> {
        let (names, values): (Vec<String>, Vec<ScalarValue>) = match parameters {
            Parameters::None => return QueryResult::remote(self.0.execute(sql, None, &[])?),
            Parameters::Positional(values) => (Vec::new(), values),
            Parameters::Named(values) => values.into_iter().unzip(),
        };
        QueryResult::remote(self.0.execute(sql, Some(&row(&values)?), &names)?)
    }

    pub fn table(&self, name: &str) -> Result<QueryResult> {
        QueryResult::remote(self.0.table(name)?)
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

    pub fn call(
        &self,
        request: &[u8],
        rows: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<CallAnswer> {
        match self.0.call(request, rows.map(checked_rows))? {
            hypostyle_client::CallAnswer::Reply(reply) => Ok(CallAnswer::Reply(reply)),
            hypostyle_client::CallAnswer::Rows(result) => QueryResult::remote(result).map(CallAnswer::Rows),
        }
    }

    pub fn is_in_transaction(&self) -> bool {
        self.0.transaction() != Transaction::None
    }

    pub fn is_transaction_failed(&self) -> bool {
        self.0.transaction() == Transaction::Failed
    }

    pub fn id(&self) -> u64 {
        self.0.session()
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
            return Err(Error::unsupported("a server tells the types of parameters, and is not told them"));
        }
        described(self.0.describe(sql)?)
    }

    pub fn meaning(&self) -> Result<Meaning> {
        Err(Error::unsupported("what names mean is known to the process that has the database"))
    }

    pub fn still_means(&self, _: &Meaning) -> Result<bool> {
        Ok(false)
    }

    pub fn postgres_settings(&self) -> Result<Arc<Settings>> {
        Err(Error::unsupported("PostgreSQL's settings are those of the process that has the database"))
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
        let hook = poll.map(|poll| -> hypostyle_client::Hook {
            Arc::new(move |progress| poll(progress) == Poll::Continue)
        });
        self.0.set_hook(hook);
    }

    pub fn set_table_resolver(&self, resolver: Option<TableResolver>) {
        let resolver = resolver.map(|resolver| -> hypostyle_client::Resolver {
            let table = |ExternalTable { schema, batches }| {
                batches.iter().try_for_each(checked)?;
                Ok(hypostyle_client::Table { schema, batches })
            };
            Arc::new(move |name| resolver(name, &|_| Ok(())).map(|found| found.and_then(table)))
        });
        self.0.set_resolver(resolver);
    }
}

/// Returns what a server says of a statement.
pub(crate) fn described(description: Description) -> Result<StatementDescription> {
    let Description { gives, parameters, columns, .. } = description;
    let parameter = |field: &FieldRef| match field.data_type() {
        DataType::Null => Ok(None),
        _ => LogicalType::from_arrow(field).map(Some),
    };
    Ok(StatementDescription {
        parameters: parameters.fields().iter().map(parameter).collect::<Result<_>>()?,
        columns: (gives == Gives::Rows).then(|| columns_of(&columns)).transpose()?,
        runs_to_tell: gives == Gives::Unknown,
        origins: Vec::new(),
        follows_definitions: false,
    })
}

/// Returns rows of a program whose strings are checked as they are read.
pub(crate) fn checked_rows(data: Box<dyn RecordBatchReader + Send>) -> Box<dyn RecordBatchReader + Send> {
    let schema = data.schema();
    let checked = data.map(|batch| {
        let batch = batch?;
        match checked(&batch) {
            Ok(()) => Ok(batch),
            Err(error) => Err(ArrowError::ExternalError(Box::new(error))),
        }
    });
    Box::new(RecordBatchIterator::new(checked, schema))
}

/// Checks the strings of a program before they are sent: the server would end a connection on which
/// invalid text comes.
fn checked(batch: &RecordBatch) -> Result<()> {
    let schema = batch.schema();
    schema.fields().iter().zip(batch.columns()).try_for_each(|(field, column)| {
        check_text(column).map_err(|error| error.context(format!("column \"{}\"", field.name())))
    })
}

/// Returns the parameters as one row.
pub(crate) fn row(values: &[ScalarValue]) -> Result<RecordBatch> {
    let column = |value: &ScalarValue| {
        value.to_array().map_err(|error| Error::invalid_input(format!("a parameter cannot be sent: {error}")))
    };
    let columns = values.iter().map(column).collect::<Result<Vec<_>>>()?;
    let fields: Vec<Field> =
        columns.iter().map(|column| Field::new("", column.data_type().clone(), true)).collect();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Error::internal(format!("parameters are no row: {error}")))
}

/// Returns the columns of a result or table, from their Arrow schema.
pub(crate) fn columns_of(schema: &Schema) -> Result<Vec<ColumnDescription>> {
    let column = |field: &FieldRef| {
        Ok(ColumnDescription {
            name: field.name().clone(),
            logical_type: LogicalType::from_arrow(field)?,
            nullable: field.is_nullable(),
        })
    };
    schema.fields().iter().map(column).collect()
}

pub(crate) fn describe(table: hypostyle_client::TableEntry) -> Result<TableDescription> {
    Ok(TableDescription {
        schema: table.schema,
        name: table.name,
        kind: if table.is_view { TableKind::View } else { TableKind::Table },
        row_count: table.rows,
        columns: columns_of(&table.columns)?,
    })
}
