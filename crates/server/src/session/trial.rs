//! EXPLAIN ANALYZE: the result is encoded as it would be, and not sent.

use super::chunks::{ChunkSize, THIS_MACHINE};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hypostyle::{Transfer, TransferTrial};
use hypostyle_types::Result;
use hypostyle_wire as wire;
use hypostyle_wire::{Codec, OnLink, StreamEncoder, rows_that_fit};
use std::collections::BTreeMap;
use std::time::Duration;

/// How a session sends results.
pub struct Trials {
    pub codec: Codec,
    pub codecs: u32,
    pub threads: usize,
    /// What the client asks for, or 0.
    pub chunk_bytes: u32,
    pub frame_bytes_max: u32,
    /// Bytes a second, as the last results have shown.
    pub link: Option<f64>,
    /// Whether the client is on this machine.
    pub is_direct: bool,
    /// Whether the client takes descriptors.
    pub descriptors: bool,
    /// Whether they may be those of the columns' own files.
    pub may_open_files: bool,
}

impl Transfer for Trials {
    fn begin(&self, schema: SchemaRef, is_stored: bool) -> Result<Box<dyn TransferTrial>> {
        if is_stored && self.descriptors && self.may_open_files {
            return Ok(Box::new(Mapped));
        }
        let canonical = wire::canonical_schema(&schema)?;
        let codec = if self.descriptors { Codec::None } else { self.codec };
        let encoder = StreamEncoder::new(0, canonical, self.codecs, codec, self.threads)
            .on_this_machine(self.is_direct)
            .with_link(self.link);
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(Box::new(Encoding {
            encoder,
            codec,
            names,
            chunk_size: ChunkSize::new(self.chunk_bytes, self.frame_bytes_max, schema.fields().len()),
            link: self.link,
            is_direct: self.is_direct,
            in_memory: self.descriptors,
            chunks: 0,
        }))
    }
}

/// Stored columns for a client that maps them.
struct Mapped;

impl TransferTrial for Mapped {
    fn rows(&mut self, _rows: RecordBatch) -> Result<()> {
        Ok(())
    }

    fn report(self: Box<Self>) -> String {
        "descriptors of the stored columns".into()
    }
}

struct Encoding {
    encoder: StreamEncoder,
    codec: Codec,
    names: Vec<String>,
    chunk_size: ChunkSize,
    link: Option<f64>,
    is_direct: bool,
    in_memory: bool,
    chunks: u64,
}

impl TransferTrial for Encoding {
    fn rows(&mut self, rows: RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < rows.num_rows() {
            let link = if self.is_direct { Some(THIS_MACHINE) } else { self.link };
            let count = rows_that_fit(&rows, start, self.chunk_size.next(link));
            let job = self.encoder.plan(rows.slice(start, count))?;
            self.chunk_size.add(job.raw_bytes());
            let encoded = job.encode()?;
            let bytes = encoded.body_bytes() as u64;
            let time = |link: f64| Duration::from_secs_f64(bytes as f64 / link);
            let on_link = self.link.map(|link| OnLink::full(bytes, time(link)));
            self.encoder.sent(&encoded, on_link);
            start += count;
            self.chunks += 1;
        }
        Ok(())
    }

    fn report(self: Box<Self>) -> String {
        let end = self.encoder.end();
        let place = match (self.in_memory, self.link) {
            (true, _) => "memory files".to_string(),
            (false, Some(link)) => {
                format!(
                    "link={:.1} MB/s, send={:.1?}",
                    link / 1e6,
                    Duration::from_secs_f64(end.sent as f64 / link)
                )
            }
            (false, None) if self.is_direct => "link=this machine".to_string(),
            (false, None) => "link=not measured yet".to_string(),
        };
        let mut columns: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for chosen in &end.chosen {
            let codec = format!("{} ×{}", chosen.codec(), chosen.chunks);
            columns.entry(chosen.column).or_default().push(codec);
        }
        let columns = columns
            .iter()
            .map(|(column, codecs)| format!("{}: {}", self.names[*column as usize], codecs.join(" | ")));
        format!(
            "codec={}, {place}, rows={}, chunks={}, raw_bytes={}, sent_bytes={}, encode={:.1?}, columns=[{}]",
            self.codec,
            end.rows,
            self.chunks,
            end.raw,
            end.sent,
            end.encode,
            columns.collect::<Vec<_>>().join(", ")
        )
    }
}
