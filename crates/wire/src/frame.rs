//! The preface and the frame header (protocol.md §1, §2).

use crate::cursor::{Reader, Writer};
use hypostyle_types::{Error, ErrorKind, Result};

pub const PREFACE_BYTES: usize = 8;
pub const FRAME_HEADER_BYTES: usize = 8;

/// Descriptors that may come with one frame.
pub const DESCRIPTORS_MAX: usize = 250;

const MAGIC: &[u8; 4] = b"HYPO";

/// The first bytes of a connection: the versions that the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preface {
    pub oldest: u16,
    pub newest: u16,
}

impl Preface {
    pub fn encode(self) -> [u8; PREFACE_BYTES] {
        let mut bytes = [0; PREFACE_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..6].copy_from_slice(&self.oldest.to_le_bytes());
        bytes[6..].copy_from_slice(&self.newest.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; PREFACE_BYTES]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(Error::protocol("this is not the Hypostyle protocol: it begins with \"HYPO\""));
        }
        Ok(Self { oldest: reader.u16()?, newest: reader.u16()? })
    }

    /// The newest version that both sides speak, the other side speaking 1 to `newest`.
    ///
    /// # Errors
    /// `Version`, naming what each speaks.
    pub fn agree(self, newest: u16) -> Result<u16> {
        let version = self.newest.min(newest);
        if version < self.oldest.max(1) {
            return Err(Error::new(
                ErrorKind::Version,
                format!(
                    "the client speaks versions {} to {} of the protocol, the server 1 to {newest}",
                    self.oldest, self.newest
                ),
            ));
        }
        Ok(version)
    }
}

macro_rules! frame_types {
    ($($name:ident = $number:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum FrameType {
            $($name = $number),*
        }

        impl FrameType {
            fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

frame_types! {
    Hello = 1,
    Response = 2,
    Query = 3,
    Credit = 4,
    Cancel = 5,
    Append = 6,
    End = 7,
    Answer = 8,
    Chunks = 9,
    Received = 10,
    Catalog = 11,
    Bye = 12,
    Describe = 13,
    Call = 14,
    Welcome = 33,
    Challenge = 34,
    Result = 35,
    Dictionary = 36,
    Chunk = 37,
    Done = 38,
    Error = 39,
    Progress = 40,
    Ask = 41,
    Tables = 42,
    Descriptors = 43,
    Elsewhere = 44,
    Description = 45,
    Reply = 46,
}

/// What stands before every body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub length: u32,
    pub frame_type: FrameType,
    pub descriptors: u16,
}

impl FrameHeader {
    pub fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4] = self.frame_type as u8;
        bytes[6..].copy_from_slice(&self.descriptors.to_le_bytes());
        bytes
    }

    /// Refuses a body longer than `length_max`.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES], length_max: u32) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let length = reader.u32()?;
        let number = reader.u8()?;
        let frame_type = FrameType::from_number(number)
            .ok_or_else(|| Error::protocol(format!("there is no frame of type {number}")))?;
        let flags = reader.u8()?;
        let descriptors = reader.u16()?;
        if flags != 0 {
            return Err(Error::protocol(format!(
                "flags {flags} of a {frame_type:?} frame are not of version 1"
            )));
        }
        if length > length_max {
            return Err(Error::protocol(format!(
                "a {frame_type:?} frame of {length} bytes is longer than the {length_max} that are accepted"
            )));
        }
        if usize::from(descriptors) > DESCRIPTORS_MAX {
            return Err(Error::protocol(format!("{descriptors} descriptors with one frame are too many")));
        }
        Ok(Self { length, frame_type, descriptors })
    }

    /// The header and body of a frame without descriptors.
    #[expect(clippy::expect_used, reason = "a message is made of what one statement says")]
    pub fn frame(frame_type: FrameType, body: Writer) -> Vec<u8> {
        let body = body.finish();
        let length = u32::try_from(body.len()).expect("a message is shorter than 4 GiB");
        let mut bytes = Self { length, frame_type, descriptors: 0 }.encode().to_vec();
        bytes.extend_from_slice(&body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preface_comes_back_and_versions_agree() {
        let preface = Preface { oldest: 1, newest: 3 };
        assert_eq!(Preface::decode(&preface.encode()).unwrap(), preface);
        assert_eq!(preface.agree(2).unwrap(), 2);
        assert_eq!(preface.agree(9).unwrap(), 3);
        let error = Preface { oldest: 4, newest: 5 }.agree(3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Version);
        assert_eq!(Preface::decode(b"GET / HT").unwrap_err().sqlstate(), "08P01");
    }

    #[test]
    fn a_header_that_cannot_be_is_refused() {
        let header = FrameHeader { length: 10, frame_type: FrameType::Chunk, descriptors: 1 };
        assert_eq!(FrameHeader::decode(&header.encode(), 10).unwrap(), header);
        assert!(
            FrameHeader::decode(&header.encode(), 9).unwrap_err().message().contains("longer than the 9")
        );
        for (index, value) in [(4, 99), (5, 1), (7, 9)] {
            let mut bytes = header.encode();
            bytes[index] = value;
            assert_eq!(FrameHeader::decode(&bytes, 10).unwrap_err().sqlstate(), "08P01");
        }
    }
}
