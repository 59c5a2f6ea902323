//! COPY table FROM 'file' and COPY table | (query) TO 'file'.

use crate::session::{Outcome, Parameters, Session};
use crate::statement::dialect::parse_query;
use crate::statement::materialized::refuse_materialized;
use crate::statement::refusal::refuse_given;
use crate::statement::start::unnest_if_needed;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::dataframe::DataFrame;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use hypostyle_catalog::scope::Name;
use hypostyle_error::from_datafusion;
use hypostyle_files::{Pair, ReadOptions, Rejected, WriteOptions, read_for_copy, take_format, write};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::identifier::split_name;
use hypostyle_sql::names::name_columns;
use hypostyle_sql::parse::{syntax, tokens_of};
use hypostyle_sql::watched_dialect::Watched;
use hypostyle_storage::{ColumnEntry, SCHEMA_MAIN, Transaction, unknown_column, unknown_table};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::sync::Arc;

struct Copy {
    source: Source,
    from: bool,
    path: String,
    options: Vec<Pair>,
}

enum Source {
    Table { name: String, columns: Vec<String> },
    Query(String),
}

fn parse_copy(sql: &str) -> Result<Copy> {
    let dialect = Watched::new(&GenericDialect {}, tokens_of(sql).len());
    let parsed = dialect.parse(|dialect| {
        Parser::new(dialect).try_with_sql(sql).and_then(|mut parser| parse_with(&mut parser))
    })?;
    parsed.map_err(syntax)
}

fn parse_with(parser: &mut Parser<'_>) -> Result<Copy, ParserError> {
    parser.expect_keyword(Keyword::COPY)?;
    let source = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        Source::Query(query.to_string())
    } else {
        let name = folded(&parser.parse_object_name(false)?);
        let columns = if parser.peek_token().token == Token::LParen {
            let columns = parser.parse_parenthesized_column_list(
                datafusion::sql::sqlparser::parser::IsOptional::Mandatory,
                false,
            )?;
            columns.into_iter().map(|column| fold(&column)).collect()
        } else {
            Vec::new()
        };
        Source::Table { name, columns }
    };
    let from = parser.expect_one_of_keywords(&[Keyword::FROM, Keyword::TO])? == Keyword::FROM;
    let path = parser.parse_literal_string()?;
    let with = parser.parse_keyword(Keyword::WITH);
    let mut options = Vec::new();
    if parser.consume_token(&Token::LParen) {
        loop {
            options.push(parse_option(parser)?);
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    } else if with {
        return parser.expected("options in parentheses", parser.peek_token());
    }
    match parser.peek_token().token {
        Token::EOF => Ok(Copy { source, from, path, options }),
        _ => parser.expected("the end of the COPY statement", parser.peek_token()),
    }
}

fn parse_option(parser: &mut Parser<'_>) -> Result<Pair, ParserError> {
    let name = parser.parse_identifier()?.value.to_lowercase();
    let _sign = parser.consume_token(&Token::Eq) || parser.consume_token(&Token::RArrow);
    if matches!(parser.peek_token().token, Token::Comma | Token::RParen) {
        return Ok((name, ScalarValue::Boolean(Some(true))));
    }
    if parser.consume_token(&Token::LParen) {
        let as_text = |value: ScalarValue| value.cast_to(&DataType::Utf8).unwrap_or(value);
        let values = parser.parse_comma_separated(option_value)?;
        let values: Vec<ScalarValue> = values.into_iter().map(as_text).collect();
        parser.expect_token(&Token::RParen)?;
        return Ok((name, ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Utf8))));
    }
    Ok((name, option_value(parser)?))
}

