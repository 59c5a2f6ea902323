//! The bytes of Parquet files, for DataFusion's scan. The sizes that pages claim are checked before
//! they are decompressed.

use crate::parquet_footer::Footer;
use crate::room::Room;
use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const PAGE: &str = "page";

/// What is read, or decompressed, of all columns at once.
pub const ROW_GROUP: &str = "row group";

/// Bytes that are read for the header of a page.
const HEADER_BYTES: usize = 64 << 10;

/// Nested values of a page's header; a deeper one is none.
const HEADER_DEPTH_MAX: usize = 16;

/// Makes readers of files that have a [`Footer`].
#[derive(Debug)]
pub struct Readers {
    /// What a page may become.
    pub room: Room,
    /// What the columns of a row group may take together, and their pages may become.
    pub whole: Room,
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let footer = file.extension::<Footer>();
        let footer = footer.ok_or_else(|| DataFusionError::Internal("a file has no footer".to_string()))?;
        let (file_of, footer) = footer.open().map_err(external)?;
        let metrics = ParquetFileMetrics::new(partition, file.object_meta.location.as_ref(), metrics);
        let (room, whole) = (self.room, self.whole);
        Ok(Box::new(Reader { file: Arc::new(file_of), footer, metrics, room, whole }))
    }
}

/// A reader of one file.
struct Reader {
    file: Arc<File>,
    footer: Footer,
    metrics: ParquetFileMetrics,
    room: Room,
    whole: Room,
}

impl Reader {
    /// Checks the largest pages of some parts of the file, which begin at places of it.
    fn check(&self, starts: &[u64], pages: &[u64]) -> hypostyle_types::Result<()> {
        pages.iter().try_for_each(|page| self.room.check(&self.footer.path, PAGE, *page))?;
        // Several parts may be of one column, which has one page at a time.
        if pages.iter().sum::<u64>() <= self.whole.0 {
            return Ok(());
        }
        let all = of_columns(&self.footer.metadata, starts, pages);
        self.whole.check(&self.footer.path, ROW_GROUP, all)
    }

    /// Reads parts of the file, which has them, on a thread that may wait for the disk.
    fn read(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, ParquetResult<Vec<Bytes>>> {
        let bytes: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        self.metrics.bytes_scanned.add(usize::try_from(bytes).unwrap_or(usize::MAX));
        let (file, footer) = (Arc::clone(&self.file), self.footer.clone());
        let read = move || -> ParquetResult<Vec<Bytes>> {
            ranges.iter().map(|range| read_range(&file, &footer, range)).collect()
        };
        async move {
            let read = tokio::task::spawn_blocking(read).await;
            read.map_err(|error| ParquetError::External(Box::new(error)))?
        }
        .boxed()
    }
}

fn read_range(file: &File, footer: &Footer, range: &Range<u64>) -> ParquetResult<Bytes> {
    let name = footer.path.display();
    let length = range.end.checked_sub(range.start).filter(|_| range.end <= footer.length());
    let length = length.and_then(|length| usize::try_from(length).ok()).ok_or_else(|| {
        let (start, end, has) = (range.start, range.end, footer.length());
        let message = format!(
            "\"{name}\" is not a readable Parquet file: it has {has} bytes, and names {start} to {end}"
        );
        ParquetError::External(Box::new(Error::invalid_input(message)))
    })?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start).map_err(|error| {
        ParquetError::External(Box::new(Error::from_io(&error, format!("cannot read \"{name}\""))))
    })?;
    Ok(Bytes::from(bytes))
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        let read = self.read(vec![range]);
        read.map(|read| read.map(|parts| parts.into_iter().next().unwrap_or_default())).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        // What the file does not have is told by who reads it.
        let there = ranges.iter().filter(|range| range.end <= self.footer.length());
        let lengths = there.map(|range| range.end.saturating_sub(range.start));
        let bytes = lengths.fold(0, u64::saturating_add);
        if let Err(error) = self.whole.check(&self.footer.path, ROW_GROUP, bytes) {
            return std::future::ready(Err(ParquetError::External(Box::new(error)))).boxed();
        }
        let starts: Vec<u64> = ranges.iter().map(|range| range.start).collect();
        let read = self.read(ranges);
        async move {
            let read = read.await?;
            let pages: Vec<u64> = read.iter().map(|bytes| largest_page(bytes)).collect();
            self.check(&starts, &pages).map_err(|error| ParquetError::External(Box::new(error)))?;
            Ok(read)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let metadata: ParquetResult<_> = Ok(Arc::clone(&self.footer.metadata));
        std::future::ready(metadata).boxed()
    }
}

