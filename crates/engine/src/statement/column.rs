//! ALTER COLUMN for columns that compute their own values, whose clauses the parser does not know.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Session};
use crate::statement::sequence::{Clauses, release};
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use hypostyle_sql::identifier::fold;
use hypostyle_storage::{ColumnEntry, Identity, unknown_column};
use hypostyle_types::{Error, Result};

/// ALTER TABLE … ALTER COLUMN … with one such operation.
pub(super) struct AlterMaker {
    table: ObjectName,
    /// Says that the table may be missing.
    if_exists: bool,
    column: String,
    operation: Operation,
}

enum Operation {
    SetGenerated(Identity),
    DropIdentity {
        if_exists: bool,
    },
    DropExpression {
        if_exists: bool,
    },
    /// Changes the options of an identity's sequence.
    Change(Clauses),
}

impl Operation {
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        if parser.parse_keywords(&[Keyword::SET, Keyword::GENERATED]) {
            let always = parser.parse_keyword(Keyword::ALWAYS);
            if !always {
                parser.expect_keywords(&[Keyword::BY, Keyword::DEFAULT])?;
            }
            return Ok(Self::SetGenerated(if always { Identity::Always } else { Identity::ByDefault }));
        }
        let mut clauses = Clauses::default();
        let mut is_there = false;
        while parser.parse_keyword(Keyword::SET) || parser.peek_keyword(Keyword::RESTART) {
            if !clauses.take(parser)? {
                return parser.expected("a clause of a sequence", parser.peek_token());
            }
            is_there = true;
        }
        if is_there {
            return Ok(Self::Change(clauses));
        }
        parser.expect_keyword(Keyword::DROP)?;
        let what = parser.parse_identifier()?.value.to_ascii_uppercase();
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        match what.as_str() {
            "IDENTITY" => Ok(Self::DropIdentity { if_exists }),
            "EXPRESSION" => Ok(Self::DropExpression { if_exists }),
            _ => parser.expected("IDENTITY or EXPRESSION", parser.peek_token()),
        }
    }

    /// Returns what a column is not that this is for, and whether that is no error; `None` when it
    /// is.
    fn refusal(&self, column: &ColumnEntry) -> Option<(&'static str, bool)> {
        match self {
            Self::SetGenerated(_) | Self::Change(_) => {
                column.identity.is_none().then_some(("an identity column", false))
            }
            Self::DropIdentity { if_exists } => {
                column.identity.is_none().then_some(("an identity column", *if_exists))
            }
            Self::DropExpression { if_exists } => {
                column.generated.is_none().then_some(("a generated column", *if_exists))
            }
        }
    }

    fn apply(&self, column: &mut ColumnEntry) {
        match self {
            Self::SetGenerated(how) => column.identity = Some(*how),
            Self::DropIdentity { .. } => column.identity = None,
            Self::DropExpression { .. } => column.generated = None,
            Self::Change(_) => {}
        }
    }
}

impl AlterMaker {
    /// Returns `None` for any other statement.
    pub fn of(sql: &str) -> Option<Self> {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(sql).ok()?;
        Self::parse(&mut parser).ok()
    }

    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        parser.expect_keywords(&[Keyword::ALTER, Keyword::TABLE])?;
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let table = parser.parse_object_name(false)?;
        parser.expect_keyword(Keyword::ALTER)?;
        let _column = parser.parse_keyword(Keyword::COLUMN);
        let column = fold(&parser.parse_identifier()?);
        let operation = Operation::parse(parser)?;
        let _end = parser.consume_token(&Token::SemiColon);
        parser.expect_token(&Token::EOF)?;
        Ok(Self { table, if_exists, column, operation })
    }
}

impl Session {
    pub(super) fn alter_maker(&self, alter: &AlterMaker) -> Result<Outcome> {
        if alter.if_exists && self.table_data(&self.resolve(&alter.table)?).is_none() {
            return Ok(DONE);
        }
        let target = self.target(&alter.table, None)?;
        self.write(&target.database, |writer| {
            let found = writer.catalog().table_by_id(target.id);
            let table = found.cloned().ok_or_else(|| Error::internal("an altered table is missing"))?;
            let column = table.column(&alter.column).ok_or_else(|| unknown_column(&table, &alter.column))?;
            match alter.operation.refusal(column) {
                None => {}
                Some((_, true)) => return Ok(DONE),
                Some((what, false)) => {
                    return Err(Error::invalid_input(format!(
                        "column \"{}\" of table \"{}\" is not {what}",
                        column.name, table.name
                    ))
                    .with_sqlstate("55000"));
                }
            }
            let sequence = writer.catalog().sequence_of(table.id, column.id).cloned();
            if let (Operation::Change(clauses), Some(sequence)) = (&alter.operation, &sequence) {
                return self.change_sequence(&target.database, writer, sequence, clauses).map(|()| DONE);
            }
            let sequence = sequence.filter(|_| matches!(alter.operation, Operation::DropIdentity { .. }));
            if let Some(sequence) = &sequence {
                release(writer, sequence, false, |user, used_by| (user, used_by) == (table.id, column.id))?;
            }
            writer.alter_table(table.id, |table| {
                table.columns.iter_mut().filter(|other| other.id == column.id).for_each(|column| {
                    alter.operation.apply(column);
                });
                Ok(())
            })?;
            match sequence {
                Some(sequence) => writer.drop_sequence(&sequence.schema, &sequence.name).map(|()| DONE),
                None => Ok(DONE),
            }
        })
    }
}