fn option_value(parser: &mut Parser<'_>) -> Result<ScalarValue, ParserError> {
    let token = parser.next_token();
    Ok(match &token.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            ScalarValue::from(text.as_str())
        }
        Token::Number(number, _) => match number.parse::<i64>() {
            Ok(number) => ScalarValue::from(number),
            Err(_) => ScalarValue::from(number.as_str()),
        },
        Token::Word(word) if word.quote_style.is_some() => ScalarValue::from(word.value.as_str()),
        Token::Word(word) => match word.value.to_lowercase().as_str() {
            "true" | "on" => ScalarValue::from(true),
            "false" | "off" => ScalarValue::from(false),
            text => ScalarValue::from(text),
        },
        _ => return parser.expected("a value of an option", token),
    })
}

fn folded(name: &ObjectName) -> String {
    let part = |part: &datafusion::sql::sqlparser::ast::ObjectNamePart| match part.as_ident() {
        Some(identifier) => hypostyle_sql::identifier::quoted(&fold(identifier)),
        None => part.to_string(),
    };
    name.0.iter().map(part).collect::<Vec<_>>().join(".")
}

impl Session {
    pub(crate) fn copy(&self, sql: &str) -> Result<Outcome> {
        self.identity.privileges.check_machine("read or write files of this machine")?;
        let copy = parse_copy(sql)?;
        let rows = if copy.from { self.copy_from(copy)? } else { self.copy_to(copy)? };
        Ok(Outcome::Done { rows_affected: Some(rows) })
    }

    fn copy_from(&self, mut copy: Copy) -> Result<u64> {
        let Source::Table { name, columns } = &copy.source else {
            return Err(Error::new(ErrorKind::Syntax, "COPY FROM writes to a table, not to a query"));
        };
        let Name { database, schema, name } = self.scope.resolve(&split_name(name), None)?;
        let snapshot = self.scope.database(&database)?.snapshot;
        let Some(table) = snapshot.table(&schema, &name) else {
            return Err(unknown_table(snapshot.catalog(), &name));
        };
        let entry = table.entry();
        refuse_materialized(entry)?;
        let chosen: Vec<&ColumnEntry> = match columns.is_empty() {
            true => entry.columns.iter().filter(|column| column.generated.is_none()).collect(),
            false => {
                let of_name =
                    |name: &String| entry.column_meant(name).ok_or_else(|| unknown_column(entry, name));
                columns.iter().map(of_name).collect::<Result<_>>()?
            }
        };
        chosen.iter().try_for_each(|column| refuse_given(&name, column))?;
        let zone = self.time_zone();
        let target: Vec<Field> = chosen
            .iter()
            .map(|column| {
                let data_type = match column.logical_type.arrow_type() {
                    _ if column.logical_type == LogicalType::Uuid => DataType::Utf8View,
                    // Times without a zone are in the session's time zone.
                    DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(unit, Some(zone.clone())),
                    other => other,
                };
                let field = column.logical_type.arrow_field(&column.name, column.nullable);
                match data_type == *field.data_type() {
                    true => field,
                    false => Field::new(&column.name, data_type, column.nullable),
                }
            })
            .collect();
        let format = take_format(&copy.path, &mut copy.options)?;
        let options = ReadOptions::parse(&format!("COPY FROM '{}'", copy.path), format, &copy.options)?;
        let rejects_table = options.rejects_table.clone();
        let (context, path) = (self.session_context().clone(), copy.path.clone());
        let source = self.wait(async move {
            read_for_copy(&context, &path, format, &options, Arc::new(Schema::new(target))).await
        })?;
        let places: Vec<Option<usize>> = (entry.columns.iter())
            .map(|column| chosen.iter().position(|other| other.id == column.id))
            .collect();
        let mut completion = self.completion(&database, snapshot.catalog(), entry, &places)?;
        self.write(&database, |writer| {
            let Some(id) = writer.catalog().table(&schema, &name).map(|table| table.id) else {
                return Err(unknown_table(writer.catalog(), &name));
            };
            let mut rows = 0;
            self.for_each(source.rows, |batch| {
                writer.append(id, &completion.complete(&batch)?)?;
                rows += batch.num_rows() as u64;
                self.count_rows(batch.num_rows() as u64);
                Ok(())
            })?;
            if let Some(rejects_table) = rejects_table {
                write_rejects(writer, &rejects_table, &source.rejects.take())?;
            }
            Ok(rows)
        })
    }

