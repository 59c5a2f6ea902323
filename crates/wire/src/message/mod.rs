//! The bodies of frames (protocol.md §3 to §8). Chunks' heads and payloads are `chunk`'s.

use crate::codec::{LZ4, NONE, ZSTD};
use crate::cursor::{Reader, Writer};
use crate::frame::{FrameHeader, FrameType};
use crate::schema::{read_counted_schema, read_schema, write_schema};
use crate::{UNKNOWN, VERSION};
use arrow_schema::SchemaRef;
use hypostyle_types::{Error, ErrorKind, Result, TABLE_COLUMNS_MAX};
use std::time::Duration;

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

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Queries.
    Read,
    /// And statements that write.
    Write,
    /// And files of the server, ATTACH, settings of all, KILL.
    Admin,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Admin].into_iter().find(|role| role.name() == name)
    }
}

/// A body that is one message.
macro_rules! message {
    ($type:ty, $frame:ident) => {
        impl $type {
            /// The whole frame.
            pub fn frame(&self) -> Vec<u8> {
                let mut writer = Writer::default();
                self.write(&mut writer);
                FrameHeader::frame(FrameType::$frame, writer)
            }

            pub fn decode(body: &[u8]) -> Result<Self> {
                let mut reader = Reader::new(body);
                let message = Self::read(&mut reader)?;
                reader.end()?;
                Ok(message)
            }
        }
    };
}

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
    /// Of a further connection of that session (§6.3), 0 for its only or first.
    pub stream: u32,
    /// The client's end of the connection, as it sees it.
    pub origin: String,
}

impl Hello {
    fn write(&self, to: &mut Writer) {
        to.u32(self.capabilities.0).u32(self.codecs).u32(self.frame_bytes_max);
        to.text(&self.user).text(&self.client).text(&self.mechanism).bytes(&self.initial);
        to.u64(self.session).bytes(&self.key).u32(self.stream).text(&self.origin);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            capabilities: Capabilities(from.u32()?),
            codecs: from.u32()?,
            frame_bytes_max: from.u32()?,
            user: from.text()?.into(),
            client: from.text()?.into(),
            mechanism: from.text()?.into(),
            initial: from.bytes()?.into(),
            session: from.u64()?,
            key: from.bytes()?.into(),
            stream: from.u32()?,
            origin: from.text()?.into(),
        })
    }
}
message!(Hello, Hello);

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub version: u16,
    pub capabilities: Capabilities,
    pub frame_bytes_max: u32,
    pub server: String,
    pub session: u64,
    pub key: Vec<u8>,
    pub role: Role,
    pub last: Vec<u8>,
}

impl Welcome {
    fn write(&self, to: &mut Writer) {
        to.u16(self.version).u32(self.capabilities.0).u32(self.frame_bytes_max);
        to.text(&self.server).u64(self.session).bytes(&self.key).text(self.role.name()).bytes(&self.last);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let version = from.u16()?;
        if version == 0 || version > VERSION {
            return Err(Error::protocol(format!(
                "the server wants version {version}, which was not offered"
            )));
        }
        Ok(Self {
            version,
            capabilities: Capabilities(from.u32()?),
            frame_bytes_max: from.u32()?,
            server: from.text()?.into(),
            session: from.u64()?,
            key: from.bytes()?.into(),
            role: {
                let name = from.text()?;
                Role::from_name(name)
                    .ok_or_else(|| Error::protocol(format!("there is no role \"{name}\"")))?
            },
            last: from.bytes()?.into(),
        })
    }
}
message!(Welcome, Welcome);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    Sql,
    /// All of a table or view.
    Table,
}

/// Placeholders of a statement: one row, one column for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Empty where they go by position.
    pub names: Vec<String>,
    pub schema: SchemaRef,
    /// Head and payload of the row.
    pub head: Vec<u8>,
    pub payload: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub query: u32,
    pub kind: QueryKind,
    /// Whether descriptors are welcome.
    pub descriptors: bool,
    pub progress: bool,
    pub chunk_bytes: u32,
    pub credit: u64,
    pub text: String,
    pub parameters: Option<Parameters>,
}