/// Returns what the largest pages of columns become together, of which some parts begin at places of the
/// file.
fn of_columns(metadata: &ParquetMetaData, starts: &[u64], pages: &[u64]) -> u64 {
    let groups = metadata.row_groups().iter();
    let mut columns: Vec<u64> =
        groups.flat_map(|group| group.columns()).map(|column| column.byte_range().0).collect();
    columns.sort_unstable();
    let mut largest: HashMap<usize, u64> = HashMap::new();
    for (start, page) in starts.iter().zip(pages) {
        let most = largest.entry(columns.partition_point(|column| column <= start)).or_default();
        *most = (*most).max(*page);
    }
    largest.values().sum()
}

/// Returns the bytes that the largest page of some has when it is decompressed. What is no page is
/// the decoder's to refuse.
fn largest_page(mut pages: &[u8]) -> u64 {
    let mut largest = 0;
    while let Some((unpacked, packed, rest)) = page(pages) {
        largest = largest.max(unpacked);
        let Some(behind) = usize::try_from(packed).ok().and_then(|packed| rest.get(packed..)) else { break };
        pages = behind;
    }
    largest
}

/// Checks the pages in a part of a file, of which the headers are read, and returns what the largest one
/// becomes.
///
/// # Errors
/// `OutOfMemory` for one that there is no room for.
pub fn check_pages(file: &File, path: &Path, part: Range<u64>, room: Room) -> hypostyle_types::Result<u64> {
    let (mut at, mut largest) = (part.start, 0);
    let mut window = vec![0; HEADER_BYTES];
    while at < part.end {
        let read = file.read_at(&mut window, at).unwrap_or(0);
        let Some((unpacked, packed, rest)) = page(&window[..read]) else { break };
        room.check(path, PAGE, unpacked)?;
        largest = largest.max(unpacked);
        at = at.saturating_add((read - rest.len()) as u64).saturating_add(packed);
    }
    Ok(largest)
}

/// Returns the sizes of a page without and with compression, and the bytes behind its header.
fn page(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut compact = Compact(bytes);
    let mut sizes = [None; 2];
    let mut id = 0;
    while let Some(kind) = compact.field(&mut id)? {
        match (id, kind) {
            // The fields uncompressed_page_size and compressed_page_size of PageHeader, which are
            // i32.
            (2 | 3, 5) => sizes[usize::from(id == 3)] = u64::try_from(compact.integer()?).ok(),
            _ => compact.skip(kind, HEADER_DEPTH_MAX)?,
        }
    }
    let [unpacked, packed] = sizes;
    Some((unpacked?, packed?, compact.0))
}

/// Bytes in Thrift's compact protocol.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let coded = self.unsigned()?;
        Some((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }

    /// Reads the beginning of a field: `Some(None)` is the end of its structure.
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *id = match byte >> 4 {
            0 => self.integer()?,
            delta => id.checked_add(i64::from(delta))?,
        };
        Some(Some(byte & 0x0f))
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()),
            3 => self.bytes(1),
            4..=6 => self.unsigned().map(drop),
            7 => self.bytes(8),
            8 => {
                let length = self.unsigned()?;
                self.bytes(length)
            }
            9 | 10 => {
                let byte = self.byte()?;
                let count = if byte >> 4 == 15 { self.unsigned()? } else { u64::from(byte >> 4) };
                // Truth values take a byte each in a list.
                let of = if matches!(byte & 0x0f, 1 | 2) { 3 } else { byte & 0x0f };
                (0..count).try_for_each(|_| self.skip(of, depth))
            }
            12 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            // Page headers have no maps.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use datafusion::parquet::arrow::ArrowWriter;
    use datafusion::parquet::basic::Compression;
    use datafusion::parquet::file::properties::WriterProperties;
    use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn the_largest_page_is_found_behind_others() {
        let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(3_000_000)]));
        let short: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let rows = RecordBatch::try_from_iter([("long", long), ("short", short)]).unwrap();
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let file = Bytes::from(file);
        let reader = SerializedFileReader::new(file.clone()).unwrap();
        let pages = |column: usize| {
            let (at, length) = reader.metadata().row_group(0).column(column).byte_range();
            file.slice(at as usize..(at + length) as usize)
        };
        let largest = largest_page(&pages(0));
        let of = |columns: &[usize]| {
            let starts =
                columns.iter().map(|column| reader.metadata().row_group(0).column(*column).byte_range().0);
            of_columns(reader.metadata(), &starts.collect::<Vec<_>>(), &vec![7; columns.len()])
        };
        // Each column has one page at a time.
        assert_eq!((of(&[0, 1]), of(&[0, 0, 1, 0]), of(&[1])), (14, 14, 7));
        assert!((3_000_000..3_001_000).contains(&largest), "{largest}");
        assert!(largest_page(&pages(1)) < 100);
        for end in 0..pages(1).len() {
            assert!(largest_page(&pages(1)[..end]) < 100);
        }
    }
}
