//! What a statement is, with what it says. The statements that DataFusion's parser lacks, or has in
//! another form, are productions of their own, which read the tokens of the text: a comment, or the
//! case of a word, means nothing in them. The parser reads all others.

mod alter_column;
mod comment;
mod constraints;
mod copy;
mod explain;
mod like_table;
mod maintenance;
mod materialized;
mod partition;
mod sequence;
mod session;

pub use alter_column::{AlterColumn, ColumnChange};
pub use comment::ConstraintComment;
pub use constraints::SetConstraints;
pub use copy::{CopyFrom, CopyOption, CopyTo, CopyValue};
pub use explain::ExplainOptions;
pub use like_table::{CreateLike, LikePart};
pub use materialized::{CreateMaterialized, Refresh};
pub use sequence::{SequenceClauses, SequenceDefinition};
pub use session::{Kill, Pragma};

use crate::cluster::ClusterStatement;
use crate::cursor::{Cursor, blanked};
use crate::defined_macros::{self, Macros};
use crate::names::name_columns;
use crate::parse::{self, Extension, explained, parse_query};
use crate::placeholders::numbered;
use crate::plain::only_relation;
use crate::qualifiers::{self, FullName};
use crate::split::{behind_first_word, leading_words};
use datafusion_sql::parser::Statement as DfStatement;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{AlterTable, CreateIndex, ObjectName, Query, Statement as Tree};

/// A statement, as far as its text says what it is.
#[derive(Clone, Debug)]
pub enum Statement {
    /// What the parser reads: queries, writes of rows, most definitions.
    Tree(Box<DfStatement>),
    /// One about the cluster that the database is part of.
    Cluster(ClusterStatement),
    AlterColumn(Box<AlterColumn>),
    AlterMaterialized(Box<AlterTable>),
    AlterSequence(Box<SequenceDefinition>),
    /// ANALYZE, of all tables where none is named.
    Analyze {
        tables: Vec<ObjectName>,
    },
    BackupDatabase {
        directory: String,
    },
    CheckDatabase,
    Checkpoint,
    CommentOnConstraint(ConstraintComment),
    CopyFrom(CopyFrom),
    CopyTo(CopyTo),
    /// CREATE TABLE … (LIKE …).
    CreateLike(CreateLike),
    CreateMaterialized(CreateMaterialized),
    CreateOrderIndex(Box<CreateIndex>),
    CreateSequence(Box<SequenceDefinition>),
    /// DISCARD TEMP.
    DiscardTemporary,
    DropMacro {
        name: String,
        if_exists: bool,
    },
    /// EXPLAIN with options in parentheses, and the statement behind them.
    Explain(ExplainOptions, Box<Statement>),
    ExportDatabase {
        directory: String,
    },
    /// CREATE EXTENSION or DROP EXTENSION.
    Extension {
        name: String,
    },
    ImportDatabase {
        directory: String,
    },
    Kill(Kill),
    Pragma(Pragma),
    ReadPartition {
        text: String,
    },
    RefreshMaterialized(Refresh),
    ResetVariable {
        name: String,
    },
    /// A statement that there is not, and why.
    Refused(&'static str),
    SetConstraints(SetConstraints),
    SetSchema {
        name: String,
    },
    /// SET VARIABLE, with a query of its one value.
    SetVariable {
        name: String,
        query: Box<Query>,
    },
    ShowDatabases,
    ShowIndexes,
    /// SHOW PARTITIONS FOR a query, whose text other sessions read again.
    ShowPartitions {
        query: String,
    },
    ShowSessions,
    /// SUMMARIZE of all rows of a query: also of a table, or what else FROM can read.
    Summarize(Box<Query>),
    /// VACUUM, of all tables where none is named.
    Vacuum {
        tables: Vec<ObjectName>,
    },
}

const USERS: &str = "users and their roles are not part of a database: they are lines of the file that a server is \
     started with, which `hypostyle user` writes (hypostyle serve --users FILE)";

const RIGHTS: &str = "rights are not granted one by one: a user has the role (read, write, admin) that the file of \
     hypostyle serve --users gives it, which `hypostyle user` writes";

impl Statement {
    /// Reads a statement, with as many values for its `?` as are given by position.
    ///
    /// # Errors
    /// `Syntax`, which is 54001 where the text is too complex.
    pub fn parse(sql: &str, given: Option<usize>, extension: &Extension) -> Result<Self> {
        let words = leading_words(sql);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if matches!(words.as_slice(), ["BACKUP" | "CREATE" | "ALTER" | "SHOW", ..])
            && let Some(statement) = ClusterStatement::parse(&numbered(sql, given)?, extension)?
        {
            return Ok(Self::Cluster(statement));
        }
        if let Some(statement) = Self::about_session(&words, sql)? {
            return Ok(statement);
        }
        if let Some(statement) = Self::about_data(&words, sql, given, extension)? {
            return Ok(statement);
        }
        Self::parse_tree(sql, given, extension)
    }

