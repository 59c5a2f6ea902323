//! Names of columns that plans have and that no user sees.

/// The column of a row's position, where a statement that writes asks for it.
pub const POSITION: &str = "__position";

/// Stands in the names of columns that are one of several of a name, before a number. Nobody writes
/// it, and it is not seen.
pub const ONE_OF: char = '\u{2063}';

/// Returns the name of a column as it is shown: without what tells it from others of its name.
pub fn unmarked_name(name: &str) -> &str {
    name.split_once(ONE_OF).map_or(name, |(name, _)| name)
}
