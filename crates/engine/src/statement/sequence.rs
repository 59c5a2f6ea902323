//! CREATE, ALTER and DROP SEQUENCE. The parser knows some of it, in one order of the clauses; PostgreSQL takes any.

use super::ddl::{fold, missing, parts_of};
use super::{parse, quoted};
use crate::scope::Name;
use crate::sequence::sequence_name;
use crate::session::{Outcome, Session};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Value, visit_expressions,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use hypostyle_storage::{
    Catalog, ColumnEntry, SCHEMA_MAIN, SequenceEntry, SequenceOwner, SequenceState, TableEntry, Transaction,
    unknown_column, unknown_sequence, unknown_table,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, LogicalType, Result, TableId};
use std::ops::ControlFlow;

const DONE: Outcome = Outcome::Done { rows_affected: None };

/// The clauses of a definition; what is not there stays or has its default.
#[derive(Clone, Debug, Default)]
pub(super) struct Clauses {
    logical_type: Option<LogicalType>,
    increment: Option<i64>,
    /// NO MINVALUE is `Some(None)`.
    min: Option<Option<i64>>,
    max: Option<Option<i64>>,
    start: Option<i64>,
    /// RESTART without a value is `Some(None)`.
    restart: Option<Option<i64>>,
    cycle: Option<bool>,
    /// OWNED BY NONE is `Some(None)`.
    owner: Option<Option<ObjectName>>,
}

fn syntax(error: ParserError) -> Error {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".into(),
    };
    Error::new(ErrorKind::Syntax, text)
}

fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let sign = if parser.consume_token(&Token::Minus) { "-" } else { "" };
    let token = parser.next_token();
    let value = match &token.token {
        Token::Number(digits, _) => format!("{sign}{digits}").parse().ok(),
        _ => None,
    };
    value.map_or_else(|| parser.expected("a whole number of at most 64 bits", token), Ok)
}

impl Clauses {
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        let mut clauses = Self::default();
        loop {
            if parser.parse_keyword(Keyword::AS) {
                let data_type = parser.parse_data_type()?;
                let known = super::types::logical_type(&data_type);
                clauses.logical_type =
                    Some(known.map_err(|error| ParserError::ParserError(error.message().into()))?);
            } else if parser.parse_keyword(Keyword::INCREMENT) {
                let _by = parser.parse_keyword(Keyword::BY);
                clauses.increment = Some(number(parser)?);
            } else if parser.parse_keyword(Keyword::MINVALUE) {
                clauses.min = Some(Some(number(parser)?));
            } else if parser.parse_keyword(Keyword::MAXVALUE) {
                clauses.max = Some(Some(number(parser)?));
            } else if parser.parse_keywords(&[Keyword::NO, Keyword::MINVALUE]) {
                clauses.min = Some(None);
            } else if parser.parse_keywords(&[Keyword::NO, Keyword::MAXVALUE]) {
                clauses.max = Some(None);
            } else if parser.parse_keyword(Keyword::START) {
                let _with = parser.parse_keyword(Keyword::WITH);
                clauses.start = Some(number(parser)?);
            } else if parser.parse_keyword(Keyword::RESTART) {
                let with = parser.parse_keyword(Keyword::WITH);
                let is_number = matches!(parser.peek_token().token, Token::Number(..) | Token::Minus);
                clauses.restart = Some(if with || is_number { Some(number(parser)?) } else { None });
            } else if parser.parse_keyword(Keyword::CACHE) {
                // Values are taken for many rows at a time in any case.
                number(parser)?;
            } else if parser.parse_keywords(&[Keyword::NO, Keyword::CYCLE]) {
                clauses.cycle = Some(false);
            } else if parser.parse_keyword(Keyword::CYCLE) {
                clauses.cycle = Some(true);
            } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
                let none = parser.parse_keyword(Keyword::NONE);
                clauses.owner = Some(if none { None } else { Some(parser.parse_object_name(false)?) });
            } else {
                return match parser.peek_token().token {
                    Token::EOF | Token::SemiColon => Ok(clauses),
                    _ => parser.expected("a clause of a sequence", parser.peek_token()),
                };
            }
        }
    }

    /// The options of an identity column, which the parser has read.
    pub fn of_text(text: &str) -> Result<Self> {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).map_err(syntax)?;
        Self::parse(&mut parser).map_err(syntax)
    }

    /// With the type of the column that the sequence is for, if the clauses name none.
    pub fn of_type(mut self, logical_type: &LogicalType) -> Self {
        self.logical_type.get_or_insert_with(|| logical_type.clone());
        self
    }

    pub fn has_start(&self) -> bool {
        self.start.is_some()
    }

    /// A new sequence.
    pub fn define(&self, schema: &str, name: &str) -> Result<SequenceEntry> {
        let increment = self.increment.unwrap_or(1);
        let entry = SequenceEntry {
            schema: schema.into(),
            name: name.into(),
            increment,
            min: 0,
            max: 0,
            start: 0,
            cycle: false,
            owner: None,
            state: SequenceState { last: 0, is_called: false },
        };
        let unbounded = Self { min: Some(self.min.flatten()), max: Some(self.max.flatten()), ..self.clone() };
        let mut entry = unbounded.change(&entry)?;
        if self.start.is_none() {
            entry.start = if increment > 0 { entry.min } else { entry.max };
        }
        check(&entry, entry.start, "START")?;
        entry.state.last = entry.start;
        Ok(entry)
    }

    /// A sequence with these clauses in the place of its own.
    fn change(&self, old: &SequenceEntry) -> Result<SequenceEntry> {
        let (least, greatest) = match &self.logical_type {
            Some(LogicalType::SmallInt) => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Some(LogicalType::Integer) => (i64::from(i32::MIN), i64::from(i32::MAX)),
            None | Some(LogicalType::BigInt) => (i64::MIN, i64::MAX),
            Some(other) => {
                return Err(invalid(format!("a sequence is SMALLINT, INTEGER or BIGINT, not {other}")));
            }
        };
        let increment = self.increment.unwrap_or(old.increment);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero".into()));
        }
        let up = increment > 0;
        let min = self.min.map_or(old.min, |min| min.unwrap_or(if up { 1 } else { least }));
        let max = self.max.map_or(old.max, |max| max.unwrap_or(if up { greatest } else { -1 }));
        if min >= max {
            return Err(invalid(format!("MINVALUE {min} must be less than MAXVALUE {max}")));
        }
        if min < least || max > greatest {
            return Err(invalid(format!("the bounds {min} and {max} do not fit the type")));
        }
        let start = self.start.unwrap_or(old.start);
        let cycle = self.cycle.unwrap_or(old.cycle);
        Ok(SequenceEntry { increment, min, max, start, cycle, ..old.clone() })
    }
}