    fn copy_to(&self, mut copy: Copy) -> Result<u64> {
        let sql = match &copy.source {
            Source::Query(query) => query.clone(),
            Source::Table { name, columns } if columns.is_empty() => format!("SELECT * FROM {name}"),
            Source::Table { name, columns } => {
                let columns: Vec<String> =
                    columns.iter().map(|column| hypostyle_sql::identifier::quoted(column)).collect();
                format!("SELECT {} FROM {name}", columns.join(", "))
            }
        };
        let format = take_format(&copy.path, &mut copy.options)?;
        let options = WriteOptions::parse(&copy.path, format, &copy.options)?;
        let mut query = parse_query(&sql)?;
        name_columns(&mut query);
        let query = DfStatement::Statement(Box::new(Statement::Query(Box::new(query))));
        let plan = self.plan(query, &Parameters::None)?;
        let (state, path) = (self.session_context().state(), copy.path);
        self.wait_apart(async move {
            let plan = unnest_if_needed(&state, plan).await;
            let rows = DataFrame::new(state, plan);
            write(rows, &path, format, &options).await.map_err(from_datafusion)
        })
    }
}

/// Adds the rows that were left out to a table, created if it does not exist.
fn write_rejects(writer: &mut Transaction, table: &str, rejected: &[Rejected]) -> Result<()> {
    let text = |value: fn(&Rejected) -> Option<String>| -> ArrayRef {
        Arc::new(rejected.iter().map(value).collect::<StringArray>())
    };
    let lines = Int64Array::from_iter_values(rejected.iter().map(|row| row.line as i64));
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("file", text(|row| Some(row.file.clone())), true),
        ("line", Arc::new(lines), true),
        ("column_name", text(|row| row.column.as_ref().map(|(_, name)| name.clone())), true),
        ("value", text(|row| Some(row.value.clone())), true),
        ("reason", text(|row| Some(row.reason.clone())), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns)
        .map_err(|error| Error::internal(format!("cannot list rejected rows: {error}")))?;
    let parts = split_name(table);
    let (schema, name) = match parts.as_slice() {
        [.., schema, name] => (schema.as_str(), name.as_str()),
        _ => (SCHEMA_MAIN, table),
    };
    let existing = writer.catalog().table(schema, name).map(|entry| entry.id);
    let id = match existing {
        Some(id) => id,
        None => writer.create_table(schema, name, super::new_columns(&batch.schema())?)?,
    };
    writer.append(id, &batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_may_stand_with_or_without_a_sign() {
        let copy = parse_copy("COPY s.T (a, \"B\") FROM 'x.csv' WITH (FORMAT csv, header, delim = '|', n 3)")
            .unwrap();
        assert!(copy.from);
        assert_eq!(copy.options.len(), 4);
        assert_eq!(copy.options[1], ("header".into(), ScalarValue::from(true)));
        assert_eq!(copy.options[3], ("n".into(), ScalarValue::from(3_i64)));
        let lists = parse_copy("COPY t TO 'x' (partition_by (a, \"B\", 3), header)").unwrap();
        assert_eq!((lists.options.len(), lists.options[0].1.to_string()), (2, "[a, B, 3]".into()));
        let Source::Table { name, columns } = copy.source else { panic!("a table") };
        assert_eq!((name.as_str(), columns), ("\"s\".\"t\"", vec!["a".to_string(), "B".to_string()]));
        for wrong in ["COPY t", "COPY t FROM x.csv", "COPY t TO 'x' (FORMAT", "COPY t TO 'x' y"] {
            assert_eq!(parse_copy(wrong).err().map(|error| error.kind()), Some(ErrorKind::Syntax), "{wrong}");
        }
    }
}
