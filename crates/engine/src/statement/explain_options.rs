//! `EXPLAIN (FORMAT JSON, …)`, as PostgreSQL's programs write it. They read the plan from one
//! column of one row.

use crate::session::outcome::DescribedColumn;
use crate::session::{Outcome, Parameters, Session};
use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::tokenizer::Token;
use hypostyle_sql::parse::tokens_of;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::sync::Arc;
use std::time::Instant;

/// The column that PostgreSQL gives.
const COLUMN: &str = "QUERY PLAN";

const OPTIONS: [&str; 11] = [
    "ANALYZE",
    "ANALYSE",
    "VERBOSE",
    "COSTS",
    "SETTINGS",
    "GENERIC_PLAN",
    "BUFFERS",
    "WAL",
    "TIMING",
    "SUMMARY",
    "FORMAT",
];

/// The options in the parentheses behind EXPLAIN, and the statement behind them.
#[derive(Debug, PartialEq)]
pub(super) struct ExplainOptions {
    analyze: bool,
    verbose: bool,
    json: bool,
    pub statement: String,
}

impl ExplainOptions {
    /// Returns `None` for an EXPLAIN without options, whose statement may be in parentheses.
    ///
    /// # Errors
    /// `Unsupported` for a format that there is not.
    pub fn of(sql: &str) -> Result<Option<Self>> {
        let tokens = tokens_of(sql);
        let mut places =
            tokens.iter().enumerate().filter(|(_, token)| !matches!(token, Token::Whitespace(_)));
        let (_explain, open) = (places.next(), places.next());
        if open.is_none_or(|(_, token)| *token != Token::LParen) {
            return Ok(None);
        }
        let (mut words, mut end) = (Vec::new(), None);
        for (place, token) in places {
            match token {
                Token::RParen => {
                    end = Some(place);
                    break;
                }
                other => words.push(other.to_string().trim_matches('\'').to_ascii_uppercase()),
            }
        }
        let (Some(end), Some(first)) = (end, words.first()) else { return Ok(None) };
        if !OPTIONS.contains(&first.as_str()) {
            return Ok(None);
        }
        let mut found = Self { analyze: false, verbose: false, json: false, statement: String::new() };
        for option in words.split(|word| word == ",") {
            let is_on = |words: &[String]| match words.first().map(String::as_str) {
                None | Some("TRUE" | "ON" | "1") => true,
                Some(_) => false,
            };
            match option {
                [name, value @ ..] if name == "ANALYZE" || name == "ANALYSE" => found.analyze = is_on(value),
                [name, value @ ..] if name == "VERBOSE" => found.verbose = is_on(value),
                [name, format] if name == "FORMAT" => match format.as_str() {
                    "JSON" => found.json = true,
                    "TEXT" => {}
                    other => {
                        let message = format!("EXPLAIN has no format {other}; there are TEXT and JSON");
                        return Err(Error::unsupported(message));
                    }
                },
                // These options select further details.
                [name, ..] if OPTIONS.contains(&name.as_str()) => {}
                other => {
                    let message =
                        format!("unrecognized EXPLAIN option \"{}\"", other.join(" ").to_lowercase());
                    return Err(Error::new(ErrorKind::Syntax, message));
                }
            }
        }
        found.statement = tokens[end + 1..].iter().map(ToString::to_string).collect();
        Ok(Some(found))
    }

    /// Returns the columns of the result.
    pub fn columns(&self) -> Vec<DescribedColumn> {
        match self.json {
            true => vec![(COLUMN.into(), LogicalType::Json, false)],
            false => columns_of_plans(),
        }
    }

    /// Returns the EXPLAIN that gives a plan as text.
    fn as_text(&self) -> String {
        let analyze = if self.analyze { " ANALYZE" } else { "" };
        let verbose = if self.verbose { " VERBOSE" } else { "" };
        format!("EXPLAIN{analyze}{verbose} {}", self.statement)
    }
}

impl Session {
    pub(super) fn explain_with(&self, options: &ExplainOptions, parameters: &Parameters) -> Result<Outcome> {
        if !options.json {
            return self.execute_parsed(self.parse_own(&options.as_text())?, parameters);
        }
        let sql = format!("EXPLAIN FORMAT PGJSON {}", options.statement);
        let plan = self.execute_parsed(self.parse_own(&sql)?, parameters)?;
        let mut plan = plan_of(self.collect_rows(plan)?)?;
        if options.analyze {
            let since = Instant::now();
            let analyzed = self.execute_parsed(self.parse_own(&options.as_text())?, parameters)?;
            self.finish(analyzed)?;
            let milliseconds = since.elapsed().as_secs_f64() * 1e3;
            for query in plan.as_array_mut().into_iter().flatten() {
                query["Execution Time"] = milliseconds.into();
            }
        }
        let field = LogicalType::Json.arrow_field(COLUMN, false);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![plan.to_string()]));
        let column = cast(&texts, field.data_type()).map_err(|error| cannot(&error))?;
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]);
        batch.map(Outcome::batch).map_err(|error| cannot(&error))
    }
}

/// Returns the columns of an EXPLAIN without options.
pub(super) fn columns_of_plans() -> Vec<DescribedColumn> {
    ["plan_type", "plan"].map(|name| (name.to_string(), LogicalType::Varchar, false)).into()
}

fn cannot(why: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("cannot show a plan as JSON: {why}"))
}

/// Returns the plan of an EXPLAIN's rows, which are its kind and its text.
fn plan_of((_, batches): (Arc<Schema>, Vec<RecordBatch>)) -> Result<serde_json::Value> {
    let batch = batches.iter().find(|batch| batch.num_rows() > 0 && batch.num_columns() == 2);
    let batch = batch.ok_or_else(|| cannot(&"there is none"))?;
    let texts = cast(batch.column(1), &DataType::Utf8).map_err(|error| cannot(&error))?;
    serde_json::from_str(texts.as_string::<i32>().value(0)).map_err(|error| cannot(&error))
}

#[cfg(test)]
mod tests {
    use super::ExplainOptions;

    #[test]
    fn options_are_told_from_statements_in_parentheses() {
        let of = |sql: &str| ExplainOptions::of(sql);
        let found = of("explain (ANALYZE false, VERBOSE, format json) SELECT 1").unwrap().unwrap();
        assert_eq!((found.analyze, found.verbose, found.json), (false, true, true));
        assert_eq!(found.as_text(), "EXPLAIN VERBOSE  SELECT 1");
        assert_eq!(of("EXPLAIN (SELECT 1)").unwrap(), None);
        assert_eq!(of("EXPLAIN SELECT 1").unwrap(), None);
        assert!(of("EXPLAIN (FORMAT XML) SELECT 1").is_err() && of("EXPLAIN (COSTS, NO) SELECT 1").is_err());
    }
}