impl Query {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u8(match self.kind {
            QueryKind::Sql => 0,
            QueryKind::Table => 1,
        });
        to.u8(u8::from(self.descriptors) | u8::from(self.progress) << 1);
        to.u32(self.chunk_bytes).u64(self.credit).text(&self.text);
        match &self.parameters {
            None => {
                to.u8(0).u32(0);
            }
            Some(parameters) => {
                to.u8(if parameters.names.is_empty() { 1 } else { 2 });
                to.list(parameters.names.iter(), |to, name| {
                    to.text(name);
                });
                write_schema(to, &parameters.schema);
                to.bytes(&parameters.head).bytes(&parameters.payload);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let query = from.u32()?;
        let kind = match from.u8()? {
            0 => QueryKind::Sql,
            1 => QueryKind::Table,
            other => return Err(Error::protocol(format!("there is no kind {other} of query"))),
        };
        let flags = from.u8()?;
        if flags > 3 {
            return Err(Error::protocol(format!("flags {flags} of a query are not of version 1")));
        }
        let (chunk_bytes, credit) = (from.u32()?, from.u64()?);
        let text = from.text()?.to_string();
        let has_parameters = from.u8()?;
        let names = from.list(size_of::<u32>(), TABLE_COLUMNS_MAX, |from| Ok(from.text()?.to_string()))?;
        let parameters = match has_parameters {
            0 => None,
            1 | 2 => Some(Parameters {
                names,
                schema: read_schema(from)?,
                head: from.bytes()?.into(),
                payload: from.bytes()?.into(),
            }),
            other => return Err(Error::protocol(format!("there is no kind {other} of parameters"))),
        };
        Ok(Self {
            query,
            kind,
            descriptors: flags & 1 != 0,
            progress: flags & 2 != 0,
            chunk_bytes,
            credit,
            text,
            parameters,
        })
    }
}
message!(Query, Query);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    pub query: u32,
    pub bytes: u64,
}

impl Credit {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u64(self.bytes);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { query: from.u32()?, bytes: from.u64()? })
    }
}
message!(Credit, Credit);

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

#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    pub query: u32,
    pub create: bool,
    pub by_name: bool,
    pub table: String,
    pub schema: SchemaRef,
}

impl Append {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u8(u8::from(self.create) | u8::from(self.by_name) << 1).text(&self.table);
        write_schema(to, &self.schema);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (query, flags) = (from.u32()?, from.u8()?);
        if flags > 3 {
            return Err(Error::protocol(format!("flags {flags} of an append are not of version 1")));
        }
        Ok(Self {
            query,
            create: flags & 1 != 0,
            by_name: flags & 2 != 0,
            table: from.text()?.into(),
            schema: read_schema(from)?,
        })
    }
}
message!(Append, Append);

/// What a stream must have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub query: u32,
    pub rows: u64,
    pub checksum: u64,
}

impl End {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u64(self.rows).u64(self.checksum);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { query: from.u32()?, rows: from.u64()?, checksum: from.u64()? })
    }
}
message!(End, End);

#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub query: u32,
    pub name: String,
}

impl Ask {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).text(&self.name);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { query: from.u32()?, name: from.text()?.into() })
    }
}
message!(Ask, Ask);

/// A statement that is not to be run, with `$1` for its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    pub query: u32,
    pub text: String,
}

impl Describe {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).text(&self.text);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { query: from.u32()?, text: from.text()?.into() })
    }
}
message!(Describe, Describe);

/// What a statement gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    Nothing,
    Rows,
    /// Only running it tells.
    Unknown,
}

/// What can be told of a statement that has not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    pub query: u32,
    pub gives: Gives,
    /// A field for each; of the type NULL where nothing in the statement tells the type.
    pub parameters: SchemaRef,
    /// Of its rows; empty where it gives none, or it is not known.
    pub columns: SchemaRef,
}

impl Description {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u8(self.gives as u8);
        write_schema(to, &self.parameters);
        write_schema(to, &self.columns);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            query: from.u32()?,
            gives: match from.u8()? {
                0 => Gives::Nothing,
                1 => Gives::Rows,
                2 => Gives::Unknown,
                other => return Err(Error::protocol(format!("a statement cannot give {other}"))),
            },
            parameters: read_schema(from)?,
            columns: read_schema(from)?,
        })
    }
}
message!(Description, Description);

/// What the client has under a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Nothing { query: u32 },
    Table { query: u32, schema: SchemaRef },
    Unreadable { query: u32, why: String },
}

