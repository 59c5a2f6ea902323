//! What the last texts of a session were parsed to: programs run the same few again and again, and to parse a small query
//! takes about as long as to run it.

use super::values::ValuesInsert;
use crate::session::Parameters;
use datafusion::sql::sqlparser::ast::Statement;
use std::collections::HashMap;
use std::sync::Arc;

/// Statements that are remembered, and the longest of their texts in bytes.
const STATEMENTS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    Insert(Arc<ValuesInsert>),
    /// Any other that reads or writes rows, and the number of values for its `?`, which are numbered.
    Other(Arc<Statement>, Option<usize>),
}

impl Parsed {
    /// `None` for a statement that is not worth it.
    pub fn of(statement: &Statement, parameters: &Parameters) -> Option<Self> {
        let is_of_rows =
            matches!(statement, Statement::Query(_) | Statement::Update(_) | Statement::Delete(_));
        is_of_rows.then(|| Self::Other(Arc::new(statement.clone()), positional(parameters)))
    }
}

/// How many values go by position, if they do.
pub(super) fn positional(parameters: &Parameters) -> Option<usize> {
    match parameters {
        Parameters::Positional(values) => Some(values.len()),
        Parameters::None | Parameters::Named(_) => None,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Remembered(HashMap<String, Parsed>);

impl Remembered {
    pub fn get(&self, sql: &str) -> Option<Parsed> {
        self.0.get(sql).cloned()
    }

    pub fn put(&mut self, sql: &str, parsed: Parsed) {
        if sql.len() > TEXT_BYTES_MAX {
            return;
        }
        if self.0.len() >= STATEMENTS_MAX {
            self.0.clear();
        }
        self.0.insert(sql.to_string(), parsed);
    }
}
