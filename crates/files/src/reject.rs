//! Rows that cannot be read: their place, the reason, and their treatment.

use crate::option::ReadOptions;
use hypostyle_types::{Error, Result};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Characters of a bad value that an error shows.
const VALUE_SHOWN_MAX: usize = 80;

/// One row of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub file: String,
    /// The line that the row starts in, from 1, header and blank lines included.
    pub line: u64,
    /// The column's number, from 1, and its name, when one column is to blame.
    pub column: Option<(usize, String)>,
    /// The bad value, or the whole row.
    pub value: String,
    pub reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file, self.line)?;
        match &self.column {
            Some((number, name)) => write!(f, ", column {number} (\"{name}\"): {}", self.reason),
            None => write!(f, " {}", self.reason),
        }
    }
}

/// What the reason names where the bytes are none of a text.
pub const OF_ENCODING: &str = "option encoding";

impl Rejected {
    /// Says what can be done about the row.
    fn hint(&self, advice: Advice) -> String {
        let leave_out = "leave such rows out with ignore_errors => true";
        match (advice, &self.column) {
            (Advice::None, _) => String::new(),
            (Advice::Copy, _) => "; (ignore_errors true) leaves such rows out".to_string(),
            (Advice::Function, None) => format!("; {leave_out}"),
            // No type reads it.
            (Advice::Function, Some(_)) if self.reason.contains(OF_ENCODING) => format!(", or {leave_out}"),
            (Advice::Function, Some(_)) if self.reason.ends_with("as VARCHAR") => format!("; {leave_out}"),
            (Advice::Function, Some((_, name))) => {
                let name = name.replace('\'', "''");
                format!(
                    "; give the column another type with types => {{'{name}': 'VARCHAR'}}, or {leave_out}"
                )
            }
        }
    }
}

/// What the error for a bad row says of options.
#[derive(Clone, Copy, Debug, Default)]
pub enum Advice {
    #[default]
    None,
    /// Those of COPY.
    Copy,
    /// Those of a function in FROM.
    Function,
}

/// Decides whether a bad row is an error, and keeps those that are not.
#[derive(Debug, Default)]
pub struct Rejects {
    ignore_errors: bool,
    errors_max: Option<u64>,
    /// Says whether rows are kept. Without a table for them they are only counted.
    keep: bool,
    advice: Advice,
    count: AtomicU64,
    rows: Mutex<Vec<Rejected>>,
}

impl Rejects {
    pub fn new(options: &ReadOptions, advice: Advice) -> Self {
        Self {
            ignore_errors: options.ignore_errors,
            errors_max: options.errors_max,
            keep: options.rejects_table.is_some(),
            advice,
            ..Self::default()
        }
    }

    /// Takes note of a bad row.
    ///
    /// # Errors
    /// `InvalidInput`, with the place and the reason, unless bad rows are left out and not yet too
    /// many.
    pub fn report(&self, rejected: Rejected) -> Result<()> {
        if !self.ignore_errors {
            return Err(Error::invalid_input(format!("{rejected}{}", rejected.hint(self.advice))));
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(errors_max) = self.errors_max.filter(|errors_max| count > *errors_max) {
            return Err(Error::invalid_input(format!(
                "more than {errors_max} bad rows; the last: {rejected}"
            )));
        }
        if self.keep {
            self.rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(rejected);
        }
        Ok(())
    }

    /// Says whether a bad row has been left out.
    pub fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Returns the rows left out so far, in file order, if `rejects_table` asks for them.
    pub fn take(&self) -> Vec<Rejected> {
        let mut rows =
            std::mem::take(&mut *self.rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        rows.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        rows
    }
}

/// Returns a bad value as an error shows it: not too long.
pub fn shown(value: &str) -> String {
    match value.char_indices().nth(VALUE_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_string(),
    }
}
