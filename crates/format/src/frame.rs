//! Frames and the log (format.md §6, §7).

use crate::{Catalog, Commit, u16_at, u64_at};
use hypostyle_types::{Error, ErrorKind, Result, Version};
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::Xxh3Default;

pub const FRAME_HEADER_BYTES: usize = CHECKSUM + 8;
pub const FRAME_PAYLOAD_BYTES_MAX: u64 = 1 << 30;

const MAGIC: [u8; 4] = *b"HYFR";
const KIND: usize = MAGIC.len();
const PAYLOAD_BYTES: usize = KIND + 2 + 2;
const VERSION: usize = PAYLOAD_BYTES + 8;
const CHECKSUM: usize = VERSION + 8;
const ALIGNMENT: usize = 8;
const _: () = assert!(FRAME_HEADER_BYTES == 32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Checkpoint = 1,
    Commit = 2,
}

/// A frame whose checksum has been verified.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub kind: FrameKind,
    pub version: Version,
    payload: &'a [u8],
    /// Header, payload and padding.
    pub bytes: usize,
}

/// Where the whole frames of a log end, and whether unfinished bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    pub offset: usize,
    pub torn: bool,
}

pub fn encode_frame(kind: FrameKind, version: Version, payload: &[u8]) -> Result<Vec<u8>> {
    if payload.len() as u64 > FRAME_PAYLOAD_BYTES_MAX {
        return Err(Error::invalid_input(format!(
            "the catalog change takes {} bytes; at most {FRAME_PAYLOAD_BYTES_MAX} fit in one commit",
            payload.len()
        )));
    }
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len().next_multiple_of(ALIGNMENT));
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&(kind as u16).to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&version.0.to_le_bytes());
    let checksum = checksum(&bytes, payload);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    Ok(bytes)
}

fn checksum(header: &[u8], payload: &[u8]) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&header[..CHECKSUM]);
    hash.update(payload);
    hash.digest()
}

impl<'a> Frame<'a> {
    /// The frame at the start of `bytes`; `None` when there is no whole one.
    fn decode(bytes: &'a [u8]) -> Option<Result<Self>> {
        if bytes.len() < FRAME_HEADER_BYTES || !bytes.starts_with(&MAGIC) {
            return None;
        }
        let payload_bytes = u64_at(bytes, PAYLOAD_BYTES);
        if payload_bytes > FRAME_PAYLOAD_BYTES_MAX {
            return None;
        }
        let end = FRAME_HEADER_BYTES + payload_bytes as usize;
        let payload = bytes.get(FRAME_HEADER_BYTES..end)?;
        if checksum(bytes, payload) != u64_at(bytes, CHECKSUM) {
            return None;
        }
        let kind = match u16_at(bytes, KIND) {
            1 => FrameKind::Checkpoint,
            2 => FrameKind::Commit,
            other => {
                return Some(Err(Error::new(
                    ErrorKind::Version,
                    format!("a frame of the unknown kind {other}: use a newer Hypostyle"),
                )));
            }
        };
        let version = Version(u64_at(bytes, VERSION));
        Some(Ok(Self { kind, version, payload, bytes: end.next_multiple_of(ALIGNMENT).min(bytes.len()) }))
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.payload)
            .map_err(|error| Error::corrupt(format!("catalog version {}: {error}", self.version)))
    }
}

impl Catalog {
    /// The catalog of a checkpoint file.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not one whole checkpoint frame of a consistent catalog.
    pub fn decode_checkpoint(bytes: &[u8]) -> Result<Self> {
        let frame = match Frame::decode(bytes) {
            Some(frame) => frame?,
            None => return Err(Error::corrupt("the checkpoint is damaged: its checksum does not match")),
        };
        if frame.kind != FrameKind::Checkpoint || frame.bytes != bytes.len() {
            return Err(Error::corrupt("the checkpoint is not one checkpoint frame"));
        }
        let catalog: Self = frame.json()?;
        if catalog.version != frame.version {
            return Err(Error::corrupt("the checkpoint's version is not that of its frame"));
        }
        catalog.validate()?;
        Ok(catalog)
    }

