//! Frames and the log (format.md §6, §7).

use crate::{Catalog, Change, Commit, u16_at, u64_at};
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
    /// A commit whose JSON is followed by attachments.
    CommitWithAttachments = 3,
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

pub fn encode_frame(kind: FrameKind, version: Version, payload: &[u8]) -> Result<Vec<u8>> {
    if payload.len() as u64 > FRAME_PAYLOAD_BYTES_MAX {
        return Err(Error::invalid_input(format!(
            "the catalog change takes {} bytes; at most {FRAME_PAYLOAD_BYTES_MAX} fit in one commit",
            payload.len()
        )));
    }
    let mut header = [0; FRAME_HEADER_BYTES];
    header[..KIND].copy_from_slice(&MAGIC);
    header[KIND..KIND + 2].copy_from_slice(&(kind as u16).to_le_bytes());
    header[PAYLOAD_BYTES..VERSION].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    header[VERSION..CHECKSUM].copy_from_slice(&version.0.to_le_bytes());
    let checksum = checksum(&header, payload);
    header[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len().next_multiple_of(ALIGNMENT));
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    Ok(bytes)
}

fn checksum(header: &[u8; FRAME_HEADER_BYTES], payload: &[u8]) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&header[..CHECKSUM]);
    hash.update(payload);
    hash.digest()
}

impl<'a> Frame<'a> {
    /// Decodes the frame at the start of `bytes`. Returns `None` when there is no whole frame.
    fn decode(bytes: &'a [u8]) -> Option<Result<Self>> {
        let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>()?;
        let payload_bytes = u64_at(header, PAYLOAD_BYTES);
        if !header.starts_with(&MAGIC) || payload_bytes > FRAME_PAYLOAD_BYTES_MAX {
            return None;
        }
        let payload = rest.get(..usize::try_from(payload_bytes).ok()?)?;
        if checksum(header, payload) != u64_at(header, CHECKSUM) {
            return None;
        }
        let kind = match u16_at(header, KIND) {
            1 => FrameKind::Checkpoint,
            2 => FrameKind::Commit,
            3 => FrameKind::CommitWithAttachments,
            other => {
                return Some(Err(Error::new(
                    ErrorKind::Version,
                    format!("a frame of the unknown kind {other}: use a newer Hypostyle"),
                )));
            }
        };
        let version = Version(u64_at(header, VERSION));
        let end = FRAME_HEADER_BYTES + payload.len();
        Some(Ok(Self { kind, version, payload, bytes: end.next_multiple_of(ALIGNMENT).min(bytes.len()) }))
    }
}

fn from_json<T: DeserializeOwned>(json: &[u8], version: Version) -> Result<T> {
    serde_json::from_slice(json)
        .map_err(|error| Error::corrupt(format!("catalog version {version}: {error}")))
}

impl Catalog {
    /// Decodes the catalog of a checkpoint file.
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
        let catalog: Self = from_json(frame.payload, frame.version)?;
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
    /// Encodes the frame of the commit that creates `version`.
    ///
    /// # Errors
    /// `InvalidInput` when the commit is too large for a frame.
    pub fn encode(&self, version: Version) -> Result<Vec<u8>> {
        let json = to_json(self)?;
        if self.attachments.is_empty() {
            return encode_frame(FrameKind::Commit, version, &json);
        }
        let attachments = self.attachments.concat();
        let spaces = spaces_before(&attachments, FRAME_HEADER_BYTES + 8 + json.len());
        let mut payload = Vec::with_capacity(8 + json.len() + spaces + attachments.len());
        payload.extend_from_slice(&((json.len() + spaces) as u64).to_le_bytes());
        payload.extend_from_slice(&json);
        payload.resize(payload.len() + spaces, b' ');
        payload.extend_from_slice(&attachments);
        encode_frame(FrameKind::CommitWithAttachments, version, &payload)
    }

