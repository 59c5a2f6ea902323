//! Names of columns that are not there, with those that are.

use crate::column_name::{POSITION, unmarked_name};
use datafusion_common::{Column, Span};

/// A column that is not there.
pub struct Unknown {
    pub name: String,
    pub table: Option<String>,
    /// Its place, if that is known.
    pub span: Option<Span>,
    /// The columns that there are.
    known: Vec<Column>,
}

impl Unknown {
    /// A column that a name means and that is none of those that there are.
    pub fn new(name: &str, table: Option<&str>, span: Option<Span>, known: Vec<Column>) -> Self {
        Self { name: name.to_string(), table: table.map(str::to_string), span, known }
    }

    /// Returns the columns that there are, each once: what ORDER BY may name is both in the result
    /// and in the table.
    pub fn known(&self, table: Option<&str>) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for column in &self.known {
            let is_of_table =
                table.is_none_or(|table| column.relation.as_ref().is_some_and(|of| of.table() == table));
            if is_of_table && column.name != POSITION && !names.contains(&column.name.as_str()) {
                names.push(&column.name);
            }
        }
        names
    }

    /// Returns the columns with their tables where none is of the table that is named.
    pub fn qualified(&self) -> Vec<String> {
        let Some(named) = &self.table else { return Vec::new() };
        let tables =
            || self.known.iter().filter_map(|column| Some((column.relation.as_ref()?.table(), column)));
        if tables().any(|(table, _)| table == named) {
            return Vec::new();
        }
        let mut names: Vec<String> = Vec::new();
        for (table, column) in tables().filter(|(_, column)| column.name != POSITION) {
            let name = format!("{}.{}", unmarked_name(table), unmarked_name(&column.name));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the columns of the same name but for capitals.
    pub fn alike(&self) -> Vec<&str> {
        let wanted = self.name.to_lowercase();
        let mut names = self.known(self.table.as_deref());
        names.retain(|name| name.to_lowercase() == wanted);
        names
    }
}