impl Answer {
    fn write(&self, to: &mut Writer) {
        match self {
            Self::Nothing { query } => {
                to.u32(*query).u8(0);
            }
            Self::Table { query, schema } => {
                to.u32(*query).u8(1);
                write_schema(to, schema);
            }
            Self::Unreadable { query, why } => {
                to.u32(*query).u8(2).text(why);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let query = from.u32()?;
        match from.u8()? {
            0 => Ok(Self::Nothing { query }),
            1 => Ok(Self::Table { query, schema: read_schema(from)? }),
            2 => Ok(Self::Unreadable { query, why: from.text()?.into() }),
            other => Err(Error::protocol(format!("there is no answer {other}"))),
        }
    }
}
message!(Answer, Answer);

/// Bytes of frames that have arrived whole in this session (§6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received(pub u64);

impl Received {
    fn write(&self, to: &mut Writer) {
        to.u64(self.0);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self(from.u64()?))
    }
}
message!(Received, Received);

/// Where the next bytes of the session are: whole frames on another of its connections (§6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    pub stream: u32,
    pub bytes: u64,
}

impl Elsewhere {
    fn write(&self, to: &mut Writer) {
        to.u32(self.stream).u64(self.bytes);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { stream: from.u32()?, bytes: from.u64()? })
    }
}
message!(Elsewhere, Elsewhere);

#[derive(Clone, Debug, PartialEq)]
pub struct ResultHeader {
    pub query: u32,
    /// Whether rows come.
    pub is_query: bool,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    pub schema: SchemaRef,
}

impl ResultHeader {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u8(u8::from(self.is_query));
        to.u64(self.rows.unwrap_or(UNKNOWN)).u64(self.bytes.unwrap_or(UNKNOWN));
        write_schema(to, &self.schema);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            query: from.u32()?,
            is_query: from.flag()?,
            rows: known(from.u64()?),
            bytes: known(from.u64()?),
            schema: read_schema(from)?,
        })
    }
}
message!(ResultHeader, Result);

fn known(number: u64) -> Option<u64> {
    (number != UNKNOWN).then_some(number)
}

/// Whether the session has a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transaction {
    #[default]
    None,
    Open,
    /// It refuses work until it is rolled back.
    Failed,
}

impl Transaction {
    fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Open => 1,
            Self::Failed => 2,
        }
    }

    fn from_number(number: u8) -> Result<Self> {
        [Self::None, Self::Open, Self::Failed]
            .into_iter()
            .find(|state| state.number() == number)
            .ok_or_else(|| Error::protocol(format!("there is no transaction state {number}")))
    }
}

/// Where the time of a statement went on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Until the first row.
    pub execute: Duration,
    pub encode: Duration,
    /// In the socket.
    pub send: Duration,
    /// For credit.
    pub wait: Duration,
}

/// How often a column was encoded so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub column: u32,
    pub encoding: u8,
    pub compression: u8,
    pub chunks: u64,
}