fn invalid(message: String) -> Error {
    Error::invalid_input(message).with_sqlstate("22023")
}

fn check(sequence: &SequenceEntry, value: i64, what: &str) -> Result<()> {
    if !(sequence.min..=sequence.max).contains(&value) {
        return Err(invalid(format!(
            "{what} {value} is not between MINVALUE {} and MAXVALUE {}",
            sequence.min, sequence.max
        )));
    }
    Ok(())
}

/// CREATE SEQUENCE or ALTER SEQUENCE.
struct Definition {
    /// IF NOT EXISTS, or IF EXISTS.
    if_exists: bool,
    name: ObjectName,
    clauses: Clauses,
}

fn definition(sql: &str) -> Result<Definition> {
    let read = |parser: &mut Parser<'_>| -> Result<Definition, ParserError> {
        let create = parser.expect_one_of_keywords(&[Keyword::CREATE, Keyword::ALTER])? == Keyword::CREATE;
        parser.expect_keyword(Keyword::SEQUENCE)?;
        let if_exists = match create {
            true => parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]),
            false => parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]),
        };
        let name = parser.parse_object_name(false)?;
        Ok(Definition { if_exists, name, clauses: Clauses::parse(parser)? })
    };
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(sql).map_err(syntax)?;
    read(&mut parser).map_err(syntax)
}

impl Session {
    pub(super) fn create_sequence(&self, sql: &str) -> Result<Outcome> {
        let Definition { if_exists, name, clauses } = definition(sql)?;
        let Name { database, schema, name } = self.resolve_new(&name, false)?;
        if clauses.restart.is_some() {
            return Err(Error::new(ErrorKind::Syntax, "RESTART is for ALTER SEQUENCE; write START"));
        }
        if if_exists && self.snapshot_of(&database)?.catalog().sequence(&schema, &name).is_some() {
            return Ok(DONE);
        }
        let mut sequence = clauses.define(&schema, &name)?;
        self.write(&database, |writer| {
            if let Some(Some(owner)) = &clauses.owner {
                sequence.owner = Some(owner_of(writer.catalog(), owner)?);
            }
            writer.create_sequence(sequence)?;
            Ok(DONE)
        })
    }