    pub fn encode_checkpoint(&self) -> Result<Vec<u8>> {
        encode_frame(FrameKind::Checkpoint, self.version, &to_json(self)?)
    }
}

impl Commit {
    pub fn encode(&self, version: Version) -> Result<Vec<u8>> {
        encode_frame(FrameKind::Commit, version, &to_json(self)?)
    }
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::internal(format!("cannot encode the catalog: {error}")))
}

/// Applies a log's commits to `catalog`, in order, and says where the whole ones end (§7 rule 2).
///
/// # Errors
/// `Corrupt` when a damaged frame has whole ones behind it, or a commit does not fit the catalog.
pub fn read_log(bytes: &[u8], catalog: &mut Catalog) -> Result<LogEnd> {
    let mut offset = 0;
    while let Some(frame) = Frame::decode(&bytes[offset..]) {
        let frame = frame?;
        if frame.kind != FrameKind::Commit || frame.version != catalog.version.next() {
            return Err(Error::corrupt(format!(
                "the log has version {} where {} must follow",
                frame.version,
                catalog.version.next()
            )));
        }
        let commit: Commit = frame.json()?;
        catalog.apply(&commit)?;
        offset += frame.bytes;
    }
    let rest = &bytes[offset..];
    let whole_frame_follows = (ALIGNMENT..rest.len())
        .step_by(ALIGNMENT)
        .filter_map(|start| Frame::decode(&rest[start..]))
        .any(|frame| frame.is_ok_and(|frame| frame.version > catalog.version));
    if whole_frame_follows {
        return Err(Error::corrupt(format!("the log is damaged at byte {offset}, and commits follow")));
    }
    Ok(LogEnd { offset, torn: !rest.is_empty() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, SchemaEntry};
    use proptest::prelude::*;

    fn log_of(names: &[&str]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for (index, name) in names.iter().enumerate() {
            let commit = Commit { changes: vec![Change::CreateSchema(SchemaEntry { name: (*name).into() })] };
            bytes.extend(commit.encode(Version(index as u64 + 1)).unwrap());
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_log_cut_anywhere_keeps_its_whole_commits() {
        let (bytes, ends) = log_of(&["a", "bb", "ccc"]);
        for length in 0..=bytes.len() {
            let mut catalog = Catalog::default();
            let end = read_log(&bytes[..length], &mut catalog).unwrap();
            let whole = ends.iter().filter(|end| **end <= length).count() - 1;
            // A frame without its padding is whole: the padding carries nothing.
            assert!(catalog.version.0 == whole as u64 || catalog.version.0 == whole as u64 + 1);
            assert_eq!(end.torn, end.offset != length);
            assert_eq!(catalog.schemas.len() as u64, 1 + catalog.version.0);
        }
    }

    #[test]
    fn a_flipped_bit_is_a_torn_tail_only_in_the_last_commit() {
        let (bytes, ends) = log_of(&["a", "bb", "ccc"]);
        for offset in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 0x10;
            let mut catalog = Catalog::default();
            let result = read_log(&damaged, &mut catalog);
            if offset < ends[2] {
                let padding = catalog.version.0 == 3;
                assert!(padding || result.unwrap_err().kind() == ErrorKind::Corrupt, "bit at {offset}");
            } else {
                assert!(result.unwrap().offset >= ends[2]);
            }
        }
    }

    #[test]
    fn a_checkpoint_comes_back_and_a_damaged_one_does_not() {
        let mut catalog = Catalog::default();
        read_log(&log_of(&["a"]).0, &mut catalog).unwrap();
        let bytes = catalog.encode_checkpoint().unwrap();
        assert_eq!(Catalog::decode_checkpoint(&bytes).unwrap(), catalog);
        assert!(Catalog::decode_checkpoint(&bytes[..bytes.len() - 8]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_log(&bytes, &mut Catalog::default());
            let _ = Catalog::decode_checkpoint(&bytes);
        }

        #[test]
        fn no_payload_panics(json in "[\\[\\]{}\":,a-z0-9_]{0,80}") {
            let frame = encode_frame(FrameKind::Commit, Version(1), json.as_bytes()).unwrap();
            let _ = read_log(&frame, &mut Catalog::default());
        }
    }
}