impl Chosen {
    /// The encoding's name in protocol.md §11, and the compression's: `frame of reference`, `fsst + zstd`.
    pub fn codec(&self) -> String {
        const ENCODINGS: [&str; 10] = [
            "plain",
            "offsets",
            "frame of reference",
            "delta",
            "constant",
            "runs",
            "difference",
            "dictionary",
            "decimal",
            "fsst",
        ];
        let encoding = ENCODINGS.get(usize::from(self.encoding)).copied().unwrap_or("unknown");
        match self.compression {
            NONE => encoding.to_string(),
            LZ4 => format!("{encoding} + lz4"),
            ZSTD => format!("{encoding} + zstd"),
            _ => format!("{encoding} + unknown"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub query: u32,
    pub rows: u64,
    pub checksum: u64,
    pub affected: Option<u64>,
    pub transaction: Transaction,
    pub times: Times,
    /// Bytes of the chunks before and after codecs.
    pub raw: u64,
    pub sent: u64,
    pub chosen: Vec<Chosen>,
}

/// Of one of the list.
const CHOSEN_BYTES: usize = 14;

impl Done {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u64(self.rows).u64(self.checksum).u64(self.affected.unwrap_or(UNKNOWN));
        to.u8(self.transaction.number());
        for time in [self.times.execute, self.times.encode, self.times.send, self.times.wait] {
            to.u64(microseconds(time));
        }
        to.u64(self.raw).u64(self.sent);
        to.list(self.chosen.iter(), |to, chosen| {
            to.u32(chosen.column).u8(chosen.encoding).u8(chosen.compression).u64(chosen.chunks);
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (query, rows, checksum, affected) = (from.u32()?, from.u64()?, from.u64()?, known(from.u64()?));
        let transaction = Transaction::from_number(from.u8()?)?;
        let mut time = || Ok::<_, Error>(Duration::from_micros(from.u64()?));
        let times = Times { execute: time()?, encode: time()?, send: time()?, wait: time()? };
        Ok(Self {
            query,
            rows,
            checksum,
            affected,
            transaction,
            times,
            raw: from.u64()?,
            sent: from.u64()?,
            chosen: from.list(CHOSEN_BYTES, usize::MAX, |from| {
                Ok(Chosen {
                    column: from.u32()?,
                    encoding: from.u8()?,
                    compression: from.u8()?,
                    chunks: from.u64()?,
                })
            })?,
        })
    }
}
message!(Done, Done);

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub struct Failure {
    /// 0 for the connection's.
    pub query: u32,
    pub error: Error,
    /// Whether the connection closes.
    pub fatal: bool,
    pub transaction: Transaction,
}

/// In the order of their numbers (§8).
const KINDS: [ErrorKind; 21] = [
    ErrorKind::Syntax,
    ErrorKind::UnknownName,
    ErrorKind::InvalidInput,
    ErrorKind::Constraint,
    ErrorKind::AlreadyExists,
    ErrorKind::NotFound,
    ErrorKind::Io,
    ErrorKind::DiskFull,
    ErrorKind::Corrupt,
    ErrorKind::Version,
    ErrorKind::Busy,
    ErrorKind::ReadOnly,
    ErrorKind::Conflict,
    ErrorKind::Interrupted,
    ErrorKind::OutOfMemory,
    ErrorKind::Unsupported,
    ErrorKind::Closed,
    ErrorKind::Internal,
    ErrorKind::Denied,
    ErrorKind::Connection,
    ErrorKind::TransactionState,
];

impl Failure {
    fn write(&self, to: &mut Writer) {
        let kind = KINDS.iter().position(|kind| *kind == self.error.kind());
        let internal = KINDS.iter().position(|kind| *kind == ErrorKind::Internal);
        to.u32(self.query).raw(self.error.sqlstate().as_bytes());
        to.u8(kind.or(internal).unwrap_or_default() as u8).u8(u8::from(self.fatal));
        to.u8(self.transaction.number()).text(self.error.message());
        if let Some(position) = self.error.position().and_then(|position| u32::try_from(position).ok()) {
            to.u32(position);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let query = from.u32()?;
        let sqlstate = from.take(5)?;
        let kind = KINDS.get(usize::from(from.u8()?)).copied().unwrap_or(ErrorKind::Internal);
        let sqlstate = std::str::from_utf8(sqlstate)
            .ok()
            .filter(|state| state.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()))
            .ok_or_else(|| Error::protocol("an SQLSTATE is five capitals and digits"))?;
        let fatal = from.flag()?;
        let transaction = Transaction::from_number(from.u8()?)?;
        let error = Error::new(kind, from.text()?).with_sqlstate(sqlstate);
        let error = match from.is_empty() {
            true => error,
            false => error.at(from.u32()? as usize),
        };
        Ok(Self { query, error, fatal, transaction })
    }
}
message!(Failure, Error);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub query: u32,
    pub done: u64,
    pub total: Option<u64>,
    pub elapsed: Duration,
}

impl Progress {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u64(self.done).u64(self.total.unwrap_or(UNKNOWN)).u64(microseconds(self.elapsed));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            query: from.u32()?,
            done: from.u64()?,
            total: known(from.u64()?),
            elapsed: Duration::from_micros(from.u64()?),
        })
    }
}
message!(Progress, Progress);

/// A table or view of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntry {
    pub schema: String,
    pub name: String,
    pub is_view: bool,
    /// Of tables.
    pub rows: Option<u64>,
    pub columns: SchemaRef,
}

/// Tables of a catalog, with all their fields (§13).
const CATALOG_FIELDS_MAX: usize = 1 << 20;

/// Of a table without names and columns.
const TABLE_BYTES_MIN: usize = 21;