    fn parse_tree(sql: &str, given: Option<usize>, extension: &Extension) -> Result<Self> {
        Ok(Self::Tree(Box::new(parse::parse(&numbered(sql, given)?, extension)?)))
    }

    /// Writes names of three parts and more as FROM writes their tables, or as the fields that they are. Says
    /// whether it was asked what names mean.
    pub fn qualify(&mut self, full_name: FullName) -> bool {
        match self {
            Self::Tree(statement) => {
                explained(statement).is_some_and(|tree| qualifiers::rewrite(tree, full_name))
            }
            Self::Explain(_, statement) => statement.qualify(full_name),
            Self::CopyTo(copy) => qualifiers::rewrite(&mut copy.query, full_name),
            Self::CreateMaterialized(view) => qualifiers::rewrite(&mut view.create.query, full_name),
            Self::Summarize(query) | Self::SetVariable { query, .. } => qualifiers::rewrite(query, full_name),
            _ => false,
        }
    }

    /// Writes what the calls of macros stand for, and says whether there are some.
    ///
    /// # Errors
    /// Those of [`defined_macros::expand`].
    pub fn expand(&mut self, macros: &Macros) -> Result<bool> {
        match self {
            Self::Tree(statement) => {
                explained(statement).map_or(Ok(false), |tree| defined_macros::expand(tree, macros))
            }
            Self::Explain(_, statement) => statement.expand(macros),
            Self::CopyTo(copy) => defined_macros::expand(copy.query.as_mut(), macros),
            Self::CreateMaterialized(view) => defined_macros::expand(view.create.query.as_mut(), macros),
            Self::Summarize(query) | Self::SetVariable { query, .. } => {
                defined_macros::expand(query.as_mut(), macros)
            }
            _ => Ok(false),
        }
    }

    /// Reads what is about the database as a whole, or about sessions.
    fn about_session(words: &[&str], sql: &str) -> Result<Option<Self>> {
        let mut rest = Cursor::skipping(sql, words.len());
        let alone = |count, statement| Cursor::skipping(sql, count).end().map(|()| statement);
        Ok(Some(match words {
            ["CHECK", "DATABASE"] => alone(2, Self::CheckDatabase)?,
            ["CHECKPOINT", ..] => alone(1, Self::Checkpoint)?,
            ["SHOW", "DATABASES"] => alone(2, Self::ShowDatabases)?,
            ["SHOW", "INDEXES"] => alone(2, Self::ShowIndexes)?,
            ["SHOW", "SESSIONS"] => alone(2, Self::ShowSessions)?,
            ["SHOW", "PARTITIONS"] => Self::ShowPartitions { query: partition::shown(&mut rest)? },
            ["READ", "PARTITION"] => Self::ReadPartition { text: partition::read(&mut rest)? },
            ["KILL", ..] => Self::Kill(session::kill(&mut Cursor::skipping(sql, 1))?),
            ["PRAGMA", ..] => Self::Pragma(session::pragma(&mut Cursor::skipping(sql, 1))?),
            ["BACKUP", "DATABASE"] => {
                let usage = "write it as BACKUP DATABASE TO 'directory'";
                let directory = session::directory(&mut rest, &["TO"], usage)?;
                Self::BackupDatabase { directory }
            }
            ["EXPORT", "DATABASE"] => {
                let directory =
                    session::directory(&mut rest, &[], "write it as EXPORT DATABASE 'directory'")?;
                Self::ExportDatabase { directory }
            }
            ["IMPORT", "DATABASE"] => {
                let directory =
                    session::directory(&mut rest, &[], "write it as IMPORT DATABASE 'directory'")?;
                Self::ImportDatabase { directory }
            }
            ["CREATE" | "ALTER" | "DROP", "USER" | "ROLE" | "GROUP"] => Self::Refused(USERS),
            ["GRANT" | "REVOKE", ..] => Self::Refused(RIGHTS),
            ["SET", "SCHEMA"] => match rest.text("the name of a schema") {
                Ok(name) => rest.end().map(|()| Self::SetSchema { name })?,
                // The parser may know another form.
                Err(_) => return Ok(None),
            },
            ["SET", "CONSTRAINTS"] => Self::SetConstraints(constraints::set(&mut rest)?),
            ["DISCARD", "TEMP" | "TEMPORARY"] => alone(2, Self::DiscardTemporary)?,
            ["DROP", "MACRO"] => {
                let if_exists = rest.take_all(&["IF", "EXISTS"]);
                let name = rest.name("the name of a macro")?;
                rest.end().map(|()| Self::DropMacro { name, if_exists })?
            }
            ["CREATE" | "DROP", "EXTENSION"] => Self::Extension { name: session::extension(&mut rest)? },
            _ => return Ok(None),
        }))
    }

