//! Beginning a session (protocol.md §3).

use super::field::{Field, body, fields};
use crate::VERSION;
use crate::cursor::{Reader, Writer};
use crate::frame::{FrameHeader, FrameType};
use hypostyle_types::{Error, Result, did_you_mean};
use std::str::FromStr;

/// What a client can (§3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u32);

impl Capabilities {
    pub const DESCRIPTORS: Self = Self(1);
    pub const PROGRESS: Self = Self(2);
    pub const RESOLVE: Self = Self(4);
    pub const RESUME: Self = Self(8);
    /// Errors may tell where in the statement's text they are.
    pub const PLACES: Self = Self(16);
    /// The session calls the server, as one node of a cluster does another (§4.6).
    pub const CLUSTER: Self = Self(32);
    /// A result may be in the server's files but for some rows (§10.5, place 3).
    pub const PIECES: Self = Self(64);

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Field for Capabilities {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Field::read(from).map(Self)
    }
}

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Calls of other nodes of a cluster, and no statements.
    Cluster,
    /// Queries.
    Read,
    /// And statements that write.
    Write,
    /// And files of the server, ATTACH, settings of all, KILL.
    Admin,
}

impl Role {
    const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Admin, Self::Cluster];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
            Self::Cluster => "cluster",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::from_name(name).ok_or_else(|| {
            let suggestion = did_you_mean(name, Self::ALL.map(Self::name));
            Error::invalid_input(format!(
                "the role is read, write, admin or cluster, not \"{name}\"{suggestion}"
            ))
        })
    }
}

impl Field for Role {
    fn write(&self, to: &mut Writer) {
        to.text(self.name());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let name = from.text()?;
        Self::from_name(name).ok_or_else(|| Error::protocol(format!("there is no role \"{name}\"")))
    }
}

fields! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Hello {
        pub capabilities: Capabilities,
        /// 2^n for each compression n that can be undone.
        pub codecs: u32,
        pub frame_bytes_max: u32,
        pub user: String,
        pub client: String,
        pub mechanism: String,
        pub initial: Vec<u8>,
        /// The session to resume, 0 for a new one.
        pub session: u64,
        pub key: Vec<u8>,
        /// The number of a further connection of that session (§6.3), 0 for its only or first.
        pub stream: u32,
        /// The client's end of the connection, as it sees it.
        pub origin: String,
    }
}

body!(Hello, Hello);

/// A step of the authentication: `Challenge` from the server, `Response` from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note(pub Vec<u8>);

impl Note {
    pub fn frame(&self, frame_type: FrameType) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(&self.0);
        FrameHeader::frame(frame_type, writer)
    }

    pub fn decode(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let note = Self(reader.bytes()?.into());
        reader.end()?;
        Ok(note)
    }
}

fields! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Welcome {
        pub version: u16 where check_offered,
        pub capabilities: Capabilities,
        pub frame_bytes_max: u32,
        pub server: String,
        pub session: u64,
        pub key: Vec<u8>,
        pub role: Role,
        pub last: Vec<u8>,
    }
}

body!(Welcome, Welcome);

fn check_offered(version: &u16) -> Result<()> {
    match version {
        1..=VERSION => Ok(()),
        other => Err(Error::protocol(format!("the server wants version {other}, which was not offered"))),
    }
}