    fn decode(frame: &Frame<'_>) -> Result<Self> {
        let damaged = || Error::corrupt(format!("catalog version {}: a commit is damaged", frame.version));
        let (json, mut attached) = match frame.kind {
            FrameKind::Commit => (frame.payload, &[][..]),
            FrameKind::CommitWithAttachments => {
                let (json_bytes, rest) = frame.payload.split_first_chunk().ok_or_else(damaged)?;
                let json_bytes = usize::try_from(u64::from_le_bytes(*json_bytes)).map_err(|_| damaged())?;
                rest.split_at_checked(json_bytes).ok_or_else(damaged)?
            }
            FrameKind::Checkpoint => return Err(damaged()),
        };
        let mut commit: Self = from_json(json, frame.version)?;
        for bytes in commit.changes.iter().filter_map(Change::attachment_bytes) {
            let bytes = usize::try_from(bytes).map_err(|_| damaged())?;
            let (attachment, rest) = attached.split_at_checked(bytes).ok_or_else(damaged)?;
            commit.attachments.push(attachment.to_vec());
            attached = rest;
        }
        if attached.is_empty() { Ok(commit) } else { Err(damaged()) }
    }

    /// Returns each change with its attachment.
    pub fn with_attachments(&self) -> impl Iterator<Item = (&Change, &[u8])> {
        let mut attachments = self.attachments.iter();
        self.changes.iter().map(move |change| {
            let attachment = change.attachment_bytes().and_then(|_| attachments.next());
            (change, attachment.map(Vec::as_slice).unwrap_or_default())
        })
    }
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::internal(format!("cannot encode the catalog: {error}")))
}

/// Reads the whole frames of a log in order, or of a part of it that starts with a frame (§7 rule
/// 2).
#[derive(Debug)]
pub struct LogReader<'a> {
    bytes: &'a [u8],
    offset: usize,
    version: Version,
}

impl<'a> LogReader<'a> {
    /// Begins before the first frame, which follows `version`.
    pub fn new(bytes: &'a [u8], version: Version) -> Self {
        Self { bytes, offset: 0, version }
    }

    /// Returns the offset at which the whole frames that have been read end.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the next commit, or `None` at the end of the log.
    ///
    /// # Errors
    /// `Corrupt` when a durable frame is missing, or a commit does not decode.
    pub fn next_commit(&mut self) -> Result<Option<Commit>> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let next = self.version.next();
        if let Some(frame) = Frame::decode(rest) {
            let frame = frame?;
            if frame.version == next {
                let commit = Commit::decode(&frame)?;
                self.offset += frame.bytes;
                self.version = next;
                return Ok(Some(commit));
            }
        }
        self.check_end(rest).map(|()| None)
    }

    /// Checks that the missing frame was never durable.
    fn check_end(&self, rest: &[u8]) -> Result<()> {
        for start in frame_starts(rest).filter(|start| start.is_multiple_of(ALIGNMENT)) {
            if let Some(Ok(frame)) = rest.get(start..).and_then(Frame::decode)
                && frame.version > self.version
                && frame.kind != FrameKind::Checkpoint
                && Commit::decode(&frame).is_ok_and(|commit| commit.durable > self.version)
            {
                return Err(Error::corrupt(format!(
                    "the log is damaged at byte {}: version {} is missing, and version {} follows",
                    self.offset,
                    self.version.next(),
                    frame.version
                )));
            }
        }
        Ok(())
    }
}

/// Returns the offsets at which frames may start.
fn frame_starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memmem::find_iter(bytes, &MAGIC)
}

