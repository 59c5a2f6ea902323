//! The primary keys of tables: each column of one has one value in a group by them, and may stand beside
//! aggregates (ISO/IEC 9075-2, 7.12), as in PostgreSQL.

use datafusion::logical_expr::TableScan;

/// Tells the places of the columns of a table's primary key. The session's configuration has it, as an
/// extension: plans know no catalog.
pub struct PrimaryKeys(pub fn(&TableScan) -> Option<Vec<usize>>);
