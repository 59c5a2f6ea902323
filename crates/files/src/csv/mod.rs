//! CSV files: their dialect, the detection of their columns, and their rows.

mod detect;
mod dialect;
mod format;
mod guess;

pub use detect::detect;
pub use dialect::Dialect;
pub use format::CsvFormat;
pub use guess::Guess;
