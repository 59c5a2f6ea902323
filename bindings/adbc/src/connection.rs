//! Connections: options, transactions, statements, and the database's description of itself.

use crate::cancel::Mark;
use crate::error::{Result, invalid_argument, not_implemented};
use crate::option;
use crate::query::{Reader, current, first_schema, one_batch, quoted};
use crate::session::Session;
use crate::statement::Statement;
use crate::{info, objects, partition, postgres, statistics};
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::{CancelHandle, Optionable, constants as adbc};
use arrow_schema::Schema;
use hypostyle::Parameters;
use std::collections::HashSet;
use std::sync::Arc;

const KNOWN: [&str; 5] = [
    adbc::ADBC_CONNECTION_OPTION_AUTOCOMMIT,
    adbc::ADBC_CONNECTION_OPTION_READ_ONLY,
    adbc::ADBC_CONNECTION_OPTION_CURRENT_CATALOG,
    adbc::ADBC_CONNECTION_OPTION_CURRENT_DB_SCHEMA,
    adbc::ADBC_CONNECTION_OPTION_ISOLATION_LEVEL,
];

/// The isolation levels that snapshot isolation satisfies.
const ISOLATION: [&str; 5] = [
    adbc::ADBC_OPTION_ISOLATION_LEVEL_DEFAULT,
    adbc::ADBC_OPTION_ISOLATION_LEVEL_READ_UNCOMMITTED,
    adbc::ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED,
    adbc::ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ,
    adbc::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT,
];

/// One session with a database. Changes that are not committed when it is dropped are rolled back.
pub struct Connection {
    session: Arc<Session>,
}

impl Connection {
    pub fn new(session: Session) -> Self {
        Self { session: Arc::new(session) }
    }

    fn set_isolation(&self, level: &str) -> Result<()> {
        if self.session.connection().is_postgres() {
            return postgres::set_isolation(&self.session, level);
        }
        match level {
            level if ISOLATION.contains(&level) => Ok(()),
            adbc::ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE
            | adbc::ADBC_OPTION_ISOLATION_LEVEL_LINEARIZABLE => Err(not_implemented(format!(
                "\"{level}\": transactions have snapshot isolation, which lets write skew happen; ask for {}",
                adbc::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT
            ))),
            other => Err(invalid_argument(format!(
                "\"{}\" is one of {}, not \"{other}\"",
                adbc::ADBC_CONNECTION_OPTION_ISOLATION_LEVEL,
                ISOLATION.join(", ")
            ))),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.close();
    }
}

impl Optionable for Connection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_string();
        match key {
            OptionConnection::AutoCommit => self.session.set_autocommit(option::boolean(&name, value)?),
            OptionConnection::ReadOnly => self.session.set_read_only(option::boolean(&name, value)?),
            OptionConnection::IsolationLevel => self.set_isolation(&option::text(&name, value)?),
            OptionConnection::CurrentCatalog | OptionConnection::CurrentSchema => {
                let to = option::text(&name, value)?;
                if self.session.connection().is_postgres() {
                    return match key {
                        OptionConnection::CurrentCatalog => postgres::set_catalog(&self.session, &to),
                        _ => postgres::set_schema(&self.session, &to),
                    };
                }
                let sql = match key {
                    OptionConnection::CurrentCatalog => format!("USE {}.main", quoted(&to)),
                    _ => format!("USE {}.{}", quoted(&current(&self.session)?.0), quoted(&to)),
                };
                self.session.execute(&Mark::default(), &sql, Parameters::None).map(drop)
            }
            _ => Err(option::unknown("connection", &name, &KNOWN)),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        match key {
            OptionConnection::AutoCommit => Ok(option::flag(self.session.autocommit())),
            OptionConnection::ReadOnly => Ok(option::flag(self.session.read_only())),
            OptionConnection::IsolationLevel if self.session.connection().is_postgres() => {
                postgres::isolation(&self.session)
            }
            OptionConnection::IsolationLevel => Ok(adbc::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT.into()),
            OptionConnection::CurrentCatalog => current(&self.session).map(|(catalog, _)| catalog),
            OptionConnection::CurrentSchema => current(&self.session).map(|(_, schema)| schema),
            other => Err(option::unset("connection", other.as_ref())),
        }
    }

    fn get_option_bytes(&self, key: OptionConnection) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionConnection) -> Result<i64> {
        option::to_number("connection", key.as_ref(), &self.get_option_string(key.clone())?)
    }

    fn get_option_double(&self, key: OptionConnection) -> Result<f64> {
        self.get_option_int(key).map(|value| value as f64)
    }
}

impl adbc_core::Connection for Connection {
    type StatementType = Statement;

    fn new_statement(&mut self) -> Result<Statement> {
        Ok(Statement::new(self.session.clone()))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.session.cancel_handle())
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Reader> {
        info::info(info::Vendor::of(&self.session)?, codes.as_ref()).map(one_batch)
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Reader> {
        let filter = objects::Filter { depth, catalog, db_schema, table_name, table_type, column_name };
        objects::objects(&self.session, &filter).map(one_batch)
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        let given = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(quoted);
        let table = quoted(table_name);
        let name = match (given(catalog), given(db_schema)) {
            (None, None) => table,
            (None, Some(schema)) => format!("{}.{schema}.{table}", quoted(&current(&self.session)?.0)),
            (Some(catalog), schema) => {
                let schema = match schema {
                    Some(schema) => schema,
                    None => quoted(&first_schema(&self.session)?),
                };
                format!("{catalog}.{schema}.{table}")
            }
        };
        let sql = format!("SELECT * FROM {name} LIMIT 0");
        let result = self.session.execute(&Mark::default(), &sql, Parameters::None)?;
        Ok(result.schema().as_ref().clone())
    }

    fn get_table_types(&self) -> Result<Reader> {
        objects::table_types().map(one_batch)
    }

    fn get_statistic_names(&self) -> Result<Reader> {
        Ok(statistics::names())
    }

    fn get_statistics(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        _approximate: bool,
    ) -> Result<Reader> {
        statistics::statistics(&self.session, catalog, db_schema, table_name).map(one_batch)
    }

    fn commit(&mut self) -> Result<()> {
        self.session.commit()
    }

    fn rollback(&mut self) -> Result<()> {
        self.session.roll_back()
    }

    fn read_partition(&self, partition: impl AsRef<[u8]>) -> Result<Reader> {
        partition::read(&self.session, partition.as_ref())
    }
}
