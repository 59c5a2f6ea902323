//! Statements, what they need and what can be told before they run (protocol.md §4).

use super::field::{Field, body, fields};
use crate::cursor::{Reader, Writer};
use crate::schema::{read_schema, write_schema};
use arrow_schema::SchemaRef;
use hypostyle_types::{Error, Result, TABLE_COLUMNS_MAX};

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

impl Field for Query {
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

body!(Query, Query);

fields! {
    #[derive(Clone, Debug, PartialEq)]
    pub struct Ask {
        pub query: u32,
        pub name: String,
    }
}

body!(Ask, Ask);

/// What the client has under a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Nothing { query: u32 },
    Table { query: u32, schema: SchemaRef },
    Unreadable { query: u32, why: String },
}

impl Field for Answer {
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

body!(Answer, Answer);

fields! {
    /// A statement that is not to be run, with `$1` for its parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Describe {
        pub query: u32,
        pub text: String,
    }
}

body!(Describe, Describe);

/// What a statement gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    Nothing,
    Rows,
    /// Only running it tells.
    Unknown,
}

impl Field for Gives {
    fn write(&self, to: &mut Writer) {
        to.u8(*self as u8);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        match from.u8()? {
            0 => Ok(Self::Nothing),
            1 => Ok(Self::Rows),
            2 => Ok(Self::Unknown),
            other => Err(Error::protocol(format!("a statement cannot give {other}"))),
        }
    }
}

fields! {
    /// What can be told of a statement that has not run.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Description {
        pub query: u32,
        pub gives: Gives,
        /// A field for each; of the type NULL where nothing in the statement tells the type.
        pub parameters: SchemaRef,
        /// The columns of its rows; empty where it gives none, or it is not known.
        pub columns: SchemaRef,
    }
}

body!(Description, Description);
