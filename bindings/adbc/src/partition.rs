//! Partitions of results: the database's own, as ADBC's bytes (docs/sql.md, "Partitions of a query").

use crate::cancel::Mark;
use crate::error::{Result, internal, invalid_argument, not_implemented};
use crate::query::Reader;
use crate::reader::Results;
use crate::session::{Session, caught};
use adbc_core::Partitions;
use arrow_array::{Array, StringArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use hypostyle::{Parameters, StatementRows};

/// The column with the texts of partitions.
const TEXT: &str = "text";

/// Returns the partitions of a query.
pub fn of(session: &Session, mark: &Mark, sql: &str) -> Result<Partitions> {
    check_ours(session)?;
    let result = session.execute(mark, &format!("SHOW PARTITIONS FOR {sql}"), Parameters::None)?;
    let batches = session.call(mark, |_| result.record_batches())?;
    let mut partitions = Partitions::new();
    for batch in &batches {
        let texts = batch.column_by_name(TEXT).ok_or_else(|| internal("partitions without their texts"))?;
        let texts = cast(texts, &DataType::Utf8)?;
        let texts: &StringArray =
            texts.as_any().downcast_ref().ok_or_else(|| internal("a cast to text gives something else"))?;
        partitions.extend(texts.iter().flatten().map(|text| text.as_bytes().to_vec()));
    }
    Ok(partitions)
}

/// Reads a partition, which another session may have made.
pub fn read(session: &Session, partition: &[u8]) -> Result<Reader> {
    check_ours(session)?;
    let text = std::str::from_utf8(partition).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| {
        invalid_argument("these bytes are no partition: they are not what execute_partitions has given")
    })?;
    let sql = format!("READ PARTITION '{}'", text.replace('\'', "''"));
    caught(|| {
        let mark = Mark::default();
        let result = session.execute(&mark, &sql, Parameters::None)?;
        Ok(Box::new(Results::new(StatementRows::of(session.driver().clone(), mark, result))) as Reader)
    })
}

/// Partitions of PostgreSQL's results would need a snapshot that is kept there.
fn check_ours(session: &Session) -> Result<()> {
    match session.connection().is_postgres() {
        true => Err(not_implemented("results of PostgreSQL are not partitioned; execute the statement")),
        false => Ok(()),
    }
}
