//! LZ4 and Zstandard of one buffer (protocol.md §11.1), each thread with contexts of its own.

use crate::codec::{LZ4, ZSTD};
use hypostyle_types::{Error, Result};
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// What is done to buffers after their encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Compression {
    None,
    Lz4,
    Zstd(i32),
}

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Shorter buffers stay as they are.
const COMPRESS_BYTES_MIN: usize = 64;

/// The number of the compression and the bytes, unless too little is won to pay for the reader's work.
pub(crate) fn compress(compression: Compression, bytes: &[u8]) -> Result<Option<(u8, Vec<u8>)>> {
    if bytes.len() < COMPRESS_BYTES_MIN {
        return Ok(None);
    }
    let (number, compressed) = match compression {
        Compression::None => return Ok(None),
        Compression::Lz4 => (LZ4, lz4_flex::block::compress(bytes)),
        Compression::Zstd(level) => (ZSTD, compress_zstd(level, bytes)?),
    };
    let worth_it = compressed.len() < bytes.len() - bytes.len() / 32;
    Ok(worth_it.then_some((number, compressed)))
}

fn compress_zstd(level: i32, bytes: &[u8]) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::internal(format!("zstd level {level}: {error}"));
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(level).map_err(failed)?),
        };
        compressor.set_compression_level(level).map_err(failed)?;
        compressor.compress(bytes).map_err(failed)
    })
}

/// Undoes `number`. The caller has checked that `length` bytes may be taken.
pub(crate) fn decompress(number: u8, bytes: &[u8], length: usize) -> Result<Vec<u8>> {
    let damaged = || Error::protocol(format!("{} bytes do not decompress to {length}", bytes.len()));
    let decompressed = match number {
        LZ4 => lz4_flex::block::decompress(bytes, length).map_err(|_| damaged())?,
        ZSTD => decompress_zstd(bytes, length).map_err(|_| damaged())?,
        other => return Err(Error::protocol(format!("there is no compression {other}"))),
    };
    if decompressed.len() != length {
        return Err(damaged());
    }
    Ok(decompressed)
}

fn decompress_zstd(bytes: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        let mut decompressed = Vec::with_capacity(length);
        decompressor.decompress_to_buffer(bytes, &mut decompressed)?;
        Ok(decompressed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_comes_back_and_lies_do_not() {
        let bytes: Vec<u8> = (0..10_000u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(9)] {
            let (number, compressed) = compress(compression, &bytes).unwrap().unwrap();
            assert_eq!(decompress(number, &compressed, bytes.len()).unwrap(), bytes);
            for length in [0, bytes.len() - 1, bytes.len() + 1] {
                assert_eq!(decompress(number, &compressed, length).unwrap_err().sqlstate(), "08P01");
            }
            assert!(decompress(number, &compressed[..compressed.len() - 1], bytes.len()).is_err());
        }
        assert!(decompress(3, &bytes, bytes.len()).is_err());
    }

    #[test]
    fn what_does_not_pay_is_left() {
        assert_eq!(compress(Compression::Zstd(1), b"short").unwrap(), None);
        let noise: Vec<u8> =
            (0..1000u64).flat_map(|n| (n * n).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
        assert_eq!(compress(Compression::Lz4, &noise).unwrap(), None);
    }
}