    /// Reads what is about tables and their rows.
    fn about_data(
        words: &[&str],
        sql: &str,
        given: Option<usize>,
        extension: &Extension,
    ) -> Result<Option<Self>> {
        let mut rest = Cursor::skipping(sql, words.len());
        Ok(Some(match words {
            ["SET", "VARIABLE"] => {
                let (name, value) = session::variable(&mut rest)?;
                // A comment may be the end of it.
                let query = parse_query(&format!("SELECT ({value}\n)"), extension)?;
                Self::SetVariable { name, query: Box::new(query) }
            }
            ["RESET", "VARIABLE"] => {
                let name = rest.name("the name of a variable")?;
                rest.end().map(|()| Self::ResetVariable { name })?
            }
            ["SUMMARIZE", ..] => Self::Summarize(Box::new(summarized(sql, extension)?)),
            ["COPY", ..] => copy::parse(sql, extension)?,
            ["CREATE" | "ALTER", "SEQUENCE"] => sequence::parse(sql)?,
            ["CREATE", "TEMP" | "TEMPORARY"] if rest.is_at(&["SEQUENCE"]) => sequence::parse(sql)?,
            ["CREATE", "TABLE" | "TEMP" | "TEMPORARY" | "OR"] if let Some(like) = like_table::parse(sql) => {
                Self::CreateLike(like)
            }
            ["CREATE", "ORDER"] => Self::CreateOrderIndex(Box::new(order_index(sql, extension)?)),
            // Tables of memory and of files are alike.
            ["CREATE", "UNLOGGED"] if !rest.is_at(&["UNLOGGED"]) => {
                let mut cursor = Cursor::skipping(sql, 1);
                let start = cursor.start();
                cursor.expect(&["UNLOGGED"])?;
                Self::parse(&blanked(sql, start..cursor.end_of_last()), given, extension)?
            }
            ["CREATE", "MATERIALIZED"] => Self::CreateMaterialized(materialized::create(sql, extension)?),
            ["ALTER", "MATERIALIZED"] => {
                Self::AlterMaterialized(Box::new(materialized::alter(sql, extension)?))
            }
            ["REFRESH", "MATERIALIZED"] => Self::RefreshMaterialized(materialized::refresh(&mut rest)?),
            ["ALTER", "TABLE"] => match alter_column::parse(sql) {
                Some(alter) => Self::AlterColumn(Box::new(alter)),
                None => return Ok(None),
            },
            ["COMMENT", "ON"] => match comment::parse(sql, extension)? {
                Some(comment) => Self::CommentOnConstraint(comment),
                None => return Ok(None),
            },
            ["EXPLAIN", ..] => match explain::parse(sql)? {
                Some((options, explained)) => {
                    // The parser says what is wrong with an EXPLAIN of another, as deep as it may be.
                    let parse = match leading_words(&explained).first().map(String::as_str) {
                        Some("EXPLAIN") => Self::parse_tree,
                        _ => Self::parse,
                    };
                    Self::Explain(options, Box::new(parse(&explained, given, extension)?))
                }
                None => return Ok(None),
            },
            ["VACUUM", ..] => Self::Vacuum { tables: maintenance::tables(&mut Cursor::skipping(sql, 1))? },
            ["ANALYZE" | "ANALYSE", ..] => {
                Self::Analyze { tables: maintenance::tables(&mut Cursor::skipping(sql, 1))? }
            }
            _ => return Ok(None),
        }))
    }
}

/// Reads what SUMMARIZE is about as a query for its rows.
fn summarized(sql: &str, extension: &Extension) -> Result<Query> {
    let source = behind_first_word(sql);
    let words = leading_words(source);
    if let Some("SELECT" | "WITH" | "FROM" | "VALUES" | "TABLE") = words.first().map(String::as_str) {
        let mut query = parse_query(source, extension)?;
        name_columns(&mut query);
        return Ok(query);
    }
    let query = parse_query(&format!("SELECT * FROM {source}"), extension)?;
    match only_relation(&query) {
        Some(_) => Ok(query),
        None => Err(Error::new(ErrorKind::Syntax, "SUMMARIZE is about a table, a view or a query")),
    }
}

/// Reads CREATE ORDER INDEX, which is CREATE INDEX for the parser.
fn order_index(sql: &str, extension: &Extension) -> Result<CreateIndex> {
    let mut cursor = Cursor::skipping(sql, 1);
    let start = cursor.start();
    cursor.expect(&["ORDER"])?;
    let usage = || cursor.usage("write it as CREATE ORDER INDEX name ON t (c)");
    let plain = blanked(sql, start..cursor.end_of_last());
    match parse::parse(&plain, extension)? {
        DfStatement::Statement(statement) => match *statement {
            Tree::CreateIndex(index) => Ok(index),
            _ => Err(usage()),
        },
        _ => Err(usage()),
    }
}

#[cfg(test)]
mod tests;
