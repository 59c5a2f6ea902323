//! The rows of a result on their way out: computed as they are asked for, encoded some thousand at a time.

use super::channel::{Failure, Output};
use super::column::{check_count, of_result};
use super::reply::format_of;
use arrow::record_batch::RecordBatch;
use bytes::BufMut;
use hypostyle::{Connection, QueryResult};
use hypostyle_pgtypes::{Cells, Column, Style};
use hypostyle_types::Result;

/// Rows whose columns are brought into the shape of their types at a time.
const ROWS_AT_A_TIME: usize = 4096;

pub(super) struct Rows {
    /// Its session.
    connection: Connection,
    result: QueryResult,
    pub columns: Vec<Column>,
    /// Which of them the client was told of as something else than they have become.
    differ: Vec<bool>,
    style: Style,
    /// The rows of the current batch that have not been sent, from `next` on.
    batch: Option<RecordBatch>,
    next: usize,
    /// The rows of the whole result that have been taken.
    position: u64,
}

/// Some rows, encoded column by column.
pub(super) struct Chunk {
    pub cells: Vec<Cells>,
    pub rows: usize,
}

impl Rows {
    /// `columns` are those that the client was told, if it was.
    ///
    /// # Errors
    /// `54011` for more than a message counts.
    pub fn new(
        connection: Connection,
        result: QueryResult,
        columns: Option<Vec<Column>>,
        style: Style,
    ) -> Result<Self> {
        check_count(result.columns().len())?;
        let own = of_result(&result);
        let told = columns.filter(|columns| columns.len() == own.len()).unwrap_or_else(|| own.clone());
        let differ = told.iter().zip(&own).map(|(told, own)| told.oid != own.oid).collect();
        Ok(Self { connection, result, columns: told, differ, style, batch: None, next: 0, position: 0 })
    }

    /// The next rows, `most` of them; `None` at the end.
    pub fn next(&mut self, most: usize) -> Result<Option<Chunk>> {
        // Rows that are there are not waited for, which is where this is looked at otherwise.
        self.connection.check_interrupt()?;
        let batch = loop {
            match self.batch.take() {
                Some(batch) if self.next < batch.num_rows() => break batch,
                _ => match self.result.next_unread()? {
                    Some(batch) => {
                        self.next = 0;
                        self.batch = Some(batch);
                    }
                    None => return Ok(None),
                },
            }
        };
        let rows = most.min(ROWS_AT_A_TIME).min(batch.num_rows() - self.next);
        self.result.verify_rows(self.position..self.position + rows as u64)?;
        let part = batch.slice(self.next, rows);
        self.next += rows;
        self.position += rows as u64;
        self.batch = Some(batch);
        let columns = part.columns().iter().zip(self.columns.iter().zip(&self.differ));
        let cells = columns.map(|(array, (column, differs))| {
            let cells = Cells::new(array, column, self.style)?;
            if *differs {
                cells.check_exact(array, column)?;
            }
            Ok(cells)
        });
        let cells = cells.collect::<Result<_>>()?;
        Ok(Some(Chunk { cells, rows }))
    }

    /// Sends rows, `most` of them or all, and gives their number, and whether there may be more.
    pub fn send(
        &mut self,
        output: &mut Output,
        formats: &[i16],
        most: Option<u64>,
    ) -> Result<(u64, bool), Failure> {
        let mut sent = 0;
        loop {
            let left = most.map_or(u64::MAX, |most| most - sent);
            if left == 0 {
                return Ok((sent, true));
            }
            let Some(chunk) = self.next(usize::try_from(left).unwrap_or(usize::MAX))? else {
                return Ok((sent, false));
            };
            for row in 0..chunk.rows {
                output.replies.row(b'D', |body| {
                    body.put_u16(chunk.cells.len() as u16);
                    for (index, cells) in chunk.cells.iter().enumerate() {
                        cells.put(row, format_of(formats, index) == 1, body);
                    }
                })?;
                output.flush_if_full()?;
            }
            sent += chunk.rows as u64;
        }
    }
}
