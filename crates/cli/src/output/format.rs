//! The formats, what is chosen for them, and what each has to do.

use crate::failure::Outcome;
use clap::ValueEnum;
use hypostyle::arrow::array::RecordBatch;
use std::io::Write;
use std::time::Duration;

/// The text before the rows, until it has been written: with the first rows, or at the end if there
/// are none.
pub(super) struct Start(pub(super) Option<String>);

impl Start {
    pub(super) fn write(&mut self, out: &mut dyn Write) -> Outcome {
        match self.0.take() {
            Some(start) => Ok(out.write_all(start.as_bytes())?),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Box,
    /// A box of plain characters
    Table,
    Csv,
    /// Columns between tabs, as in PostgreSQL's text format
    Tabs,
    /// Columns between `|`, or what `.separator` sets
    List,
    /// Columns between the unit separator, rows between the record separator
    Ascii,
    Json,
    Jsonl,
    Markdown,
    Html,
    /// INSERT statements
    Insert,
    Line,
}

impl Format {
    /// Says whether people read the format, so that counts and hints may stand beside the rows.
    pub(super) fn is_for_people(self) -> bool {
        matches!(self, Self::Box | Self::Table | Self::Line)
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub format: Format,
    pub headers: bool,
    /// The text for NULL, if the format has a choice.
    pub null: Option<String>,
    /// Says whether counts stand below results.
    pub footer: bool,
    /// The rows that a box shows; 0 shows all.
    pub rows_max: usize,
    /// The columns of text that a box may fill; 0 takes the terminal's width.
    pub width_max: usize,
    /// The width of each column of a box; 0, or none, is as wide as needed.
    pub column_widths: Vec<u16>,
    /// The text between the columns of a list.
    pub separator: String,
    /// The table that INSERT statements name.
    pub insert_table: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            format: Format::Box,
            headers: true,
            null: None,
            footer: true,
            rows_max: 40,
            width_max: 0,
            column_widths: Vec::new(),
            separator: "|".into(),
            insert_table: "result".into(),
        }
    }
}

impl Settings {
    pub(super) fn null_or<'a>(&'a self, default: &'a str) -> &'a str {
        self.null.as_deref().unwrap_or(default)
    }
}

/// Prints one result.
pub trait Writer {
    /// Takes the next rows.
    fn batch(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> Outcome;
    /// Ends the result after its last rows.
    fn end(&mut self, out: &mut dyn Write, elapsed: Duration) -> Outcome;
    /// Says whether rows appear as they are given, and not only at the end.
    fn streams(&self) -> bool {
        true
    }
}
