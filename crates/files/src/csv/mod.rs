//! CSV files: their dialect, the detection of their columns, and their rows.

mod detect;
mod dialect;
mod form;
mod format;
mod guess;
mod records;
mod sniff;

pub use detect::detect;
pub use dialect::Dialect;
pub use form::Form;
pub use format::CsvFormat;
pub use guess::Guess;
pub use sniff::sniffed;