    pub(super) fn alter_sequence(&self, sql: &str) -> Result<Outcome> {
        let Definition { if_exists, name, clauses } = definition(sql)?;
        let Name { database, schema, name } = self.resolve(&name)?;
        self.write(&database, |writer| {
            let Some(old) = writer.catalog().sequence(&schema, &name).cloned() else {
                return if if_exists { Ok(DONE) } else { Err(unknown_sequence(writer.catalog(), &name)) };
            };
            let mut new = clauses.change(&old)?;
            check(&new, new.start, "START")?;
            let restart = clauses.restart.map(|restart| restart.unwrap_or(new.start));
            if let Some(last) = restart {
                check(&new, last, "RESTART")?;
            }
            match &clauses.owner {
                None => {}
                Some(None) => new.owner = None,
                Some(Some(owner)) => new.owner = Some(owner_of(writer.catalog(), owner)?),
            }
            writer.alter_sequence(new, restart)?;
            Ok(DONE)
        })
    }
}

/// Schema and name of what is called by a name in the definitions of its own database.
pub(super) fn within_database(parts: &[String]) -> (String, String) {
    match parts {
        [.., schema, name] => (schema.clone(), name.clone()),
        _ => (SCHEMA_MAIN.into(), parts.concat()),
    }
}

/// The column that OWNED BY names.
fn owner_of(catalog: &Catalog, name: &ObjectName) -> Result<SequenceOwner> {
    let mut table = name.clone();
    let column = table.0.pop().and_then(|part| part.as_ident().map(fold));
    let Some(column) = column.filter(|_| !table.0.is_empty()) else {
        return Err(Error::new(ErrorKind::Syntax, "OWNED BY needs table.column or NONE"));
    };
    let (schema, name) = within_database(&parts_of(&table)?);
    let table = catalog.table(&schema, &name).ok_or_else(|| unknown_table(catalog, &name))?;
    let id = table.column(&column).ok_or_else(|| unknown_column(table, &column))?.id;
    Ok(SequenceOwner { table: table.id, column: id })
}

/// SQL text of the next value of a sequence.
pub(super) fn next_value(sequence: &SequenceEntry) -> String {
    let name = format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name));
    format!("nextval('{}')", name.replace('\'', "''"))
}

/// Whether an expression has a call of nextval, currval or setval for a sequence.
fn uses(sql: &str, schema: &str, name: &str) -> bool {
    let Ok(DfStatement::Statement(statement)) = parse(&format!("SELECT {sql}")) else { return false };
    let found = visit_expressions(statement.as_ref(), |expr| {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let of_sequences = ["nextval", "currval", "setval"];
        if let FunctionArguments::List(list) = &function.args
            && of_sequences.iter().any(|known| function.name.to_string().eq_ignore_ascii_case(known))
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) = list.args.first()
            && let Value::SingleQuotedString(text) = &value.value
            && within_database(&sequence_name(text)) == (schema.to_string(), name.to_string())
        {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found.is_break()
}

/// The columns whose defaults take values of a sequence.
fn users(catalog: &Catalog, sequence: &SequenceEntry) -> Vec<(TableId, ColumnId)> {
    let uses = |column: &&ColumnEntry| {
        column.default.as_ref().is_some_and(|default| uses(default, &sequence.schema, &sequence.name))
    };
    let of_table = |table: &TableEntry| {
        table.columns.iter().filter(uses).map(|column| (table.id, column.id)).collect::<Vec<_>>()
    };
    catalog.tables.iter().flat_map(|table| of_table(table)).collect()
}

/// Ends the use of a sequence by defaults, but for those of a column, or a table, that goes with it.
///
/// # Errors
/// `Constraint` when there are such, without CASCADE.
pub(super) fn release(
    writer: &mut Transaction,
    sequence: &SequenceEntry,
    cascade: bool,
    going: impl Fn(TableId, ColumnId) -> bool,
) -> Result<()> {
    for (table, column) in users(writer.catalog(), sequence) {
        if going(table, column) {
            continue;
        }
        if !cascade {
            let entry = writer.catalog().table_by_id(table);
            let name = entry.and_then(|entry| Some((entry, entry.column_by_id(column)?)));
            let (table, column) = name.map_or(("?", "?"), |(table, column)| (&table.name, &column.name));
            return Err(Error::new(
                ErrorKind::Constraint,
                format!(
                    "sequence \"{}\" is used by column \"{column}\" of table \"{table}\"; drop that first, or use CASCADE",
                    sequence.name
                ),
            )
            .with_sqlstate("2BP01"));
        }
        writer.alter_table(table, |table| {
            for user in table.columns.iter_mut().filter(|user| user.id == column) {
                user.default = None;
            }
            Ok(())
        })?;
    }
    Ok(())
}

pub(super) fn drop_sequence(
    writer: &mut Transaction,
    schema: &str,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let Some(sequence) = writer.catalog().sequence(schema, name).cloned() else {
        if if_exists {
            return Ok(());
        }
        let known = writer.catalog().sequences.iter().map(|sequence| sequence.name.as_str());
        return Err(missing("sequence", name, known));
    };
    release(writer, &sequence, cascade, |_, _| false)?;
    writer.drop_sequence(schema, name)
}