impl TableEntry {
    pub fn list_frame(query: u32, tables: &[Self]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(query).list(tables.iter(), |to, table| {
            to.text(&table.schema).text(&table.name).u8(u8::from(table.is_view));
            to.u64(table.rows.unwrap_or(UNKNOWN));
            write_schema(to, &table.columns);
        });
        FrameHeader::frame(FrameType::Tables, writer)
    }

    /// The query's number and the tables.
    ///
    /// # Errors
    /// `54000` when they are too many to be held.
    pub fn decode_list(body: &[u8]) -> Result<(u32, Vec<Self>)> {
        let mut reader = Reader::new(body);
        let query = reader.u32()?;
        let mut found = 0;
        let tables = reader.list(TABLE_BYTES_MIN, usize::MAX, |from| {
            let (schema, name) = (from.text()?.into(), from.text()?.into());
            let (is_view, rows) = (from.flag()?, known(from.u64()?));
            let (columns, fields) = read_counted_schema(from)?;
            found += 1 + fields;
            if found > CATALOG_FIELDS_MAX {
                let message = format!(
                    "the catalog has more than {CATALOG_FIELDS_MAX} tables and columns; query information_schema"
                );
                return Err(Error::invalid_input(message).with_sqlstate("54000"));
            }
            Ok(Self { schema, name, is_view, rows, columns })
        })?;
        reader.end()?;
        Ok((query, tables))
    }
}

/// Where a chunk's payload is (§10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Frame,
    MemoryFile,
    Columns,
}

/// What stands before a chunk's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    pub query: u32,
    pub place: Place,
    pub number: u64,
    pub rows: u64,
    pub checksum: u64,
    /// Rows at the beginning of the files that are not part of the result.
    pub skip: u64,
    pub head: Vec<u8>,
}

impl ChunkHeader {
    pub fn write(&self, to: &mut Writer) {
        to.u32(self.query);
        match self.place {
            Place::Frame => to.u8(0),
            Place::MemoryFile => to.u8(1),
            Place::Columns => to.u8(2),
        };
        to.u64(self.number);
        match self.place {
            Place::Columns => to.u64(self.rows),
            _ => to.u32(u32::try_from(self.rows).expect("a chunk has fewer than 2^32 rows")),
        };
        to.u64(self.checksum);
        if self.place == Place::Columns {
            to.u64(self.skip);
        }
        to.bytes(&self.head);
    }

    /// The header, and how many bytes of the body it takes.
    pub fn decode(body: &[u8]) -> Result<(Self, usize)> {
        let mut from = Reader::new(body);
        let query = from.u32()?;
        let place = match from.u8()? {
            0 => Place::Frame,
            1 => Place::MemoryFile,
            2 => Place::Columns,
            other => return Err(Error::protocol(format!("there is no place {other} of a payload"))),
        };
        let number = from.u64()?;
        let rows = match place {
            Place::Columns => from.u64()?,
            _ => u64::from(from.u32()?),
        };
        let checksum = from.u64()?;
        let skip = if place == Place::Columns { from.u64()? } else { 0 };
        let head = from.bytes()?.to_vec();
        let left = from.rest().len();
        if place != Place::Frame && left > 0 {
            return Err(Error::protocol(format!("{left} bytes follow a chunk whose payload is elsewhere")));
        }
        Ok((Self { query, place, number, rows, checksum, skip, head }, body.len() - left))
    }
}

/// What stands before a dictionary's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryHeader {
    pub query: u32,
    pub column: u32,
    pub number: u32,
    pub values: u32,
    /// Of the payload.
    pub checksum: u64,
    pub head: Vec<u8>,
}

impl DictionaryHeader {
    pub fn write(&self, to: &mut Writer) {
        to.u32(self.query).u32(self.column).u32(self.number).u32(self.values);
        to.u64(self.checksum).bytes(&self.head);
    }

    /// The header, and how many bytes of the body it takes.
    pub fn decode(body: &[u8]) -> Result<(Self, usize)> {
        let mut from = Reader::new(body);
        let header = Self {
            query: from.u32()?,
            column: from.u32()?,
            number: from.u32()?,
            values: from.u32()?,
            checksum: from.u64()?,
            head: from.bytes()?.to_vec(),
        };
        Ok((header, body.len() - from.rest().len()))
    }
}