/// Returns how many spaces go before attachments, which would otherwise begin at `offset` of a
/// frame. The spaces keep a stored copy of a log from being taken for frames behind an unfinished
/// commit (§6).
fn spaces_before(attachments: &[u8], offset: usize) -> usize {
    let bit = |place: usize| 1_u8 << (place % ALIGNMENT);
    let taken = frame_starts(attachments).fold(0, |taken, start| taken | bit(offset + start));
    let is_free = |spaces: &usize| taken & bit(ALIGNMENT - spaces) == 0;
    (0..ALIGNMENT).find(is_free).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SchemaEntry;
    use hypostyle_types::TableId;
    use proptest::prelude::*;

    /// Builds a log in which each commit knows that the one before it is durable.
    fn log_of(names: &[&str]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for (name, index) in names.iter().zip(0..) {
            let changes = vec![
                Change::CreateSchema(SchemaEntry::new(*name)),
                Change::Insert { id: TableId(1), rows: 1, bytes: name.len() as u64 },
            ];
            let attachments = vec![name.as_bytes().to_vec()];
            let commit = Commit { durable: Version(index), changes, attachments };
            bytes.extend(commit.encode(Version(index + 1)).unwrap());
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    /// Returns the attachments of the commits that are read, and the offset at which they end.
    fn read(bytes: &[u8]) -> Result<(Vec<Vec<u8>>, usize)> {
        let mut reader = LogReader::new(bytes, Version(0));
        let mut found = Vec::new();
        while let Some(commit) = reader.next_commit()? {
            found.extend(commit.attachments);
        }
        Ok((found, reader.offset()))
    }

    #[test]
    fn a_log_cut_anywhere_keeps_its_whole_commits() {
        let (bytes, ends) = log_of(&["a", "bb", "ccc"]);
        for length in 0..=bytes.len() {
            let mut cut = bytes[..length].to_vec();
            let (found, offset) = read(&cut).unwrap();
            let whole = ends.iter().filter(|end| **end <= length).count() - 1;
            // A frame without its padding is whole, because the padding carries no data.
            assert!(found.len() == whole || found.len() == whole + 1);
            assert!(found.iter().zip(["a", "bb", "ccc"]).all(|(found, name)| found == name.as_bytes()));
            cut.resize(length + 100, 0);
            assert_eq!(read(&cut).unwrap().0, found, "with zeros behind {offset}");
        }
    }

    #[test]
    fn a_flipped_bit_is_a_torn_tail_only_where_nothing_was_durable() {
        let (bytes, ends) = log_of(&["a", "bb", "ccc"]);
        for offset in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 0x10;
            let result = read(&damaged);
            if offset < ends[2] {
                let padding = result.as_ref().is_ok_and(|(found, _)| found.len() == 3);
                assert!(padding || result.unwrap_err().kind() == ErrorKind::Corrupt, "bit at {offset}");
            } else {
                assert!(result.unwrap().1 >= ends[2]);
            }
        }
        // The second commit did not wait for the first to be durable.
        let commit = |name: &str| Commit {
            changes: vec![Change::CreateSchema(SchemaEntry::new(name))],
            ..Commit::default()
        };
        let mut bytes = commit("a").encode(Version(1)).unwrap();
        bytes.extend(commit("b").encode(Version(2)).unwrap());
        bytes[40] ^= 1;
        assert_eq!(read(&bytes).unwrap(), (vec![], 0));
    }

    #[test]
    fn a_stored_log_is_not_taken_for_frames_behind_an_unfinished_commit() {
        let (log, _) = log_of(&["a", "bb", "ccc"]);
        for before in 0..ALIGNMENT {
            // The commit's first bytes are lost, where the stored log's bytes say that it was
            // durable.
            let attachment = [vec![0; before], log.clone()].concat();
            let changes = vec![Change::Insert { id: TableId(1), rows: 1, bytes: attachment.len() as u64 }];
            let commit = Commit { changes, attachments: vec![attachment], ..Commit::default() };
            let mut bytes = commit.encode(Version(1)).unwrap();
            assert_eq!(read(&bytes).unwrap().0, commit.attachments);
            bytes[..FRAME_HEADER_BYTES].fill(0);
            assert_eq!(read(&bytes).unwrap(), (vec![], 0), "{before} bytes before");
        }
        let everywhere: Vec<u8> =
            (0..ALIGNMENT).flat_map(|place| [&[0; 5][..], &MAGIC, &vec![0; place]].concat()).collect();
        assert_eq!(frame_starts(&everywhere).count(), ALIGNMENT);
        assert!((0..ALIGNMENT).all(|offset| spaces_before(&everywhere, offset) < ALIGNMENT));
    }

    #[test]
    fn a_checkpoint_comes_back_and_a_damaged_one_does_not() {
        let mut catalog = Catalog::default();
        catalog.schemas.push(SchemaEntry::new("a"));
        let bytes = catalog.encode_checkpoint().unwrap();
        assert_eq!(Catalog::decode_checkpoint(&bytes).unwrap(), catalog);
        assert!(Catalog::decode_checkpoint(&bytes[..bytes.len() - 8]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = Catalog::decode_checkpoint(&bytes);
        }

        #[test]
        fn no_payload_panics(json in "[\\[\\]{}\":,a-z0-9_]{0,80}", kind in 2..=3_u16) {
            let kind = if kind == 2 { FrameKind::Commit } else { FrameKind::CommitWithAttachments };
            let _ = read(&encode_frame(kind, Version(1), json.as_bytes()).unwrap());
        }
    }
}
