//! What is said while a statement runs: credit, what has arrived, progress, cancels (protocol.md
//! §6, §7).

use super::field::{Field, body, fields};
use crate::cursor::{Reader, Writer};
use crate::frame::{FrameHeader, FrameType};
use hypostyle_types::Result;
use std::time::Duration;

fields! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Credit {
        pub query: u32,
        pub bytes: u64,
    }
}

body!(Credit, Credit);

/// Bytes of frames that have arrived whole in this session (§6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received(pub u64);

impl Field for Received {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Field::read(from).map(Self)
    }
}

body!(Received, Received);

fields! {
    /// Where the next bytes of the session are: whole frames on another of its connections (§6.3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Elsewhere {
        pub stream: u32,
        pub bytes: u64,
    }
}

body!(Elsewhere, Elsewhere);

fields! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Progress {
        pub query: u32,
        pub done: u64,
        pub total: Option<u64>,
        pub elapsed: Duration,
    }
}

body!(Progress, Progress);

/// Ends a statement, or asks for chunks in the place of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel(pub u32);

impl Cancel {
    /// `Cancel`, `Chunks` or `Catalog`: all of them only name a query.
    pub fn frame(self, frame_type: FrameType) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(self.0);
        FrameHeader::frame(frame_type, writer)
    }

    pub fn decode(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let message = Self(reader.u32()?);
        reader.end()?;
        Ok(message)
    }
}
