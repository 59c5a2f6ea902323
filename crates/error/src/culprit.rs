//! Names in a statement that the planner does not know, or that are ambiguous.

use crate::column_name::{POSITION, unmarked_name};
use datafusion_common::DataFusionError;
use datafusion_common::{Column, SchemaError, Span};
use sqlparser::ast::Ident;

/// Functions whose columns had the name `value` before they had their own.
static SERIES: [&str; 2] = ["range", "generate_series"];

pub enum Culprit {
    Unknown(Unknown),
    Ambiguous,
}

/// A column that is not there.
pub struct Unknown {
    pub name: String,
    pub table: Option<String>,
    /// Its place, if the planner reports it.
    pub span: Option<Span>,
    /// The columns that there are.
    known: Vec<Column>,
}

/// Returns the column that an error is about.
pub fn culprit(error: &DataFusionError) -> Option<Culprit> {
    match error {
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let mut found = culprit(inner)?;
            if let Culprit::Unknown(unknown) = &mut found {
                unknown.span = unknown.span.or(diagnostic.span);
            }
            Some(found)
        }
        DataFusionError::Context(_, inner) => culprit(inner),
        DataFusionError::Shared(inner) => culprit(inner),
        DataFusionError::Collection(errors) => culprit(errors.first()?),
        DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => Some(Culprit::Unknown(Unknown {
                name: field.name.clone(),
                table: field.relation.as_ref().map(|table| table.table().to_string()),
                span: field.spans().first(),
                known: valid_fields.clone(),
            })),
            SchemaError::AmbiguousReference { .. } => Some(Culprit::Ambiguous),
            _ => None,
        },
        _ => None,
    }
}

impl Unknown {
    /// A column that a name means which whoever binds names has not found among those that there are.
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

    /// Returns the column that a name without quotes means which is no column's: the one that is
    /// written so, or else the only one that differs in capitals alone.
    pub fn spelled(&self, name: &Ident, table: Option<&Ident>) -> Option<Ident> {
        if name.quote_style.is_some() {
            return None;
        }
        let table = table.map(|table| match table.quote_style {
            Some(_) => table.value.clone(),
            None => table.value.to_lowercase(),
        });
        let known = self.known(table.as_deref());
        let folded = name.value.to_lowercase();
        if known.contains(&folded.as_str()) {
            return None;
        }
        let mut alike = known.iter().filter(|known| known.to_lowercase() == folded);
        let found = match known.iter().find(|known| **known == name.value) {
            Some(exact) => exact,
            None => match (alike.next(), alike.next()) {
                (Some(only), None) => only,
                (None, _) if folded == "value" => self.series()?,
                _ => return None,
            },
        };
        Some(Ident { value: (*found).to_string(), quote_style: Some('"'), span: name.span })
    }

    /// Returns the column of the only series there is.
    fn series(&self) -> Option<&&str> {
        let mut all = SERIES.iter().filter(|series| {
            self.known.iter().any(|column| {
                column.name == **series && column.relation.as_ref().is_some_and(|of| of.table() == **series)
            })
        });
        match (all.next(), all.next()) {
            (found, None) => found,
            _ => None,
        }
    }
}
