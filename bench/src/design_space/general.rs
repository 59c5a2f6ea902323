//! Compressions that know nothing of the data (the chapter's Tables 3.4 and 3.5).
//!
//! LZ4 and Zstandard are the product's own: a message is the one BLOB of a chunk of one row. GZIP
//! and XZ are those with which DataFusion reads files, at their default levels.

use std::io::{Cursor, Read};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, LargeBinaryArray, RecordBatch};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::executor::block_on;
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_wire::{COMPRESSIONS, Codec, StreamDecoder, StreamEncoder};

use super::Result;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum General {
    None,
    Snappy,
    Lz4,
    Zstd(i32),
    Gzip,
    Xz,
}

impl General {
    /// The chapter's compressions, with a light and a heavy Zstandard.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Snappy, Self::Lz4, Self::Zstd(1), Self::Zstd(9), Self::Gzip, Self::Xz];

    /// Returns the name in the chapter's tables.
    pub fn name(self) -> String {
        match self {
            Self::None => "None".to_owned(),
            Self::Snappy => "Snappy".to_owned(),
            Self::Lz4 => "LZ4".to_owned(),
            Self::Zstd(level) => format!("Zstd {level}"),
            Self::Gzip => "GZIP".to_owned(),
            Self::Xz => "XZ".to_owned(),
        }
    }

    pub fn compress(self, message: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Self::None => Ok(message),
            Self::Snappy => Ok(snap::raw::Encoder::new().compress_vec(&message)?),
            Self::Lz4 => as_blob(message, Codec::Lz4),
            Self::Zstd(level) => as_blob(message, Codec::Zstd(level)),
            Self::Gzip => as_file(message, FileCompressionType::GZIP),
            Self::Xz => as_file(message, FileCompressionType::XZ),
        }
    }

    pub fn decompress(self, body: Vec<u8>) -> Result<Buffer> {
        match self {
            Self::None => Ok(body.into()),
            Self::Snappy => Ok(snap::raw::Decoder::new().decompress_vec(&body)?.into()),
            Self::Lz4 | Self::Zstd(_) => of_blob(body),
            Self::Gzip => of_file(body, FileCompressionType::GZIP),
            Self::Xz => of_file(body, FileCompressionType::XZ),
        }
    }
}

fn blob_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("message", DataType::LargeBinary, false)]))
}

fn as_blob(message: Vec<u8>, codec: Codec) -> Result<Vec<u8>> {
    let offsets = OffsetBuffer::from_lengths([message.len()]);
    let blob: ArrayRef = Arc::new(LargeBinaryArray::new(offsets, message.into(), None));
    let mut encoder = StreamEncoder::new(0, blob_schema(), COMPRESSIONS, codec, 1);
    let encoded = encoder.plan(RecordBatch::try_new(blob_schema(), vec![blob])?)?.encode()?;
    let frame = encoded.frames.first().ok_or("a chunk has no frame")?;
    let mut body = Vec::with_capacity(frame.body_bytes());
    body.extend_from_slice(&frame.head);
    frame.payload.iter().for_each(|piece| body.extend_from_slice(piece));
    Ok(body)
}

fn of_blob(body: Vec<u8>) -> Result<Buffer> {
    let batch = StreamDecoder::new(0, blob_schema()).chunk(body.into())?.decode()?;
    let blob = batch.column(0).as_binary::<i64>();
    let length = blob.value_length(0) as usize;
    Ok(blob.values().slice_with_length(blob.value_offsets()[0] as usize, length))
}

fn as_file(message: Vec<u8>, compression: FileCompressionType) -> Result<Vec<u8>> {
    let message = stream::once(async move { Ok(message.into()) }).boxed();
    let pieces = compression.convert_to_compress_stream(message)?;
    let collect = pieces.try_fold(Vec::new(), |mut body, piece| async move {
        body.extend_from_slice(&piece);
        Ok(body)
    });
    Ok(block_on(collect)?)
}

fn of_file(body: Vec<u8>, compression: FileCompressionType) -> Result<Buffer> {
    let mut message = Vec::new();
    compression.convert_read(Cursor::new(body))?.read_to_end(&mut message)?;
    Ok(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_from_every_compression() {
        let message: Vec<u8> = (0..100_000u32).flat_map(|number| (number / 9).to_le_bytes()).collect();
        for general in General::ALL {
            let body = general.compress(message.clone()).unwrap();
            assert_eq!(body.len() < message.len(), general != General::None, "{}", general.name());
            assert_eq!(general.decompress(body).unwrap().as_slice(), message, "{}", general.name());
            let nothing = general.compress(Vec::new()).unwrap();
            assert!(general.decompress(nothing).unwrap().is_empty(), "{}", general.name());
        }
    }
}
